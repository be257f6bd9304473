// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"math"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// StepTimeline turns the conditions of a shoot, seen again and again, into the duration of each step.
type StepTimeline struct {
	mu         sync.Mutex
	trigger    time.Time
	active     bool
	finished   map[gardencorev1beta1.ConditionType]time.Time
	conditions []gardencorev1beta1.Condition
	course     recording.Course
}

// NewStepTimeline returns a timeline of a migration that is triggered now.
func NewStepTimeline(now time.Time) *StepTimeline {
	return &StepTimeline{trigger: now, finished: map[gardencorev1beta1.ConditionType]time.Time{}}
}

// Observe takes the conditions that a look has shown. The conditions of an earlier migration, which are all True, are
// ignored until the new set has appeared.
func (t *StepTimeline) Observe(look recording.Look, conditions []gardencorev1beta1.Condition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.active && !steps.Initialized(conditions) {
		return
	}
	t.active = true
	t.conditions = conditions
	t.course.Observe(look, conditions)
	for _, condition := range conditions {
		_, known := t.finished[condition.Type]
		if condition.Status == gardencorev1beta1.ConditionTrue && !known {
			t.finished[condition.Type] = look.Ended
		}
	}
}

// StepReport is how long a step took, from the end of the step before it.
type StepReport = recording.Step

// Report returns the steps that are finished.
func (t *StepTimeline) Report() []StepReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	reports := []StepReport{}
	previous := t.trigger
	for _, step := range steps.Table() {
		finished, ok := t.finished[step.Condition]
		if !ok {
			break
		}
		reports = append(reports,
			StepReport{Condition: step.Condition, Owner: string(step.Owner), Seconds: Seconds(finished.Sub(previous))})
		previous = finished
	}
	return reports
}

// Transitions returns the reasons that the steps have shown.
func (t *StepTimeline) Transitions() []recording.Transition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.course.Transitions()
}

// StepState is a step as the display shows it.
type StepState struct {
	Step steps.Step
	// Condition is nil as long as the shoot does not have it.
	Condition *gardencorev1beta1.Condition
	Elapsed   time.Duration
	Finished  bool
	Current   bool
}

// States returns all steps as they are now.
func (t *StepTimeline) States(now time.Time) []StepState {
	t.mu.Lock()
	defer t.mu.Unlock()
	states := []StepState{}
	previous, reached := t.trigger, true
	for _, step := range steps.Table() {
		state := StepState{Step: step}
		for i := range t.conditions {
			if t.conditions[i].Type == step.Condition {
				state.Condition = &t.conditions[i]
			}
		}
		finished, ok := t.finished[step.Condition]
		switch {
		case ok:
			state.Finished, state.Elapsed, previous = true, finished.Sub(previous), finished
		case reached:
			state.Current, state.Elapsed, reached = true, now.Sub(previous), false
		}
		states = append(states, state)
	}
	return states
}

// Seconds rounds to a tenth: the observers do not look more often than a few times per second.
func Seconds(d time.Duration) float64 {
	return math.Round(d.Seconds()*10) / 10
}
