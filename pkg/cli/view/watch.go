// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// DefaultInterval is the time between two looks.
const DefaultInterval = 2 * time.Second

// Loop looks at a migration again and again.
type Loop struct {
	// Read looks at it.
	Read func(ctx context.Context) (summary.ControlPlane, error)
	// Interval is the time between two looks.
	Interval time.Duration
	// Clock is the clock. It defaults to the real one.
	Clock clock.Clock
	// Errors is where a failed look is reported. It is retried: the API server of a garden may be away for a while.
	Errors io.Writer
}

// Run looks and shows what is seen until show returns true, the context ends, or the shoot does not exist.
func (l Loop) Run(ctx context.Context, show func(summary.ControlPlane) bool) error {
	if l.Clock == nil {
		l.Clock = clock.RealClock{}
	}
	reported := ""
	for {
		w, err := l.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			reported = ""
			if show(w) {
				return nil
			}
		case Fatal(err):
			return err
		case err.Error() != reported:
			reported = err.Error()
			fmt.Fprintf(l.Errors, "%s; retrying\n", reported)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.Clock.After(l.Interval):
		}
	}
}

// Fatal reports whether a retry would not help.
func Fatal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// Changes returns a function that writes a line whenever what the shoot says about its migration has changed.
func Changes(out io.Writer, o Options) func(summary.ControlPlane) summary.Summary {
	previous := ""
	return func(w summary.ControlPlane) summary.Summary {
		s := Summary(w)
		if line := unexpected(s, o); line != previous {
			previous = line
			fmt.Fprint(out, timedLine(s, w.Now.Time, o))
		}
		return s
	}
}

// unexpected is the line of a migration without what is expected, which changes with every look and is no change of the
// migration.
func unexpected(s summary.Summary, o Options) string {
	s.Expected, s.Progress = nil, 0
	return Line(s, o)
}

// timedLine is the line of a migration as it is written at a point in time, with the time that is left.
func timedLine(s summary.Summary, now time.Time, o Options) string {
	left := Left(s)
	if left != "" {
		left = "[" + left + "] "
	}
	return fmt.Sprintf("%s  %s%s\n", o.Clock(now), left, Line(s, o))
}
