// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package exit is the table of the plugin's exit codes. All commands end by it, so that a script that knows one of them
// knows them all.
package exit

import (
	"errors"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Code is an exit code. Scripts may rely on the values.
type Code int

const (
	// Done is the code of a command that did what it was asked for, and of the answer yes.
	Done Code = iota
	// No is the code of the answer no: what was asked about is not so, or what was asked for is refused.
	No
	// Error is the code of a command that failed, or could not find out what it was asked about.
	Error
	// Timeout is the code of a command that waits, when its time is over while the work goes on.
	Timeout
	// Operator is the code of a command that waits, when nothing goes on until an operator acts.
	Operator
)

// Meaning is what a code means.
type Meaning struct {
	// Code is the code, Word its name, Text what it means, in a clause.
	Code Code
	Word string
	Text string
}

// Table returns all codes in their order.
func Table() []Meaning {
	return []Meaning{
		{Done, "done", "the command did what it was asked for, or the answer is yes"},
		{No, "no", "a check or the migration did not succeed, something could not be collected, or a change was " +
			"refused, which changes nothing"},
		{Error, "error", "the command failed, or could not find out what it was asked about"},
		{Timeout, "timeout", "the time to wait is over, and the migration, the drain or the probe of a plan is not"},
		{Operator, "operator", "a step is held, paused or past its deadline, or a drain is stuck: somebody has to act"},
	}
}

// Help writes the table for the help of a command.
func Help() string {
	var out strings.Builder
	for _, meaning := range Table() {
		fmt.Fprintf(&out, "  %d  %-9s %s\n", meaning.Code, meaning.Word, meaning.Text)
	}
	return out.String()
}

// coded is an error with an exit code.
type coded struct {
	code Code
	err  error
}

// Error implements error.
func (e *coded) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the error without its code.
func (e *coded) Unwrap() error { return e.err }

// With gives the error the code; without an error it ends a command that has said everything. With Done and without an
// error it returns nil. A code that the error has already stays: who is nearer to it knows better.
func With(code Code, err error) error {
	var known *coded
	if errors.As(err, &known) || (err == nil && code == Done) {
		return err
	}
	return &coded{code: code, err: err}
}

// Refused returns an error that says why something is refused. Its code is No.
func Refused(format string, args ...any) error { return With(No, fmt.Errorf(format, args...)) }

// Answer is yes or no.
type Answer bool

// Err returns what ends a command that has given its answer: nil for yes, or an error with the code No and without a
// text.
func (a Answer) Err() error {
	if a {
		return nil
	}
	return With(No, nil)
}

// Of returns the code that the error ends a command with. An error without a code is an Error.
func Of(err error) Code {
	if err == nil {
		return Done
	}
	var known *coded
	if errors.As(err, &known) {
		return known.code
	}
	return Error
}

// OfMigration returns the code of a command that waits for the end of a migration and ends in this state of it.
func OfMigration(migration summary.Summary) Code {
	switch {
	case migration.State == summary.Succeeded:
		return Done
	case migration.State.Final():
		return No
	case NeedsOperator(migration) || migration.State == summary.Held:
		return Operator
	}
	return Timeout
}

// OfDrain returns the code of a command that waits for the end of a drain, and whether there is something to wait for
// no longer.
func OfDrain(d summary.Drain) (Code, bool) {
	if !d.Requested {
		return No, true
	}
	if d.Condition != nil {
		switch d.Condition.Status {
		case gardencorev1beta1.ConditionTrue:
			return Done, true
		case gardencorev1beta1.ConditionFalse:
			return Operator, true
		}
	}
	return Timeout, false
}

// NeedsOperator reports whether it is no use to wait any longer before an operator has acted: a step is past its
// deadline, or the pause that was asked for is reached. What a guard holds may continue by itself, so a Held migration
// is waited for until the timeout.
func NeedsOperator(migration summary.Summary) bool {
	switch migration.State {
	case summary.Overdue:
		return true
	case summary.Paused:
		// Right after a resume the condition still says Paused, and the annotation is gone.
		return migration.PauseBefore == migration.Step
	}
	return false
}
