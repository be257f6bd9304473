// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"
	"net"

	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

func (e *exposure) emptyPeerSlice(etcdRole string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: e.objectMeta(naming.PeerServiceName(etcdRole) + "-" + Name)}
}

func (e *exposure) emptyClientSlice(etcdRole string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: e.objectMeta(naming.ClientServiceName(etcdRole) + "-" + Name)}
}

// Sync publishes the relay's pods beside the etcd members. The slices are made before the services exist, if need be:
// etcd-druid creates them together with the members, who must find each other from the start.
func (e *exposure) Sync(ctx context.Context) error {
	statefulSet := e.objects().statefulSet
	if err := e.client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("failed to get StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
	}
	if statefulSet.DeletionTimestamp != nil {
		return nil
	}
	pods, err := e.relayPods(ctx)
	if err != nil {
		return err
	}

	for _, etcdRole := range naming.EtcdRoles {
		slice := e.emptyPeerSlice(etcdRole)
		if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, e.client, slice, func() error {
			e.mutatePeerSlice(slice, etcdRole, pods)
			return nil
		}, controllerutils.SkipEmptyPatch{}); err != nil {
			return fmt.Errorf("failed to publish the relay at service %s: %w", naming.PeerServiceName(etcdRole), err)
		}

		slice = e.emptyClientSlice(etcdRole)
		if err := e.client.Get(ctx, client.ObjectKeyFromObject(slice), slice); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("failed to get EndpointSlice %s: %w", slice.Name, err)
		}
		if err := e.publishAtClientService(ctx, etcdRole, pods); err != nil {
			return err
		}
	}
	return nil
}

func (e *exposure) KeepClientService(ctx context.Context) error {
	if e.values.Role != steps.Source {
		return fmt.Errorf("the client services of etcd lead through the relay in the source only")
	}
	pods, err := e.relayPods(ctx)
	if err != nil {
		return err
	}
	if len(endpoints(pods, nil)) == 0 {
		return fmt.Errorf("no pod of the relay has an address")
	}
	for _, etcdRole := range naming.EtcdRoles {
		if err := e.publishAtClientService(ctx, etcdRole, pods); err != nil {
			return err
		}
	}
	return nil
}

func (e *exposure) publishAtClientService(ctx context.Context, etcdRole string, pods map[int]corev1.Pod) error {
	slice := e.emptyClientSlice(etcdRole)
	if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, e.client, slice, func() error {
		mutateSlice(slice, naming.ClientServiceName(etcdRole), "client", naming.PortRelayClient)
		slice.Endpoints = endpoints(pods, nil)
		return nil
	}, controllerutils.SkipEmptyPatch{}); err != nil {
		return fmt.Errorf("failed to publish the relay at service %s: %w", naming.ClientServiceName(etcdRole), err)
	}
	return nil
}

func (e *exposure) mutatePeerSlice(slice *discoveryv1.EndpointSlice, etcdRole string, pods map[int]corev1.Pod) {
	mutateSlice(slice, naming.PeerServiceName(etcdRole), "peer", naming.PeerPort(e.values.Role.Peer()))
	slice.Endpoints = endpoints(pods, func(ordinal int) string { return naming.PodName(etcdRole, ordinal) })
	if e.values.Role == steps.Destination {
		slice.Endpoints = append(slice.Endpoints,
			endpoints(pods, func(int) string { return naming.SourceClientHost })...)
	}
}

// mutateSlice sets what all slices have in common. Port names are those of etcd-druid's services: kube-proxy matches
// endpoints to a service's ports by name.
func mutateSlice(slice *discoveryv1.EndpointSlice, service, portName string, port int32) {
	slice.Labels = map[string]string{
		LabelKey:                     LabelValue,
		discoveryv1.LabelServiceName: service,
		discoveryv1.LabelManagedBy:   sliceManager,
	}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	slice.Ports = []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: new(corev1.ProtocolTCP)}}
}

// endpoints returns the pods that can take connections. With a name for hosts every pod is published under the host of
// its ordinal whether it is ready or not, as the peer service does with the members; without one only ready pods count.
func endpoints(pods map[int]corev1.Pod, hostname func(ordinal int) string) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for ordinal := range naming.MembersPerSeed {
		pod, ok := pods[ordinal]
		if !ok || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning ||
			net.ParseIP(pod.Status.PodIP).To4() == nil {
			continue
		}
		endpoint := discoveryv1.Endpoint{
			Addresses:  []string{pod.Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}
		switch {
		case hostname != nil:
			endpoint.Hostname = new(hostname(ordinal))
		case !health.IsPodReady(&pod):
			continue
		}
		out = append(out, endpoint)
	}
	return out
}
