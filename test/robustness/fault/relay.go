// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// relayKill kills the relay of the first member and deletes its pod, without leaving it any time. The pod that follows it has another
// address, which everybody who was connected has to learn.
type relayKill struct {
	fault

	role steps.Role
}

const (
	familyRelayKill = "relay-kill"

	relayContainer = "relay"
)

func relayKills() []Fault {
	const family = familyRelayKill
	spans := map[steps.Role]span{
		// It stands after the first step, and goes with what is left of the shoot.
		steps.Source: {
			point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Boundary},
			point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary},
		},
		// It stands when members join, and goes before the etcds roll.
		steps.Destination: {
			point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Inside},
			point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Inside},
		},
	}
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults,
			&relayKill{fault{name: family + "-" + string(role), family: family, span: spans[role]}, role})
	}
	return faults
}

// Inject implements Fault.
func (f *relayKill) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		first := types.NamespacedName{Namespace: targets.Namespace, Name: exposure.Name + "-0"}
		// A deletion alone would be proven by an object that is gone, while the relay still ends in good order.
		if err := targets.killContainer(ctx, seed, first, relayContainer); err != nil {
			return err
		}
		return targets.deletePod(ctx, seed, first, ptr.To[int64](0))
	})
}
