// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"errors"
	"fmt"
	"strings"
)

// World is a state of what is explored, and what may happen in it. It must be deterministic: the same events in the
// same order lead to states with the same keys.
type World interface {
	// Key identifies the state. Two states with the same key must have the same future. Leave out what has no influence
	// on it, such as times and random identifiers.
	Key() string
	// Actions are the events that may happen now, always in the same order.
	Actions() []Action
	// Clone returns a copy. What happens in one of the two has no effect on the other.
	Clone() World
	// Do lets an event happen. An event that Actions does not name now is an error.
	Do(name string) error
	// Violation says what must not be in this state, or must not have happened on the way from the last one; empty if
	// all is well.
	Violation() string
	// Goal names the end that this state is; empty if it is none. Nothing is explored beyond a goal.
	Goal() string
	// Asks says what a person was asked for in the event that has led here; empty if nothing. It is no part of the key.
	Asks() string
}

// Action is something that may happen.
type Action struct {
	// Name identifies it among the actions of a state. Schedules consist of names.
	Name string
	// Fault says that it need not happen, and that nobody may rely on it: a loss, a cut, an election, a person's
	// choice.
	Fault bool
}

// Schedule is an order of events.
type Schedule []string

// String returns one event per line, as ParseSchedule reads it.
func (s Schedule) String() string { return strings.Join(s, "\n") }

// ParseSchedule reads what String has written. It ignores empty lines, spaces around a line, and lines that begin
// with #.
func ParseSchedule(text string) Schedule {
	var out Schedule
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// Counterexample is a schedule to a state that must not be.
type Counterexample struct {
	// Schedule leads there from the start.
	Schedule Schedule
	// Problem says what is wrong there.
	Problem string
}

// Error implements error, with the schedule in the form that ParseSchedule reads.
func (c *Counterexample) Error() string {
	return fmt.Sprintf("%s, after these %d events:\n%s", c.Problem, len(c.Schedule), c.Schedule)
}

// errNoSuchAction says that a schedule does not fit the world.
var errNoSuchAction = errors.New("the schedule does not fit this world: print it again with the same bounds and model")

// Replay lets the events of a schedule happen and returns the state to which they lead. A state that must not be ends
// it, with a Counterexample as the error. The world that is given does not change.
func Replay(start World, schedule Schedule) (World, error) {
	world := start.Clone()
	for i, name := range schedule {
		if err := world.Do(name); err != nil {
			return nil, fmt.Errorf("failed to do event %d, %q: %w: %w", i+1, name, err, errNoSuchAction)
		}
		if problem := world.Violation(); problem != "" {
			return world, &Counterexample{Schedule: schedule[:i+1], Problem: problem}
		}
	}
	return world, nil
}
