// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"fmt"
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
}

// checkConditions takes one look after the other through the table of transitions.
func (m Migration) checkConditions(found *violations) {
	var c course
	for _, step := range steps.Table() {
		c.conditions = append(c.conditions, gardencorev1beta1.Condition{Type: step.Condition,
			Status: gardencorev1beta1.ConditionUnknown, Reason: string(steps.ReasonPending)})
	}
	for rest := m.Transitions; len(rest) > 0; {
		look := rest[:sameLook(rest)]
		rest = rest[len(look):]
		for _, t := range look {
			checkTimes(t, found)
		}
		if after, permitted := c.inSomeOrder(look, map[string]bool{}); permitted {
			c = after
			continue
		}
		for _, t := range look {
			var problems []string
			c, problems = c.follow(t)
			found.list = append(found.list, problems...)
		}
	}
}

// sameLook returns how many of the transitions, from the first on, the same look has shown.
func sameLook(transitions []recording.Transition) int {
	for i, t := range transitions {
		if !t.Seen.Equal(transitions[0].Seen) || t.Seen.IsZero() && i > 0 {
			return i
		}
	}
	return len(transitions)
}

// checkTimes checks that a transition says when it was, which everything else is compared with.
func checkTimes(t recording.Transition, found *violations) {
	switch {
	case t.Seen.IsZero():
		found.add("the recording does not say between which looks condition %s became %s (%s)", t.Condition, t.Status,
			t.Reason)
	case t.Time.After(t.Seen):
		found.add("condition %s says that it became %s (%s) at %s, but was seen so at %s already", t.Condition,
			t.Status, t.Reason, format(t.Time), format(t.Seen))
	}
}

// inSomeOrder follows the transitions in an order in which the model permits all of them, if there is one. tried has
// the sets of transitions after which none was found: where a migration stands does not depend on their order.
func (c course) inSomeOrder(transitions []recording.Transition, tried map[string]bool) (course, bool) {
	if len(transitions) == 0 {
		return c, true
	}
	left := fmt.Sprint(transitions)
	if tried[left] {
		return c, false
	}
	for i, t := range transitions {
		after, problems := c.follow(t)
		if len(problems) > 0 {
			continue
		}
		if end, permitted := after.inSomeOrder(slices.Delete(slices.Clone(transitions), i, i+1), tried); permitted {
			return end, true
		}
	}
	tried[left] = true
	return c, false
}

// follow makes one transition, and returns what the model does not permit of it.
func (c course) follow(t recording.Transition) (course, []string) {
	i := steps.Index(t.Condition)
	if i < 0 {
		return c, []string{fmt.Sprintf("condition %s is that of no step", t.Condition)}
	}
	step, reason := steps.Table()[i], steps.Reason(t.Reason)
	found := &violations{}
	switch {
	case c.aborting || aborts(reason):
		c.abort(step, t, found)
	case reason == steps.ReasonAbandoningSource && step.HandsOver && t.Status == gardencorev1beta1.ConditionUnknown:
		// What stands in the last condition before its turn.
	default:
		c.step(step, t, found)
	}
	after := course{conditions: slices.Clone(c.conditions), aborting: c.aborting || aborts(reason)}
	after.conditions[i].Status, after.conditions[i].Reason = t.Status, t.Reason
	return after, found.list
}

// step checks a transition of a migration that takes its course.
func (c course) step(step steps.Step, t recording.Transition, found *violations) {
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
		found.add("%v, but it was seen %s", err, seen(t))
		return
	}
	if !permits(step, t.Status, steps.Reason(t.Reason)) {
		found.add("condition %s has no reason %s while it is %s, but it was seen %s", step, t.Reason, t.Status, seen(t))
	}
}

// seen tells when a transition was seen.
func seen(t recording.Transition) change { return change{since: t.Since, until: t.Seen} }

// permits reports whether the condition of a step may have the status with the reason.
func permits(step steps.Step, status gardencorev1beta1.ConditionStatus, reason steps.Reason) bool {
	switch status {
	case gardencorev1beta1.ConditionUnknown:
		return reason == steps.ReasonPending || reason.Hold()
	case gardencorev1beta1.ConditionTrue:
		// What asks for work ahead is the finish of its step as well.
		_, ahead := step.Ahead(reason)
		return ahead || reason == step.Finish.Reason || step.Abandonable && reason == steps.ReasonSourceAbandoned
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
func (c course) abort(step steps.Step, t recording.Transition, found *violations) {
	if !c.aborting && !steps.Abortable(c.conditions) {
		current, _ := steps.Current(c.conditions)
		found.add("the migration is aborted (%s says %s, seen %s) although the current step is %s", step, t.Reason,
			seen(t), current)
	}
	switch {
	case t.Status == gardencorev1beta1.ConditionTrue:
		found.add("condition %s becomes True in an abort, seen %s", step, seen(t))
	case step.Condition == steps.AbortOf(steps.Source).Condition:
		if steps.Reason(t.Reason) != steps.ReasonAborted {
			return
		}
		if err := steps.CheckAbort(c.conditions, steps.Source); err != nil {
			found.add("%v, but %s says %s, seen %s", err, step, t.Reason, seen(t))
		}
	case step.Condition != steps.AbortOf(steps.Destination).Condition && aborts(steps.Reason(t.Reason)):
		found.add("condition %s says %s, seen %s, but an abort is recorded in others", step, t.Reason, seen(t))
	}
}
