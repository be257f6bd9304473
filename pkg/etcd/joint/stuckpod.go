// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/stranded"
)

// etcdContainer is the name that etcd-druid gives the container of etcd.
const etcdContainer = "etcd"

// stranded reports whether a pod that was told to end is one that nobody will report as gone (package stranded). It is
// waited for as long as that is not known.
//
// That its etcd may run nevertheless does no harm. A member that was removed ends, and no kubelet starts a container of
// a pod again that it was told to end. On a node that is cut off from the API server only, the sidecar may add the
// member once more, as a learner: it has no vote, and leaves like the others.
func (j *Joint) stranded(pod *corev1.Pod) bool { return stranded.Pod(pod, j.Clock.Now()) }

// restartStuckPod deletes a pod of the destination whose etcd has run for StuckAfter without being in the member list,
// although the cluster had a quorum and no learner all the while. It returns nil if there is none.
//
// Such a pod never becomes a member. When etcd-backup-restore cannot reach the cluster while it prepares an empty
// member, it does not add it and lets etcd bootstrap a cluster with the state "new" (pkg/server/httpAPI.go, "defaulting
// cluster state to 'new'"). That cluster has another ID and never gets a quorum, because its other members belong to
// the real one: nothing is in it. In a new pod the sidecar finds the cluster, wipes the data directory and adds the
// member. The pod is no member, so the quorum does not depend on it.
func (j *Joint) restartStuckPod(
	ctx context.Context, etcdRole string, seen Observation, members int,
) (*Progress, error) {
	pods, err := j.podsAside(ctx, etcdRole, seen, members)
	if err != nil {
		return nil, err
	}
	since := j.asideSince(etcdRole, pods)
	for _, pod := range pods {
		if j.Clock.Since(since[pod.UID]) < j.StuckAfter {
			continue
		}
		j.Log.Info("Deleting a pod that has not become a member", "etcd", naming.EtcdName(etcdRole), "pod", pod.Name,
			"since", since[pod.UID], "members", seen.Members.String())
		if err := j.deletePod(ctx, pod); err != nil {
			return nil, err
		}
		again := waiting(steps.ReasonJoiningEtcdMembers,
			"pod %s has run for %s without becoming a member and was deleted; a new one joins", pod.Name, j.StuckAfter)
		return &again, nil
	}
	return nil, nil
}

// podsAside returns the pods of the destination whose etcd runs without being in the member list.
func (j *Joint) podsAside(ctx context.Context, etcdRole string, seen Observation, members int) ([]*corev1.Pod, error) {
	var (
		present = seen.Members.On(quorum.Destination)
		pods    []*corev1.Pod
	)
	for ordinal := range members {
		if slices.ContainsFunc(present, func(m quorum.Member) bool { return m.Ordinal == ordinal }) {
			continue
		}
		pod, err := j.getPod(ctx, naming.PodName(etcdRole, ordinal))
		if err != nil {
			return nil, err
		}
		if pod != nil && pod.DeletionTimestamp == nil && runsEtcd(pod) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func runsEtcd(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == etcdContainer && s.State.Running != nil
	})
}

// asideSince returns since when each of the pods has run without being a member, and forgets all others.
func (j *Joint) asideSince(etcdRole string, pods []*corev1.Pod) map[types.UID]time.Time {
	j.lock.Lock()
	defer j.lock.Unlock()
	since := map[types.UID]time.Time{}
	for _, pod := range pods {
		at, known := j.aside[etcdRole][pod.UID]
		if !known {
			at = j.Clock.Now()
		}
		since[pod.UID] = at
	}
	j.aside[etcdRole] = since
	return since
}
