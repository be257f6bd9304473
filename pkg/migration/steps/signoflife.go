// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// ShowsLife reports whether the role has to show again and again, in the current step, that it is at work. The
// destination relies on the source where it adds the sixth voter to an etcd: only the source can end that moment. And
// in the step that an operator can have the destination finish, because the source is lost, a source that is not lost
// has to show that, also while it waits for something and writes nothing else.
func ShowsLife(shoot *gardencorev1beta1.Shoot, step Step, role Role) bool {
	if step.Owner == role && step.Abandonable {
		return true
	}
	if step.Owner == role || !step.AsksWith(ReasonReadyForSourceMemberRemoval) ||
		!Begun(Conditions(shoot), step) {
		return false
	}
	return !step.Has(WhenForced) || ForceShrinkRequested(shoot)
}

// SeenAt returns when the role was last known to be at work: the newest update of a condition that it owns and has
// acted on. It is zero if there is none. Update times are those of the clock in the role's seed.
func SeenAt(conditions []gardencorev1beta1.Condition, role Role) time.Time {
	var seen time.Time
	for _, step := range order {
		if step.Owner != role || !Begun(conditions, step) {
			continue
		}
		condition := v1beta1helper.GetCondition(conditions, step.Condition)
		if at := condition.LastUpdateTime.Time; at.After(seen) {
			seen = at
		}
	}
	return seen
}

// LastFinishedOf returns the last step that the role has finished, and false if there is none.
func LastFinishedOf(conditions []gardencorev1beta1.Condition, role Role) (Step, bool) {
	last, found := Step{}, false
	for _, step := range order {
		if step.Owner == role && step.Finished(conditions) {
			last, found = step, true
		}
	}
	return last, found
}
