// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Director drives a director by hand.
type Director struct {
	*director
	// seen is the shoot that was observed last.
	seen *seen
}

type seen struct{ shoot *gardencorev1beta1.Shoot }

// Stage is what a director works with.
type Stage struct {
	// Faults are those that the cells may name.
	Faults []fault.Fault
	Clock  clock.PassiveClock
	// LastAcknowledged is when the last write of a client was acknowledged.
	LastAcknowledged func() time.Time
	// Alone is what windows need; nil for none.
	Alone *Alone
	// Requests is how many requests of clients have ended.
	Requests func() int
	// Look returns the shoot after a fault has struck; the one that was observed last by default.
	Look func(context.Context) (*gardencorev1beta1.Shoot, error)
	// Targets are what faults hit; the default has nothing.
	Targets *fault.Targets
	// Pause makes the migration hold before a step.
	Pause func(context.Context, gardencorev1beta1.ConditionType) error
}

// NewDirector returns a director of the given faults.
func NewDirector(cells []Cell, stage Stage) (Director, error) {
	d, err := newDirector(cells, func(name string) (fault.Fault, bool) {
		for _, f := range stage.Faults {
			if f.Name() == name {
				return f, true
			}
		}
		return nil, false
	})
	if err != nil {
		return Director{}, err
	}
	d.alone, d.requests, d.look, d.targets = stage.Alone, stage.Requests, stage.Look, stage.Targets
	d.clock, d.lastAcknowledged, d.pause = stage.Clock, stage.LastAcknowledged, stage.Pause
	last := &seen{}
	if d.look == nil {
		d.look = func(context.Context) (*gardencorev1beta1.Shoot, error) { return last.shoot, nil }
	}
	if d.targets == nil {
		d.targets = &fault.Targets{}
	}
	return Director{d, last}, nil
}

func (d Director) Begin(ctx context.Context) error  { return d.begin(ctx) }
func (d Director) Finish(ctx context.Context) error { return d.finish(ctx) }
func (d Director) Heal(ctx context.Context)         { d.heal(ctx) }
func (d Director) Observe(ctx context.Context, shoot *gardencorev1beta1.Shoot) {
	d.seen.shoot = shoot
	d.observe(ctx, shoot)
}

// Judge fills in the result from what the director did.
func (d Director) Judge(r *Result, end time.Time, errs ...error) { r.judge(d.strikes, end, errs...) }

// Filled reports whether the last window is full.
func (d Director) Filled() bool { return d.filled() }

// Unreported returns the results of a migration without a report.
func (d Director) Unreported(end time.Time, err error) []CellResult {
	return unreported(d.strikes, end, err)
}

// Rotatable returns the cells from which a commit chooses the first one.
func Rotatable() []Cell { return rotatable(Short(), rotatingLasts) }

// Completed is completed.
var Completed = completed
