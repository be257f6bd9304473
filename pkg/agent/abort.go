// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// asBefore is how an abort leaves the seeds, unless one was abandoned.
const asBefore = "Both seeds are as before. "

// abortedMessage says what an operator can do after an abort.
func abortedMessage(shoot *gardencorev1beta1.Shoot) string {
	return "Set spec.seedName back through shoots/binding and remove the annotations of the migration in the same " +
		"request to stay (kubectl livecpm abort --stay), remove the annotation " + steps.IntentOf(shoot) +
		" alone to migrate classically, or remove the annotation " + steps.AnnotationAbort + " to migrate live again"
}

// abort does the role's part in an abort: the destination withdraws first, then the source cleans up after itself.
// Unlike a step it does not ask for the gate: whatever else happens, members in another seed do not help.
func (p *pass) abort(ctx context.Context) (reconcile.Result, error) {
	all := steps.Conditions(p.shoot)

	switch {
	case p.role == steps.Destination && steps.Withdrawn(all):
		p.log.V(1).Info("Nothing of the aborted migration is left here")
		return p.again(), nil
	case p.role == steps.Destination && steps.AbandonRequested(p.shoot):
		p.log.Info("Standing back: an operator has said that this seed is lost, and the source ends the " +
			"migration alone")
		return p.again(), nil
	case p.role == steps.Source && steps.AbandonDue(p.shoot):
		return p.abandon(ctx)
	case p.role == steps.Source && !steps.Withdrawn(all) && !steps.Abandoned(all):
		// The members of the destination leave through this seed's relay.
		syncAfter, err := p.always(ctx)
		return p.again(syncAfter), err
	case p.role == steps.Source && !steps.Begun(all, p.step):
		return p.endAbort(ctx, steps.ReasonAborted, "The migration had not begun. "+asBefore+abortedMessage(p.shoot))
	case p.actions.Abort == nil:
		return reconcile.Result{},
			fmt.Errorf("failed to abort the migration of Shoot %s: the %s has no way back", p.key, p.role)
	}

	m := p.migration(p.shoot, func(ctx context.Context, _ steps.Reason, message string) error {
		return p.publishAbort(ctx, progressOfAbort{reason: steps.ReasonAborting, message: message})
	})
	if err := m.Report(ctx, steps.ReasonAborting, "An abort was requested"); err != nil {
		return reconcile.Result{}, err
	}
	attemptCtx, cancel := context.WithTimeout(ctx, p.Config.AttemptTimeout.Duration)
	defer cancel()
	stop := p.accompany(attemptCtx, cancel)
	outcome, err := p.actions.Abort.Run(attemptCtx, m)
	stop()
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return reconcile.Result{}, err
		}
		metrics.Failure(p.step, p.role, steps.ReasonActionFailed)
		return reconcile.Result{}, errors.Join(err, p.publishAbort(ctx,
			progressOfAbort{reason: steps.ReasonAborting, message: err.Error(), failed: true}))
	}
	if !outcome.Finished() {
		return p.again(outcome.RequeueAfter),
			p.publishAbort(ctx, progressOfAbort{reason: steps.ReasonAborting, message: outcome.Message,
				failed: outcome.Reason.Fault()})
	}
	if p.role == steps.Destination {
		return p.endAbort(ctx, steps.ReasonWithdrawn, outcome.Message)
	}
	message := outcome.Message + ". "
	if !steps.Abandoned(all) {
		message += asBefore
	}
	return p.endAbort(ctx, steps.ReasonAborted, message+abortedMessage(p.shoot))
}

func (p *pass) endAbort(ctx context.Context, reason steps.Reason, message string) (reconcile.Result, error) {
	if err := p.publishAbort(ctx, progressOfAbort{reason: reason, message: message}); err != nil {
		return reconcile.Result{}, err
	}
	p.log.Info("Aborted", "reason", reason, "message", message)
	if reason == steps.ReasonAborted {
		metrics.Forget(p.key.Namespace, p.key.Name)
	}
	return reconcile.Result{}, nil
}

// progressOfAbort is what one attempt at the role's part in an abort came to.
type progressOfAbort struct {
	reason  steps.Reason
	message string
	// failed reports whether the attempt has failed. It is repeated.
	failed bool
	// abandoning reports whether the source does the destination's part.
	abandoning bool
}

func (p *pass) publishAbort(ctx context.Context, progress progressOfAbort) error {
	return p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		updated, err := conditions.Abort(p.Clock, steps.Conditions(shoot), conditions.AbortChange{
			Role: p.role, Reason: progress.reason, Message: progress.message, Abandoning: progress.abandoning,
		})
		if err != nil {
			return err
		}
		begun := steps.Begun(steps.Conditions(shoot), steps.First())
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		// The last operation of a migration that never began is still the shoot's own.
		if begun {
			shoot.Status.LastOperation = conditions.AbortOperation(p.Clock, shoot.Status.LastOperation, updated,
				conditions.AbortChange{Role: p.role, Message: progress.message, Failed: progress.failed})
		}
		return nil
	})
}

// forgetAbort removes the annotations of a completed abort from a Shoot that stays in its seed, or that has been
// migrated classically since: left behind, they would make its next migration a live one, or abort it.
func (r *Reconciler) forgetAbort(ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot) error {
	seedName := ptr.Deref(shoot.Spec.SeedName, "")
	if seedName != r.SeedName || seedName != ptr.Deref(shoot.Status.SeedName, "") ||
		!steps.Aborted(steps.Conditions(shoot)) ||
		!steps.AbortRequested(shoot) || shoot.DeletionTimestamp != nil {
		return nil
	}
	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	steps.RemoveAnnotations(shoot)
	if err := r.GardenClient.Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to remove the annotations of the aborted migration from Shoot %s: %w",
			client.ObjectKeyFromObject(shoot), err)
	}
	log.Info("Removed the annotations of the aborted migration")
	return nil
}

// retry gives the current step its whole deadline again and removes the operator's request.
func (p *pass) retry(ctx context.Context) error {
	return p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		if !retryRequested(shoot) {
			return nil
		}
		updated, err := conditions.Restart(p.Clock, steps.Conditions(shoot), p.step, p.role)
		if err != nil {
			return err
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		shoot.Status.LastOperation = conditions.LastOperation(p.Clock, shoot.Status.LastOperation, updated, p.step)
		delete(shoot.Annotations, v1beta1constants.GardenerOperation)
		return nil
	})
}

// retryRequested reports whether an operator asks for a retry, with the annotation that does the same for a
// reconciliation. gardener-apiserver removes it by itself only from Shoots whose last operation is Failed, which a
// live one never is.
func retryRequested(shoot *gardencorev1beta1.Shoot) bool {
	return shoot.Annotations[v1beta1constants.GardenerOperation] == v1beta1constants.ShootOperationRetry
}

// interruption returns why a running action has to end early, in view of how the Shoot was when it began, or an empty
// string.
func (p *pass) interruption(before, now *gardencorev1beta1.Shoot) string {
	switch {
	case !p.aborting && steps.AbortDue(now):
		return "an abort is requested"
	case p.aborting && p.role == steps.Destination && steps.AbandonRequested(now):
		return "an operator says that this seed is lost"
	case p.aborting || p.step.Owner != p.role:
		return ""
	case retryRequested(now):
		return "a retry is requested"
	case p.step.PointOfNoReturn && steps.AbandonSourceRequested(now) != steps.AbandonSourceRequested(before):
		return "an operator says that the source is lost, or takes that back"
	case p.step.Has(steps.WhenForced) && steps.ForceShrinkRequested(now) && !steps.ForceShrinkRequested(before):
		return "an operator asks to move etcd first (force-shrink)"
	}
	return ""
}
