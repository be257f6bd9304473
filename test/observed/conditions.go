// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// course is where a migration stands after some of its transitions.
type course struct {
	conditions []gardencorev1beta1.Condition
	// aborting is true from the first word of an abort on.
	aborting bool
	found    *violations
}

// checkConditions takes one transition after the other through the table of transitions.
func (m Migration) checkConditions(found *violations) {
	if len(m.Transitions) == 0 {
		found.add("nobody has recorded what the conditions said, so that nothing was compared with the model")
		return
	}
	c := &course{found: found}
	for _, step := range steps.Table() {
		c.conditions = append(c.conditions, gardencorev1beta1.Condition{Type: step.Condition,
			Status: gardencorev1beta1.ConditionUnknown, Reason: string(steps.ReasonPending)})
	}
	for _, transition := range m.Transitions {
		c.follow(transition)
	}
}

// follow checks one transition and makes it.
func (c *course) follow(t recording.Transition) {
	i := steps.Index(t.Condition)
	if i < 0 {
		c.found.add("condition %s is that of no step", t.Condition)
		return
	}
	step := steps.Table()[i]
	switch {
	case c.aborting || aborts(steps.Reason(t.Reason)):
		c.abort(step, t)
	case steps.Reason(t.Reason) == steps.ReasonAbandoningSource && step.HandsOver &&
		t.Status == gardencorev1beta1.ConditionUnknown:
		// What stands in the last condition before its turn.
	default:
		c.step(step, t)
	}
	c.conditions[i].Status, c.conditions[i].Reason = t.Status, t.Reason
}

// step checks a transition of a migration that takes its course.
func (c *course) step(step steps.Step, t recording.Transition) {
	// A condition that was not seen to be Progressing may have been.
	err := steps.CheckTransition(c.conditions, step, step.Owner, t.Status)
	if err != nil && t.Status == gardencorev1beta1.ConditionFalse {
		began := slices.Clone(c.conditions)
		if i := steps.Index(step.Condition); began[i].Status == gardencorev1beta1.ConditionUnknown {
			began[i].Status = gardencorev1beta1.ConditionProgressing
		}
		err = steps.CheckTransition(began, step, step.Owner, t.Status)
	}
	if err != nil {
		c.found.add("%v, but it was seen at %s", err, t.Time.UTC().Format(timeFormat))
		return
	}
	if !permits(step, t.Status, steps.Reason(t.Reason)) {
		c.found.add("condition %s has no reason %s while it is %s, but it was seen at %s", step, t.Reason, t.Status,
			t.Time.UTC().Format(timeFormat))
	}
}

// timeFormat is how violations name a time.
const timeFormat = "15:04:05.000"

// permits reports whether the condition of a step may have the status with the reason.
func permits(step steps.Step, status gardencorev1beta1.ConditionStatus, reason steps.Reason) bool {
	switch status {
	case gardencorev1beta1.ConditionUnknown:
		return reason == steps.ReasonPending || reason.Hold()
	case gardencorev1beta1.ConditionTrue:
		return reason == step.Finish.Reason || step.Abandonable && reason == steps.ReasonSourceAbandoned
	}
	// What holds a step in its middle shows as well; a pause holds only before it.
	return reason == steps.ReasonStarted || reason.Fault() || reason.Hold() && reason != steps.ReasonPaused ||
		slices.ContainsFunc(step.Work, func(work steps.Work) bool { return slices.Contains(work.Reasons, reason) })
}

// aborts reports whether the reason is one of an abort.
func aborts(reason steps.Reason) bool {
	switch reason {
	case steps.ReasonAborting, steps.ReasonWithdrawn, steps.ReasonAborted, steps.ReasonAbandoned:
		return true
	}
	return false
}

// abort checks a transition of an abort: it begins while the way back is open, and the source ends it when the
// destination has withdrawn or was abandoned.
func (c *course) abort(step steps.Step, t recording.Transition) {
	if !c.aborting && !steps.Abortable(c.conditions) {
		current, _ := steps.Current(c.conditions)
		c.found.add("the migration is aborted (%s says %s) although the current step is %s", step, t.Reason, current)
	}
	c.aborting = true
	switch {
	case t.Status == gardencorev1beta1.ConditionTrue:
		c.found.add("condition %s becomes True in an abort", step)
	case step.Condition == steps.AbortOf(steps.Source).Condition:
		if steps.Reason(t.Reason) != steps.ReasonAborted {
			return
		}
		if err := steps.CheckAbort(c.conditions, steps.Source); err != nil {
			c.found.add("%v, but %s says %s", err, step, t.Reason)
		}
	case step.Condition != steps.AbortOf(steps.Destination).Condition && aborts(steps.Reason(t.Reason)):
		c.found.add("condition %s says %s, but an abort is recorded in others", step, t.Reason)
	}
}
