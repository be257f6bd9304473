// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The last step restarts the destination's members one after the other, because they get their ordinary peer port. A
// leader that is stopped hands its leadership over, at the instant at which the StatefulSet happens to get to its pod.
// These functions make sure that the member that is stopped next is never the leader.

// PrepareRoll transfers leadership of both clusters to the member with the lowest ordinal, which a rolling restart
// reaches last. It leaves the clusters alone whose Etcd has its ordinary specification already: their restart may have
// begun.
func (j *Joint) PrepareRoll(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		etcd, err := j.getEtcd(ctx, etcdRole)
		if err != nil {
			return err
		}
		if etcd.Spec.Etcd.BootstrapWithExistingCluster == nil {
			return nil
		}
		seen, err := j.Observe(ctx, etcdRole)
		if err != nil {
			return err
		}
		if _, problem := seen.problem(); problem != "" {
			return fmt.Errorf("failed to prepare the restart of %s: %s", naming.EtcdName(etcdRole), problem)
		}
		leader, _ := seen.Members.Leader()
		last, ok := seen.Members.NextLeader(quorum.Destination)
		if !ok || last.ID == leader.ID {
			return nil
		}
		move := transfer{etcdRole: etcdRole, seen: seen, from: leader, to: last}
		if err := j.transferLeadership(ctx, move); err != nil {
			return fmt.Errorf("failed to prepare the restart of %s: %w", naming.EtcdName(etcdRole), err)
		}
		return nil
	})
}

// AccompanyRoll looks after leadership of both clusters while their members restart, and returns when all members have.
// A failed move is retried. A restart without it costs no more than leadership that moves at an instant that was not
// chosen.
func (j *Joint) AccompanyRoll(ctx context.Context) error {
	return j.each(ctx, nil, j.RollNext)
}

// RollNext takes one look at a cluster in a rolling restart. When the StatefulSet has continued to the next member,
// leadership moves from a member that has yet to restart to the one that is done: there is time to choose the instant
// until the StatefulSet gets to the last one.
//
// A member that has just come back with its new specification is not done. Its sidecar finds that the peer URL has
// changed, tells the cluster, and etcd restarts once more, still with the new pod; the pod is ready only after that.
func (j *Joint) RollNext(ctx context.Context, etcdRole string) (Progress, error) {
	revision, replicas, err := j.rolledRevision(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if revision == "" {
		return waiting(steps.ReasonRollingEtcd, "etcd-druid has not applied the specification yet"), nil
	}
	// The StatefulSet goes from the highest ordinal to the lowest and waits for each pod to be ready.
	var (
		restarted = map[int]bool{}
		reached   = replicas
	)
	for ordinal := range replicas {
		pod, err := j.getPod(ctx, naming.PodName(etcdRole, ordinal))
		if err != nil {
			return Progress{}, err
		}
		leaving := pod == nil || !pod.DeletionTimestamp.IsZero()
		if !leaving && pod.Labels[appsv1.StatefulSetRevisionLabel] != revision {
			continue
		}
		reached = min(reached, ordinal)
		if !leaving {
			restarted[ordinal] = true
		}
	}
	done := func(m quorum.Member) bool {
		return m.Side == quorum.Destination && restarted[m.Ordinal] && m.Ordinal > reached
	}
	if len(restarted) == replicas {
		return Progress{Done: true, Message: "all members have been restarted"}, nil
	}

	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if _, problem := seen.problem(); problem != "" {
		return waiting(steps.ReasonRollingEtcd, "%s", problem), nil
	}
	leader, _ := seen.Members.Leader()
	if done(leader) {
		return waiting(steps.ReasonRollingEtcd, "the leader has been restarted, others have not: %s", seen.Summary()),
			nil
	}
	candidates := seen.Members.Voters().Healthy().Filter(done)
	if len(candidates) == 0 {
		return waiting(steps.ReasonRollingEtcd, "no member has been restarted yet: %s", seen.Summary()), nil
	}
	move := transfer{etcdRole: etcdRole, seen: seen, from: leader, to: candidates[0]}
	if err := j.transferLeadership(ctx, move); err != nil {
		return Progress{}, err
	}
	return waiting(steps.ReasonRollingEtcd, "leadership moves to a restarted member"), nil
}

// rolledRevision returns the revision of the pods that the ordinary specification of the Etcd has led to, and how many
// of them there are. The revision is empty as long as the specification has not got through to the StatefulSet: what
// its pods have until then is due to an earlier change.
func (j *Joint) rolledRevision(ctx context.Context, etcdRole string) (string, int, error) {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return "", 0, err
	}
	if etcd.Spec.Etcd.BootstrapWithExistingCluster != nil ||
		druidcorev1alpha1.HasReconcileOperationAnnotation(etcd.ObjectMeta) ||
		ptr.Deref(etcd.Status.ObservedGeneration, 0) != etcd.Generation {
		return "", 0, nil
	}
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		return "", 0, err
	}
	if statefulSet.Status.ObservedGeneration != statefulSet.Generation {
		return "", 0, nil
	}
	return statefulSet.Status.UpdateRevision, int(ptr.Deref(statefulSet.Spec.Replicas, 1)), nil
}
