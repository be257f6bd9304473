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
	// Calm is how many rounds without any fault may follow. In a round everything that may happen does, in any order.
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

// walk is a random schedule under way.
type walk struct {
	Walks

	number uint64
	random *rand.Rand
	world  World
	end    End
}

// Walk goes through the random schedule with the number. First faults happen among other events. Then come rounds
// without a fault, until one changes nothing, and an end has to be there: a goal, or a state in which an event lets a
// person be asked for something. The error is a Counterexample.
func (w Walks) Walk(start World, number uint64) (End, error) {
	at := &walk{Walks: w, number: number, world: start.Clone(),
		random: rand.New(rand.NewPCG(w.Seed, number))} // #nosec G404 -- Repeatable on purpose.
	for range w.Events {
		action, ok := w.choose(at.random, at.world.Actions())
		if !ok {
			break
		}
		if err := at.do(action); err != nil {
			return at.end, err
		}
	}
	for range w.Calm {
		before := at.world.Key()
		if err := at.round(); err != nil {
			return at.end, err
		}
		if at.world.Key() == before {
			break
		}
	}
	return at.end, at.judge()
}

// round lets each event happen that is no fault and may happen, once.
func (w *walk) round() error {
	actions := withoutFaults(w.world.Actions())
	w.random.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
	for _, action := range actions {
		if !slices.Contains(w.world.Actions(), action) {
			continue
		}
		if err := w.do(action.Name); err != nil {
			return err
		}
	}
	return nil
}

// do lets an event happen.
func (w *walk) do(action string) error {
	w.end.Schedule = append(w.end.Schedule, action)
	if err := w.world.Do(action); err != nil {
		return fmt.Errorf("failed to do event %d of schedule %d, %q: %w", len(w.end.Schedule), w.number, action, err)
	}
	if problem := w.world.Violation(); problem != "" {
		return &Counterexample{Schedule: w.end.Schedule, Problem: problem}
	}
	return nil
}

// judge returns an error unless an end is there.
func (w *walk) judge() error {
	if w.end.Goal = w.world.Goal(); w.end.Goal != "" {
		return nil
	}
	for _, action := range withoutFaults(w.world.Actions()) {
		after := w.world.Clone()
		if err := after.Do(action.Name); err != nil {
			return fmt.Errorf("failed to do %q at the end of schedule %d: %w", action.Name, w.number, err)
		}
		if asks := after.Asks(); asks != "" && !slices.Contains(w.end.Asks, asks) {
			w.end.Asks = append(w.end.Asks, asks)
		}
	}
	slices.Sort(w.end.Asks)
	if len(w.end.Asks) > 0 {
		return nil
	}
	return &Counterexample{Schedule: w.end.Schedule,
		Problem: "no end is there although all that may happen without a fault has, and nobody is asked for anything"}
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
