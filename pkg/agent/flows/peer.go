// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// PublishedWaits reads what the agent of a seed has published of its waits. They are nil if it is of a release that
// does not publish them. It fails if the Seed cannot be read, or not what the agent has written there.
func PublishedWaits(ctx context.Context, garden client.Reader, seedName string) (*seedfacts.Waits, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := garden.Get(ctx, client.ObjectKey{Name: seedName}, seed); err != nil {
		return nil, fmt.Errorf("failed to read seed %s: %w", seedName, err)
	}
	var agent seedfacts.Agent
	if err := seedfacts.Of(seed, seedfacts.AnnotationAgent, &agent); err != nil {
		return nil, err
	}
	return agent.Waits, nil
}
