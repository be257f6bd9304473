// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package jointetcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/exposure"
	"github.com/livecpm/livecpm/pkg/quorum"
	"github.com/livecpm/livecpm/pkg/steps"
)

// etcdContainer is the name that etcd-druid gives the container of etcd.
const etcdContainer = "etcd"

// startAnew deletes a pod of the destination whose etcd has run for StuckAfter without being in the member list, although
// the cluster had a quorum and no learner all the while. It returns nil if there is none.
//
// Such a pod stands aside for good. When etcd-backup-restore cannot reach the cluster while it prepares an empty member, it
// does not add it and lets etcd bootstrap a cluster with the state "new" (pkg/server/httpAPI.go, "defaulting cluster state
// to 'new'"). That cluster has another ID and never gets a quorum, because its other members belong to the real one: nothing
// is in it. In a new pod the sidecar finds the cluster, wipes the data directory and adds the member. The pod is no member,
// so the quorum does not depend on it.
func (j *Joint) startAnew(ctx context.Context, etcdRole string, world World, members int) (*Progress, error) {
	present := world.Members.On(quorum.Destination)
	running := map[types.UID]bool{}
	for ordinal := range members {
		if slices.ContainsFunc(present, func(m quorum.Member) bool { return m.Ordinal == ordinal }) {
			continue
		}
		pod, err := j.getPod(ctx, exposure.PodName(etcdRole, ordinal))
		if err != nil {
			return nil, err
		}
		if pod == nil || pod.DeletionTimestamp != nil || !runsEtcd(pod) {
			continue
		}
		running[pod.UID] = true
		since := j.asideSince(etcdRole, pod.UID)
		if j.Clock.Since(since) < j.StuckAfter {
			continue
		}
		j.Log.Info("Deleting a pod that has not become a member", "etcd", exposure.EtcdName(etcdRole), "pod", pod.Name, "since", since, "members", world.Members.String())
		err = j.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("failed to delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
		}
		anew := waiting(steps.ReasonJoiningEtcdMembers, "pod %s has run for %s without becoming a member; it begins anew", pod.Name, j.StuckAfter)
		return &anew, nil
	}
	j.forgetOthers(etcdRole, running)
	return nil, nil
}

func runsEtcd(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == etcdContainer && s.State.Running != nil
	})
}

func (j *Joint) asideSince(etcdRole string, pod types.UID) time.Time {
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.aside[etcdRole] == nil {
		j.aside[etcdRole] = map[types.UID]time.Time{}
	}
	since, ok := j.aside[etcdRole][pod]
	if !ok {
		since = j.Clock.Now()
		j.aside[etcdRole][pod] = since
	}
	return since
}

// mayJoinFromNowOn gives all pods their whole time again: etcd does not add members now.
func (j *Joint) mayJoinFromNowOn(etcdRole string) {
	j.lock.Lock()
	defer j.lock.Unlock()
	delete(j.aside, etcdRole)
}

// forgetOthers forgets pods that have become members or do not run any more.
func (j *Joint) forgetOthers(etcdRole string, running map[types.UID]bool) {
	j.lock.Lock()
	defer j.lock.Unlock()
	for pod := range j.aside[etcdRole] {
		if !running[pod] {
			delete(j.aside[etcdRole], pod)
		}
	}
}
