// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package defragmentation tells when a move has to wait for the defragmentation of an etcd: a member answers nothing
// while it copies its database.
package defragmentation

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron"
)

// A defragmentation is visible only while a member copies its database. The sidecar beside the leader, which has been
// told to defragment by its schedule, waits for a minute first (DefragRetryPeriod of etcd-backup-restore v0.44.1) and
// then goes from member to member, the leader last (DefragmentData).
const (
	before = 2 * time.Minute
	after  = 3 * time.Minute
)

// Due returns when the defragmentation by the schedule, a cron expression in UTC as the sidecar reads it, is due, if
// that is about now. It is zero if not, or if there is no schedule. The error says why the schedule cannot be read.
func Due(schedule string, now time.Time) (time.Time, error) {
	if schedule == "" {
		return time.Time{}, nil
	}
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return time.Time{}, err
	}
	due := parsed.Next(now.UTC().Add(-after))
	if !due.Before(now.Add(before)) {
		return time.Time{}, nil
	}
	return due, nil
}

// Error says that a move has to wait for a defragmentation, or until it is known that there is none.
type Error struct {
	// Etcd is the name of the Etcd resource.
	Etcd string
	// Problem is what is being defragmented or about to be, or what is not known.
	Problem string
	// Ahead reports that it is only about to be, as far as the members say.
	Ahead bool
}

// Error implements error.
func (e *Error) Error() string { return e.Etcd + ": " + e.Problem }

// CheckSchedule returns an Error if a defragmentation of the etcd is due about now, or if the schedule cannot be read.
func CheckSchedule(etcd, schedule string, now time.Time) error {
	due, err := Due(schedule, now)
	switch {
	case err != nil:
		return &Error{Etcd: etcd, Problem: fmt.Sprintf("the schedule %q cannot be read: %v; fix "+
			"spec.etcd.defragmentationSchedule of the Etcd", schedule, err)}
	case !due.IsZero():
		return &Error{Etcd: etcd, Ahead: true,
			Problem: "a defragmentation is scheduled for " + due.Format(time.RFC3339)}
	}
	return nil
}

// IsAhead reports whether the error, or one that it wraps, is an Error about a defragmentation that has not begun.
func IsAhead(err error) bool {
	var waits *Error
	return errors.As(err, &waits) && waits.Ahead
}

// Is reports whether the error, or one that it wraps, is an Error.
func Is(err error) bool {
	var waits *Error
	return errors.As(err, &waits)
}
