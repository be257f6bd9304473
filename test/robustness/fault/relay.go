// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const (
	familyRelayKill  = "relay-kill"
	familyRelayEvict = "relay-evict"

	relayContainer = "relay"
)

// preparingDestination is when the destination gets what its members need to join, its relays among them.
var preparingDestination = point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined,
	At(steps.ReasonPreparingDestination)}

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

// relayExcept are moments at which a side has no relays yet.
var relayExcept = map[steps.Role][]point{steps.Destination: {preparingDestination}}

// relayKills kill the relay of the first member and delete its pod, without leaving it any time. The pod that follows
// it has another address, which everybody who was connected has to learn.
func relayKills() []Fault {
	const family = familyRelayKill
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults, &kill{fault{name: family + "-" + string(role), family: family, span: relaySpans[role],
			except: relayExcept[role]}, firstRelay(role)})
	}
	return faults
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
