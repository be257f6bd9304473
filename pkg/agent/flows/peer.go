// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// PublishedWaits reads what the agent of a seed has published of its waits. They are nil if it is of a release that
// does not publish them. It fails if the Seed cannot be read, or not what the agent has written there.
func PublishedWaits(ctx context.Context, garden client.Reader, seedName string) (*seedfacts.Waits, error) {
	seed, err := readSeed(ctx, garden, seedName)
	if err != nil {
		return nil, err
	}
	var agent seedfacts.Agent
	if err := seedfacts.Of(seed, seedfacts.AnnotationAgent, &agent); err != nil {
		return nil, err
	}
	return agent.Waits, nil
}

// PublishedProtocols reads which versions of the agents' protocol the agent of a seed speaks (steps.Protocol). It fails
// if the Seed cannot be read, or if what its agent has written there names none.
func PublishedProtocols(ctx context.Context, garden client.Reader, seedName string) (steps.Protocols, error) {
	seed, err := readSeed(ctx, garden, seedName)
	if err != nil {
		return steps.Protocols{}, err
	}
	protocols, err := steps.ParseProtocols(seed.Annotations[steps.SeedAnnotationProtocols])
	if err != nil {
		return steps.Protocols{}, fmt.Errorf("failed to read annotation %s of seed %s: %w",
			steps.SeedAnnotationProtocols, seedName, err)
	}
	return protocols, nil
}

func readSeed(ctx context.Context, garden client.Reader, seedName string) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := garden.Get(ctx, client.ObjectKey{Name: seedName}, seed); err != nil {
		return nil, fmt.Errorf("failed to read seed %s: %w", seedName, err)
	}
	return seed, nil
}
