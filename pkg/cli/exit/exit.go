// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package exit holds the exit codes of kubectl-livecpm. Scripts may rely on them.
package exit

import "errors"

const (
	// Done is the code of a command that did what it was asked for; for status: the migration is completed.
	Done = 0
	// Failed is the code of a command that could not or must not; for plan: the migration cannot go, for status: it has
	// failed or is aborted.
	Failed = 1
	// Timeout is the code of status when the time is over.
	Timeout = 2
)

// Error is an error with an exit code of its own.
type Error struct {
	// Code is the exit code.
	Code int
	// Err is the error; nil if everything has been said already.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.Err }

// Code returns the exit code that belongs to the error.
func Code(err error) int {
	if err == nil {
		return Done
	}
	var coded *Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return Failed
}
