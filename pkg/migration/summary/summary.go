// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// State is where a shoot stands in the life of a live migration. Scripts may rely on the values.
type State string

const (
	// None means that nothing is or was asked for.
	None State = "None"
	// Classic means that the shoot is on its way to another seed without the intent annotation.
	Classic State = "Classic"
	// Requested means that the migration is asked for, and its first step has not begun.
	Requested State = "Requested"
	// Paused means that the current step does not begin because of the annotation for a pause.
	Paused State = "Paused"
	// Held means that a guard or the gate keeps the current step from beginning, or a guard from continuing.
	Held State = "Held"
	// Processing means that a step is at work.
	Processing State = "Processing"
	// Overdue means that a step takes longer than its deadline. It is still tried, but asks for an operator.
	Overdue State = "Overdue"
	// Aborting means that an abort is in flight.
	Aborting State = "Aborting"
	// Aborted means that an abort is completed.
	Aborted State = "Aborted"
	// Succeeded means that the last live migration is completed.
	Succeeded State = "Succeeded"
)

// Final reports whether nothing more happens by itself.
func (s State) Final() bool { return s == None || s == Classic || s == Aborted || s == Succeeded }

// Summary is what the shoot says about its live migration.
type Summary struct {
	// Namespace and Name are those of the shoot.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source and Destination are the seeds. The source of a migration that is over is not known any more.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	// State is where it stands.
	State State `json:"state"`
	// Progress is the percentage that is done: of the expected time if that is known, otherwise of the steps.
	Progress int32 `json:"progress"`
	// Step is the current step, Owner its owner; empty if there is none.
	Step  string `json:"step,omitempty"`
	Owner string `json:"owner,omitempty"`
	// Reason and Message are those of the condition that tells most.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// WithGap reports that each etcd has one member in one seed, so that nothing is served while these restart in the
	// last step.
	WithGap bool `json:"withGap,omitempty"`
	// PauseBefore is the step that the shoot asks to hold before.
	PauseBefore string `json:"pauseBefore,omitempty"`
	// Started is when the conditions were written, if that is still known.
	Started *time.Time `json:"started,omitempty"`
	// Ended is when the migration or its abort was completed.
	Ended *time.Time `json:"ended,omitempty"`
	// Seconds is how long it has taken, if that is known.
	Seconds float64 `json:"seconds,omitempty"`
	// Expected is how long it is expected to take; nil if nobody asked for it, or if nothing is under way.
	Expected *Expectation `json:"expected,omitempty"`
	// Steps are all steps; empty if there are no conditions.
	Steps []Step `json:"steps,omitempty"`
}

// Step is a step as the shoot's conditions show it.
type Step struct {
	// Number is its position, from 1.
	Number int `json:"number"`
	// Condition, Owner and Title are those of the step table.
	Condition string `json:"condition"`
	Owner     string `json:"owner"`
	Title     string `json:"title"`
	// Status, Reason and Message are those of the condition.
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Seconds is how long it has taken; nil if that is not known or the step has not begun.
	Seconds *float64 `json:"seconds,omitempty"`
	// DeadlineSeconds is how long it may take.
	DeadlineSeconds float64 `json:"deadlineSeconds"`
	// Current reports that it is this step's turn.
	Current bool `json:"current,omitempty"`
	// Fault reports that its reason means that something is wrong.
	Fault bool `json:"fault,omitempty"`
}

// Elapsed returns how long the step has taken, or false.
func (s Step) Elapsed() (time.Duration, bool) {
	if s.Seconds == nil {
		return 0, false
	}
	return time.Duration(*s.Seconds * float64(time.Second)), true
}

// Finished reports whether the step is done.
func (s Step) Finished() bool { return s.Status == string(gardencorev1beta1.ConditionTrue) }

// Undone reports whether an abort has taken the step back, or is about to.
func (s Step) Undone() bool {
	switch steps.Reason(s.Reason) {
	case steps.ReasonAborting, steps.ReasonWithdrawn, steps.ReasonAbandoned, steps.ReasonAborted:
		return true
	}
	return false
}

// String tells the state in a few words.
func (s Summary) String() string {
	text := string(s.State)
	if !s.State.Final() && s.Step != "" {
		text += ", " + s.Step
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text
}

// Key returns namespace and name.
func (s Summary) Key() string { return s.Namespace + "/" + s.Name }

// Summarize returns what the shoot says about its live migration.
func Summarize(shoot *gardencorev1beta1.Shoot, now time.Time) Summary {
	all := steps.Conditions(shoot)
	source, destination, between := steps.Seeds(shoot)
	out := Summary{
		Namespace: shoot.Namespace, Name: shoot.Name, Source: source, Destination: destination, State: stateOf(shoot),
		PauseBefore: shoot.Annotations[steps.AnnotationPauseBefore],
		WithGap:     steps.Requested(shoot) && steps.WithGap(shoot),
	}
	if !between {
		out.Destination = ptr.Deref(shoot.Status.SeedName, "")
	}
	if out.State == Aborted && !between {
		// The shoot has stayed: where it was to go is not known any more.
		out.Source, out.Destination = out.Destination, ""
	}
	if out.State == None || out.State == Classic {
		return out
	}
	if !known(all) || (out.State == Requested && !steps.Initialized(all)) {
		// No conditions, or those of an earlier migration.
		return out
	}

	out.Progress = steps.Progress(all)
	if started := startedAt(all); !started.IsZero() {
		out.Started = &started
	}
	if out.State == Aborted || out.State == Succeeded {
		if ended := endedAt(all, out.State); !ended.IsZero() {
			out.Ended = &ended
		}
	}
	if out.Started != nil {
		end := now
		if out.Ended != nil {
			end = *out.Ended
		}
		out.Seconds = max(0, end.Sub(*out.Started).Seconds())
	}
	out.Steps = stepsOf(all, out.State, now)
	current, unfinished := steps.Current(all)
	switch out.State {
	case Aborted:
		out.Progress = 0
		out.tell(all, steps.AbortOf(steps.Source))
	case Aborting:
		// The destination acts first; the source when that has withdrawn or is lost.
		step := steps.AbortOf(steps.Destination)
		if steps.Withdrawn(all) || steps.Abandoned(all) || steps.AbandonDue(shoot) {
			step = steps.AbortOf(steps.Source)
		}
		out.Step, out.Owner = step.String(), string(step.Owner)
		out.tell(all, step)
	case Succeeded:
	default:
		if unfinished {
			out.Step, out.Owner = current.String(), string(current.Owner)
			out.tell(all, telling(all, current))
		}
	}
	return out
}

// telling returns the step whose condition tells what is done now. That of the current one may be a source's that is
// lost; the destination then says in that of the last one how it gets on without it.
func telling(all []gardencorev1beta1.Condition, current steps.Step) steps.Step {
	last := v1beta1helper.GetCondition(all, steps.Last().Condition)
	if current.Abandonable && last != nil && last.Reason == string(steps.ReasonAbandoningSource) {
		return steps.Last()
	}
	return current
}

func (s *Summary) tell(all []gardencorev1beta1.Condition, step steps.Step) {
	if condition := v1beta1helper.GetCondition(all, step.Condition); condition != nil {
		s.Reason, s.Message = condition.Reason, condition.Message
	}
}

func stateOf(shoot *gardencorev1beta1.Shoot) State {
	all := steps.Conditions(shoot)
	if !steps.Requested(shoot) {
		if _, _, between := steps.Seeds(shoot); between {
			return Classic
		}
		switch _, unfinished := steps.Current(all); {
		case !known(all):
			return None
		case !unfinished:
			return Succeeded
		case steps.Aborted(all):
			return Aborted
		}
		return None
	}
	switch {
	case steps.AbortDue(shoot):
		return Aborting
	case steps.Aborted(all) && steps.AbortRequested(shoot):
		return Aborted
	case !steps.Initialized(all):
		return Requested
	}
	current, _ := steps.Current(all)
	condition := v1beta1helper.GetCondition(all, current.Condition)
	reason := steps.Reason(condition.Reason)
	switch {
	case condition.Status == gardencorev1beta1.ConditionFalse:
		return Overdue
	case condition.Status == gardencorev1beta1.ConditionProgressing && reason == steps.ReasonVersionSkew:
		return Held
	case condition.Status == gardencorev1beta1.ConditionProgressing:
		return Processing
	case reason == steps.ReasonPaused:
		return Paused
	case reason.Hold():
		return Held
	case current.Condition == steps.First().Condition:
		return Requested
	}
	return Processing
}

func stepsOf(all []gardencorev1beta1.Condition, state State, now time.Time) []Step {
	current, unfinished := steps.Current(all)
	var out []Step
	for i, step := range steps.Table() {
		view := Step{
			Number: i + 1, Condition: step.String(), Owner: string(step.Owner), Title: step.Title,
			Status: string(gardencorev1beta1.ConditionUnknown), DeadlineSeconds: step.Deadline.Seconds(),
			Current: unfinished && current.Condition == step.Condition && state != Aborted,
		}
		if condition := v1beta1helper.GetCondition(all, step.Condition); condition != nil {
			view.Status, view.Reason, view.Message = string(condition.Status), condition.Reason, condition.Message
			view.Fault = condition.Status != gardencorev1beta1.ConditionTrue && state != Aborted &&
				steps.Reason(condition.Reason).Fault()
			if elapsed, ok := elapsedOf(all, step, *condition, now); ok && !view.Undone() {
				view.Seconds = ptr.To(max(0, elapsed.Round(time.Second).Seconds()))
			}
		}
		out = append(out, view)
	}
	return out
}

// elapsedOf returns how long a step has taken. What the conditions keep of the beginning is enough for all steps; for
// the first one it is the time at which they were written.
func elapsedOf(
	all []gardencorev1beta1.Condition, step steps.Step, condition gardencorev1beta1.Condition, now time.Time,
) (time.Duration, bool) {
	if !steps.Begun(all, step) {
		return 0, false
	}
	started := steps.StartedAt(all, step)
	if started.IsZero() {
		if started = startedAt(all); started.IsZero() {
			return 0, false
		}
	}
	if condition.Status == gardencorev1beta1.ConditionTrue {
		return condition.LastTransitionTime.Sub(started), true
	}
	return now.Sub(started), true
}

// startedAt returns when the conditions were written: those of the steps that have not begun are as they were then.
func startedAt(all []gardencorev1beta1.Condition) time.Time {
	for _, step := range steps.Table() {
		condition := v1beta1helper.GetCondition(all, step.Condition)
		if condition != nil && condition.Status == gardencorev1beta1.ConditionUnknown {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func endedAt(all []gardencorev1beta1.Condition, state State) time.Time {
	step := steps.Last()
	if state == Aborted {
		step = steps.AbortOf(steps.Source)
	}
	if condition := v1beta1helper.GetCondition(all, step.Condition); condition != nil {
		return condition.LastUpdateTime.Time
	}
	return time.Time{}
}

func known(all []gardencorev1beta1.Condition) bool {
	for _, step := range steps.Table() {
		if v1beta1helper.GetCondition(all, step.Condition) != nil {
			return true
		}
	}
	return false
}

// Runbook returns the page that belongs to what the summary says; empty if there is nothing to look up.
func (s Summary) Runbook() string {
	switch {
	case s.State == Aborting || s.State == Aborted:
		return pages.Abort
	case s.State == Paused:
		return pages.Pause
	case s.State == Overdue:
		if step, ok := steps.Get(gardencorev1beta1.ConditionType(s.Step)); ok {
			return pages.OfStep(step)
		}
	case s.State == Held || steps.Reason(s.Reason).Fault():
		return pages.OfReason(steps.Reason(s.Reason))
	}
	return ""
}

// FindStep returns the step with the given condition type or number ("6"). The letters' case does not matter.
func FindStep(name string) (steps.Step, error) {
	var names []string
	for i, step := range steps.Table() {
		if strings.EqualFold(step.String(), name) || fmt.Sprint(i+1) == name {
			return step, nil
		}
		names = append(names, fmt.Sprintf("%d %s", i+1, step))
	}
	return steps.Step{}, fmt.Errorf("there is no step %q; the steps are: %s", name, strings.Join(names, ", "))
}
