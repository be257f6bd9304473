// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"slices"
	"sync"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// stages are the stages of the cleanup, in their order, as the reasons of the step's condition.
var stages = []steps.Reason{steps.ReasonStoppingSourceControlPlane, steps.ReasonSourceControllersStopped,
	steps.ReasonDeletingSourceResources}

// stage is how far the cleanup has come. The destination starts its controllers when it reads that those of the source
// have stopped (steps.Work.Asks), so a stage is entered only when that is known, and never left backwards: nobody
// starts controllers in the source again.
type stage struct {
	migration *migration.Migration
	// mu keeps a report that has begun before the next stage from being written after it.
	mu     sync.Mutex
	reason steps.Reason
}

// newStage returns the stage that an attempt begins in, by what is left.
func newStage(m *migration.Migration, left remains) *stage {
	return &stage{migration: m, reason: stageOf(left)}
}

func stageOf(left remains) steps.Reason {
	switch {
	case left.controllers != "":
		return steps.ReasonStoppingSourceControlPlane
	case left.kubeAPIServer:
		return steps.ReasonSourceControllersStopped
	default:
		return steps.ReasonDeletingSourceResources
	}
}

// report publishes the message with the present stage.
func (s *stage) report(ctx context.Context, message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.migration.Report(ctx, s.reason, message)
}

// enter begins a stage, unless the cleanup has come farther, and publishes it at once: the destination waits for it. If
// that fails, the next report of progress says so; the cleanup does not wait for the garden.
func (s *stage) enter(ctx context.Context, reason steps.Reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Index(stages, reason) <= slices.Index(stages, s.reason) {
		return
	}
	s.reason = reason
	if err := s.migration.Report(ctx, reason, message); err != nil {
		s.migration.Log.Error(err, "Failed to report how far the cleanup has come; the next report of progress will",
			"reason", reason)
	}
}
