// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dualrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
)

// Result is what a Sampler has seen.
type Result struct {
	// Samples is how many looks were complete.
	Samples int
	// Failed is how many were not, and LastError why the last one of them was not.
	Failed int
	// LastError is nil if none failed.
	LastError error
	// Phases are the phases that a sample was taken in, each with the number of samples that began in it.
	Phases map[ownership.Phase]int
	// Violations are what the table does not permit, in the order of time.
	Violations []ownership.Violation
}

// Err returns an error if the table was violated, or if too little was seen to say that it was not: fewer complete
// looks than atLeast, more failed ones than complete ones, or a step of a migration from begin to end that no look fell
// into.
func (r Result) Err(atLeast int, phases ...ownership.Phase) error {
	var errs []error
	if len(r.Violations) > 0 {
		var lines []string
		for _, violation := range r.Violations {
			lines = append(lines, violation.String())
		}
		errs = append(errs, fmt.Errorf("controllers were at work where it was not their turn, %d times:\n%s",
			len(lines), strings.Join(lines, "\n")))
	}
	if r.Samples < atLeast {
		errs = append(errs, fmt.Errorf("the seeds were looked at %d times instead of at least %d", r.Samples, atLeast))
	}
	if r.Failed > r.Samples {
		errs = append(errs, fmt.Errorf("%d of %d looks at the seeds failed, the last one with: %w", r.Failed,
			r.Failed+r.Samples, r.LastError))
	}
	for _, phase := range phases {
		if r.Phases[phase] == 0 {
			errs = append(errs, fmt.Errorf("the seeds were not looked at in %s; they were in %v", phase,
				slices.Sorted(maps.Keys(r.Phases))))
		}
	}
	return errors.Join(errs...)
}

// Run takes a sample each interval until the context ends, and judges it.
func (r *Reader) Run(ctx context.Context, interval time.Duration) Result {
	result := Result{Phases: map[ownership.Phase]int{}}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		sample, err := r.Sample(ctx)
		switch {
		case ctx.Err() != nil:
			return result
		case err != nil:
			result.Failed++
			result.LastError = err
		default:
			result.Samples++
			result.Phases[sample.From]++
			result.Violations = append(result.Violations, ownership.Judge(sample)...)
		}
		select {
		case <-ctx.Done():
			return result
		case <-ticker.C:
		}
	}
}
