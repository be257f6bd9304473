// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
		case fatal(err):
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

// fatal reports whether a retry would not help.
func fatal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// Changes returns a function that writes a line whenever what the shoot says about its migration has changed.
func Changes(out io.Writer, o Options) func(summary.ControlPlane) summary.Summary {
	previous := ""
	return func(w summary.ControlPlane) summary.Summary {
		summary := summary.Summarize(w.Shoot, w.Now.Time)
		if line := Line(summary, o); line != previous {
			previous = line
			fmt.Fprintf(out, "%s  %s\n", w.Now.UTC().Format(time.TimeOnly), line)
		}
		return summary
	}
}

// ErrTimeout is the cause of a context whose timeout has expired.
var ErrTimeout = errors.New("timeout")

// Wait waits until the migration has ended or needs an operator. The exit code of the error says which.
func Wait(ctx context.Context, loop Loop, out io.Writer, o Options) error {
	var (
		changes = Changes(out, o)
		final   summary.Summary
	)
	err := loop.Run(ctx, func(w summary.ControlPlane) bool {
		final = changes(w)
		return final.State.Final() || final.State == summary.Overdue
	})
	switch {
	case errors.Is(err, ErrTimeout):
		return &ExitError{Code: ExitTimeout,
			Err: fmt.Errorf("timed out; the last state is: %s", stateOrUnknown(final))}
	case err != nil:
		return err
	case final.State == summary.Succeeded:
		return nil
	case final.State == summary.Overdue:
		return &ExitError{Code: ExitFailed,
			Err: fmt.Errorf("step %s has exceeded its deadline; the agent keeps trying, see %s", final.Step,
				final.Runbook())}
	}
	return &ExitError{Code: ExitFailed,
		Err: fmt.Errorf("the live migration of %s is not completed: %s", final.Key(), final)}
}

func stateOrUnknown(s summary.Summary) string {
	if s.State == "" {
		return "not known"
	}
	return s.String()
}

// Screen draws texts over each other. Each one is a single write that erases only what the one before has left behind,
// so that nothing flickers.
type Screen struct {
	// Out is the terminal.
	Out io.Writer
	// Height returns the number of lines that fit.
	Height func() int

	lines int
}

// Draw replaces what is shown by the text.
func (s *Screen) Draw(text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	// The cursor stands below the last line, and lines that have left the screen cannot be drawn over.
	if height := s.Height() - 1; height > 1 && len(lines) > height {
		lines = append(lines[:height-1], "…")
	}
	var out strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r", s.lines)
	}
	for _, line := range lines {
		out.WriteString(line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	s.lines = len(lines)
	_, _ = io.WriteString(s.Out, out.String())
}
