// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// eventSnapshotsFail is the reason of the event that the snapshots of a shoot's etcd have begun to fail.
const eventSnapshotsFail = "SnapshotsFail"

// unknownSnapshots is what is said if it could not be found out whether snapshots fail. The cause is in the log: its
// text may be another one on each pass, and each would be a write of the Shoot.
const unknownSnapshots = "it cannot be found out whether they succeed; see the log of the agent"

// tellSnapshots tells in the Shoot, in a metric and by an event when the snapshots in the own seed fail. A migration
// may be held for days, and nobody else looks at that meanwhile: the gardenlets leave the shoot alone. It holds
// nothing.
func (p *pass) tellSnapshots(ctx context.Context) error {
	if p.actions.Snapshots == nil || p.aborting || !steps.InFlight(p.shoot) {
		return nil
	}
	problem, err := p.actions.Snapshots(ctx, p.migration(p.shoot, nil))
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("failed to look at the snapshots: %w", err)
		}
		p.log.Error(err, "Failed to look at the snapshots")
		problem = unknownSnapshots
	}
	metrics.Snapshots(p.key.Namespace, p.key.Name, problem != "")

	annotation := steps.AnnotationSnapshots(p.role)
	if p.shoot.Annotations[annotation] == problem {
		return nil
	}
	if err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		if problem == "" {
			delete(shoot.Annotations, annotation)
			return nil
		}
		if shoot.Annotations == nil {
			shoot.Annotations = map[string]string{}
		}
		shoot.Annotations[annotation] = problem
		return nil
	}); err != nil {
		return fmt.Errorf("failed to tell that snapshots fail: %w", err)
	}
	if problem != "" {
		p.event(p.shoot, eventWarning, eventSnapshotsFail,
			fmt.Sprintf("Snapshots in the %s fail: %s", p.role, problem))
	}
	return nil
}
