// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	corev1 "k8s.io/api/core/v1"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// locator finds the members of the own seed by the addresses of their pods and those of the other seed behind the
// relay. The host names cannot be used for members: cluster DNS answers them with the local pod and with the relay.
type locator struct {
	joint    *Joint
	etcdRole string
}

var _ etcdclient.Locator = (*locator)(nil)

// Service prefers the members in the own seed. The other seed comes second: in the destination before the first member
// joined, and in the source after the last one left.
func (l *locator) Service(ctx context.Context) ([]etcdclient.Endpoint, error) {
	var endpoints []etcdclient.Endpoint
	for ordinal := range naming.MembersPerSeed {
		pod, err := l.pod(ctx, ordinal)
		if err != nil {
			return nil, err
		}
		if pod != nil && isReady(pod) {
			endpoints = append(endpoints, l.local(pod, ordinal))
		}
	}
	return append(endpoints, etcdclient.Endpoint{
		Address:    naming.RelayClientAddress(l.joint.Namespace),
		ServerName: naming.ClientHost(l.joint.Namespace, l.etcdRole),
	}), nil
}

func (l *locator) Member(ctx context.Context, member etcdclient.Member) (etcdclient.Endpoint, error) {
	side, ordinal := l.joint.classify(l.etcdRole, member)
	if side == quorum.Foreign {
		return etcdclient.Endpoint{}, fmt.Errorf("member %s belongs to neither seed", member)
	}
	if !l.joint.ours(side) {
		return etcdclient.Endpoint{
			Address:    naming.RelayClientAddress(l.joint.Namespace),
			ServerName: naming.MemberHost(l.joint.Namespace, l.etcdRole, ordinal),
		}, nil
	}
	pod, err := l.pod(ctx, ordinal)
	if err != nil {
		return etcdclient.Endpoint{}, err
	}
	if pod == nil {
		return etcdclient.Endpoint{},
			fmt.Errorf("pod %s is not there or has no address", naming.PodName(l.etcdRole, ordinal))
	}
	if pod.DeletionTimestamp != nil {
		// It is as good as down, and asking it may last until the timeout.
		return etcdclient.Endpoint{}, fmt.Errorf("pod %s is being deleted", pod.Name)
	}
	return l.local(pod, ordinal), nil
}

func (l *locator) local(pod *corev1.Pod, ordinal int) etcdclient.Endpoint {
	return etcdclient.Endpoint{
		Address:    net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(naming.PortClient)),
		ServerName: naming.MemberHost(l.joint.Namespace, l.etcdRole, ordinal),
	}
}

// pod returns the pod with the ordinal if it can be reached, or nil. See withLookups and FollowPods.
func (l *locator) pod(ctx context.Context, ordinal int) (*corev1.Pod, error) {
	kept := lookupsOf(ctx)
	if pod, ok := kept.find(naming.PodName(l.etcdRole, ordinal)); ok {
		return pod, nil
	}
	pod, ok := watchedPods(ctx).find(naming.PodName(l.etcdRole, ordinal))
	if !ok {
		var err error
		if pod, err = l.joint.getPod(ctx, naming.PodName(l.etcdRole, ordinal)); err != nil {
			return nil, err
		}
	}
	if pod == nil || pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning {
		return nil, nil
	}
	kept.keep(pod)
	return pod, nil
}

func isReady(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && health.IsPodReady(pod) }
