// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// reasonPending is what the condition of a step says whose turn has not come. What comes after it is of interest.
const reasonPending = "Pending"

// Transition is a change of status or reason in the condition of a step.
type Transition struct {
	// Time is when.
	Time time.Time `json:"time"`
	// Condition is the type of the step's condition.
	Condition gardencorev1beta1.ConditionType `json:"condition"`
	// Status and Reason are what it says from then on.
	Status gardencorev1beta1.ConditionStatus `json:"status"`
	Reason string                            `json:"reason"`
	// Since is when the last look began that has not shown it, and Seen when the first one had ended that has: the
	// condition has changed between the two. Since is zero if no look came before. Both are zero in recordings from
	// before 2026-11-28, and in what comes from events.
	Since time.Time `json:"since,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`
}

// Look is when somebody has looked at something. What was seen is what was there at one moment of it.
type Look struct {
	// Began is before the first request, Ended after the last answer.
	Began, Ended time.Time
}

// LookAt returns a look that takes no time.
func LookAt(now time.Time) Look { return Look{Began: now, Ended: now} }

// Course follows the conditions of a live migration, which show their last reason only. It has to see them again and
// again, and knows nothing of what came and went between two looks. The zero value is ready.
type Course struct {
	last        []gardencorev1beta1.Condition
	looked      time.Time // when the last look began
	transitions []Transition
}

// Observe takes the conditions that the look has shown. When those of another migration have taken their place, the
// course begins again.
func (c *Course) Observe(look Look, conditions []gardencorev1beta1.Condition) {
	for _, condition := range conditions {
		before := v1beta1helper.GetCondition(c.last, condition.Type)
		if before != nil && before.Status != gardencorev1beta1.ConditionUnknown &&
			condition.Status == gardencorev1beta1.ConditionUnknown {
			c.transitions = nil
		}
	}
	for _, condition := range conditions {
		before := v1beta1helper.GetCondition(c.last, condition.Type)
		if before != nil && before.Status == condition.Status && before.Reason == condition.Reason ||
			condition.Reason == reasonPending {
			continue
		}
		transition := TransitionTo(condition, look.Ended)
		transition.Since, transition.Seen = c.looked, look.Ended
		c.transitions = append(c.transitions, transition)
	}
	c.last, c.looked = slices.Clone(conditions), look.Began
}

// Transitions returns what has been seen, in the order in which it was.
func (c *Course) Transitions() []Transition { return slices.Clone(c.transitions) }

// TransitionTo returns the change after which the condition is as it is. Its update time stands for when that was: a
// message that changed later makes it too late. Without one it is now.
func TransitionTo(condition gardencorev1beta1.Condition, now time.Time) Transition {
	at := condition.LastUpdateTime.Time
	if at.IsZero() {
		at = now
	}
	if condition.Status == gardencorev1beta1.ConditionTrue && !condition.LastTransitionTime.IsZero() {
		// The update time of a finished step is a sign of life.
		at = condition.LastTransitionTime.Time
	}
	return Transition{Time: at, Condition: condition.Type, Status: condition.Status, Reason: condition.Reason}
}
