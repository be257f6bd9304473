// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package simulation has agents that do nothing in their seeds, for tests and benchmarks that have no seeds.
//
// It is no kinder than the real thing. The frame, the gate, the checks and the single write of the hand-over are the
// real ones (NewReconciler), and the frame refuses a role that lacks an action. An action refuses to run for another
// role or another step than its own, a part in a step of the peer is there for every step, so that the frame has to
// know when it is due, and what nobody simulates fails: an abort that a test does not expect does not succeed. Advance
// makes only those transitions of a condition that the step table allows. What an action needs, how long it takes and
// how often it fails is for the test to say (Work).
package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Work says what a role does.
type Work struct {
	// Step returns the action of a step that the role owns.
	Step func(step steps.Step) migration.Action
	// Assist returns the role's part in a step of its peer. Without it, the role finds nothing to do in such steps.
	Assist func(step steps.Step) migration.Action
	// Always runs on each pass. Without it, there is nothing to keep up to date.
	Always migration.Action
	// Abort undoes the role's part. Without it, every attempt to abort fails.
	Abort migration.Action
	// Abandon and Clear are the source's and the destination's parts in an abandonment, AbandonSource is the
	// destination's in one of the source. Without them, every attempt fails.
	Abandon, Clear, AbandonSource migration.Action
	// HandOver changes the Shoot's status when the last step is done. Without it, HandOver does.
	HandOver func(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error
}

// Actions returns all that the role contributes to a migration. Every simulation takes its actions from here, so that
// what migration.Actions.Missing asks for is complete in all of them.
func Actions(role steps.Role, work Work) migration.Actions {
	actions := migration.Actions{
		Steps:   map[gardencorev1beta1.ConditionType]migration.Action{},
		Assists: map[gardencorev1beta1.ConditionType]migration.Action{},
		Always:  work.Always,
	}
	for _, step := range steps.Table() {
		switch {
		case step.Owner == role:
			actions.Steps[step.Condition] = only(role, step, work.Step(step))
		case work.Assist != nil:
			actions.Assists[step.Condition] = only(role, step, work.Assist(step))
		default:
			actions.Assists[step.Condition] = only(role, step, migration.ActionFunc(nothing))
		}
		if step.HandsOver && step.Owner == role {
			actions.HandOver = HandOver
			if work.HandOver != nil {
				actions.HandOver = work.HandOver
			}
		}
	}
	for _, undo := range []struct {
		owner        steps.Role
		action, work *migration.Action
	}{
		{role, &actions.Abort, &work.Abort},
		{steps.Source, &actions.Abandon, &work.Abandon},
		{steps.Destination, &actions.Clear, &work.Clear},
		{steps.Destination, &actions.AbandonSource, &work.AbandonSource},
	} {
		if undo.owner != role {
			continue
		}
		*undo.action = *undo.work
		if *undo.work == nil {
			*undo.action = migration.ActionFunc(unexpectedAbort)
		}
	}
	return actions
}

// Both returns what both roles contribute.
func Both(work func(role steps.Role) Work) map[steps.Role]migration.Actions {
	return map[steps.Role]migration.Actions{
		steps.Source:      Actions(steps.Source, work(steps.Source)),
		steps.Destination: Actions(steps.Destination, work(steps.Destination)),
	}
}

// only runs the action for the role and the step that it belongs to, and for nothing else.
func only(role steps.Role, step steps.Step, action migration.Action) migration.Action {
	return migration.ActionFunc(func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
		if m.Role != role || m.Step.Condition != step.Condition {
			return steps.Outcome{}, fmt.Errorf("the action of the %s in step %s was called for the %s in step %s", role,
				step, m.Role, m.Step)
		}
		return action.Run(ctx, m)
	})
}

func nothing(context.Context, *migration.Migration) (steps.Outcome, error) {
	return steps.Outcome{}, nil
}

func unexpectedAbort(context.Context, *migration.Migration) (steps.Outcome, error) {
	return steps.Outcome{}, errors.New("no migration of this simulation is aborted")
}

// HandOver changes the Shoot's status as the agent of the destination does.
func HandOver(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
	if shoot.Spec.SeedName == nil || *shoot.Spec.SeedName != m.DestinationSeed {
		return fmt.Errorf("failed to hand over shoot %s/%s: its specification does not name seed %s", shoot.Namespace,
			shoot.Name, m.DestinationSeed)
	}
	Arrive(shoot, m.Clock.Now())
	shoot.Status.LastOperation.Description = conditions.HandOverDescription(m.SourceSeed)
	return nil
}

// Arrive lets the Shoot's status say that its control plane is in the seed that the specification names.
func Arrive(shoot *gardencorev1beta1.Shoot, now time.Time) {
	operation := gardencorev1beta1.LastOperationTypeRestore
	if !v1beta1helper.IsWorkerless(shoot) {
		operation = gardencorev1beta1.LastOperationTypeMigrate
	}
	seedName := *shoot.Spec.SeedName
	shoot.Status.SeedName = &seedName
	shoot.Status.RetryCycleStartTime = nil
	shoot.Status.LastErrors = nil
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type: operation, State: gardencorev1beta1.LastOperationStateSucceeded, Progress: 100,
		Description: "simulated", LastUpdateTime: metav1.NewTime(now.UTC()),
	}
}
