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

	"github.com/livecpm/livecpm/pkg/migration/defragmentation"
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
	// Obstacle looks whether the step, which has begun, has to hold, and returns the reason and the message; both are
	// empty if not. An action asks where the step may stand for hours: never with six voters, never between holding
	// requests and letting them go. The frame asks before an attempt of every step in which no member of the source
	// leaves (steps.Step.MovesMembers).
	Obstacle func(ctx context.Context) (steps.Reason, string)
	// PeerSeen returns when the peer's agent was last known to be at work and to reach its seed's API server, read from
	// the Shoot as it is in the garden now (steps.SeenAt). It is zero if never. The time is that of the peer's clock.
	PeerSeen func(ctx context.Context) (time.Time, error)
	// PeerAlive says why the peer does not count as lost, read from the garden now; empty if it does. It counts as lost
	// when neither its agent nor the gardenlet beside it has given a sign of life for a long time. That it is lost is
	// for an operator to say: a seed that is cut off from the garden shows the same.
	PeerAlive func(ctx context.Context) (alive string, err error)
}

// ReportPutOff publishes the error if it only puts work off, and returns it in any case: the work is repeated, and this
// says why it has to wait.
func (m *Migration) ReportPutOff(ctx context.Context, err error) error {
	reason, putOff := PutOff(err)
	if !putOff {
		return err
	}
	if reportErr := m.Report(ctx, reason, err.Error()); reportErr != nil {
		m.Log.Error(reportErr, "Failed to report what a move waits for", "waits", err.Error())
	}
	return err
}

// PutOff reports whether the error only says that a move has to wait for something that passes: for a defragmentation,
// or for a seed that is overloaded. It returns the reason to show meanwhile.
func PutOff(err error) (steps.Reason, bool) {
	switch {
	case defragmentation.Is(err):
		return steps.ReasonEtcdDefragmenting, true
	case overload.Is(err):
		return steps.ReasonSeedOverloaded, true
	}
	return "", false
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
	// Snapshots returns why the snapshots of the shoot's main etcd into the bucket of the own seed fail, as long as it
	// is this seed that saves them; empty if they do not. It is called where Always is. May be nil.
	Snapshots func(ctx context.Context, m *Migration) (problem string, err error)
	// Abort undoes the role's part of a migration that is aborted, until the seed is as it was before. The
	// destination's runs first; the source's runs when nothing is left in the destination. It runs alone: a running
	// step is ended before. It works from any point that a step may have been ended at, and is repeated until its
	// outcome is True.
	Abort Action
	// Abandon takes the destination out of the etcds and closes the way to it, on the source only: an operator has said
	// that the destination is lost (steps.AnnotationAbandon). It runs instead of the destination's Abort, and alone. It
	// is repeated until its outcome is True, whose message says what is left in the destination. Abort comes after it.
	Abandon Action
	// AbandonSource does what is to be done in the place of a source that is lost (steps.AnnotationAbandonSource), on
	// the destination only. It makes sure that the destination is whole by itself, and closes the way between the
	// seeds. It is repeated until its outcome is True, whose message says what may be left in the source.
	AbandonSource Action
	// Clear removes what an abandonment has left behind, on the destination only, whose agent has come back. It touches
	// nothing of the etcds' membership: that is the source's alone. It is repeated until its outcome is True.
	Clear Action
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
	if role == steps.Source && a.Abandon == nil {
		missing = append(missing, "abandonment")
	}
	if role == steps.Destination && a.AbandonSource == nil {
		missing = append(missing, "abandonment of the source")
	}
	if role == steps.Destination && a.Clear == nil {
		missing = append(missing, "removal of what an abandonment has left behind")
	}
	return missing
}
