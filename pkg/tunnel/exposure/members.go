// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The relay of the destination listens on the ordinary peer port, to which the members there go back when those of the
// source are gone. Under the name of a member, the relay would catch connections to that port. The relay itself is
// needed for longer: the source's kube-apiserver comes to the etcds through it. So the names go before the relay does.
//
// When they went stands at the StatefulSet, so that every agent that publishes addresses knows of it, also the one that
// keeps the relays without the garden.

const (
	// annotationMembersLeft is the annotation of the StatefulSet with the time from which on no name of a member leads
	// to the relay.
	annotationMembersLeft = "livecpm.gardener.cloud/members-left"
	// publishLag is for how long after that somebody may publish the relay once more who has read the StatefulSet
	// before. The next look, two seconds later, takes that back. What is still there later, as of an agent that does
	// not know the annotation, makes the time begin again.
	publishLag = 5 * time.Second
)

func (e *exposure) LeaveMembers(ctx context.Context) (time.Duration, error) {
	if e.values.Role != steps.Destination {
		return 0, fmt.Errorf("the names of etcd members are left in the destination only")
	}
	statefulSet := e.objects().statefulSet
	key := client.ObjectKeyFromObject(statefulSet)
	if err := e.client.Get(ctx, key, statefulSet); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("failed to get StatefulSet %s: %w", key, err)
	}
	led, err := e.membersLedHere(ctx)
	if err != nil {
		return 0, err
	}
	if led || !metav1.HasAnnotation(statefulSet.ObjectMeta, annotationMembersLeft) {
		patch := client.MergeFromWithOptions(statefulSet.DeepCopy(), client.MergeFromWithOptimisticLock{})
		metav1.SetMetaDataAnnotation(&statefulSet.ObjectMeta, annotationMembersLeft,
			e.values.Clock.Now().UTC().Format(time.RFC3339))
		if err := e.client.Patch(ctx, statefulSet, patch); err != nil {
			return 0, fmt.Errorf("failed to annotate StatefulSet %s with %s: %w", key, annotationMembersLeft, err)
		}
	}
	if err := SyncDeployed(ctx, e.client, e.values.Clock, statefulSet); err != nil {
		return 0, err
	}
	value := statefulSet.Annotations[annotationMembersLeft]
	since, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return 0, fmt.Errorf("failed to read annotation %s of StatefulSet %s: %q is no time; remove the annotation",
			annotationMembersLeft, key, value)
	}
	return max(0, settleTime+publishLag-e.values.Clock.Since(since)), nil
}

// membersLedHere reports whether a name of a member leads to the relay, whoever has published that.
func (e *exposure) membersLedHere(ctx context.Context) (bool, error) {
	for _, etcdRole := range naming.EtcdRoles {
		slice := e.emptyPeerSlice(etcdRole)
		key := client.ObjectKeyFromObject(slice)
		if err := e.client.Get(ctx, key, slice); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return false, fmt.Errorf("failed to get EndpointSlice %s: %w", key, err)
		}
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Hostname, "") != naming.SourceClientHost {
				return true, nil
			}
		}
	}
	return false, nil
}
