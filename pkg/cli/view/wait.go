// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// ErrTimeout is the cause of a context whose timeout has expired.
var ErrTimeout = errors.New("timeout")

// goals are the states that a migration can be waited for to reach.
var goals = []summary.State{summary.Succeeded, summary.Aborted, summary.Paused}

// Goal is what a migration is waited for to reach: a state, or the end of a step.
type Goal struct {
	name    string
	reached func(summary.Summary) bool
}

// ParseGoal returns the goal with the name: the condition or the number of a step, or one of the states Succeeded,
// Aborted and Paused. The letters' case does not matter.
func ParseGoal(name string) (Goal, error) {
	for _, state := range goals {
		if strings.EqualFold(name, string(state)) {
			return Goal{string(state), func(s summary.Summary) bool { return s.State == state }}, nil
		}
	}
	step, err := summary.FindStep(name)
	if err != nil {
		return Goal{}, fmt.Errorf("%w; the states are: %s", err, strings.Join(GoalStates(), ", "))
	}
	return Goal{step.String(), func(s summary.Summary) bool { return finished(s, step) }}, nil
}

// GoalStates returns the states that are goals.
func GoalStates() []string {
	var out []string
	for _, state := range goals {
		out = append(out, string(state))
	}
	return out
}

// finished reports whether the step of this migration is done. One that was aborted has undone its steps, and the
// conditions of an earlier migration say nothing about one that is requested.
func finished(s summary.Summary, step steps.Step) bool {
	if s.State == summary.Aborting || s.State == summary.Aborted {
		return false
	}
	return slices.ContainsFunc(s.Steps, func(known summary.Step) bool {
		return known.Condition == step.String() && known.Finished()
	})
}

// Waiting waits until a migration reaches a goal.
type Waiting struct {
	// Loop looks at the migration.
	Loop Loop
	// Goal is what is waited for.
	Goal Goal
	// Once looks once and does not wait.
	Once bool
	// Show shows what was seen.
	Show func(summary.ControlPlane) error
}

// Do waits until the goal is reached, and returns nil then. It also ends when the goal cannot be reached any more, or
// not before an operator has acted. The exit code of the error says which, and the error what to do.
func (w Waiting) Do(ctx context.Context) error {
	if w.Once {
		return w.look(ctx)
	}
	var (
		last    summary.Summary
		showErr error
	)
	err := w.Loop.Run(ctx, func(seen summary.ControlPlane) bool {
		last = summary.Summarize(seen.Shoot, seen.Now.Time)
		showErr = w.Show(seen)
		return showErr != nil || w.Goal.reached(last) || last.State.Final() || exit.NeedsOperator(last)
	})
	switch {
	case errors.Is(err, ErrTimeout):
		return exit.With(codeOfTimeout(last), fmt.Errorf("timed out; the last state is: %s", stateOrUnknown(last)))
	case err != nil || showErr != nil:
		return errors.Join(err, showErr)
	case w.Goal.reached(last):
		return nil
	}
	return w.missed(last)
}

// look looks once.
func (w Waiting) look(ctx context.Context) error {
	seen, err := w.Loop.Read(ctx)
	if err != nil {
		return err
	}
	if err := w.Show(seen); err != nil {
		return err
	}
	if last := summary.Summarize(seen.Shoot, seen.Now.Time); !w.Goal.reached(last) {
		return w.missed(last)
	}
	return nil
}

// codeOfTimeout is that of the state, unless nothing was seen.
func codeOfTimeout(last summary.Summary) exit.Code {
	if last.State == "" {
		return exit.Timeout
	}
	return exit.OfMigration(last)
}

// missed says why the goal is not reached.
func (w Waiting) missed(last summary.Summary) error {
	code := exit.OfMigration(last)
	switch {
	case last.State == summary.Overdue:
		return exit.With(code, fmt.Errorf("step %s has exceeded its deadline; the agent keeps trying, see %s",
			last.Step, last.Runbook()))
	case code == exit.Operator && last.State == summary.Paused:
		return exit.With(code, fmt.Errorf("the live migration of %s is paused before %s; resume it (kubectl livecpm "+
			"resume %s -n %s)", last.Key(), last.Step, last.Name, last.Namespace))
	case code == exit.Operator:
		return exit.With(code, fmt.Errorf("the live migration of %s is held: %s, see %s", last.Key(), last,
			last.Runbook()))
	case w.Goal.name == string(summary.Succeeded):
		return exit.With(exit.No, fmt.Errorf("the live migration of %s is not completed: %s", last.Key(), last))
	}
	return exit.With(exit.No, fmt.Errorf("the live migration of %s has not reached %s: %s", last.Key(), w.Goal.name,
		last))
}

func stateOrUnknown(s summary.Summary) string {
	if s.State == "" {
		return "not known"
	}
	return s.String()
}
