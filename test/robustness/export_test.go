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
type Director struct{ *director }

// NewDirector returns a director of the given faults.
func NewDirector(
	cells []Cell, faults []fault.Fault, c clock.PassiveClock, lastAcknowledged func() time.Time,
	pause func(context.Context, gardencorev1beta1.ConditionType) error,
) (Director, error) {
	d, err := newDirector(cells, func(name string) (fault.Fault, bool) {
		for _, f := range faults {
			if f.Name() == name {
				return f, true
			}
		}
		return nil, false
	})
	if err != nil {
		return Director{}, err
	}
	d.clock, d.lastAcknowledged, d.pause = c, lastAcknowledged, pause
	return Director{d}, nil
}

func (d Director) Begin(ctx context.Context) error  { return d.begin(ctx) }
func (d Director) Finish(ctx context.Context) error { return d.finish(ctx) }
func (d Director) Heal(ctx context.Context)         { d.heal(ctx) }
func (d Director) Observe(ctx context.Context, shoot *gardencorev1beta1.Shoot) {
	d.observe(ctx, shoot)
}

// Judge fills in the result from what the director did.
func (d Director) Judge(r *Result, end time.Time, errs ...error) { r.judge(d.strikes, end, errs...) }

// Completed is completed.
var Completed = completed
