// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/conflict"
	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	eventNormal  = corev1.EventTypeNormal
	eventWarning = corev1.EventTypeWarning
	// eventAction is what events say that was done.
	eventAction = "LiveMigrate"
	// maxNoteLength is a little below what the API server accepts for the note of an event.
	maxNoteLength = 1000
)

// errSuperseded means that the Shoot no longer is in the step that this pass works for.
var errSuperseded = errors.New("the migration has moved on")

// initialize writes the conditions of a new migration. Those of the previous one are replaced.
func (r *Reconciler) initialize(ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot) error {
	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{
		Conditions: conditions.Initialize(r.Clock, steps.Conditions(shoot)),
	}
	// What is left of an earlier migration says nothing about this one, and would turn an abort of this one into an
	// abandonment.
	delete(shoot.Annotations, steps.AnnotationOverdue)
	delete(shoot.Annotations, steps.AnnotationAbandon)
	delete(shoot.Annotations, steps.AnnotationAbandonSource)
	if err := r.GardenClient.Status().Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to initialize the conditions of Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	source, destination, _ := steps.Seeds(shoot)
	log.Info("Initialized live migration", "source", source, "destination", destination)
	r.event(shoot, eventNormal, steps.EventRequested,
		fmt.Sprintf("Live migration of the control plane from seed %s to seed %s", source, destination))
	return nil
}

// publish writes what an attempt came to: the step's condition and the last operation, and an event when status or
// reason changes. A step that has not begun stays Unknown as long as the reason only says why. A fault that shows in
// the message only, because the reason is what the peer acts on, gets its event all the same.
func (p *pass) publish(ctx context.Context, outcome steps.Outcome) error {
	var hidden string
	err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		old := steps.Conditions(shoot)
		said := outcome
		if !outcome.Finished() {
			said.Message += steps.SnapshotsNote(shoot)
		}
		status, reason, message := conditions.Judge(p.Clock, old, p.step, said)
		if !steps.Begun(old, p.step) && outcome.Reason.Hold() {
			status = gardencorev1beta1.ConditionUnknown
		} else if steps.PausedBefore(shoot, p.step) {
			// The request came after the Shoot was read for this pass, and before this write: the step has not begun.
			return errSuperseded
		}
		updated, err := conditions.Apply(p.Clock, old, conditions.Change{
			Step: p.step, Role: p.role, Status: status,
			Reason: reason, Message: message,
		})
		if err != nil {
			return err
		}
		hidden = ""
		if was := p.condition(shoot); outcome.Reason.Fault() && was != nil && was.Message != message &&
			steps.Standing(old, p.step, outcome.Reason) != "" {
			hidden = outcome.Message
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}

		// Before the first step has begun the last operation is the shoot's own; the prerequisites ask for it. And
		// without a gate the classic migration may be in flight: its last operation must be left alone.
		if steps.Begun(updated, steps.First()) && outcome.Reason != steps.ReasonGateNotInForce {
			shoot.Status.LastOperation = conditions.LastOperation(p.Clock, shoot.Status.LastOperation, updated, p.step)
		}
		return nil
	})
	if err == nil && hidden != "" {
		p.event(p.shoot, eventWarning, outcome.Reason, fmt.Sprintf("%s: %s", p.step, hidden))
	}
	return err
}

// reassert restores the last operation if somebody else has written it: a gardenlet that restarts sets every operation
// that it sees processing to Aborted.
func (p *pass) reassert(ctx context.Context) error {
	operation := p.shoot.Status.LastOperation
	if operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeLiveMigrate &&
		operation.State != gardencorev1beta1.LastOperationStateAborted {
		return nil
	}
	p.log.Info("Restoring the last operation")
	return p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		shoot.Status.LastOperation = conditions.LastOperation(p.Clock, shoot.Status.LastOperation,
			steps.Conditions(shoot), p.step)
		return nil
	})
}

// handOver ends the migration with one write: the last condition becomes True, and what the destination's HandOver
// sets, status.seedName above all, becomes visible with it. Were there two writes, the source could take the shoot in
// between for one whose next migration starts.
func (p *pass) handOver(ctx context.Context, m *migration.Migration, outcome steps.Outcome) error {
	if p.actions.HandOver == nil {
		return fmt.Errorf("failed to hand over Shoot %s: the %s has no hand-over", p.key, p.role)
	}
	var kept string
	err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		updated, err := conditions.Apply(p.Clock, steps.Conditions(shoot), conditions.Change{
			Step: p.step, Role: p.role, Status: gardencorev1beta1.ConditionTrue,
			Reason: outcome.Reason, Message: outcome.Message,
		})
		if err != nil {
			return err
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		shoot.Status.LastOperation = conditions.LastOperation(p.Clock, shoot.Status.LastOperation, updated, p.step)
		if err := p.actions.HandOver(m, shoot); err != nil {
			return fmt.Errorf("failed to hand over Shoot %s: %w", p.key, err)
		}
		if ptr.Deref(shoot.Status.SeedName, "") != m.DestinationSeed {
			return fmt.Errorf("failed to hand over Shoot %s: status.seedName is %q afterwards, not %q", p.key,
				ptr.Deref(shoot.Status.SeedName, ""), m.DestinationSeed)
		}
		if restored(shoot) {
			// As after a restoration by the gardenlet itself: what was restored is the present specification.
			shoot.Status.ObservedGeneration = shoot.Generation
		}
		steps.RemoveAnnotations(shoot)
		kept = keepRequests(shoot)
		return nil
	})
	if err == nil && kept != "" {
		p.event(p.shoot, eventNormal, "RequestsKept", kept)
	}
	return err
}

// write makes sure that this pass still works for the current step of the Shoot, lets mutate change it in memory and
// writes the change to the status with an optimistic lock. The shoot of the pass is replaced by what was written.
//
// It begins with the Shoot as the pass knows it: the lock reports whether that still is how it is. After a conflict,
// and if there seems to be nothing to write, it reads the Shoot.
func (p *pass) write(ctx context.Context, mutate func(*gardencorev1beta1.Shoot) error) error {
	p.writing.Lock()
	defer p.writing.Unlock()

	var before, after *gardencorev1beta1.Shoot
	attempt := func(shoot *gardencorev1beta1.Shoot) (changed bool, err error) {
		if !p.concerns(shoot) {
			return false, errSuperseded
		}
		original := shoot.DeepCopy()
		if err := mutate(shoot); err != nil {
			return false, err
		}
		before, after = original, shoot
		if apiequality.Semantic.DeepEqual(original.Status, shoot.Status) &&
			apiequality.Semantic.DeepEqual(original.Annotations, shoot.Annotations) {
			return false, nil
		}
		return true, p.GardenClient.Status().Patch(ctx, shoot,
			client.MergeFromWithOptions(original, client.MergeFromWithOptimisticLock{}))
	}
	changed, err := attempt(p.shoot.DeepCopy())
	if err == nil && !changed || apierrors.IsConflict(err) {
		err = conflict.Retry(func() error {
			shoot := &gardencorev1beta1.Shoot{}
			if err := p.GardenAPIReader.Get(ctx, p.key, shoot); err != nil {
				return err
			}
			_, err := attempt(shoot)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("failed to write the status of Shoot %s: %w", p.key, err)
	}

	p.shoot = after
	p.recordTransition(before, after)
	return nil
}

// concerns reports whether the Shoot still is where this pass took it to be.
func (p *pass) concerns(shoot *gardencorev1beta1.Shoot) bool {
	role, involved := steps.RoleOf(shoot, p.SeedName)
	if !involved || role != p.role || clearing(shoot, role) != p.clearing {
		return false
	}
	if p.clearing {
		return true
	}
	if steps.AbortDue(shoot) != p.aborting {
		return false
	}
	if p.aborting {
		all := steps.Conditions(shoot)
		if role == steps.Destination {
			return !steps.AbandonRequested(shoot)
		}
		return steps.Withdrawn(all) || steps.Abandoned(all) || steps.AbandonDue(shoot)
	}
	current, running := steps.Current(steps.Conditions(shoot))
	return running && current.Condition == p.step.Condition
}

// recordTransition makes an event when the status or the reason of the step's condition has changed.
func (p *pass) recordTransition(before, after *gardencorev1beta1.Shoot) {
	from, to := p.condition(before), p.condition(after)
	if to == nil || (from != nil && from.Status == to.Status && from.Reason == to.Reason) {
		return
	}
	eventType := eventNormal
	if to.Status == gardencorev1beta1.ConditionFalse || to.Reason == string(steps.ReasonSourceAbandoned) ||
		(to.Status != gardencorev1beta1.ConditionTrue && steps.Reason(to.Reason).Fault()) {
		eventType = eventWarning
	}
	p.event(after, eventType, steps.Reason(to.Reason), fmt.Sprintf("%s is %s: %s", p.step, to.Status, to.Message))
}

func (p *pass) condition(shoot *gardencorev1beta1.Shoot) *gardencorev1beta1.Condition {
	all := steps.Conditions(shoot)
	if i := slices.IndexFunc(all,
		func(c gardencorev1beta1.Condition) bool { return c.Type == p.step.Condition }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (r *Reconciler) event(shoot *gardencorev1beta1.Shoot, eventType string, reason steps.Reason, note string) {
	r.Recorder.Eventf(shoot, nil, eventType, string(reason), eventAction, "%s", conditions.Cut(note, maxNoteLength))
}

// reconcileUninvolved handles shoots that this agent has no role for: those that were handed over to its gardenlet, and
// those whose intent was lost on the way.
func (r *Reconciler) reconcileUninvolved(
	ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot,
) (reconcile.Result, error) {
	metrics.Forget(shoot.Namespace, shoot.Name)

	source, destination, between := steps.Seeds(shoot)
	if between && (r.SeedName == source || r.SeedName == destination) {
		all := steps.Conditions(shoot)
		if !steps.Intended(shoot) && steps.Initialized(all) && steps.Begun(all, steps.First()) {
			// Nothing may be undone from here: the classic migration may have begun.
			log.Error(nil, "The intent annotation is missing in the middle of a live migration: "+
				"the agents have stopped")
			r.event(shoot, eventWarning, "IntentLost",
				fmt.Sprintf("The annotation %s is missing although a live migration has begun: "+
					"the agents have stopped", steps.AnnotationIntent))
		}
		return reconcile.Result{}, nil
	}

	if err := r.forgetAbort(ctx, log, shoot); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.reassertHandOver(ctx, log, shoot); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.requestReconciliation(ctx, log, shoot)
}
