// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils/hibernation"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// wakeUpGrace is how long after the time of its schedule a shoot counts as one that is about to wake up. The
// hibernation controller of Gardener acts within a second; with a day's schedule the next time is far away from then
// on.
const wakeUpGrace = 5 * time.Minute

// hibernated reports whether the shoot is hibernated and to stay so.
func hibernated(shoot *gardencorev1beta1.Shoot) bool {
	return v1beta1helper.HibernationIsEnabled(shoot) && shoot.Status.IsHibernated
}

// hibernationChanges makes a shoot wait that goes into hibernation or wakes up: when that is done, another way may be
// the gentlest. It does not wait for what Gardener has given up, nor for a hibernation after which it would stay.
func hibernationChanges(shoot *gardencorev1beta1.Shoot, permits drain.Permits) (drain.Assessment, bool) {
	enabled := v1beta1helper.HibernationIsEnabled(shoot)
	operation := shoot.Status.LastOperation
	if enabled == shoot.Status.IsHibernated || operation == nil ||
		operation.State == gardencorev1beta1.LastOperationStateFailed ||
		operation.State == gardencorev1beta1.LastOperationStateAborted ||
		enabled && permits.HibernatedStay {
		return drain.Assessment{}, false
	}
	if enabled {
		return drain.Assessment{Waits: true, Reason: drain.ReasonHibernating,
			Message: "on its way into hibernation; moves classically while it is hibernated"}, true
	}
	return drain.Assessment{Waits: true, Reason: drain.ReasonWakingUp,
		Message: "waking up from hibernation; the drain looks again when it is awake"}, true
}

// unlessWakeUpDue lets a shoot wait that would move while it is hibernated, if it wakes up soon by its schedule.
// Gardener admits no change of spec.hibernation before the shoot is restored, so the move would hold up the wake-up.
func (f *Finder) unlessWakeUpDue(shoot *gardencorev1beta1.Shoot, assessment drain.Assessment) drain.Assessment {
	if assessment.Way != drain.ClassicWhileHibernated {
		return assessment
	}
	due := wakeUp(shoot, f.Now)
	if due.IsZero() || due.Sub(f.Now) > drain.ClassicDeadline {
		return assessment
	}
	assessment.Waits, assessment.Reason, assessment.Until = true, drain.ReasonWakeUpDue, due
	assessment.Message = "wakes up at " + drain.FormatTime(due) +
		" by its schedule, which a move would hold up; the drain looks again then"
	return assessment
}

// wakeUp returns when the shoot wakes up next by its schedules, or zero. A wake-up that was due a moment ago is taken
// for one that is about to happen. Schedules that cannot be read are none of the hibernation controller either.
func wakeUp(shoot *gardencorev1beta1.Shoot, now time.Time) time.Time {
	schedules, err := hibernation.Parse(shoot.Spec.Hibernation.Schedules)
	if err != nil {
		return time.Time{}
	}
	var due time.Time
	for _, schedule := range schedules {
		if schedule.Operation != hibernation.WakeUp {
			continue
		}
		next := schedule.Next(now)
		if missed := schedule.Previous(now.Add(-wakeUpGrace), now); missed != nil {
			next = missed.Add(wakeUpGrace)
		}
		if due.IsZero() || next.Before(due) {
			due = next
		}
	}
	return due
}
