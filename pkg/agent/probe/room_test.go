// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"context"
	"errors"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
)

// need is what some pods request: "CPU/memory".
func need(name string, pods int32, requests string, apart ...string) seedfacts.Need {
	cpu, memory, _ := strings.Cut(requests, "/")
	return seedfacts.Need{Name: name, Pods: pods, CPU: resource.MustParse(cpu), Memory: resource.MustParse(memory),
		Apart: apart}
}

// member is a pod of a StatefulSet in the control plane of the shoot with the name.
func member(shoot, name, cpu, memory string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--demo--" + shoot, Name: name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet",
				Name: name[:len(name)-2], UID: "u", Controller: new(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd"}, {Name: "backup-restore"}}},
	}
	// As etcd-druid labels its pods.
	pod.Labels = map[string]string{exposure.LabelKey: pod.OwnerReferences[0].Name}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return pod
}

// ofDeployment lets the pod belong to a Deployment.
func ofDeployment(pod *corev1.Pod, deployment string) *corev1.Pod {
	pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "5f7d"}
	pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name = "ReplicaSet", deployment+"-5f7d"
	return pod
}

var _ = Describe("Room for a control plane", func() {
	var (
		w         *world
		published []seedfacts.Need
	)
	has := func(pods ...*corev1.Pod) {
		GinkgoHelper()
		for _, pod := range pods {
			Expect(w.raw.Create(w.ctx, pod)).To(Succeed())
		}
	}
	waiting := func(name string) *gardencorev1beta1.Shoot {
		shoot := newShoot(name)
		shoot.Status.TechnicalID = "shoot--demo--" + name
		return shoot
	}
	comes := func(shoots ...*gardencorev1beta1.Shoot) {
		GinkgoHelper()
		for _, shoot := range shoots {
			Expect(w.garden.Create(w.ctx, shoot)).To(Succeed())
		}
	}

	BeforeEach(func() {
		w, published = newWorld(), nil
		w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
			published = w.connection().Round.Needs
			return measured, nil
		}
	})

	Describe("in the other seed", func() {
		It("should be asked for with what the pods request, by what they belong to", func() {
			comes(waiting("live"))
			spread := func(pod *corev1.Pod) *corev1.Pod {
				pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
					{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
					{TopologyKey: "other", WhenUnsatisfiable: corev1.ScheduleAnyway}}
				pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{TopologyKey: corev1.LabelHostname}}}}
				return pod
			}
			ours := member("live", "livecpm-relay-0", "1", "1Gi")
			ours.Labels = map[string]string{exposure.LabelKey: exposure.LabelValue}
			ended := member("live", "job-0", "1", "1Gi")
			ended.Status.Phase = corev1.PodSucceeded
			stray := member("live", "stray-0", "1", "1Gi")
			stray.OwnerReferences = nil
			has(spread(member("live", "etcd-main-0", "300m", "1Gi")),
				spread(member("live", "etcd-main-1", "500m", "1Gi")),
				ofDeployment(member("live", "kube-apiserver-5f7d-x", "800m", "2Gi"), "kube-apiserver"),
				ofDeployment(member("live", "small-5f7d-x", "10m", "20Mi"), "small"), ours, ended, stray,
				member("elsewhere", "etcd-main-0", "9", "9Gi"))
			w.look()
			Expect(published).To(HaveExactElements(
				equalNeed(need("etcd-main", 2, "500m/1Gi", corev1.LabelHostname, corev1.LabelTopologyZone)),
				equalNeed(need("kube-apiserver", 1, "800m/2Gi"))))
		})

		It("should be asked for the largest that waits", func() {
			comes(waiting("one"), waiting("two"), waiting("three"), begun(waiting("four")))
			for shoot, cpu := range map[string]string{"one": "1", "two": "3", "three": "2", "four": "9"} {
				has(member(shoot, "etcd-main-0", cpu, "1Gi"))
			}
			w.look()
			Expect(published).To(HaveExactElements(equalNeed(need("etcd-main", 1, "3/1Gi"))))
		})

		It("should be asked for a shoot that somebody names, which is not on its way", func() {
			shoot := waiting("live")
			shoot.Spec.SeedName = new(own)
			comes(shoot)
			has(member("live", "etcd-main-0", "1", "1Gi"))
			w.ask()
			w.look()
			Expect(published).To(BeEmpty(), "nobody has named it")

			w.clock.Step(time.Minute)
			w.ask()
			seed := w.seedNamed(own)
			metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.RoomRequest(peer), "garden-demo/live")
			Expect(w.garden.Update(w.ctx, seed)).To(Succeed())
			w.look()
			Expect(published).To(HaveExactElements(equalNeed(need("etcd-main", 1, "1/1Gi"))))
			w.look()
			Expect(w.seedNamed(own).Annotations).NotTo(HaveKey(seedfacts.RoomRequest(peer)), "it is answered")
		})
	})

	Describe("in this seed", func() {
		BeforeEach(func() {
			w.needs = []seedfacts.Need{need("etcd-main", 3, "500m/1Gi", corev1.LabelHostname),
				need("kube-apiserver", 2, "1/2Gi")}
		})

		It("should be found by pods that request the same and drive nobody out, which are gone then", func() {
			w.measure = func(context.Context, answer.Question) (answer.Measurement, error) {
				for _, name := range []string{"room-etcd-main", "room-kube-apiserver"} {
					err := w.raw.Get(w.ctx, client.ObjectKey{Namespace: probe.NamespaceOf(own, peer), Name: name},
						&appsv1.StatefulSet{})
					Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
					Expect(err).To(HaveOccurred(), "they would disturb the measurement")
				}
				return measured, nil
			}
			w.ask()
			w.look()
			result := w.connection().Result
			Expect(result.InOrder()).To(BeTrue())
			Expect(result.Room.String()).To(Equal("5 pods, 3.50 CPU, 7.0 GiB"))

			etcd := created[*appsv1.StatefulSet](w, "room-etcd-main")
			Expect(*etcd.Spec.Replicas).To(BeEquivalentTo(3))
			Expect(etcd.Spec.PodManagementPolicy).To(Equal(appsv1.ParallelPodManagement))
			spec := etcd.Spec.Template.Spec
			Expect(spec.PriorityClassName).To(BeEmpty())
			Expect(spec.Containers[0].Resources.Requests.Cpu().String()).To(Equal("500m"))
			Expect(spec.Containers[0].Resources.Requests.Memory().String()).To(Equal("1Gi"))
			Expect(spec.TopologySpreadConstraints).To(ConsistOf(And(HaveField("TopologyKey", corev1.LabelHostname),
				HaveField("WhenUnsatisfiable", corev1.DoNotSchedule),
				HaveField("LabelSelector.MatchLabels", Equal(etcd.Spec.Template.Labels)))))
			Expect(created[*appsv1.StatefulSet](w, "room-kube-apiserver").Spec.Template.Spec.TopologySpreadConstraints).
				To(BeEmpty())
			Expect(w.namespaces()).To(BeEmpty())
		})

		It("should be said to be missing with what the scheduler says", func() {
			w.full = true
			w.ask()
			w.look()
			result := w.connection().Result
			Expect(result.Room).To(BeNil())
			Expect(result.Problems).To(ContainElements(
				ContainSubstring("2 of 5 pods that request as much as those of the control plane (5 pods, 3.50 CPU, "+
					"7.0 GiB) have a node"),
				"no node takes pod room-etcd-main-1, which requests as much as one of etcd-main: 0/3 nodes are "+
					"available: 3 Insufficient cpu."))
			Expect(w.namespaces()).To(BeEmpty())
		})

		DescribeTable("should not be looked for beyond what a control plane can need",
			func(needs []seedfacts.Need, why string) {
				w.needs = needs
				w.ask()
				w.look()
				Expect(w.connection().Result.Unknown).To(ConsistOf("seed seed-b: " + why))
				for _, object := range w.seen {
					Expect(object.GetName()).NotTo(HavePrefix("room-"))
				}
			},
			Entry("many pods", []seedfacts.Need{need("a", 11, "1/1Gi")},
				"room for 11 pods of a is asked for, 1 to 10 are permitted"),
			Entry("no pods", []seedfacts.Need{need("a", 0, "1/1Gi")},
				"room for 0 pods of a is asked for, 1 to 10 are permitted"),
			Entry("many kinds", make([]seedfacts.Need, 51),
				"room for 51 kinds of pods is asked for, at most 50 are permitted"),
		)
	})

	It("should not be known if the pods of the control plane cannot be read", func() {
		comes(waiting("live"))
		w.unreadable = errors.New("no connection")
		w.look()
		Expect(w.connection().Result.Unknown).
			To(ConsistOf("failed to list the pods in namespace shoot--demo--live: no connection"))
	})
})

// equalNeed matches a need, whose quantities may be written in different ways.
func equalNeed(expected seedfacts.Need) OmegaMatcher {
	return And(HaveField("Name", expected.Name), HaveField("Pods", expected.Pods),
		HaveField("CPU.String()", expected.CPU.String()), HaveField("Memory.String()", expected.Memory.String()),
		HaveField("Apart", expected.Apart))
}
