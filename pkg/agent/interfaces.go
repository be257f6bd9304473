// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the frame of a live migration: it watches Shoots, finds out from the step table whose turn it is,
// runs the action of its own role, and writes conditions, last operation, events and metrics. What an action does, it
// does not know.
package agent

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Gate proves that the classic migration of a shoot cannot start.
type Gate interface {
	// Prove returns an error unless the proof succeeded just now. The Shoot must have been read a moment ago, and not
	// from a cache.
	Prove(ctx context.Context, shoot *gardencorev1beta1.Shoot) error
}

// Preflight reports whether a step may begin, and whether one that has begun may continue.
type Preflight interface {
	// Before returns the reason and the message with which the step of the shoot's migration must not begin; both are
	// empty if it may. The warnings are what is wrong without holding the step.
	Before(ctx context.Context, shoot *gardencorev1beta1.Shoot,
		step steps.Step) (reason steps.Reason, message string, warnings []string)
	// During returns the reason and the message with which the step, which has begun, has to hold at the next moment at
	// which that is safe; both are empty if it may continue.
	During(ctx context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step) (reason steps.Reason, message string)
	// Rival tells by what a gardenlet is known that may carry out the shoot's migration itself; empty if there is none.
	Rival(ctx context.Context, shoot *gardencorev1beta1.Shoot) string
}
