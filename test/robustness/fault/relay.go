// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// relayKill kills the relay of the first member and deletes its pod, without leaving it any time. The pod that follows
// it has another address, which everybody who was connected has to learn.
type relayKill struct {
	fault

	role steps.Role
}

const (
	familyRelayKill = "relay-kill"

	relayContainer = "relay"
)

// relaySpans say from when to when each side has relays.
var relaySpans = map[steps.Role]span{
	// They stand after the first step, and go with what is left of the shoot.
	steps.Source: {
		point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Boundary},
		point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary},
	},
	// They stand when members join, and go before the etcds roll.
	steps.Destination: {
		point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Inside},
		point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Inside},
	},
}

func relayKills() []Fault {
	const family = familyRelayKill
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults,
			&relayKill{fault{name: family + "-" + string(role), family: family, span: relaySpans[role]}, role})
	}
	return faults
}

// Inject implements Fault.
func (f *relayKill) Inject(ctx context.Context, targets *Targets) error {
	relays, err := firstRelay(f.role)(ctx, targets)
	if err != nil {
		return err
	}
	for _, relay := range relays {
		// A deletion alone would be proven by an object that is gone, while the relay still ends in good order.
		if err := targets.killContainer(ctx, relay); err != nil {
			return fmt.Errorf("%s (%s): %w", relay.seed.Name, f.role, err)
		}
		if err := targets.deletePod(ctx, relay.seed, relay.pod, ptr.To[int64](0)); err != nil {
			return err
		}
	}
	return nil
}

// firstRelay chooses the relay of the first member.
func firstRelay(role steps.Role) chooser {
	return func(_ context.Context, targets *Targets) (chosen []container, err error) {
		err = targets.on([]steps.Role{role}, func(seed Seed) error {
			chosen = append(chosen, container{seed: seed, name: relayContainer,
				pod: types.NamespacedName{Namespace: targets.Namespace, Name: exposure.Name + "-0"}})
			return nil
		})
		return chosen, err
	}
}
