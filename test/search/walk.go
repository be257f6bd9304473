// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Walks are random schedules of one world.
type Walks struct {
	// Seed names the whole set of them.
	Seed uint64
	// Events is how many events happen in which faults are among them.
	Events int
	// Faults is how likely each of them is a fault, if one may happen.
	Faults float64
	// Calm is after how many events without any fault an end must be there.
	Calm int
}

// End is where a walk has led.
type End struct {
	// Schedule is what has happened.
	Schedule Schedule
	// Goal is the goal that was reached; empty if there is none.
	Goal string
	// Asks are what a person is asked for, where no goal was reached.
	Asks []string
}

// Walk goes through the random schedule with the number. First faults happen among other events. After that nothing
// but other events happens, each as likely as any other, and an end has to be there after Calm of them: a goal, or a
// state in which an event lets a person be asked for something. The error is a Counterexample.
func (w Walks) Walk(start World, number uint64) (End, error) {
	var (
		random = rand.New(rand.NewPCG(w.Seed, number)) // #nosec G404 -- Repeatable on purpose.
		world  = start.Clone()
		end    End
	)
	for i := range w.Events + w.Calm {
		if end.Goal = world.Goal(); end.Goal != "" {
			return end, nil
		}
		actions := world.Actions()
		if i >= w.Events {
			actions = withoutFaults(actions)
		}
		action, ok := w.choose(random, actions)
		if !ok {
			break
		}
		end.Schedule = append(end.Schedule, action)
		if err := world.Do(action); err != nil {
			return end, fmt.Errorf("failed to do event %d of schedule %d, %q: %w", i+1, number, action, err)
		}
		if problem := world.Violation(); problem != "" {
			return end, &Counterexample{Schedule: end.Schedule, Problem: problem}
		}
	}
	if end.Goal = world.Goal(); end.Goal != "" {
		return end, nil
	}
	for _, s := range successorsOf(world) {
		if s.err == nil && !s.action.Fault && s.asks != "" && !slices.Contains(end.Asks, s.asks) {
			end.Asks = append(end.Asks, s.asks)
		}
	}
	if len(end.Asks) == 0 {
		return end, &Counterexample{Schedule: end.Schedule, Problem: fmt.Sprintf(
			"no end is there after %d events without a fault, and nobody is asked for anything", w.Calm)}
	}
	return end, nil
}

// choose returns what happens next, and false if nothing can.
func (w Walks) choose(random *rand.Rand, actions []Action) (string, bool) {
	var (
		others = withoutFaults(actions)
		faults = slices.DeleteFunc(slices.Clone(actions), func(a Action) bool { return !a.Fault })
		from   = others
	)
	if len(faults) > 0 && (len(others) == 0 || random.Float64() < w.Faults) {
		from = faults
	}
	if len(from) == 0 {
		return "", false
	}
	return from[random.IntN(len(from))].Name, true
}

func withoutFaults(actions []Action) []Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a Action) bool { return a.Fault })
}
