// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"slices"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Withdraw", func() {
	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint
	)

	BeforeEach(func() {
		s = newSeedsOf("seed-b")
		j = s.joint(steps.Destination)
	})

	It("should take the members of the destination out of both clusters again, pod before member", func() {
		s.joinDestination("main", 2)
		s.joinDestination("events", 1)
		Expect(j.Withdraw(ctx, nil)).To(Succeed())

		Expect(s.clusters["main"].Names()).
			To(Equal([]string{"seed-a-etcd-main-0", "seed-a-etcd-main-1", "seed-a-etcd-main-2"}))
		Expect(s.clusters["events"].Names()).To(HaveLen(3))
		Expect(s.sawVoters("main")).To(Equal([]int{5, 4, 3}))
		var main []string
		for _, event := range s.happened() {
			if event == "removed seed-b-etcd-main-1" || event == "removed seed-b-etcd-main-0" ||
				event == "scaled etcd-main to 1" || event == "scaled etcd-main to 0" {
				main = append(main, event)
			}
		}
		Expect(main).To(Equal([]string{"scaled etcd-main to 1", "removed seed-b-etcd-main-1", "scaled etcd-main to 0",
			"removed seed-b-etcd-main-0"}))

		etcd := &druidcorev1alpha1.Etcd{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, etcd)).To(Succeed())
		Expect(etcd.Annotations).To(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation))
	})

	It("should let a member start again when the quorum is lost before it is removed", func() {
		s.joinDestination("main", 1)
		for !slices.Contains(s.happened(), "scaled etcd-main to 0") {
			_, err := j.WithdrawNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
		}
		s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
		progress, err := j.WithdrawNext(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumLost))
		Expect(progress.Message).To(ContainSubstring("member seed-b-etcd-main-0 starts again"))
		Expect(s.happened()).To(ContainElement("scaled etcd-main to 1"))
		Expect(s.clusters["main"].Names()).To(ContainElement("seed-b-etcd-main-0"))
	})

	It("should not stop a pod that became a voter after its StatefulSet gave it up, if the quorum needs it", func() {
		s.joinDestination("main", 1)
		statefulSet := &appsv1.StatefulSet{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, statefulSet)).To(Succeed())
		statefulSet.Spec.Replicas = new(int32(0))
		Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
		s.clusters["main"].SetUp("seed-a-etcd-main-1", false)

		progress, err := j.WithdrawNext(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
		Expect(s.deletions()).To(BeEmpty(), "two of four voters would be left")

		s.clusters["main"].SetUp("seed-a-etcd-main-1", true)
		_, err = j.WithdrawNext(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.deletions()).To(ContainElement(HaveField("Pod", "etcd-main-0")))
	})

	DescribeTable("should remove a member that it has stopped, so that one of the source without data can join again",
		func(join func(), refused error) {
			join()
			for !slices.Contains(s.happened(), "scaled etcd-main to 1") {
				_, err := j.WithdrawNext(ctx, "main")
				Expect(err).NotTo(HaveOccurred())
			}
			cluster, lost := s.clusters["main"], memberName("seed-a", "main", 1)
			cluster.SetUp(lost, false)
			list, err := cluster.List(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, member := range list.Members {
				if member.Name == lost {
					Expect(cluster.Remove(ctx, member.ID)).To(Succeed())
				}
			}
			_, err = cluster.AddLearner(peerURL(steps.Source, "main")(lost))
			Expect(err).To(MatchError(refused))

			progress, err := j.WithdrawNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeFalse())
			Expect(cluster.Names()).To(ConsistOf("seed-a-etcd-main-0", "seed-a-etcd-main-2", "seed-b-etcd-main-0"))
			_, err = cluster.AddLearner(peerURL(steps.Source, "main")(lost))
			Expect(err).NotTo(HaveOccurred())
			Expect(s.happened()).NotTo(ContainElement("scaled etcd-main to 0"))
		},
		Entry("a learner", func() {
			s.joinDestination("main", 1)
			s.addLearner("main", 1)
		}, fakecluster.ErrTooManyLearners),
		Entry("a voter", func() { s.joinDestination("main", 2) }, etcdclient.ErrUnhealthy),
	)

	It("should transfer leadership back first", func() {
		s.joinDestination("main", 2)
		s.lead("main", "seed-b-etcd-main-0")
		Expect(j.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))
	})

	It("should take away learners, started or not", func() {
		s.joinDestination("main", 1)
		s.addLearner("main", 1)
		id := s.addLearner("events", 0)
		s.clusters["events"].Start(id, memberName("seed-b", "events", 0))
		Expect(j.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
		Expect(s.clusters["events"].Names()).To(HaveLen(3))
	})

	It("should stop pods that have not become members", func() {
		Expect(j.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.happened()).To(ConsistOf("scaled etcd-main to 0", "scaled etcd-events to 0"))
	})

	It("should not wait for a pod on a lost node that is no member any more", func() {
		clock := testclock.NewFakeClock(time.Now())
		j = s.joint(steps.Destination, func(config *Config) { config.Clock = clock })
		lost, key := &corev1.Pod{}, client.ObjectKey{Namespace: namespace, Name: "etcd-main-1"}
		Expect(s.client.Get(ctx, key, lost)).To(Succeed())
		lost.Finalizers = []string{"test/kubelet"}
		Expect(s.client.Update(ctx, lost)).To(Succeed())
		withdraw := func(looks int) Progress {
			GinkgoHelper()
			var progress Progress
			for range looks {
				var err error
				progress, err = j.WithdrawNext(ctx, "main")
				Expect(err).NotTo(HaveOccurred())
				clock.Step(10 * time.Second)
			}
			return progress
		}
		Expect(withdraw(10).Message).To(Equal("pod etcd-main-1 of the destination is stopping"), "its node may be busy")
		Expect(s.client.Get(ctx, key, lost)).To(Succeed())
		lost.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}
		Expect(s.client.Status().Update(ctx, lost)).To(Succeed())
		Expect(withdraw(1)).To(HaveField("Done", BeTrue()))

		By("not being done while its sidecar has added it again")
		s.addLearner("main", 1)
		Expect(withdraw(1)).To(HaveField("Done", BeFalse()))
	})

	It("should have nothing to do without Etcds", func() {
		for _, etcdRole := range naming.EtcdRoles {
			Expect(s.client.Delete(ctx,
				&druidcorev1alpha1.Etcd{ObjectMeta: pod(naming.EtcdName(etcdRole)).ObjectMeta})).To(Succeed())
		}
		Expect(j.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.happened()).To(BeEmpty())
	})

	It("should finish from wherever it was killed", func() {
		s.joinDestination("main", 2)
		for moves := 0; ; moves++ {
			Expect(moves).To(BeNumerically("<", 30))
			progress, err := s.joint(steps.Destination).WithdrawNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			if progress.Done {
				break
			}
		}
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
	})

	It("should continue although a member of the destination is down, which may be why it is done", func() {
		s.joinDestination("main", 2)
		s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
		Expect(j.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
	})

	It("should continue although an alarm refuses the writes of clients", func() {
		s.joinDestination("main", 2)
		s.clusters["main"].RaiseAlarm("seed-a-etcd-main-0", "NOSPACE")
		Expect(j.Withdraw(ctx, nil)).To(Succeed())
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
	})

	It("should stop while members may hold different data", func() {
		s.joinDestination("main", 2)
		s.clusters["main"].RaiseAlarm("seed-a-etcd-main-0", "CORRUPT")
		progress, err := j.WithdrawNext(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Done).To(BeFalse())
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
	})

	It("should stop no member that the quorum needs", func() {
		s.joinDestination("main", 2)
		s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
		s.clusters["main"].SetUp("seed-a-etcd-main-2", false)
		var progress Progress
		for range 5 {
			var err error
			progress, err = j.WithdrawNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
		Expect(progress.Message).To(ContainSubstring("would lose the quorum"))
		Expect(s.clusters["main"].Names()).To(HaveLen(5))
		Expect(s.happened()).NotTo(ContainElement(BeElementOf("scaled etcd-main to 1", "scaled etcd-main to 0")))
	})
})

var _ = Describe("RemoveDestination", func() {
	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint
	)

	BeforeEach(func() {
		s = newSeeds()
		j = s.joint(steps.Source)
	})

	It("should be content with the clusters of before the migration", func() {
		Expect(j.RemoveDestination(ctx)).To(Succeed())
		Expect(s.happened()).To(BeEmpty())
	})

	It("should remove what a pod has added in its last moment", func() {
		s.addLearner("main", 0)
		Expect(j.RemoveDestination(ctx)).To(Succeed())
		Expect(s.clusters["main"].Names()).To(HaveLen(3))
	})

	It("should not remove a member that answers", func() {
		s.joinDestination("main", 1)
		Expect(j.RemoveDestination(ctx)).
			To(MatchError(ContainSubstring("still answers although the destination has withdrawn")))
		Expect(s.clusters["main"].Names()).To(HaveLen(4))
	})

	It("should not be content while a member of the source is down", func() {
		s.clusters["events"].SetUp("seed-a-etcd-events-1", false)
		Expect(j.RemoveDestination(ctx)).To(MatchError(ContainSubstring("3 healthy voters of the source are expected")))
	})
})
