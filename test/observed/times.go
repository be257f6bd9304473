// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// timeFormat is how violations name a time.
const timeFormat = "15:04:05.000"

func format(at time.Time) string { return at.UTC().Format(timeFormat) }

// change is when something has changed: after one look had begun that has not shown it, and before another one had
// ended that has. It may have been at any moment between the two.
type change struct {
	// since is not part of it, until is. A zero since stands for the beginning of time.
	since, until time.Time
}

// at is a change whose moment is known.
func at(moment time.Time) change { return change{since: moment.Add(-time.Nanosecond), until: moment} }

// first is the first moment at which it may have been.
func (c change) first() time.Time { return c.since.Add(time.Nanosecond) }

// String names the two looks.
func (c change) String() string {
	if c.since.IsZero() || c.first().Equal(c.until) {
		return "at " + format(c.until)
	}
	return "between " + format(c.since) + " and " + format(c.until)
}

// window is a time in which the model permits something.
type window struct {
	// from is part of it, to is not. A zero to stands for the end of time.
	from, to time.Time
}

// permits reports whether any moment of the change is in the window.
func (w window) permits(c change) bool {
	return !c.until.Before(w.from) && (w.to.IsZero() || c.first().Before(w.to))
}

// timeUnit is what the times in conditions are cut to (metav1.Time).
const timeUnit = time.Second

// finished returns the transition with which the step has ended, or nil if nobody has seen that it has.
func (m Migration) finished(step steps.Step) *recording.Transition {
	i := slices.IndexFunc(m.Transitions, func(t recording.Transition) bool {
		return t.Condition == step.Condition && t.Status == gardencorev1beta1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &m.Transitions[i]
}

// during returns when the step was the current one: from the moment in which the condition of the step before it was
// written to that in which its owner has found it to be finished. It is nil if the step before is not known to have
// ended.
//
// A condition is written after the time that it has, and after the last look that has not shown it. What its owner has
// waited for, it has seen before the time that the condition has.
func (m Migration) during(step steps.Step) *window {
	w := window{from: m.Triggered}
	table := steps.Table()
	if i := steps.Index(step.Condition); i > 0 {
		before := m.finished(table[i-1])
		if before == nil {
			return nil
		}
		if w.from = before.Time; before.Since.After(w.from) {
			w.from = before.Since
		}
	}
	if end := m.finished(step); end != nil {
		w.to = end.Time.Add(timeUnit)
	}
	return &w
}

// permitted reports whether any moment of the change is in one of the steps.
func (m Migration) permitted(c change, in ...steps.Step) bool {
	return slices.ContainsFunc(in, func(step steps.Step) bool {
		w := m.during(step)
		return w != nil && w.permits(c)
	})
}

// asked returns when the owner of the step was seen last without having asked its peer with the reason. What the peer
// does for it, it does later.
func (m Migration) asked(step steps.Step, reason steps.Reason) time.Time {
	var last time.Time
	for _, t := range m.Transitions {
		if t.Condition == step.Condition &&
			(steps.Reason(t.Reason) == reason || t.Status == gardencorev1beta1.ConditionTrue) {
			return t.Since
		}
		last = t.Seen
	}
	return last
}
