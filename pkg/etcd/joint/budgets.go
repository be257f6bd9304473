// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The disruption budgets of the etcds while their clusters are joint.
//
// etcd-druid makes a PodDisruptionBudget for each Etcd, in which at least replicas/2+1 pods must be available (v0.38.1,
// internal/component/poddistruptionbudget). It counts the pods of its own seed only. With two members in the
// destination none may be evicted, for the hours of a pause; with three in the source one may always be, also when all
// are needed. So the agent writes minAvailable by the members of both seeds.
//
// It writes etcd-druid's budget and makes none of its own: the API server refuses to evict a pod that two budgets
// select. It writes minAvailable and not maxUnavailable: a budget has only one of the two, and etcd-druid, which sets
// minAvailable and leaves the other alone, could not write a budget with maxUnavailable any more. etcd-druid sets its
// own number whenever it applies the specification of the Etcd. It does that before it scales, and the agent looks
// again on every pass.

// budgetTimeout bounds the look at one cluster: without an answer the budget lets nothing go.
const budgetTimeout = 5 * time.Second

// KeepBudgets writes into the disruption budgets of this seed how many pods of each etcd may be evicted at a time. What
// that rests on is read now, and logged with each change. If it cannot be read, nothing may be evicted. An etcd that
// does not exist is left out. When the members of the other seed are gone, the budgets are what etcd-druid writes.
func (j *Joint) KeepBudgets(ctx context.Context) error {
	return sideBySide(ctx, j.keepBudget)
}

func (j *Joint) keepBudget(ctx context.Context, etcdRole string) error {
	b, err := j.budgetOf(ctx, etcdRole)
	if b == nil {
		return err
	}
	if (rollout{etcd: b.etcd}).underWay() {
		return j.shut(ctx, b)
	}
	disruptable, why := j.disruptable(ctx, etcdRole)
	return j.allow(ctx, b, b.pods-disruptable, why)
}

// shutBudget lets nobody evict a member while the members restart one by one: of three, one is down all the time, and
// an eviction between two restarts would take away a second one with the next restart. etcd-druid writes its own number
// when it applies the specification, so this is repeated with each look.
func (j *Joint) shutBudget(ctx context.Context, etcdRole string) error {
	b, err := j.budgetOf(ctx, etcdRole)
	if b == nil {
		return err
	}
	return j.shut(ctx, b)
}

func (j *Joint) shut(ctx context.Context, b *budget) error {
	return j.allow(ctx, b, b.pods, "they restart one by one")
}

// ReleaseBudgets writes into the disruption budgets of this seed what etcd-druid has written. It is for an abort, when
// the members of the other seed are gone: nobody asks etcd-druid to apply the Etcds then.
func (j *Joint) ReleaseBudgets(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		b, err := j.budgetOf(ctx, etcdRole)
		if b == nil {
			return err
		}
		return j.allow(ctx, b, ordinary(b.pods), "the migration is aborted")
	})
}

// ordinary is how many available pods etcd-druid lets a budget demand (v0.38.1, computePDBMinAvailable): a quorum, and
// none of one pod, which could never be evicted otherwise.
func ordinary(pods int) int {
	if pods == naming.SingleMember {
		return 0
	}
	return quorum.Size(pods)
}

// budget is the disruption budget of an etcd in this seed.
type budget struct {
	etcd   *druidcorev1alpha1.Etcd
	object *policyv1.PodDisruptionBudget
	// pods is how many pods the etcd has in this seed.
	pods int
}

// budgetOf reads the budget of an etcd. It is nil if there is none, or no pod for it.
func (j *Joint) budgetOf(ctx context.Context, etcdRole string) (*budget, error) {
	b := &budget{etcd: &druidcorev1alpha1.Etcd{}, object: &policyv1.PodDisruptionBudget{}}
	statefulSet := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: j.Namespace, Name: naming.EtcdName(etcdRole)}
	// All three have the same name: druidcorev1alpha1.GetPodDisruptionBudgetName and GetStatefulSetName.
	for _, object := range []client.Object{b.etcd, b.object, statefulSet} {
		if err := j.Client.Get(ctx, key, object); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return nil, fmt.Errorf("failed to get %T %s: %w", object, key, err)
		}
	}
	b.pods = int(ptr.Deref(statefulSet.Spec.Replicas, 1))
	if b.etcd.DeletionTimestamp != nil || b.pods == 0 {
		return nil, nil
	}
	return b, nil
}

// allow lets the budget demand so many available pods.
func (j *Joint) allow(ctx context.Context, b *budget, available int, why string) error {
	wanted, spec := intstr.FromInt32(int32(available)), &b.object.Spec // #nosec G115 -- At most three.
	if spec.MaxUnavailable == nil && ptr.Equal(spec.MinAvailable, &wanted) {
		return nil
	}
	j.Log.Info("Changing the disruption budget of an etcd", "etcd", b.etcd.Name, "pods", b.pods, "minAvailable",
		available, "former", spec.MinAvailable.String(), "members", why)
	patch := client.MergeFromWithOptions(b.object.DeepCopy(), client.MergeFromWithOptimisticLock{})
	spec.MinAvailable, spec.MaxUnavailable = &wanted, nil
	if err := j.patchProtected(ctx, b.etcd, b.object, patch); err != nil {
		return fmt.Errorf("failed to change PodDisruptionBudget %s: %w", client.ObjectKeyFromObject(b.object), err)
	}
	return nil
}

// disruptable returns how many pods of the etcd may be evicted in this seed at a time, and what that rests on.
func (j *Joint) disruptable(ctx context.Context, etcdRole string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, budgetTimeout)
	defer cancel()
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return 0, "unknown: " + err.Error()
	}
	side := quorum.Source
	if j.Role == steps.Destination {
		side = quorum.Destination
	}
	counted := 0
	for _, member := range seen.Members.On(side) {
		if member.Healthy && !member.Learner {
			continue
		}
		pod, err := j.getPod(ctx, naming.PodName(etcdRole, member.Ordinal))
		if err != nil {
			return 0, "unknown: " + err.Error()
		}
		// The budget wants pods that are there, and counts those as available that are ready.
		if pod == nil || pod.DeletionTimestamp != nil || !health.IsPodReady(pod) {
			counted++
		}
	}
	if j.Members == naming.SingleMember && len(seen.Members) == 1 {
		// Nobody else depends on it, and it may go as on any other day.
		return 1, seen.Members.String()
	}
	return seen.Members.Disruptable(side, counted), seen.Members.String()
}
