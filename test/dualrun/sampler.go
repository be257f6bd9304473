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
	"sync"
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

// looksPerInterval is how often in an interval it is looked whether the migration has come to another phase.
const looksPerInterval = 5

// Run takes a sample each interval until the context ends, and judges it. Whenever the migration has come to another
// phase it takes one at once, beside the one that may be under way: a busy machine takes longer for a look than some
// steps last, and a step that nobody has looked at proves nothing.
func (r *Reader) Run(ctx context.Context, interval time.Duration) Result {
	var (
		result = Result{Phases: map[ownership.Phase]int{}}
		mu     sync.Mutex
		looks  sync.WaitGroup
	)
	look := func() {
		sample, err := r.Sample(ctx)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			result.Failed++
			result.LastError = err
		default:
			result.Samples++
			result.Phases[sample.From]++
			result.Violations = append(result.Violations, ownership.Judge(sample)...)
		}
	}
	looks.Go(func() { r.follow(ctx, interval/looksPerInterval, func() { looks.Go(look) }) })
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		look()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	looks.Wait()
	slices.SortStableFunc(result.Violations, func(a, b ownership.Violation) int { return a.Time.Compare(b.Time) })
	return result
}

// follow calls the function whenever it finds the migration in another phase than before, until the context ends. What
// it cannot read it reads again; the samples tell that somebody could not.
func (r *Reader) follow(ctx context.Context, interval time.Duration, moved func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var (
		last  ownership.Phase
		known bool
	)
	for {
		if _, phase, err := r.phase(ctx); err == nil {
			if known && phase != last {
				moved()
			}
			last, known = phase, true
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
