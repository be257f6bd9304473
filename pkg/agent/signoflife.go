// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

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
