// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Stand is a time in which a step stood at one reason.
type Stand struct {
	// Reason is the reason; empty if nobody has seen it.
	Reason string `json:"reason,omitempty"`
	// Begin and End are when.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
}

// Took returns how long the step stood there.
func (s Stand) Took() time.Duration { return s.End.Sub(s.Begin) }

// name returns the reason, or what stands for one that is not known.
func (s Stand) name() string {
	if s.Reason == "" {
		return "not known"
	}
	return s.Reason
}

// bad reports that the step was held there, or that something was wrong.
func (s Stand) bad() bool {
	reason := steps.Reason(s.Reason)
	return reason != steps.ReasonPaused && (reason.Fault() || reason.Hold())
}

// held reports that the step did not continue there, whether something was wrong or an operator wanted that.
func (s Stand) held() bool { return steps.Reason(s.Reason).Hold() || s.bad() }

// AddTransitions splits the steps by the reasons that they have shown, those that were added before included.
// Transitions may come in any order and more than once; what was seen by nobody is a time without a reason. A step
// without any transition is not split.
func (r *Report) AddTransitions(transitions []recording.Transition) {
	r.transitions = append(r.transitions, transitions...)
	slices.SortStableFunc(r.transitions, func(a, b recording.Transition) int { return a.Time.Compare(b.Time) })
	for i := range r.Steps {
		step := &r.Steps[i]
		step.Reasons = nil
		if step.Begin == nil {
			continue
		}
		end := r.End
		if step.End != nil {
			end = *step.End
		}
		var own []recording.Transition
		for _, t := range r.transitions {
			if string(t.Condition) == step.Condition {
				own = append(own, t)
			}
		}
		step.Reasons = stands(*step.Begin, end, own)
	}
}

// stands splits the time from begin to end. Transitions out of it count for what they leave behind in it: agents and
// observers round their times differently.
func stands(begin, end time.Time, transitions []recording.Transition) []Stand {
	out := []Stand{{Begin: begin, End: end}}
	for _, t := range transitions {
		if t.Status == gardencorev1beta1.ConditionTrue {
			continue
		}
		last := &out[len(out)-1]
		if last.Reason == t.Reason || t.Time.After(end) {
			continue
		}
		if !t.Time.After(last.Begin) {
			last.Reason = t.Reason
			continue
		}
		last.End = t.Time
		out = append(out, Stand{Reason: t.Reason, Begin: t.Time, End: end})
	}
	if len(out) == 1 && out[0].Reason == "" {
		return nil
	}
	out = slices.DeleteFunc(out, func(s Stand) bool { return !s.End.After(s.Begin) })
	// What stood for no time may have been between two times at the same reason.
	for i := len(out) - 1; i > 0; i-- {
		if out[i].Reason == out[i-1].Reason {
			out[i-1].End = out[i].End
			out = slices.Delete(out, i, i+1)
		}
	}
	return out
}

// transitionNote is how the agents tell a transition in the note of an event.
var transitionNote = regexp.MustCompile(`^(\w+) is (\w+): `)

// transitionsOf returns the transitions that the events of the Shoot tell. An event that was repeated tells its first
// and its last time.
func transitionsOf(events []corev1.Event) []recording.Transition {
	var out []recording.Transition
	for _, event := range events {
		match := transitionNote.FindStringSubmatch(event.Message)
		if match == nil || steps.Index(gardencorev1beta1.ConditionType(match[1])) < 0 {
			continue
		}
		for _, at := range timesOf(event) {
			out = append(out, recording.Transition{Time: at, Reason: event.Reason,
				Condition: gardencorev1beta1.ConditionType(match[1]),
				Status:    gardencorev1beta1.ConditionStatus(match[2])})
		}
	}
	return out
}

// sinceRequested leaves out what was before the last event with which an agent took a migration of the Shoot up:
// transitions of an earlier migration, and of an attempt of this one that was aborted. Where that event has expired,
// those that would have to be left out have as well.
func sinceRequested(events []corev1.Event, transitions []recording.Transition) []recording.Transition {
	var requested time.Time
	for _, event := range events {
		if event.Reason != steps.EventRequested {
			continue
		}
		for _, at := range timesOf(event) {
			if at.After(requested) {
				requested = at
			}
		}
	}
	return slices.DeleteFunc(transitions, func(t recording.Transition) bool { return t.Time.Before(requested) })
}

// timesOf returns when an event was reported, as far as it tells.
func timesOf(event corev1.Event) []time.Time {
	times := []time.Time{event.EventTime.Time, event.FirstTimestamp.Time, event.LastTimestamp.Time}
	if event.Series != nil {
		times = append(times, event.Series.LastObservedTime.Time)
	}
	return slices.DeleteFunc(times, time.Time.IsZero)
}

// standing returns the transitions after which the conditions of the steps that are at work are as they are.
func standing(all []gardencorev1beta1.Condition, now time.Time) []recording.Transition {
	var out []recording.Transition
	for _, condition := range all {
		if condition.Reason != string(steps.ReasonPending) && condition.Status != gardencorev1beta1.ConditionTrue {
			out = append(out, recording.TransitionTo(condition, now))
		}
	}
	return out
}

// reasonHeader and reasonRows are the table of the reasons.
var reasonHeader = []string{"step", "reason", "from", "took", "share"}

// reasonRow is a row of it.
type reasonRow struct {
	// Step is the name of the step; empty if it is that of the row above.
	Step, Reason, Begin, Took string
	// Percent is the share of the step's time, Side the class of its owner's colour.
	Percent int
	Side    string
	Bad     bool
}

func reasonRows(r Report) []reasonRow {
	var out []reasonRow
	for _, step := range r.Steps {
		var total time.Duration
		for _, stand := range step.Reasons {
			total += stand.Took()
		}
		for i, stand := range step.Reasons {
			row := reasonRow{Reason: stand.name(), Begin: r.offset(stand.Begin), Took: duration(stand.Took()),
				Side: side(step.Owner), Bad: stand.bad()}
			if total > 0 {
				row.Percent = int((100*stand.Took() + total/2) / total)
			}
			if i == 0 {
				row.Step = fmt.Sprintf("%d %s", step.Number, step.Condition)
			}
			out = append(out, row)
		}
	}
	return out
}
