// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package abort begins a live migration on the landscape, aborts it at a given moment the way an operator does, and
// compares everything of the shoot in both seeds with what was there before.
package abort

import (
	"context"
	"fmt"
	"io"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Options say what is to be aborted and when.
type Options struct {
	// Landscape is the landscape that the shoot lives in.
	Landscape *config.Config
	// Namespace and Name name the shoot. It has to be at rest on one seed.
	Namespace, Name string
	// Moment is when the abort is asked for.
	Moment Moment
	// Fault, if set, strikes right before the abort is asked for. It must have something to hit in the step of the
	// moment.
	Fault fault.Fault
	// Timeout bounds each of the waits, the time that the fault is in force not counted. Default: 10 minutes.
	Timeout time.Duration
	// Out takes the progress.
	Out io.Writer
}

// Result is what came of an abort.
type Result struct {
	// Moment names the moment, Fault the fault that struck. It is empty if there was none.
	Moment, Fault string
	// At is what the condition of the step said when the abort was asked for.
	At string
	// Seconds is how long the abort took, from the request to the reason Aborted.
	Seconds float64
	// Diff has a line for each thing that is not as it was before the migration. It has to be empty.
	Diff []string
}

type run struct {
	*driver.Shoot
}

// Run begins a migration, aborts it, compares, and sets the seed name back. It returns when the gardenlet of the source
// has reconciled the shoot.
func Run(ctx context.Context, options Options) (*Result, error) {
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Minute
	}
	if err := Suits(options.Fault, options.Moment); err != nil {
		return nil, err
	}
	if options.Fault != nil && !options.Fault.Course().ThroughStep {
		options.Timeout += options.Fault.Course().Lasts
	}
	target, err := driver.Open(driver.Target{Landscape: options.Landscape, Namespace: options.Namespace,
		Name: options.Name, Timeout: options.Timeout, Out: options.Out})
	if err != nil {
		return nil, err
	}
	r := &run{target}
	source, destination, err := r.Seeds(ctx)
	if err != nil {
		return nil, err
	}
	trouble, err := r.prepare(ctx, options.Fault)
	if err != nil {
		return nil, err
	}
	before, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.Begin(ctx, destination, options.Moment.PauseBefore); err != nil {
		return nil, err
	}
	result := &Result{Moment: options.Moment.Name, Fault: trouble.name()}
	if result.At, err = r.reach(ctx, options.Moment); err != nil {
		return nil, err
	}
	if err := r.abort(ctx, trouble, result); err != nil {
		return nil, err
	}

	after, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	result.Diff = before.Diff(after, options.Moment.Replaced...)
	if err := r.Bind(ctx, source); err != nil {
		return nil, err
	}
	return result, r.UntilReconciled(ctx, source)
}

// reach waits for the moment and returns what the condition of its step says then. It fails when the moment has passed.
func (r *run) reach(ctx context.Context, moment Moment) (at string, err error) {
	passed := false
	err = r.Until(ctx, "the moment "+moment.Name, func(shoot *gardencorev1beta1.Shoot) bool {
		conditions := steps.Conditions(shoot)
		at, passed = driver.Describe(shoot, moment.Step), moment.Passed(conditions)
		return passed || moment.Reached(conditions)
	})
	if err == nil && passed {
		err = fmt.Errorf("the moment %q has passed unseen: %s", moment.Name, at)
	}
	return at, err
}

// abort lets the fault strike, asks for the abort, and waits until it is completed and the fault is over.
func (r *run) abort(ctx context.Context, trouble *trouble, result *Result) error {
	r.Say("aborting %s: %s", result.Moment, result.At)
	if err := trouble.strike(ctx); err != nil {
		return err
	}
	defer trouble.cancel()
	asked := time.Now()
	if err := r.Annotate(ctx, steps.AnnotationAbort, "true"); err != nil {
		return err
	}
	if err := r.Until(ctx, "the abort to be completed", func(shoot *gardencorev1beta1.Shoot) bool {
		return steps.Aborted(steps.Conditions(shoot))
	}); err != nil {
		return err
	}
	result.Seconds = time.Since(asked).Seconds()
	r.Say("aborted after %.1f s", result.Seconds)
	return trouble.end(ctx)
}
