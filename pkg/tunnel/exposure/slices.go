// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gardener/gardener/pkg/controllerutils"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// publishAttempts is how often a slice is written while others write it, too.
const publishAttempts = 5

// errNoAddress means that a slice is not made yet: no pod of the relay has an address that would tell its family.
var errNoAddress = errors.New("no pod of the relay has an address")

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
	return errors.Join(SyncDeployed(ctx, e.client, e.values.Clock, statefulSet), e.refreshPullSecrets(ctx))
}

func (e *exposure) KeepClientService(ctx context.Context) error {
	if e.values.Role != steps.Source {
		return fmt.Errorf("the client services of etcd lead through the relay in the source only")
	}
	pods, err := e.relayPods(ctx)
	if err != nil {
		return err
	}
	if len(endpoints(pods, addressType(pods), nil)) == 0 {
		return errNoAddress
	}
	statefulSet := e.objects().statefulSet
	if err := e.client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet); err != nil {
		return fmt.Errorf("failed to get StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
	}
	for _, etcdRole := range naming.EtcdRoles {
		if err := e.publishAtClientService(ctx, etcdRole, statefulSet); err != nil {
			return err
		}
	}
	return nil
}

func ownedBy(owner *appsv1.StatefulSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: owner.Name, UID: owner.UID,
	}}
}

// publishAtPeerService returns the addresses that were published there before and have left.
func (e *exposure) publishAtPeerService(
	ctx context.Context, etcdRole string, owner *appsv1.StatefulSet,
) (formerAddresses, error) {
	var (
		slice  = e.emptyPeerSlice(etcdRole)
		former formerAddresses
	)
	if err := e.publish(ctx, slice, owner, func(pods map[int]corev1.Pod) {
		former = noteFormer(slice, etcdRole, pods)
		e.mutatePeerSlice(slice, etcdRole, pods)
	}); err != nil && !errors.Is(err, errNoAddress) {
		return nil, fmt.Errorf("failed to publish the relay at service %s: %w", naming.PeerServiceName(etcdRole), err)
	}
	return former, nil
}

func (e *exposure) publishAtClientService(ctx context.Context, etcdRole string, owner *appsv1.StatefulSet) error {
	slice := e.emptyClientSlice(etcdRole)
	if err := e.publish(ctx, slice, owner, func(pods map[int]corev1.Pod) {
		mutateSlice(slice, naming.ClientServiceName(etcdRole), "client", naming.PortRelayClient)
		slice.Endpoints = endpoints(pods, slice.AddressType, nil)
	}); err != nil {
		return fmt.Errorf("failed to publish the relay at service %s: %w", naming.ClientServiceName(etcdRole), err)
	}
	return nil
}

// publish writes a slice with what the function makes of the relay's pods. Several may do that at the same time, in
// this process and in others. The pods are read after the slice, and the slice is written only if nobody has written it
// since: so nobody replaces addresses by older ones. The slice belongs to the StatefulSet, so that one that is written
// while the relay is removed goes with it.
//
// A slice has addresses of one family, for good. It is that of the pods' first addresses, which is the first one of the
// cluster: etcd-druid asks for none at etcd's services, so they have the same.
func (e *exposure) publish(
	ctx context.Context, slice *discoveryv1.EndpointSlice, owner *appsv1.StatefulSet,
	mutate func(pods map[int]corev1.Pod),
) error {
	attempt := func() error {
		_, err := controllerutils.GetAndCreateOrMergePatch(ctx, e.client, slice, func() error {
			pods, err := e.relayPods(ctx)
			if err != nil {
				return err
			}
			if slice.AddressType == "" {
				slice.AddressType = addressType(pods)
			}
			if slice.AddressType == "" {
				return errNoAddress
			}
			mutate(pods)
			slice.OwnerReferences = ownedBy(owner)
			return nil
		}, controllerutils.SkipEmptyPatch{}, controllerutils.MergeFromOption{
			MergeFromOption: client.MergeFromWithOptimisticLock{}})
		return err
	}
	err := attempt()
	for range publishAttempts - 1 {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
		slice.ResourceVersion, slice.UID = "", ""
		err = attempt()
	}
	return err
}

func (e *exposure) mutatePeerSlice(slice *discoveryv1.EndpointSlice, etcdRole string, pods map[int]corev1.Pod) {
	mutateSlice(slice, naming.PeerServiceName(etcdRole), peerPortName, naming.PeerPort(e.values.Role.Peer()))
	slice.Endpoints = endpoints(pods, slice.AddressType,
		func(ordinal int) string { return naming.PodName(etcdRole, ordinal) })
	if e.membersLeft {
		slice.Endpoints = nil
	}
	if e.values.Role == steps.Destination {
		slice.Endpoints = append(slice.Endpoints,
			endpoints(pods, slice.AddressType, func(int) string { return naming.SourceClientHost })...)
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
	slice.Ports = []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: new(corev1.ProtocolTCP)}}
}

// addressType returns the family of the pods' first addresses; empty if none has an address yet.
func addressType(pods map[int]corev1.Pod) discoveryv1.AddressType {
	for ordinal := range naming.MembersPerSeed {
		if pod, ok := pods[ordinal]; ok && isPublished(&pod) {
			return addressTypeOf(&pod)
		}
	}
	return ""
}

func addressTypeOf(pod *corev1.Pod) discoveryv1.AddressType {
	address, err := netip.ParseAddr(pod.Status.PodIP)
	switch {
	case err != nil:
		return ""
	case address.Is4():
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// endpoints returns the pods that can take connections, as far as their addresses are of the family. With a name for
// hosts every pod is published under the host of its ordinal whether it is ready or not, as the peer service does with
// the members; without one only pods count whose containers are ready. Their readiness gate does not matter: it waits
// for their publication.
func endpoints(
	pods map[int]corev1.Pod, family discoveryv1.AddressType, hostname func(ordinal int) string,
) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for ordinal := range naming.MembersPerSeed {
		pod, ok := pods[ordinal]
		if !ok || !isPublished(&pod) || addressTypeOf(&pod) != family {
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
		case !containersReady(&pod):
			continue
		}
		out = append(out, endpoint)
	}
	return out
}

// isPublished reports whether the pod has an address under which it is published.
func isPublished(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && addressTypeOf(pod) != ""
}

func containersReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue
	})
}
