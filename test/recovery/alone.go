// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// gardenletDeployment is the gardenlet's Deployment beside the agent.
const gardenletDeployment = "gardenlet"

// finishAlone loses the source: its agent and its gardenlet go, and nobody reaches what runs on there. The destination
// then finishes by the page. When the source is reached again, nothing there may act on the shoot, and it is cleared by
// the page.
func (r *run) finishAlone(ctx context.Context, ids map[string]uint64) (err error) {
	cut, known := fault.Get("cut-10m")
	if !known {
		return errors.New("there is no fault that cuts the seeds off from each other any more: adapt test/recovery")
	}
	if err := r.reach(ctx); err != nil {
		return err
	}
	gardenlets, err := r.scale(ctx, steps.Source, gardenletDeployment, 0)
	if err != nil {
		return err
	}
	defer func() {
		_, back := r.scale(context.WithoutCancel(ctx), steps.Source, gardenletDeployment, gardenlets)
		err = errors.Join(err, back, r.scaleAgent(context.WithoutCancel(ctx), steps.Source, agents))
	}()
	if err := r.scaleAgent(ctx, steps.Source, 0); err != nil {
		return err
	}
	if err := cut.Inject(ctx, r.targets); err != nil {
		return errors.Join(err, cut.Heal(context.WithoutCancel(ctx), r.targets))
	}
	if err := errors.Join(r.abandonSource(ctx), cut.Heal(context.WithoutCancel(ctx), r.targets)); err != nil {
		return err
	}
	// What runs on in the source can reach the destination again.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rejoinTime):
	}
	if err := r.verifyMembers(ctx, steps.Destination, ids); err != nil {
		return err
	}
	if err := r.UntilReconciled(ctx, r.destination); err != nil {
		return err
	}
	if err := r.operator.clearSource(ctx); err != nil {
		return err
	}
	return r.untilSourceEmpty(ctx)
}

// abandonSource makes sure that it is the destination that ends the step of the source, and not before it was asked to.
func (r *run) abandonSource(ctx context.Context) error {
	if err := r.Annotate(ctx, steps.AnnotationPauseBefore, ""); err != nil {
		return err
	}
	if err := r.operator.abandonSource(ctx); err != nil {
		return err
	}
	return r.Until(ctx, "the destination to do without the source", func(shoot *gardencorev1beta1.Shoot) bool {
		return steps.SourceAbandoned(steps.Conditions(shoot))
	})
}

// untilSourceEmpty waits until nothing of the shoot is left in the source.
func (r *run) untilSourceEmpty(ctx context.Context) error {
	var last string
	if err := wait.PollUntilContextTimeout(ctx, 5*time.Second, withdrawTimeout, true,
		func(ctx context.Context) (bool, error) {
			left, err := driver.Leftovers(ctx, r.seeds[steps.Source], r.namespace)
			if err != nil {
				last = err.Error()
				return false, nil //nolint:nilerr // It is tried again, and told if the time is over.
			}
			last = fmt.Sprintf("left in %s: %v", r.source, left)
			return len(left) == 0, nil
		}); err != nil {
		return fmt.Errorf("failed to wait until nothing is left in the source: %w; last: %s", err, last)
	}
	return nil
}
