// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/inventory"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

const (
	// withdrawTimeout bounds how long the destination may take to delete what is left there.
	withdrawTimeout = 15 * time.Minute
	// rejoinTime is how long members of the destination that still run get to come back over a connection that is
	// healed. A sidecar that has lost its cluster tries every few seconds.
	rejoinTime = 45 * time.Second
	agents     = 2
)

// restored is what need not be the same object after a way back from step 4: what the source has released and taken
// back. See test/abort for the rest. The budgets and DNS records are compared by what they say.
var restored = inventory.Exempt{
	Replaced: []string{"backupentries ", "secrets garden/entry-", "extensions "},
	Changed: []string{"backupentries ", "clusters ", "envoyfilters istio-ingress/", "extensions ",
		"dnsrecords ", "poddisruptionbudgets "},
}

// takeBack lets the source take the shoot back, with the destination or without it, and compares the source with what
// it was.
func (r *run) takeBack(ctx context.Context, ids map[string]uint64) error {
	before, said, err := r.takeSource(ctx)
	if err != nil {
		return err
	}
	if err := r.reach(ctx); err != nil {
		return err
	}
	if r.scenario.Back == BackByAbandonment {
		err = r.abandon(ctx, ids)
	} else {
		err = r.abort(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.verifyMembers(ctx, steps.Source, ids); err != nil {
		return err
	}
	if err := r.untilWithdrawn(ctx); err != nil {
		return err
	}
	after, says, err := r.takeSource(ctx)
	if err != nil {
		return err
	}
	differs := inventory.Diff(before, after, restored)
	if !slices.Equal(said, says) {
		differs = append(differs, fmt.Sprintf("disruption budgets and DNSRecords: %v, were %v", says, said))
	}
	for _, line := range differs {
		r.say("not as before in %s: %s", r.source, line)
	}
	// The shoot comes to rest also when something differs, so that the next scenario can begin.
	if err := r.stay(ctx); err != nil {
		return err
	}
	if len(differs) > 0 {
		return fmt.Errorf("%s is not as it was before: %v", r.source, differs)
	}
	return r.store.DeleteNamespace(ctx)
}

// takeSource returns the shoot's objects in the source, and what its disruption budgets and DNSRecords say.
func (r *run) takeSource(ctx context.Context) (objects []inventory.Object, said []string, err error) {
	if objects, err = driver.Inventory(ctx, r.seeds[steps.Source], r.namespace); err != nil {
		return nil, nil, err
	}
	said, err = driver.Restored(ctx, r.seeds[steps.Source], r.namespace)
	return objects, said, err
}

// abort takes the migration back by the page of the abort.
func (r *run) abort(ctx context.Context) error {
	if err := r.operator.abort(ctx); err != nil {
		return err
	}
	return r.untilAborted(ctx)
}

// abandon loses the destination: its agent goes, and nobody reaches its members any more, which run on. The source then
// abandons it by the page. When the destination is reached again, its members must not come back.
func (r *run) abandon(ctx context.Context, ids map[string]uint64) error {
	cut, known := fault.Get("cut-10m")
	if !known {
		return errors.New("there is no fault that cuts the seeds off from each other any more: adapt test/recovery")
	}
	if err := r.scaleAgent(ctx, steps.Destination, 0); err != nil {
		return err
	}
	if err := cut.Inject(ctx, r.targets); err != nil {
		return errors.Join(err, cut.Heal(context.WithoutCancel(ctx), r.targets))
	}
	err := r.operator.abandon(ctx)
	if err == nil {
		err = r.untilAborted(ctx)
	}
	if err == nil {
		err = r.verifyMembers(ctx, steps.Source, ids)
	}
	if err := errors.Join(err, cut.Heal(context.WithoutCancel(ctx), r.targets)); err != nil {
		return err
	}
	if err := r.expectAbandoned(ctx); err != nil {
		return err
	}
	if err := r.expectNoReturn(ctx, ids); err != nil {
		return err
	}
	return r.scaleAgent(ctx, steps.Destination, agents)
}

// expectAbandoned makes sure that the destination has not withdrawn by itself: the scenario would have shown nothing.
func (r *run) expectAbandoned(ctx context.Context) error {
	shoot, err := r.Get(ctx)
	if err != nil {
		return err
	}
	condition := v1beta1helper.GetCondition(steps.Conditions(shoot),
		gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined)
	if condition == nil || condition.Reason != string(steps.ReasonAbandoned) {
		return fmt.Errorf("the destination was not abandoned: %s", driver.Describe(shoot,
			gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined))
	}
	return nil
}

// expectNoReturn gives the members of the destination time to come back, and makes sure that they have not.
func (r *run) expectNoReturn(ctx context.Context, ids map[string]uint64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rejoinTime):
	}
	return r.verifyMembers(ctx, steps.Source, ids)
}

func (r *run) untilAborted(ctx context.Context) error {
	return r.Until(ctx, "the abort to be completed", func(shoot *gardencorev1beta1.Shoot) bool {
		return steps.Aborted(steps.Conditions(shoot))
	})
}

// untilWithdrawn waits until nothing of the shoot is left in the destination.
func (r *run) untilWithdrawn(ctx context.Context) error {
	var last string
	if err := wait.PollUntilContextTimeout(ctx, 5*time.Second, withdrawTimeout, true,
		func(ctx context.Context) (bool, error) {
			left, err := driver.Leftovers(ctx, r.seeds[steps.Destination], r.namespace)
			if err != nil {
				last = err.Error()
				return false, nil //nolint:nilerr // It is tried again, and told if the time is over.
			}
			last = fmt.Sprintf("left in %s: %v", r.destination, left)
			return len(left) == 0, nil
		}); err != nil {
		return fmt.Errorf("failed to wait until nothing is left in the destination: %w; last: %s", err, last)
	}
	return nil
}

// stay leaves the shoot in the source by the page of the abort, and makes sure that it has what was written.
func (r *run) stay(ctx context.Context) error {
	if err := r.operator.stay(ctx); err != nil {
		return err
	}
	if err := r.UntilReconciled(ctx, r.source); err != nil {
		return err
	}
	// Whoever has set them takes them away, if the agent does not: the next migration would pause as well.
	for _, annotation := range []string{steps.AnnotationAbandon, steps.AnnotationPauseBefore} {
		if err := r.Annotate(ctx, annotation, ""); err != nil {
			return err
		}
	}
	if _, err := r.write(ctx, "after"); err != nil {
		return err
	}
	for _, key := range []string{"before", "after"} {
		if _, err := r.store.Get(ctx, key); err != nil {
			return fmt.Errorf("what was written %s the way back is not there: %w", key, err)
		}
	}
	return nil
}
