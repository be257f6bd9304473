// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

const (
	// refusalTimeout bounds the question whether anybody listens in a pod of the own seed.
	refusalTimeout = time.Second
	// roundedOff is what the API server may have taken off the time at which a pod is due to end: it keeps seconds.
	roundedOff = time.Second
	// containerEtcd is the container with etcd in the pod of a member (etcd-druid, internal/common).
	containerEtcd = "etcd"
)

// hasEnded reports whether the etcd of a pod that was told to end has ended, although the pod is still there. Then its
// member can be removed: no kubelet starts a container of such a pod again.
//
// The object of a pod outlives its containers by seconds, and on a busy node by a quarter of a minute: its network and
// its volumes are taken away first. All the while the other members try to reach the one that has ended, ten times per
// second for each of their two streams (etcd, server/etcdserver/api/rafthttp, streamReader.run), and look up its name
// for each attempt. That is work for the very machines that are busy already, and with six voters it is time in which
// one less may fail.
//
// Each of these is enough:
//   - The kubelet reports that all containers have ended.
//   - Its etcd was ready, and nobody listens any more at the port for its peers. etcd closes that one last, after the
//     requests of clients have ended and raft has stopped (etcd, server/embed, Etcd.Close). The sidecar runs on until
//     the kubelet kills it.
//   - The time that the pod was given is over, so that the kubelet kills what is left, and nobody listens at that port.
//     Until then the sidecar of an etcd that was not ready may prepare it, and may add the member once more.
//
// A node that is cut off from the API server only does not know that it should end the pod, and there etcd still
// listens. Nobody who listens is not enough for the last member of the source, see runningPod.
//
// The pod of a learner, and each one of the destination, has to be gone: they join, and their sidecar may add them once
// more as long as it runs.
func (j *Joint) hasEnded(ctx context.Context, victim quorum.Member, pod *corev1.Pod) bool {
	if victim.Side != quorum.Source || !j.ours(victim.Side) || victim.Learner || victim.Healthy ||
		pod.DeletionTimestamp == nil {
		return false
	}
	if allTerminated(pod) {
		return true
	}
	if pod.Status.PodIP == "" ||
		!etcdWasReady(pod) && j.Clock.Now().Before(pod.DeletionTimestamp.Add(roundedOff)) {
		return false
	}
	return j.Refuses(ctx, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(naming.PortPeerSource)))
}

// etcdWasReady reports whether the kubelet has last seen etcd ready. For a pod that was told to end it may not have
// looked since.
func etcdWasReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(container corev1.ContainerStatus) bool {
		return container.Name == containerEtcd && container.Ready
	})
}

// runningPod returns the name of a pod of the etcd in the own seed whose kubelet has not reported that all containers
// have ended, which is more than hasEnded asks for; empty if there is none.
func (j *Joint) runningPod(ctx context.Context, etcdRole string) (string, error) {
	for ordinal := range naming.MembersPerSeed {
		pod, err := j.getPod(ctx, naming.PodName(etcdRole, ordinal))
		if err != nil {
			return "", err
		}
		if pod != nil && !allTerminated(pod) && !j.stranded(pod) {
			return pod.Name, nil
		}
	}
	return "", nil
}

func allTerminated(pod *corev1.Pod) bool {
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Terminated == nil {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0 && len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers)
}

// refuses reports whether the host at the address is there and says that nobody listens. What does not answer may be
// cut off, so it does not refuse.
func refuses(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, refusalTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
