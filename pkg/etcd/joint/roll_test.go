// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("rolling restart of the destination's members", func() {
	const before, after = "etcd-6d5f7c9b4", "etcd-7f8c6d9b5"

	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint
	)

	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)).To(Succeed())
	}
	// specification changes the Etcd: with a bootstrap it is that of the migration.
	specification := func(etcdRole string, mutate func(*druidcorev1alpha1.Etcd)) {
		GinkgoHelper()
		etcd := &druidcorev1alpha1.Etcd{}
		get(etcd, naming.EtcdName(etcdRole))
		mutate(etcd)
		Expect(s.client.Update(ctx, etcd)).To(Succeed())
	}
	bootstrap := func(etcd *druidcorev1alpha1.Etcd) {
		etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{}
	}
	plain := func(etcd *druidcorev1alpha1.Etcd) { etcd.Spec.Etcd.BootstrapWithExistingCluster = nil }
	revision := func(etcdRole, name string) {
		GinkgoHelper()
		statefulSet := &appsv1.StatefulSet{}
		get(statefulSet, naming.EtcdName(etcdRole))
		statefulSet.Status.UpdateRevision, statefulSet.Status.ObservedGeneration = name, statefulSet.Generation
		Expect(s.client.Status().Update(ctx, statefulSet)).To(Succeed())
	}
	label := func(etcdRole string, ordinal int, revision string) {
		GinkgoHelper()
		p := &corev1.Pod{}
		get(p, naming.PodName(etcdRole, ordinal))
		p.Labels = map[string]string{appsv1.StatefulSetRevisionLabel: revision}
		Expect(s.client.Update(ctx, p)).To(Succeed())
	}
	// stop takes a pod away as a StatefulSet does, and start brings it back.
	stop := func(etcdRole string, ordinal int) {
		GinkgoHelper()
		Expect(s.client.Delete(ctx, pod(naming.PodName(etcdRole, ordinal)))).To(Succeed())
		s.clusters[etcdRole].SetUp(memberName("seed-b", etcdRole, ordinal), false)
	}
	start := func(etcdRole string, ordinal int) {
		GinkgoHelper()
		Expect(s.client.Create(ctx, pod(naming.PodName(etcdRole, ordinal)))).To(Succeed())
		label(etcdRole, ordinal, after)
		s.clusters[etcdRole].SetUp(memberName("seed-b", etcdRole, ordinal), true)
	}
	moves := func(etcdRole string) []string {
		var out []string
		for _, call := range s.clusters[etcdRole].Calls() {
			if to, ok := strings.CutPrefix(call, "move leadership "); ok {
				out = append(out, to)
			}
		}
		return out
	}
	leadTo := func(etcdRole string, ordinal int) {
		GinkgoHelper()
		list, err := s.clusters[etcdRole].List(ctx)
		Expect(err).NotTo(HaveOccurred())
		world, err := j.Observe(ctx, etcdRole)
		Expect(err).NotTo(HaveOccurred())
		leader, ok := world.Members.Leader()
		Expect(ok).To(BeTrue())
		for _, member := range list.Members {
			if member.Name == memberName("seed-b", etcdRole, ordinal) {
				Expect(s.clusters[etcdRole].MoveLeader(ctx, world.Raw[leader.ID], member.ID)).To(Succeed())
			}
		}
	}
	look := func() Progress {
		GinkgoHelper()
		progress, err := j.RollNext(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		return progress
	}

	BeforeEach(func() {
		s = newSeedsOf("seed-b")
		j = s.joint(steps.Destination)
		for _, etcdRole := range naming.EtcdRoles {
			s.retireSource(etcdRole, 0)
			specification(etcdRole, bootstrap)
			for ordinal := range 3 {
				label(etcdRole, ordinal, before)
			}
			revision(etcdRole, before)
		}
	})

	Describe("PrepareRoll", func() {
		It("should leave leadership where the restart comes last", func() {
			done := len(moves("main"))
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(moves("main")).To(HaveLen(done))
		})

		It("should transfer leadership there from a member that restarts before", func() {
			leadTo("main", 2)
			leadTo("events", 1)
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
			Expect(s.clusters["events"].Leader()).To(Equal("seed-b-etcd-events-0"))
		})

		It("should not move it back once the restart may have begun", func() {
			leadTo("main", 2)
			specification("main", plain)
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-2"))
		})

		It("should say what is wrong without a quorum", func() {
			for ordinal := range 2 {
				s.clusters["main"].SetUp(memberName("seed-b", "main", ordinal), false)
			}
			Expect(j.PrepareRoll(ctx)).To(MatchError(ContainSubstring("etcd-main")))
		})
	})

	Describe("RollNext", func() {
		It("should transfer leadership once, to the first member that is back", func() {
			done := len(moves("main"))
			specification("main", plain)
			revision("main", after)

			Expect(look().Message).To(ContainSubstring("no member has been restarted yet"))
			stop("main", 2)
			Expect(look().Message).To(ContainSubstring("no member has been restarted yet"))
			Expect(moves("main")).To(HaveLen(done))

			start("main", 2)
			Expect(look().Message).To(ContainSubstring("no member has been restarted yet"),
				"etcd restarts once more in the new pod")
			s.clusters["main"].SetUp(memberName("seed-b", "main", 2), false)
			s.clusters["main"].SetUp(memberName("seed-b", "main", 2), true)
			Expect(look().Message).To(ContainSubstring("no member has been restarted yet"))
			Expect(moves("main")).To(HaveLen(done))

			stop("main", 1)
			Expect(look().Message).To(ContainSubstring("leadership moves"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-2"))
			Expect(look().Message).To(ContainSubstring("the leader has been restarted"))

			start("main", 1)
			stop("main", 0)
			Expect(look().Done).To(BeFalse())
			start("main", 0)
			Expect(look().Done).To(BeTrue())
			Expect(moves("main")[done:]).To(Equal([]string{"seed-b-etcd-main-0 -> seed-b-etcd-main-2"}))
		})

		It("should not move it to a member that is not healthy yet", func() {
			specification("main", plain)
			revision("main", after)
			stop("main", 2)
			start("main", 2)
			label("main", 1, after)
			s.clusters["main"].SetUp(memberName("seed-b", "main", 2), false)
			Expect(look().Message).To(ContainSubstring("no member has been restarted yet"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		DescribeTable("should not take pods of an earlier change for restarted ones",
			func(mutate func(*druidcorev1alpha1.Etcd)) {
				// The third member joined with a template of its own: its pod has the newest revision there is.
				revision("main", after)
				label("main", 2, after)
				specification("main", mutate)
				Expect(look().Message).To(ContainSubstring("etcd-druid has not applied"))
				Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
			},
			Entry("before the specification changes", bootstrap),
			Entry("before etcd-druid begins", func(etcd *druidcorev1alpha1.Etcd) {
				plain(etcd)
				etcd.Annotations = map[string]string{
					druidcorev1alpha1.DruidOperationAnnotation: druidcorev1alpha1.DruidOperationReconcile,
				}
			}),
			Entry("before etcd-druid is done", func(etcd *druidcorev1alpha1.Etcd) {
				plain(etcd)
				etcd.Generation, etcd.Status.ObservedGeneration = 3, new(int64(2))
			}),
		)

		It("should wait for the StatefulSet's controller", func() {
			specification("main", plain)
			revision("main", after)
			statefulSet := &appsv1.StatefulSet{}
			get(statefulSet, "etcd-main")
			statefulSet.Generation = 5
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			Expect(look().Message).To(ContainSubstring("etcd-druid has not applied"))
		})
	})

	It("should accompany the restart of both clusters to its end", func() {
		for _, etcdRole := range naming.EtcdRoles {
			specification(etcdRole, plain)
			revision(etcdRole, after)
		}
		done := make(chan error, 1)
		go func() { done <- j.AccompanyRoll(ctx) }()
		for _, etcdRole := range naming.EtcdRoles {
			for _, ordinal := range []int{2, 1, 0} {
				Expect(s.clusters[etcdRole].Leader()).NotTo(Equal(memberName("seed-b", etcdRole, ordinal)),
					"the leader must not be stopped")
				stop(etcdRole, ordinal)
				if ordinal == 1 {
					Eventually(s.clusters[etcdRole].Leader).Should(Equal(memberName("seed-b", etcdRole, 2)))
				}
				start(etcdRole, ordinal)
			}
		}
		Eventually(done).Should(Receive(BeNil()))
	})
})
