// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// A step that has begun is looked after as well (GEP-0039 asks for the same gardenlet version throughout a migration).
// It stands still between two attempts, which is where an agent that restarts would continue. Where members of the
// source leave, only the action knows whether that is safe, and asks by itself (migration.Migration.Obstacle).

// standstill returns why the step, which has begun, must not continue with another attempt; an empty reason if it may.
func (p *pass) standstill(ctx context.Context) (steps.Reason, string) {
	if p.step.MovesMembers() {
		return "", ""
	}
	return p.Preflight.During(ctx, p.shoot, p.step)
}

// skewed returns why the running action of the own step has to end before it is done, or an empty string. It ends as if
// the agent were restarted, which it is made for. That something could not be read ends nothing: it may be readable in
// a moment, and the next attempt asks again.
func (p *pass) skewed(ctx context.Context) string {
	if p.aborting || p.step.Owner != p.role || p.step.MovesMembers() {
		return ""
	}
	reason, message := p.Preflight.During(ctx, p.shoot, p.step)
	if reason == "" || reason == steps.ReasonPrerequisitesUnknown {
		return ""
	}
	return message
}

// obstacleMeanwhile tells the running action what standstill would tell; see migration.Migration. It reads the Shoot as
// it is in the garden now: an operator may have confirmed something since the pass began.
func (p *pass) obstacleMeanwhile(ctx context.Context) (steps.Reason, string) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := p.GardenAPIReader.Get(ctx, p.key, shoot); err != nil {
		return steps.ReasonPrerequisitesUnknown, fmt.Sprintf("Shoot %s could not be read: %v", p.key, err)
	}
	return p.Preflight.During(ctx, shoot, p.step)
}

// standBack leaves a migration that has not begun to a gardenlet that may carry it out itself. It writes no condition:
// they are the gardenlet's then. The event tells people, and is repeated as long as that is so.
func (r *Reconciler) standBack(log logr.Logger, shoot *gardencorev1beta1.Shoot, sign string) reconcile.Result {
	log.Info("Standing back: a gardenlet may carry out the live migration itself", "sign", sign)
	metrics.Failure(steps.First(), steps.Source, steps.ReasonGardenletMigratesLive)
	r.event(shoot, eventWarning, steps.ReasonGardenletMigratesLive,
		fmt.Sprintf("The agent of seed %s stands back, because a gardenlet may carry out the live migration itself: "+
			"%s. See %s", r.SeedName, sign, pages.OfReason(steps.ReasonGardenletMigratesLive)))
	return reconcile.Result{RequeueAfter: r.Config.SyncPeriod.Duration}
}
