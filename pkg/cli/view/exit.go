// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import "errors"

// The exit codes of kubectl-livecpm. Scripts may rely on them.
const (
	// ExitDone is the code of a command that did what it was asked for; for status: the migration is completed.
	ExitDone = 0
	// ExitFailed is the code of a command that could not or must not; for plan: the shoot is not ready to migrate, for
	// status: the migration has failed or is aborted.
	ExitFailed = 1
	// ExitTimeout is the code of status when the timeout expires.
	ExitTimeout = 2
)

// ExitError is an error with an exit code of its own.
type ExitError struct {
	// Code is the exit code.
	Code int
	// Err is the error; nil if everything has been said already.
	Err error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the error without its code.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code that belongs to the error.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	var coded *ExitError
	if errors.As(err, &coded) {
		return coded.Code
	}
	return ExitFailed
}
