// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/ownership"
	"github.com/livecpm/livecpm/pkg/steps"
	"github.com/livecpm/livecpm/test/demo"
)

var _ = Describe("SeedLook", func() {
	pod := func(kind, owner string, up bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:            owner + "-0",
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: ptr.To(true)}},
		}}
		if kind == "ReplicaSet" {
			p.Labels = map[string]string{"pod-template-hash": "7f9c"}
			p.OwnerReferences[0].Name += "-7f9c"
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
		if up {
			p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
		}
		return p
	}
	object := func(kind, name, extensionType, operation string, change ...func(*unstructured.Unstructured)) unstructured.Unstructured {
		o := unstructured.Unstructured{Object: map[string]any{
			"kind":     kind,
			"metadata": map[string]any{"name": name},
			"spec":     map[string]any{"type": extensionType},
			"status":   map[string]any{"lastOperation": map[string]any{"type": operation, "state": "Succeeded"}},
		}}
		for _, f := range change {
			f(&o)
		}
		return o
	}
	early := sets.New("early")

	DescribeTable("tells what is at work", func(look demo.SeedLook, expected map[ownership.Name][]string) {
		Expect(look.Running(early)).To(Equal(expected))
	},
		Entry("nothing", demo.SeedLook{}, map[ownership.Name][]string{}),
		Entry("pods of a Deployment", demo.SeedLook{Pods: []corev1.Pod{pod("ReplicaSet", "gardener-resource-manager", true)}},
			map[ownership.Name][]string{ownership.ResourceManager: {"gardener-resource-manager-0"}}),
		Entry("both etcds as one", demo.SeedLook{Pods: []corev1.Pod{pod("StatefulSet", "etcd-main", true), pod("StatefulSet", "etcd-events", true)}},
			map[ownership.Name][]string{ownership.Etcd: {"etcd-main-0", "etcd-events-0"}}),
		Entry("a highly available VPN server, which is a StatefulSet", demo.SeedLook{Pods: []corev1.Pod{pod("StatefulSet", "vpn-seed-server", true)}},
			map[ownership.Name][]string{ownership.VPNServer: {"vpn-seed-server-0"}}),
		Entry("no pod that has not started", demo.SeedLook{Pods: []corev1.Pod{pod("ReplicaSet", "kube-apiserver", false)}}, map[ownership.Name][]string{}),
		Entry("no pod of what is not in the table", demo.SeedLook{Pods: []corev1.Pod{pod("ReplicaSet", "livecpm-relay", true)}}, map[ownership.Name][]string{}),
		Entry("extensions by the time at which they act", demo.SeedLook{Extensions: []unstructured.Unstructured{
			object("Extension", "a", "early", "Reconcile"), object("Extension", "b", "late", "Restore"),
		}}, map[ownership.Name][]string{ownership.EarlyExtensions: {"Extension a"}, ownership.Extensions: {"Extension b"}}),
		Entry("the kinds of shoots with workers", demo.SeedLook{Extensions: []unstructured.Unstructured{
			object("Worker", "w", "local", "Reconcile"), object("Infrastructure", "w", "local", "Reconcile"), object("ControlPlane", "w", "local", "Reconcile"),
			object("Network", "w", "test", "Reconcile"), object("OperatingSystemConfig", "w", "local", "Reconcile"),
		}}, map[ownership.Name][]string{
			ownership.Worker: {"Worker w"}, ownership.Infrastructure: {"Infrastructure w"}, ownership.ControlPlane: {"ControlPlane w"},
			ownership.NodeExtensions: {"Network w", "OperatingSystemConfig w"},
		}),
		Entry("no object that was migrated", demo.SeedLook{Extensions: []unstructured.Unstructured{object("Worker", "w", "local", "Migrate")}}, map[ownership.Name][]string{}),
		Entry("no object that is being deleted", demo.SeedLook{Extensions: []unstructured.Unstructured{object("Worker", "w", "local", "Reconcile", func(o *unstructured.Unstructured) {
			o.SetDeletionTimestamp(ptr.To(metav1.Now()))
		})}}, map[ownership.Name][]string{}),
		Entry("no record of the migration itself", demo.SeedLook{Extensions: []unstructured.Unstructured{object("DNSRecord", "member", "local", "Reconcile", func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "livecpm"})
		})}}, map[ownership.Name][]string{}),
		Entry("the records of the shoot", demo.SeedLook{Extensions: []unstructured.Unstructured{object("DNSRecord", "live-external", "local", "Reconcile")}},
			map[ownership.Name][]string{ownership.DNSRecords: {"DNSRecord live-external"}}),
		Entry("dependency-watchdog by its access", demo.SeedLook{WatchdogAccess: true},
			map[ownership.Name][]string{ownership.DependencyWatchdog: {"secret shoot-access-dependency-watchdog-probe"}}),
	)

	It("knows extensions that act before kube-apiserver by their registration", func() {
		before, after := gardencorev1beta1.BeforeKubeAPIServer, gardencorev1beta1.AfterKubeAPIServer
		resource := func(kind, name string, strategy *gardencorev1beta1.ControllerResourceLifecycleStrategy) gardencorev1beta1.ControllerResource {
			return gardencorev1beta1.ControllerResource{Kind: kind, Type: name, Lifecycle: &gardencorev1beta1.ControllerResourceLifecycle{Reconcile: strategy}}
		}
		Expect(demo.EarlyExtensionTypes([]gardencorev1beta1.ControllerRegistration{{Spec: gardencorev1beta1.ControllerRegistrationSpec{
			Resources: []gardencorev1beta1.ControllerResource{
				resource("Extension", "early", &before), resource("Extension", "late", &after), resource("Extension", "default", nil),
				{Kind: "Extension", Type: "plain"}, resource("Worker", "local", &before),
			},
		}}})).To(Equal(sets.New("early")))
	})
})

var _ = Describe("PhaseTracker", func() {
	shootWith := func(finished int, current gardencorev1beta1.ConditionStatus, seed string) *gardencorev1beta1.Shoot {
		shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{SeedName: &seed, LiveMigration: &gardencorev1beta1.LiveMigration{}}}
		for i, conditionType := range steps.ConditionTypes() {
			status := gardencorev1beta1.ConditionUnknown
			switch {
			case i < finished:
				status = gardencorev1beta1.ConditionTrue
			case i == finished:
				status = current
			}
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions, gardencorev1beta1.Condition{Type: conditionType, Status: status})
		}
		return shoot
	}

	It("follows a migration, whatever the one before has left", func() {
		tracker := demo.PhaseTracker{Destination: "seed-b"}
		last := len(steps.Table())
		Expect(tracker.Observe(shootWith(last, "", "seed-a"))).To(Equal(ownership.Before))
		Expect(tracker.Observe(shootWith(0, gardencorev1beta1.ConditionUnknown, "seed-a"))).To(Equal(ownership.Before))
		Expect(tracker.Observe(shootWith(0, gardencorev1beta1.ConditionProgressing, "seed-a"))).To(Equal(ownership.Phase(0)))
		Expect(tracker.Observe(shootWith(last-1, gardencorev1beta1.ConditionProgressing, "seed-a"))).To(Equal(ownership.Phase(last - 1)))
		Expect(tracker.Observe(shootWith(last, "", "seed-a"))).To(Equal(ownership.Phase(last-1)), "the hand-over is not seen yet")
		Expect(tracker.Observe(shootWith(last, "", "seed-b"))).To(Equal(ownership.After))
	})
})
