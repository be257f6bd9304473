// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// eventAbandoned is the reason of the event that names what an abandonment has left behind.
	eventAbandoned steps.Reason = "DestinationAbandoned"
	// eventCleared is the reason of the event that says that nothing of it is left.
	eventCleared steps.Reason = "DestinationCleared"
	// eventNotCleared is the reason of the event that says what keeps it from being removed.
	eventNotCleared steps.Reason = "DestinationNotCleared"
	// eventLeftBehind is the reason of the event that says why a migration does not begin.
	eventLeftBehind steps.Reason = "LeftBehind"
)

// abandon does what the destination would have done to the etcds, because an operator has said that it is lost. The
// migration's infrastructure is not kept up to date meanwhile: this closes the way to the destination.
func (p *pass) abandon(ctx context.Context) (reconcile.Result, error) {
	progress := func(message string, failed bool) progressOfAbort {
		return progressOfAbort{reason: steps.ReasonAborting, message: message, failed: failed, abandoning: true}
	}
	m := p.migration(p.shoot, func(ctx context.Context, _ steps.Reason, message string) error {
		return p.publishAbort(ctx, progress(message, false))
	})
	if err := m.Report(ctx, steps.ReasonAborting,
		fmt.Sprintf("Seed %s is abandoned, as an operator has confirmed", m.DestinationSeed)); err != nil {
		return reconcile.Result{}, err
	}
	attemptCtx, cancel := context.WithTimeout(ctx, p.Config.AttemptTimeout.Duration)
	defer cancel()
	outcome, err := p.actions.Abandon.Run(attemptCtx, m)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return reconcile.Result{}, err
		}
		metrics.Failure(p.step, p.role, steps.ReasonActionFailed)
		return reconcile.Result{}, errors.Join(err, p.publishAbort(ctx, progress(err.Error(), true)))
	}
	if !outcome.Finished() {
		return p.again(outcome.RequeueAfter),
			p.publishAbort(ctx, progress(outcome.Message, outcome.Reason.Fault()))
	}
	if err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		updated, err := conditions.Abandon(p.Clock, steps.Conditions(shoot), outcome.Message)
		if err != nil {
			return err
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		steps.LeaveBehind(shoot)
		return nil
	}); err != nil {
		return reconcile.Result{}, err
	}
	p.log.Info("Abandoned the destination", "message", outcome.Message)
	p.event(p.shoot, eventWarning, eventAbandoned, outcome.Message)
	return p.again(p.Config.RetryBackoff.Base.Duration), nil
}

// clear removes what an abandonment has left behind in this seed. The migration is over, or about to be: nothing of the
// Shoot's status but the destination's own condition is written.
func (p *pass) clear(ctx context.Context) (reconcile.Result, error) {
	attemptCtx, cancel := context.WithTimeout(ctx, p.Config.AttemptTimeout.Duration)
	defer cancel()
	p.log.Info("Removing what is left here of a migration that was ended without this seed")
	outcome, err := p.actions.Clear.Run(attemptCtx, p.migration(p.shoot, nil))
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return reconcile.Result{}, err
		}
		metrics.Failure(p.step, p.role, steps.ReasonActionFailed)
		p.event(p.shoot, eventWarning, eventNotCleared,
			fmt.Sprintf("Failed to remove what is left of the Shoot in seed %s: %s", p.SeedName, err))
		return reconcile.Result{}, err
	}
	if !outcome.Finished() {
		return p.again(outcome.RequeueAfter), nil
	}
	if err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		if shoot.Status.LiveMigration != nil {
			shoot.Status.LiveMigration.Conditions = conditions.Cleared(p.Clock, steps.Conditions(shoot),
				outcome.Message)
		}
		delete(shoot.Annotations, steps.AnnotationLeftBehind)
		return nil
	}); err != nil {
		return reconcile.Result{}, err
	}
	p.log.Info("Cleared", "message", outcome.Message)
	p.event(p.shoot, eventNormal, eventCleared, outcome.Message)
	return reconcile.Result{}, nil
}

// holdForClearing keeps a migration from beginning while its destination still has something of an earlier one: members
// of an etcd that know nothing of their removal, above all.
func (r *Reconciler) holdForClearing(log logr.Logger, shoot *gardencorev1beta1.Shoot, seed string) reconcile.Result {
	message := fmt.Sprintf("The migration does not begin: seed %s was abandoned in an earlier one and has something "+
		"of the Shoot. Its agent removes it; if it was removed by hand, or the seed is a new one, remove the "+
		"annotation %s", seed, steps.AnnotationLeftBehind)
	log.Info(message)
	r.event(shoot, eventWarning, eventLeftBehind, message)
	return reconcile.Result{RequeueAfter: r.Config.SyncPeriod.Duration}
}
