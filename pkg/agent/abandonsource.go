// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// abandonsSource reports whether the destination has to finish the source's step, because an operator has said that the
// source is lost.
func (p *pass) abandonsSource() bool {
	return p.role == steps.Destination && steps.AbandonSourceDue(p.shoot)
}

// abandonSource finishes the cleanup of the source in the place of the source. The migration's infrastructure is not
// kept up to date meanwhile: this closes the way to the source. How far it is, and what keeps it, is said in the
// condition of the destination's next step: that of the current one is the source's until it counts as lost.
func (p *pass) abandonSource(ctx context.Context) (reconcile.Result, error) {
	m := p.migration(p.shoot, func(ctx context.Context, _ steps.Reason, message string) error {
		return p.publishAbandonment(ctx, message)
	})
	attemptCtx, cancel := context.WithTimeout(ctx, p.Config.AttemptTimeout.Duration)
	defer cancel()
	outcome, err := p.actions.AbandonSource.Run(attemptCtx, m)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return reconcile.Result{}, err
		}
		metrics.Failure(p.step, p.role, steps.ReasonActionFailed)
		return reconcile.Result{}, errors.Join(err, p.publishAbandonment(ctx, fmt.Sprintf("%s: %s",
			steps.ReasonActionFailed, err)))
	}
	if !outcome.Finished() {
		p.log.Info("The source is not abandoned yet", "reason", outcome.Reason, "message", outcome.Message)
		return p.again(outcome.RequeueAfter), p.publishAbandonment(ctx, outcome.Message)
	}
	if err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		updated, err := conditions.AbandonSource(p.Clock, steps.Conditions(shoot), outcome.Message)
		if err != nil {
			return err
		}
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		shoot.Status.LastOperation = conditions.LastOperation(p.Clock, shoot.Status.LastOperation, updated,
			steps.Last())
		steps.LeaveBehindInSource(shoot)
		return nil
	}); err != nil {
		return reconcile.Result{}, err
	}
	p.log.Info("Abandoned the source", "message", outcome.Message)
	return p.again(p.Config.RetryBackoff.Base.Duration), nil
}

// publishAbandonment says how an abandonment of the source gets on. What is new is an event as well.
func (p *pass) publishAbandonment(ctx context.Context, message string) error {
	changed := false
	if err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		updated, err := conditions.AbandoningSource(p.Clock, steps.Conditions(shoot), message)
		if err != nil {
			return err
		}
		former := v1beta1helper.GetCondition(steps.Conditions(shoot), steps.Last().Condition)
		changed = former == nil || former.Reason != string(steps.ReasonAbandoningSource) || former.Message != message
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: updated}
		return nil
	}); err != nil {
		return err
	}
	if changed {
		p.event(p.shoot, eventWarning, steps.ReasonAbandoningSource, message)
	}
	return nil
}

// tellAbandonment says that the gate keeps the destination from an abandonment of the source. The condition of the step
// is the source's, and people look at that of the next one while it speaks of an abandonment.
func (p *pass) tellAbandonment(ctx context.Context, gateErr error) error {
	if p.abandonsSource() {
		return p.publishAbandonment(ctx, fmt.Sprintf("%s: %s", steps.ReasonGateNotInForce, gateErr))
	}
	return p.forgetAbandonment(ctx)
}

// forgetAbandonment lets the condition of the last step not speak any more of an abandonment that was taken back.
func (p *pass) forgetAbandonment(ctx context.Context) error {
	all := steps.Conditions(p.shoot)
	if p.role != steps.Destination ||
		apiequality.Semantic.DeepEqual(conditions.NotAbandoningSource(p.Clock, all), all) {
		return nil
	}
	return p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{
			Conditions: conditions.NotAbandoningSource(p.Clock, steps.Conditions(shoot)),
		}
		return nil
	})
}
