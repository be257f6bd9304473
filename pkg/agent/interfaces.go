// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package agent is the frame of a live migration: it watches Shoots, finds out from the step table whose turn it is, runs
// the action of its own role, and writes conditions, last operation, events and metrics. What an action does, it does not
// know.
package agent

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/steps"
)

// Gate proves that the classic migration of a shoot cannot start.
type Gate interface {
	// Verify returns an error unless the proof succeeded just now.
	Verify(ctx context.Context, shoot *gardencorev1beta1.Shoot) error
}

// Preflight checks the prerequisites of a migration.
type Preflight interface {
	// Check returns one sentence for each prerequisite that is not met, or could not be looked at, as seen by the role.
	Check(ctx context.Context, shoot *gardencorev1beta1.Shoot, role steps.Role) []string
}

// PreflightFunc makes a Preflight of a function.
type PreflightFunc func(ctx context.Context, shoot *gardencorev1beta1.Shoot, role steps.Role) []string

// Check calls the function.
func (f PreflightFunc) Check(ctx context.Context, shoot *gardencorev1beta1.Shoot, role steps.Role) []string {
	return f(ctx, shoot, role)
}
