// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package migration holds the types that the frame of the agent and the flows of the source and the destination share.
// It keeps them from importing each other.
package migration

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/migration/overload"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Migration is what an action gets to know about the migration that it works for. It lives for one pass only.
type Migration struct {
	// Log carries shoot, seed, role and step.
	Log logr.Logger
	// Shoot is a fresh copy, read from the API server at the beginning of the pass. Actions may change it in memory;
	// the frame never writes it back. Only HandOver's changes are written.
	Shoot *gardencorev1beta1.Shoot
	// Role is the role of this agent.
	Role steps.Role
	// SourceSeed is the name of the seed that the control plane comes from.
	SourceSeed string
	// DestinationSeed is the name of the seed that the control plane moves to.
	DestinationSeed string
	// Step is the current step. Its owner may be the peer, namely in assists and in the Always action.
	Step steps.Step
	// Clock is to be used instead of the time package.
	Clock clock.Clock
	// Report publishes the condition of the current step as Progressing with the given reason while the action
	// continues. It is a no-op when the same was published before, and always in assists and in the Always action:
	// there the condition belongs to the peer.
	Report func(ctx context.Context, reason steps.Reason, message string) error
	// PeerSeen returns when the peer's agent was last known to be at work and to reach its seed's API server, read from
	// the Shoot as it is in the garden now (steps.SeenAt). It is zero if never. The time is that of the peer's clock.
	PeerSeen func(ctx context.Context) (time.Time, error)
}

// ReportOverload publishes the error if it is about an overload, and returns it in any case: work that is put off is
// repeated, and this says why.
func (m *Migration) ReportOverload(ctx context.Context, err error) error {
	if !overload.Is(err) {
		return err
	}
	if reportErr := m.Report(ctx, steps.ReasonSeedOverloaded, err.Error()); reportErr != nil {
		m.Log.Error(reportErr, "Failed to report an overload", "overload", err.Error())
	}
	return err
}

// Action makes one attempt at a step. It is idempotent, reads everything from the clusters, and may find that there is
// nothing to do yet. A returned error is published with the step's condition and the attempt
// is repeated with backoff.
type Action interface {
	// Run makes one attempt.
	Run(ctx context.Context, m *Migration) (steps.Outcome, error)
}

// ActionFunc makes an Action of a function.
type ActionFunc func(ctx context.Context, m *Migration) (steps.Outcome, error)

// Run calls the function.
func (f ActionFunc) Run(ctx context.Context, m *Migration) (steps.Outcome, error) { return f(ctx, m) }

// Actions is all that one role contributes to a migration.
type Actions struct {
	// Steps holds one action for each step that the role owns.
	Steps map[gardencorev1beta1.ConditionType]Action
	// Assists holds the role's part in steps of its peer. One runs while the peer's step is the current one and the
	// peer has published one of the reasons Step.Asks. The outcome's status is ignored: the condition belongs to the
	// peer, which observes the effect itself.
	Assists map[gardencorev1beta1.ConditionType]Action
	// Always runs on each pass before the step's action or assist, on both sides and whoever owns the current step, as
	// soon as the first step has begun, and again and again while a step's action runs: it must be safe beside it.
	// It keeps up to date what may change at any time, for example pod IPs in the exposure. It runs in a hold, too.
	// Only the outcome's RequeueAfter counts. On an error nothing else is done in the pass. May be nil.
	Always Action
	// Abort undoes the role's part of a migration that is aborted, until the seed is as it was before. The
	// destination's runs first; the source's runs when nothing is left in the destination. It runs alone: a running
	// step is ended before. It works from any point that a step may have been ended at, and is repeated until its
	// outcome is True.
	Abort Action
	// HandOver is called once the last step's action returned True, on the destination only. It changes the status of
	// the given Shoot in memory (status.seedName, status.lastOperation); it may be called again after a conflict. The
	// frame adds the True condition, takes the intent annotation away and writes everything in ONE status update with
	// an optimistic lock (the registry of gardener-apiserver keeps changes of the metadata in status updates). Thereby
	// "the last condition is True" and "status.seedName is the destination" become facts at the same moment. Afterwards
	// the frame asks the destination's gardenlet for a reconciliation.
	HandOver func(m *Migration, shoot *gardencorev1beta1.Shoot) error
}

// Missing returns what the role must contribute to a migration and does not, by name. It is empty if the actions are
// complete.
func (a Actions) Missing(role steps.Role) []string {
	var missing []string
	for _, step := range steps.Table() {
		switch {
		case step.Owner == role && a.Steps[step.Condition] == nil:
			missing = append(missing, fmt.Sprintf("step %s", step))
		case step.Owner != role && len(step.Asks()) > 0 && a.Assists[step.Condition] == nil:
			missing = append(missing, fmt.Sprintf("part in step %s", step))
		}
		if step.HandsOver && step.Owner == role && a.HandOver == nil {
			missing = append(missing, "hand-over")
		}
	}
	if steps.AbortOf(role).Condition != "" && a.Abort == nil {
		missing = append(missing, "abort")
	}
	return missing
}
