// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// relayName is the name of the relay's container, and peerPortName that of its port for etcd members.
	relayName, peerPortName = "relay", "peer"
)

// ListDeployed returns the StatefulSets of all relays in the seed. The reader should not be backed by a cache.
func ListDeployed(ctx context.Context, seed client.Reader) ([]appsv1.StatefulSet, error) {
	list := &appsv1.StatefulSetList{}
	if err := seed.List(ctx, list, client.MatchingLabels(ourLabels())); err != nil {
		return nil, fmt.Errorf("failed to list the StatefulSets of relays: %w", err)
	}
	var out []appsv1.StatefulSet
	for _, statefulSet := range list.Items {
		if statefulSet.Name == Name {
			out = append(out, statefulSet)
		}
	}
	return out, nil
}

// SyncDeployed brings the addresses of the pods of a relay up to date wherever they are published; see Interface.Sync.
// All that it has to know is in the seed: the StatefulSet tells the role of the seed, and each slice of a client
// service that there is tells that it is to be kept. It also opens the readiness gates of pods that are in use. The
// client must not be backed by a cache. It does nothing if the relay is being removed.
func SyncDeployed(
	ctx context.Context, seed client.Client, c clock.PassiveClock, statefulSet *appsv1.StatefulSet,
) error {
	if statefulSet.DeletionTimestamp != nil {
		return nil
	}
	role, err := roleOf(statefulSet)
	if err != nil {
		return err
	}
	e := &exposure{client: seed, values: Values{Namespace: statefulSet.Namespace, Role: role, Clock: c},
		membersLeft: metav1.HasAnnotation(statefulSet.ObjectMeta, annotationMembersLeft)}
	before := formerAddresses{}
	for _, etcdRole := range naming.EtcdRoles {
		former, err := e.publishAtPeerService(ctx, etcdRole, statefulSet)
		if err != nil {
			return err
		}
		maps.Copy(before, former)
		slice := e.emptyClientSlice(etcdRole)
		if err := seed.Get(ctx, client.ObjectKeyFromObject(slice), slice); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("failed to get EndpointSlice %s: %w", client.ObjectKeyFromObject(slice), err)
		}
		if err := e.publishAtClientService(ctx, etcdRole, statefulSet); err != nil {
			return err
		}
	}
	return e.openGates(ctx, statefulSet, before)
}

// roleOf returns the role of the seed that the relay has been deployed for. The port on which the relay listens for
// members tells: it is that of the other side, and what the slices have to publish.
func roleOf(statefulSet *appsv1.StatefulSet) (steps.Role, error) {
	for _, container := range statefulSet.Spec.Template.Spec.Containers {
		if container.Name != relayName {
			continue
		}
		for _, port := range container.Ports {
			if port.Name != peerPortName {
				continue
			}
			for _, role := range []steps.Role{steps.Source, steps.Destination} {
				if port.ContainerPort == naming.PeerPort(role.Peer()) {
					return role, nil
				}
			}
		}
	}
	return "", fmt.Errorf("failed to find in StatefulSet %s which role the seed has: container %s has no port %s that "+
		"is the peer port of one; pause the migration and delete the StatefulSet, and retry its step",
		client.ObjectKeyFromObject(statefulSet), relayName, peerPortName)
}
