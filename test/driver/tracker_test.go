// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/test/driver"
)

var _ = Describe("Tracker", func() {
	var (
		now     time.Time
		tracker *driver.Tracker
	)

	BeforeEach(func() {
		now = time.Now()
		tracker = driver.NewTracker("seed-a", "seed-b")
	})

	deploymentPod := func(deployment string, up bool) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:   deployment + "-7f9c-x",
			Labels: map[string]string{"pod-template-hash": "7f9c"},
			OwnerReferences: []metav1.OwnerReference{{
				Kind: "ReplicaSet", Name: deployment + "-7f9c", Controller: ptr.To(true),
			}},
		}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
		if up {
			pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		}
		return pod
	}

	etcdPod := func(uid string, restarts int32) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "etcd-main-0",
				UID:  types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{
					{Kind: "StatefulSet", Name: "etcd-main", Controller: ptr.To(true)},
				},
			},
			Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{{Name: "etcd", RestartCount: restarts}},
			},
		}
	}

	record := func(object, name, operation string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind":     "DNSRecord",
			"metadata": map[string]any{"name": object},
			"spec":     map[string]any{"name": name},
			"status":   map[string]any{"lastOperation": map[string]any{"type": operation, "state": "Succeeded"}},
		}}
	}

	It("should notice a controller that runs in both seeds, and for how long", func() {
		tracker.Observe(now, "seed-a", deploymentPod("gardener-resource-manager", true))
		tracker.Observe(now.Add(time.Second), "seed-b", deploymentPod("gardener-resource-manager", false))
		Expect(tracker.Overlaps(now)).To(BeEmpty(), "a pod without a running container does nothing")
		tracker.Observe(now.Add(2*time.Second), "seed-b", deploymentPod("gardener-resource-manager", true))
		Expect(tracker.Overlaps(now.Add(3 * time.Second))).To(ConsistOf(HaveField("Seconds", 1.0)))
		tracker.Gone(now.Add(5*time.Second), "seed-a", deploymentPod("gardener-resource-manager", true))
		Expect(tracker.Overlaps(now.Add(time.Hour))).To(ConsistOf(And(
			HaveField("Controller", "gardener-resource-manager"), HaveField("Seconds", 3.0))))
	})

	It("should accept controllers that move from one seed to the other", func() {
		tracker.Observe(now, "seed-a", deploymentPod("gardener-resource-manager", true))
		tracker.Gone(now, "seed-a", deploymentPod("gardener-resource-manager", true))
		tracker.Observe(now, "seed-b", deploymentPod("gardener-resource-manager", true))
		Expect(tracker.Overlaps(now)).To(BeEmpty())
	})

	It("should accept servers and what a lease in the shoot serializes in both seeds", func() {
		for _, name := range []string{"kube-apiserver", "kube-controller-manager"} {
			for _, seed := range []string{"seed-a", "seed-b"} {
				tracker.Observe(now, seed, deploymentPod(name, true))
			}
		}
		Expect(tracker.Overlaps(now)).To(BeEmpty())
	})

	DescribeTable("should accept in both seeds what answers webhooks, unless it may do more",
		func(account string, overlaps int) {
			pod := deploymentPod("livecpm-webhooks", true)
			pod.Spec.ServiceAccountName = account
			for _, seed := range []string{"seed-a", "seed-b"} {
				tracker.Observe(now, seed, pod)
			}
			Expect(tracker.Overlaps(now)).To(HaveLen(overlaps))
			tracker.Gone(now, "seed-a", pod)
		},
		Entry(nil, "livecpm-webhooks", 0),
		Entry(nil, "gardener-resource-manager", 1),
	)

	It("should notice two providers in charge of one record", func() {
		tracker.ObserveExtension(now, "seed-a", record("live-external", "api.example", "Reconcile"))
		tracker.ObserveExtension(now, "seed-b", record("live-other", "other.example", "Restore"))
		Expect(tracker.Overlaps(now)).To(BeEmpty())
		tracker.ObserveExtension(now, "seed-b", record("live-external-2", "api.example", "Restore"))
		Expect(tracker.Overlaps(now)).To(ConsistOf(HaveField("Controller", "DNSRecord api.example")))
	})

	It("should accept an object that was migrated or is gone", func() {
		tracker.ObserveExtension(now, "seed-a", record("a", "api.example", "Migrate"))
		tracker.ObserveExtension(now, "seed-b", record("a", "api.example", "Restore"))
		tracker.ObserveExtension(now, "seed-a", record("b", "b.example", "Reconcile"))
		tracker.ExtensionGone(now, "seed-a", record("b", "b.example", "Reconcile"))
		tracker.ObserveExtension(now, "seed-b", record("b", "b.example", "Restore"))
		Expect(tracker.Overlaps(now)).To(BeEmpty())
	})

	It("should count restarts and replacements of etcd pods in the source only", func() {
		tracker.Observe(now, "seed-a", etcdPod("1", 1))
		tracker.Observe(now, "seed-b", etcdPod("9", 0))
		tracker.Observe(now, "seed-b", etcdPod("9", 4))
		tracker.Observe(now, "seed-a", etcdPod("1", 1))
		Expect(tracker.Restarts()).To(BeEmpty(), "what happened before is no matter")
		tracker.Observe(now, "seed-a", etcdPod("1", 3))
		tracker.Gone(now, "seed-a", etcdPod("1", 3))
		Expect(tracker.Restarts()).To(HaveLen(2), "a retired pod is no restart")
		tracker.Observe(now, "seed-a", etcdPod("2", 0))
		Expect(tracker.Restarts()).To(HaveExactElements(
			"container etcd of pod etcd-main-0 restarted",
			"container etcd of pod etcd-main-0 restarted",
			"pod etcd-main-0 was replaced",
		))
	})
})
