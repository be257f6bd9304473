// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// longestFirstStep is how long before its end the first step may have begun: what events tell from before that is about
// an earlier migration.
const longestFirstStep = time.Hour

// FromShoot makes a report of what the API has: the conditions, whose times tell how long the steps took, and events.
// It keeps neither member lists nor what clients noticed.
func FromShoot(shoot *gardencorev1beta1.Shoot, events []corev1.Event, now time.Time) (Report, error) {
	migration := summary.Summarize(shoot, now)
	if len(migration.Steps) == 0 {
		//nolint:staticcheck // It begins with a kind.
		return Report{}, fmt.Errorf("Shoot %s has no conditions of a live migration",
			migration.Key())
	}
	out := Report{
		Shoot: migration.Key(), Source: migration.Source, Destination: migration.Destination,
		Result: string(migration.State), Good: migration.State == summary.Succeeded,
	}
	if migration.State == summary.Overdue || migration.State == summary.Held {
		out.Problems = []string{migration.Reason + ": " + migration.Message}
	}
	all := steps.Conditions(shoot)
	out.setSteps(all, migration.Steps)
	transitions := slices.Concat(sinceRequested(events, transitionsOf(events)), standing(all, now))
	out.beginFirst(transitions)

	if migration.Started != nil && migration.Started.Before(out.Triggered) {
		out.Triggered = *migration.Started
	}
	if out.Triggered.IsZero() {
		out.Triggered = now
	}
	out.Begin, out.End = out.Triggered, now
	if migration.State.Final() {
		out.End = out.Triggered
		for _, step := range out.Steps {
			if step.End != nil && step.End.After(out.End) {
				out.End = *step.End
			}
		}
		out.Seconds = out.End.Sub(out.Triggered).Seconds()
	}
	for _, event := range events {
		at := event.LastTimestamp.Time
		if at.IsZero() {
			at = event.EventTime.Time
		}
		if at.Before(out.Begin) || at.After(out.End) {
			continue
		}
		out.Events = append(out.Events, Event{Time: at, Kind: KindEvent, Text: event.Reason + ": " + event.Message,
			Count: int(event.Count), Bad: event.Type == corev1.EventTypeWarning})
	}
	out.AddTransitions(transitions)
	out.addStepEvents()
	out.sortEvents()
	return out, nil
}

// setSteps tells the steps' times. A finished step keeps when it ended only, and begins with the end of the one before.
func (r *Report) setSteps(all []gardencorev1beta1.Condition, views []summary.Step) {
	var previous *time.Time
	for i, view := range views {
		step := Step{Number: view.Number, Condition: view.Condition, Owner: view.Owner, Title: view.Title,
			Begin: previous}
		condition := v1beta1helper.GetCondition(all, gardencorev1beta1.ConditionType(view.Condition))
		if begun := steps.StartedAt(all, steps.Table()[i]); !begun.IsZero() {
			step.Begin = &begun
		}
		switch {
		case view.Finished() && condition != nil:
			end := condition.LastTransitionTime.Time
			step.End = &end
			if step.Begin == nil {
				step.Begin = &end
			}
			previous = &end
		default:
			step.State = view.Status
			if view.Reason != "" {
				step.State += ", " + view.Reason
			}
			if !view.Current {
				step.Begin = nil
			}
			previous = nil
		}
		if step.Begin != nil && (r.Triggered.IsZero() || step.Begin.Before(r.Triggered)) {
			r.Triggered = *step.Begin
		}
		r.Steps = append(r.Steps, step)
	}
}

// beginFirst tells when the first step began, which its condition does not any more when it has finished: with the
// first transition that somebody has seen.
func (r *Report) beginFirst(transitions []recording.Transition) {
	first := &r.Steps[0]
	if first.End == nil {
		return
	}
	for _, t := range transitions {
		if string(t.Condition) == first.Condition && t.Time.Before(*first.Begin) &&
			first.End.Sub(t.Time) < longestFirstStep {
			begin := t.Time
			first.Begin = &begin
		}
	}
	if first.Begin.Before(r.Triggered) {
		r.Triggered = *first.Begin
	}
}
