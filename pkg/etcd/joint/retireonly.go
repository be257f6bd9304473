// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// RetireOnly takes the pods of the source's only members away, when the destination has removed the members from both
// clusters (PassOn). Then it calls leadClients, which leads the client services of the source to the destination.
//
// The order matters. A member that was removed ends, and its container starts again as long as there is a pod. Its
// sidecar asks the client service for the member list: where that leads to the destination already, it does not find
// itself there, wipes its data and joins once more, as a learner (etcd-backup-restore v0.44.1, pkg/initializer). Where
// nobody answers, it starts etcd with its data, which ends again.
func (j *Joint) RetireOnly(
	ctx context.Context, leadClients func(ctx context.Context) error, report ReportFunc,
) error {
	if err := j.PrepareRetirement(ctx); err != nil {
		return err
	}
	if err := j.each(ctx, report, j.TakeOnlyPod); err != nil {
		return err
	}
	if err := leadClients(ctx); err != nil {
		return fmt.Errorf("failed to lead the client services of etcd to the destination: %w", err)
	}
	return nil
}

// TakeOnlyPod takes one look at a cluster and takes the pod of the source's only member away, if that is no voter any
// more. It is done when the pod is gone and nothing of the source is in the list. A pod that has joined again before is
// a learner, whose entry is removed when the pod is gone; the agent of the destination may come before.
func (j *Joint) TakeOnlyPod(ctx context.Context, etcdRole string) (Progress, error) {
	seen, hold, err := j.observeForChange(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if hold != nil {
		return *hold, nil
	}
	if voters := seen.Members.Voters().On(quorum.Source); len(voters) > 0 {
		return waiting(steps.ReasonReadyForSourceMemberRemoval,
			"waiting until the agent of the destination has removed %s from the member list", voters), nil
	}
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	pod, replicas := naming.PodName(etcdRole, 0), ptr.Deref(statefulSet.Spec.Replicas, 1)
	if replicas > 0 {
		// Without the pause etcd-druid would put the pod back at once.
		if err := j.pauseDruid(ctx, etcdRole); err != nil {
			return Progress{}, err
		}
	}
	there, err := j.endPod(ctx, pod)
	if err != nil {
		return Progress{}, err
	}
	if replicas > 0 {
		return j.scale(ctx, etcdRole, replicaChange{replicas, 0},
			departure{side: quorum.Source, reason: steps.ReasonReadyForSourceMemberRemoval})
	}
	if there != nil {
		return waiting(steps.ReasonReadyForSourceMemberRemoval, "pod %s of the source is stopping", pod), nil
	}
	if left := seen.Members.On(quorum.Source); len(left) > 0 {
		return j.remove(ctx, etcdRole, left[0],
			departure{side: quorum.Source, reason: steps.ReasonReadyForSourceMemberRemoval})
	}
	return Progress{Done: true, Message: "the member of the source is gone: " + seen.Summary()}, nil
}
