// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/hibernation"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// inFlight tells what has been requested for a shoot whose migration has begun. Nobody acts on it before the hand-over,
// and it holds nothing: what was requested waits. It is said with each step that begins, so that whoever waits for it
// finds out why.
func (c *Checker) inFlight(ctx context.Context, shoot *gardencorev1beta1.Shoot) []string {
	if !steps.InFlight(shoot) {
		return nil
	}
	waits := requestedOperations(shoot)
	waits = append(waits, scheduledHibernation(shoot, c.options.Clock.Now())...)
	if role, ok := steps.RoleOf(shoot, c.options.OwnSeed); !ok || role != steps.Destination {
		// Bastions that are created now belong to the destination.
		return waits
	}
	bastions, err := c.bastions(ctx, shoot)
	switch {
	case err != nil:
		waits = append(waits, fmt.Sprintf("%s: the Bastions that were requested could not be read: %v", Bastions, err))
	case len(bastions) > 0:
		waits = append(waits, fmt.Sprintf("%s: %s open after the migration, unless they expire before: what they need "+
			"of the provider is not in the destination yet", Bastions, strings.Join(bastions, ", ")))
	}
	return waits
}

// requestedOperations tells of operations in the annotation of the Shoot, but for the retry, which is the agent's own.
func requestedOperations(shoot *gardencorev1beta1.Shoot) []string {
	operations := v1beta1helper.RemoveOperation(v1beta1helper.GetShootGardenerOperations(shoot.Annotations),
		v1beta1constants.ShootOperationRetry)
	if len(operations) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: operations that were requested (%s) follow after the migration",
		v1beta1constants.GardenerOperation, strings.Join(operations, ", "))}
}

// scheduledHibernation tells of hibernations that were due by their schedule since the migration has begun.
// gardener-apiserver refuses them, as it refuses every change of the specification meanwhile, and the hibernation
// controller repeats them until its deadline. A schedule that cannot be read is none of that controller either.
func scheduledHibernation(shoot *gardencorev1beta1.Shoot, now time.Time) []string {
	if shoot.Spec.Hibernation == nil {
		return nil
	}
	schedules, err := hibernation.Parse(shoot.Spec.Hibernation.Schedules)
	if err != nil {
		return nil
	}
	var last *time.Time
	for _, schedule := range schedules {
		due := schedule.Previous(steps.BeganAt(steps.Conditions(shoot)), now)
		if schedule.Operation == hibernation.Hibernate && due != nil && (last == nil || due.After(*last)) {
			last = due
		}
	}
	if last == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s: a hibernation was due at %s. It follows after the migration, unless the deadline "+
		"of the hibernation controller (triggerDeadlineDuration) is over by then: in that case hibernate the shoot by "+
		"hand", NotHibernated, last.Format(time.RFC3339))}
}
