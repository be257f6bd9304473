// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The times in which no step is under way.
const (
	// Before is the time before the migration is asked for.
	Before = "before the migration"
	// Requested is the time until the first condition appears.
	Requested = "requested"
	// HandingOver is the time from the end of the last step until the destination's gardenlet has reconciled the shoot.
	HandingOver = "handing over"
	// After is the time after that.
	After = "after the migration"
)

// Timeline knows in which step the migration was at each time. It may be used concurrently.
type Timeline struct {
	mu    sync.Mutex
	marks []moment
}

// moment is the begin of a step, or of a time in which there is none.
type moment struct {
	since time.Time
	name  string
}

// Enter notes that from now on the migration is in the step, unless it is in it already.
func (t *Timeline) Enter(now time.Time, step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.marks); n == 0 || t.marks[n-1].name != step {
		t.marks = append(t.marks, moment{now, step})
	}
}

// Observe takes the conditions of the shoot after the migration was asked for. Those of an earlier migration, which are
// all True, are ignored until the new set has appeared.
func (t *Timeline) Observe(now time.Time, conditions []gardencorev1beta1.Condition) {
	step, under := steps.Current(conditions)
	switch {
	case under && steps.Initialized(conditions):
		t.Enter(now, nameOf(step))
	case !under && t.begun():
		t.Enter(now, HandingOver)
	}
}

// nameOf returns the number and the condition of the step.
func nameOf(step steps.Step) string { return fmt.Sprintf("%d %s", steps.Index(step.Condition)+1, step) }

// begun reports whether a step is under way.
func (t *Timeline) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.marks)
	return n > 0 && !slices.Contains([]string{Before, Requested, After}, t.marks[n-1].name)
}

// At returns the step in which the migration was at the time.
func (t *Timeline) At(at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := Before
	for _, m := range t.marks {
		if m.since.After(at) {
			break
		}
		name = m.name
	}
	return name
}

// Between returns the steps in which the migration was from the one time to the other, in their order.
func (t *Timeline) Between(begin, end time.Time) string {
	names := []string{t.At(begin)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.marks {
		if m.since.After(begin) && !m.since.After(end) {
			names = append(names, m.name)
		}
	}
	return strings.Join(names, ", ")
}
