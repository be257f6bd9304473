// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

func (c *component) open(ctx context.Context, now clock.PassiveClock) (joint.Front, error) {
	state, _, err := c.state(ctx)
	if err != nil {
		return nil, err
	}
	if state != stateLeading {
		return nil, nil
	}
	// A front to which clients are not led holds nothing back.
	if err := c.sync(ctx); err != nil {
		return nil, err
	}
	addresses, err := c.addresses(ctx, now)
	if err != nil {
		return nil, err
	}
	etcd, err := c.getEtcd(ctx)
	if err != nil {
		return nil, err
	}
	config, err := etcdclient.TLSFromEtcd(ctx, c.SeedClient, etcd)
	if err != nil {
		return nil, err
	}
	return c.NewSteering(addresses, naming.ClientHost(c.namespace, c.etcdRole), config), nil
}

// addresses returns where the pods of the front are steered. It fails if one of them passes requests on, or may do so,
// and cannot be steered.
func (c *component) addresses(ctx context.Context, now clock.PassiveClock) ([]string, error) {
	pods, err := c.podsOf(ctx, c.podLabels())
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, pod := range pods {
		if !mayServe(pod, now) {
			continue
		}
		// One that is being deleted is not ready and still passes requests on.
		if pod.Status.PodIP == "" || pod.DeletionTimestamp == nil && !isReady(pod) {
			return nil, fmt.Errorf("pod %s of the front is not ready", pod.Name)
		}
		addresses = append(addresses, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(naming.PortClient)))
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("the front has no pod; look at Deployment %s/%s", c.namespace,
			naming.FrontName(c.etcdRole))
	}
	return addresses, nil
}

// mayServe reports whether a pod passes requests on, or may do so. One that has ended, like one that was evicted, does
// not. Nor does one that is being deleted when its time for that is over, at the timestamp: it is dead, or its node is.
func mayServe(pod corev1.Pod, now clock.PassiveClock) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
		(pod.DeletionTimestamp == nil || now.Now().Before(pod.DeletionTimestamp.Time))
}
