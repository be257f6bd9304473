// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("A member of the source that is lost", func() {
	var (
		ctx   = context.Background()
		s     *seeds
		clock *testclock.FakeClock
		j     *Joint
		keep  = func(context.Context) error { return nil }
	)

	onClock := func(config *Config) { config.Clock = clock }
	// loseNode makes the pod of etcd-main one on a node that is gone: nobody reports its end.
	loseNode := func(ordinal int) {
		GinkgoHelper()
		lost := &corev1.Pod{}
		key := client.ObjectKey{Namespace: namespace, Name: naming.PodName("main", ordinal)}
		Expect(s.client.Get(ctx, key, lost)).To(Succeed())
		lost.Finalizers = []string{"test/kubelet"}
		Expect(s.client.Update(ctx, lost)).To(Succeed())
		s.clusters["main"].SetUp(memberName("seed-a", "main", ordinal), false)
	}
	// report sets what the pod says of itself, or the node lifecycle controller of it.
	report := func(ordinal int, ready corev1.ConditionStatus) {
		GinkgoHelper()
		told := &corev1.Pod{}
		key := client.ObjectKey{Namespace: namespace, Name: naming.PodName("main", ordinal)}
		Expect(s.client.Get(ctx, key, told)).To(Succeed())
		told.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		Expect(s.client.Status().Update(ctx, told)).To(Succeed())
	}
	// retire lets the agents of both seeds look at etcd-main so often, ten seconds apart. It returns the last progress.
	retire := func(looks int) Progress {
		GinkgoHelper()
		var progress Progress
		for range looks {
			var err error
			progress, err = j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.clusters["main"].Health(ctx)).To(Succeed(), "the quorum is never lost")
			if progress.Done {
				break
			}
			_, err = s.joint(steps.Destination).TakeLeadership(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			clock.Step(10 * time.Second)
		}
		return progress
	}

	BeforeEach(func() {
		s = newSeeds()
		clock = testclock.NewFakeClock(time.Now())
		j = s.joint(steps.Source, onClock)
		s.retireSource("events", 0)
		s.joinDestination("main", 3)
	})

	DescribeTable("does not stop the retirement", func(left, dead int) {
		s.removeSource("main", left)
		loseNode(dead)
		report(dead, corev1.ConditionFalse)
		Expect(retire(60)).To(HaveField("Done", BeTrue()))
		Expect(s.clusters["main"].Names()).
			To(Equal([]string{"seed-b-etcd-main-0", "seed-b-etcd-main-1", "seed-b-etcd-main-2"}))
	},
		Entry("the first to leave of three", 3, 2),
		Entry("the second of three", 3, 1),
		Entry("the last of three", 3, 0),
		Entry("the first of two", 2, 1),
		Entry("the last of two", 2, 0),
		Entry("the last one", 1, 0),
	)

	It("should stay as long as its pod may still end in an orderly way", func() {
		loseNode(2)
		Expect(retire(30).Message).To(Equal("pod etcd-main-2 of the source is stopping"), "the node may be busy")
		Expect(s.clusters["main"].Names()).To(ContainElement("seed-a-etcd-main-2"))
		report(2, corev1.ConditionFalse)
		Expect(retire(30)).To(HaveField("Done", BeTrue()))
	})

	It("should stay for as long as a kubelet needs, whatever its pod says", func() {
		loseNode(2)
		report(2, corev1.ConditionFalse)
		Expect(retire(3).Message).To(Equal("pod etcd-main-2 of the source is stopping"))
		Expect(s.clusters["main"].Names()).To(ContainElement("seed-a-etcd-main-2"))
	})

	It("should stay as long as the members that remain are not healthy", func() {
		s.removeSource("main", 2)
		s.lead("main", "seed-b-etcd-main-0")
		loseNode(0)
		s.clusters["main"].SetUp("seed-b-etcd-main-2", false)
		progress := retire(5)
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
		Expect(progress.Message).To(ContainSubstring("would lose the quorum"))
		Expect(s.deletions()).To(BeEmpty())
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
	})

	DescribeTable("leaves as a learner that joins again as well", func(left, ordinal int) {
		s.removeSource("main", left)
		s.loseData(steps.Source, "main", ordinal)
		progress, err := s.joint(steps.Destination).Advance(ctx, "main", 3)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Done).To(BeTrue(), "the destination has all that it needs: %s", progress.Message)
		Expect(retire(60)).To(HaveField("Done", BeTrue()))
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
	},
		Entry("the first of three", 3, 2),
		Entry("the last of three", 3, 0),
		Entry("the last of two", 2, 0),
		Entry("the last one", 1, 0),
	)

	Context("before the last member of the destination has joined", func() {
		BeforeEach(func() {
			s = newSeeds()
			j = s.joint(steps.Source, onClock)
			for _, etcdRole := range naming.EtcdRoles {
				s.joinDestination(etcdRole, 2)
			}
		})

		DescribeTable("leaves, so that it can join", func(ordinal int) {
			s.lead("main", memberName("seed-a", "main", (ordinal+1)%3))
			loseNode(ordinal)
			report(ordinal, corev1.ConditionFalse)
			destination := s.joint(steps.Destination, onClock)
			_, ask, err := destination.SourceDown(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(ask).To(BeFalse(), "it may come back")

			Expect(retire(17).Message).To(ContainSubstring("it is retired if that lasts for 3m0s"))
			Expect(s.clusters["main"].Names()).To(HaveLen(5))
			_, ask, err = destination.SourceDown(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(ask).To(BeTrue())

			Expect(retire(10).Done).To(BeFalse(), "the others stay")
			Expect(s.clusters["main"].Names()).To(And(HaveLen(4),
				Not(ContainElement(memberName("seed-a", "main", ordinal)))))
			down, ask, err := destination.SourceDown(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(down).To(BeEmpty())
			Expect(ask).To(BeFalse())

			By("letting the last member join, and the retirement take its course")
			s.joinLast("main")
			s.joinLast("events")
			s.lead("events", "seed-b-etcd-events-0")
			s.removeSource("events", 0)
			Expect(retire(60)).To(HaveField("Done", BeTrue()))
			Expect(s.clusters["main"].Names()).
				To(Equal([]string{"seed-b-etcd-main-0", "seed-b-etcd-main-1", "seed-b-etcd-main-2"}))
			Expect(s.sawVoters("main")).NotTo(ContainElement(6))
			statefulSet := &appsv1.StatefulSet{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, statefulSet)).
				To(Succeed())
			Expect(statefulSet.Spec.Replicas).To(HaveValue(BeZero()), "no pod of the source comes back")
		},
			Entry("the last one", 0),
			Entry("the one in the middle", 1),
			Entry("the first to leave", 2),
		)

		It("should stay as long as its pod is ready: the way to it may be cut", func() {
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			Expect(retire(60).Message).To(ContainSubstring("does not answer, but its pod is ready"))
			Expect(s.clusters["main"].Names()).To(HaveLen(5))
		})

		It("should stay as long as another one is down", func() {
			loseNode(1)
			report(1, corev1.ConditionFalse)
			s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
			progress := retire(60)
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
			Expect(progress.Message).To(ContainSubstring("stays until the others are healthy: seed-b-etcd-main-1"))
			Expect(s.clusters["main"].Names()).To(HaveLen(5))
		})

		It("should stay if it comes back", func() {
			loseNode(1)
			report(1, corev1.ConditionFalse)
			retire(10)
			s.clusters["main"].SetUp("seed-a-etcd-main-1", true)
			Expect(retire(1).Message).To(Equal("the destination has 2 of 3 voters"))
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			retire(10)
			Expect(s.clusters["main"].Names()).To(HaveLen(5), "its time has begun again")
		})

		It("should leave as a learner that never starts", func() {
			s.loseData(steps.Source, "main", 1)
			down, _, err := s.joint(steps.Destination, onClock).SourceDown(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(down).To(HaveLen(1))
			retire(17)
			Expect(s.clusters["main"].Names()).To(HaveLen(5))
			retire(5)
			Expect(s.clusters["main"].Names()).To(HaveLen(4))
		})
	})
})
