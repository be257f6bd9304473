// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// lostAfter is how long an agent has to be silent to count as lost. One that is at work shows life at every look at the
// migration, every 15 s unless configured otherwise, and after failures a minute later at most. The rest is for clocks
// that differ, and for a Deployment that starts somewhere else.
const lostAfter = 5 * time.Minute

// lifePeriod is the shortest time between two signs of life. Each is a write of the Shoot's status.
const lifePeriod = 10 * time.Second

// showLife tells the peer, where it relies on that, that this agent is at work and that its seed's API server answers.
// It is called when the Always action has succeeded, which reads from that API server, and when the gate is proved: an
// agent that would do nothing for either reason shows no life.
//
// The sign is the update time of the condition of the last step that the role has finished. There it is visible to
// whoever reads the Shoot, it needs no other permission, and no other object has to be cleaned up.
func (p *pass) showLife(ctx context.Context) error {
	if p.aborting || p.actions.Always == nil || !steps.ShowsLife(p.shoot, p.step, p.role) ||
		p.Clock.Since(steps.SeenAt(steps.Conditions(p.shoot), p.role)) < lifePeriod {
		return nil
	}
	return p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		updated, err := conditions.ShowLife(p.Clock, steps.Conditions(shoot), p.role)
		if err != nil {
			return err
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		return nil
	})
}

// peerSeen reads when the peer has shown that it is at work; see migration.Migration.
func (p *pass) peerSeen(ctx context.Context) (time.Time, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := p.GardenAPIReader.Get(ctx, p.key, shoot); err != nil {
		return time.Time{}, fmt.Errorf("failed to read when the %s was last at work from Shoot %s: %w", p.role.Peer(),
			p.key, err)
	}
	return steps.SeenAt(steps.Conditions(shoot), p.role.Peer()), nil
}

// peerAlive says why the peer does not count as lost; see migration.Migration. The gardenlet beside the agent is asked
// as well: where it answers, the seed is not lost, and its agent can be deployed again. A Seed that was deleted has no
// gardenlet.
func (p *pass) peerAlive(ctx context.Context) (string, error) {
	seen, err := p.peerSeen(ctx)
	if err != nil {
		return "", err
	}
	now := p.Clock.Now()
	if silent := now.Sub(seen); silent < lostAfter {
		return fmt.Sprintf("its agent, with its seed's API server, was last seen at %s: it counts as lost after %s "+
			"without a sign of life", seen.UTC().Format(time.RFC3339), lostAfter), nil
	}
	source, destination, _ := steps.Seeds(p.shoot)
	name := source
	if p.role == steps.Source {
		name = destination
	}
	seed := &gardencorev1beta1.Seed{}
	if err := p.GardenAPIReader.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("failed to read Seed %s: %w", name, err)
	}
	ready := v1beta1helper.GetCondition(seed.Status.Conditions, gardencorev1beta1.GardenletReady)
	switch {
	case ready == nil:
		return fmt.Sprintf("Seed %s has no condition %s, which would say whether its gardenlet answers", name,
			gardencorev1beta1.GardenletReady), nil
	case ready.Status == gardencorev1beta1.ConditionTrue:
		return fmt.Sprintf("the gardenlet of seed %s answers, so the seed is not lost: deploy its agent again",
			name), nil
	}
	return "", nil
}
