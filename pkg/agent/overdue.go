// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// eventAbortedOverdue is the reason of the event that says that an agent has asked for an abort.
const eventAbortedOverdue steps.Reason = "AbortedOverdue"

// abortsOverdue reports whether the agent itself has to ask for an abort: it is configured to, and one of the steps in
// which nothing of the shoot but the members of its etcds has changed takes longer than its deadline. Both roles look,
// each by its own clock and configuration: the owner of the step may be what is lost.
func (p *pass) abortsOverdue() bool {
	all := steps.Conditions(p.shoot)
	return ptr.Deref(p.Config.AbortOverdue, false) && p.step.Entry && steps.Begun(all, p.step) &&
		!steps.AbortRequested(p.shoot) && !retryRequested(p.shoot) && conditions.Overdue(p.Clock, all, p.step)
}

// abortOverdue asks for an abort as an operator does. Whoever of the roles writes the annotation makes the event.
func (p *pass) abortOverdue(ctx context.Context) (reconcile.Result, error) {
	asked := false
	if err := p.write(ctx, func(shoot *gardencorev1beta1.Shoot) error {
		asked = !steps.AbortRequested(shoot)
		metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, steps.AnnotationAbort, "true")
		return nil
	}); err != nil {
		return reconcile.Result{}, err
	}
	if asked {
		message := fmt.Sprintf("Aborting, as configured: step %s takes longer than its deadline of %s", p.step,
			p.step.Deadline)
		p.log.Info(message)
		p.event(p.shoot, eventWarning, eventAbortedOverdue, message)
	}
	return p.again(p.Config.RetryBackoff.Base.Duration), nil
}
