// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package overload tells when a seed is too busy for a move that clients would notice then.
package overload

import (
	"errors"
	"fmt"
	"time"
)

// Bound is how long a member of etcd, or a kube-apiserver, may take for an answer on an open connection when leadership
// is about to move, a member or a kube-apiserver to stop, or DNS to lead clients elsewhere. Every such move makes
// requests wait for a few answers of that kind, and a hold has 1.5 s for all of them. An answer takes milliseconds, and
// over a distance two round trips at most: with 180 ms between the seeds, less than half of the bound. One that takes
// longer has had no processor or no disk.
const Bound = time.Second

// Patience is for how long an overload puts a move off where holding on is worse than what the move may cost: while a
// cluster has six voters, and while no controllers of the shoot run.
const Patience = 30 * time.Second

// Error says that somebody has not answered within Bound.
type Error struct {
	// Who was asked.
	Who string
	// Took is how long the answer took, or was waited for.
	Took time.Duration
	// Cause is why there was none; nil if there was one.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s did not answer within %.1f s: the seed is overloaded, or cannot be reached: %s", e.Who,
			e.Took.Seconds(), e.Cause)
	}
	return fmt.Sprintf("%s answered in %.1f s, more than %g s: the seed is overloaded", e.Who, e.Took.Seconds(),
		Bound.Seconds())
}

// Unwrap returns why there was no answer.
func (e *Error) Unwrap() error { return e.Cause }

// Check judges an answer, or a failure, that has come after the given time. A failure that comes sooner is another
// matter and returned as it is.
func Check(who string, took time.Duration, err error) error {
	if took <= Bound {
		return err
	}
	return &Error{Who: who, Took: took, Cause: err}
}

// Slowest returns the Error among those given that took longest, or nil if there is none.
func Slowest(errs ...error) error {
	var slowest *Error
	for _, err := range errs {
		var overloaded *Error
		if errors.As(err, &overloaded) && (slowest == nil || overloaded.Took > slowest.Took) {
			slowest = overloaded
		}
	}
	if slowest == nil {
		return nil
	}
	return slowest
}

// Is reports whether the error, or one that it wraps, is an Error.
func Is(err error) bool {
	var overloaded *Error
	return errors.As(err, &overloaded)
}
