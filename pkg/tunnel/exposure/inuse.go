// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// A relay pod is ready only when those who look its name up get its address (a readiness gate).
//
// Without the gate, a drain evicts all relays within seconds: each replacement is ready as soon as it runs, and the
// disruption budget lets the next one go. But members of etcd look the relays up by DNS, and who has cached the old
// address dials it for up to half a minute. Then none of the three is reached, and neither is the other seed. With the
// gate, the budget counts a replacement as unavailable until the caches have forgotten the old address, and one relay
// at most is out of use. A rollout of the StatefulSet waits in the same way. If no agent is there to open the gate,
// nothing more is evicted.
//
// Whether a relay has moved stands at the slices, and when the present address was published stands in the
// condition of the pod. So every agent can continue what another one has begun.

const (
	// ConditionInUse is the type of the condition of relay pods that is their readiness gate.
	ConditionInUse corev1.PodConditionType = "livecpm.gardener.cloud/in-use"
	// reasonPublished is the reason of the condition while caches may have another address, reasonInUse afterwards.
	reasonPublished, reasonInUse = "Published", "InUse"
	// settleTime is how long after its publication an address is known to everybody: 30 s for the cache of CoreDNS, for
	// which Gardener configures that time; 5 s more where the nodes have a DNS of their own (NodeLocalDNS), because a
	// cache keeps each record for 5 s at least, also one with a second left (CoreDNS' plugin/cache, minTTL); and the
	// time that CoreDNS takes to hear of it.
	settleTime = 40 * time.Second
	// annotationFormer, with the ordinal of a relay behind it, is the annotation of a slice that holds the address that
	// has left the slice last. There is none as long as the relay has never moved.
	annotationFormer = "livecpm.gardener.cloud/former-address-"
)

// formerAddresses are addresses that relays had before, by ordinal. There is none of those that have never moved.
type formerAddresses map[int]string

// noteFormer writes addresses into the annotations of a slice of the peer service that leave the slice when the pods
// are published, and returns all that have left it. The endpoints of the slice are still the former ones.
func noteFormer(slice *discoveryv1.EndpointSlice, etcdRole string, pods map[int]corev1.Pod) formerAddresses {
	former := formerAddresses{}
	for ordinal := range naming.MembersPerSeed {
		key := fmt.Sprint(annotationFormer, ordinal)
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Hostname, "") != naming.PodName(etcdRole, ordinal) {
				continue
			}
			pod, ok := pods[ordinal]
			if stays := ok && isPublished(&pod) && slices.Contains(endpoint.Addresses, pod.Status.PodIP); !stays {
				metav1.SetMetaDataAnnotation(&slice.ObjectMeta, key, strings.Join(endpoint.Addresses, ","))
			}
		}
		if address, ok := slice.Annotations[key]; ok {
			former[ordinal] = address
		}
	}
	return former
}

// openGates tells in the conditions of the relay's pods which of them are in use. The addresses have been published
// just now. Where the agent may not write the conditions yet, it is permitted to, and writes them the next time.
func (e *exposure) openGates(ctx context.Context, owner *appsv1.StatefulSet, former formerAddresses) error {
	pods, err := e.relayPods(ctx)
	if err != nil {
		return err
	}
	for ordinal, pod := range pods {
		gated := slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
			return gate.ConditionType == ConditionInUse
		})
		if !gated || !isPublished(&pod) {
			continue
		}
		begin := corev1.ConditionTrue
		if _, known := former[ordinal]; known {
			begin = corev1.ConditionFalse // Others may know another address for the pod's name.
		}
		condition, changed := inUse(&pod, begin, e.values.Clock.Now())
		if !changed {
			continue
		}
		// Only of the pod as it was read: its address may have changed, or somebody else has told already.
		patch := client.StrategicMergeFrom(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
		pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == ConditionInUse
		}), condition)
		err := e.client.Status().Patch(ctx, &pod, patch)
		if apierrors.IsForbidden(err) {
			if permitErr := e.permit(ctx, owner); permitErr != nil {
				return errors.Join(permitErr, err)
			}
			return nil
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to write condition %s of pod %s: %w", ConditionInUse,
				client.ObjectKeyFromObject(&pod), err)
		}
	}
	return nil
}

// inUse returns the condition of a pod that is published, and whether it differs from what the pod has. Begin is
// its status from the publication on, until everybody knows the address.
func inUse(pod *corev1.Pod, begin corev1.ConditionStatus, now time.Time) (corev1.PodCondition, bool) {
	condition := corev1.PodCondition{Type: ConditionInUse, Status: begin, Reason: reasonPublished,
		Message: "published at " + pod.Status.PodIP, LastTransitionTime: metav1.NewTime(now)}
	for _, former := range pod.Status.Conditions {
		if former.Type != ConditionInUse || former.Message != condition.Message {
			continue
		}
		if former.Status == corev1.ConditionTrue || now.Sub(former.LastTransitionTime.Time) < settleTime {
			return former, false
		}
		condition.Status = corev1.ConditionTrue
	}
	if condition.Status == corev1.ConditionTrue {
		condition.Reason = reasonInUse
	}
	return condition, true
}
