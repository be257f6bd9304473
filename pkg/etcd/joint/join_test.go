// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
)

var _ = Describe("Join", func() {
	var (
		ctx = context.Background()
		s   *seeds
		j   *Joint
	)

	BeforeEach(func() {
		s = newSeeds()
		j = s.joint(steps.Destination)
	})

	Describe("#CheckSource and #Bootstrap", func() {
		It("should describe a healthy source", func() {
			Expect(j.CheckSource(ctx)).To(Succeed())
			bootstrap, err := j.Bootstrap(ctx, "events")
			Expect(err).NotTo(HaveOccurred())
			Expect(bootstrap).To(Equal(&druidcorev1alpha1.BootstrapWithExistingCluster{
				Members: []druidcorev1alpha1.BootstrapExistingMember{
					{Name: "seed-a-etcd-events-0",
						PeerURLs: []string{"https://etcd-events-0.etcd-events-peer.shoot--demo--live.svc:2380"}},
					{Name: "seed-a-etcd-events-1",
						PeerURLs: []string{"https://etcd-events-1.etcd-events-peer.shoot--demo--live.svc:2380"}},
					{Name: "seed-a-etcd-events-2",
						PeerURLs: []string{"https://etcd-events-2.etcd-events-peer.shoot--demo--live.svc:2380"}},
				},
				ClientEndpoints: []string{"https://source-client.etcd-events-peer.shoot--demo--live.svc:22379"},
			}))
		})

		It("should refuse a source with a member that is down", func() {
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			Expect(j.CheckSource(ctx)).
				To(MatchError(And(ContainSubstring("etcd-main"), ContainSubstring("seed-a-etcd-main-1"))))
			_, err := j.Bootstrap(ctx, "main")
			Expect(err).To(MatchError(ContainSubstring("cannot be joined")))
		})

		It("should refuse a cluster with members of the destination", func() {
			s.joinDestination("main", 1)
			_, err := j.Bootstrap(ctx, "main")
			Expect(err).To(MatchError(ContainSubstring("4 voters")))
		})

		It("should fail when the quorum is lost", func() {
			s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
			s.clusters["main"].SetUp("seed-a-etcd-main-2", false)
			Expect(j.CheckSource(ctx)).To(MatchError(ContainSubstring("timed out")))
		})
	})

	Describe("#Advance", func() {
		advance := func() Progress {
			GinkgoHelper()
			progress, err := j.Advance(ctx, "main", 2)
			Expect(err).NotTo(HaveOccurred())
			return progress
		}

		It("should promote each learner once it has caught up", func() {
			Expect(advance().Reason).To(Equal(steps.ReasonJoiningEtcdMembers))

			for ordinal := range 2 {
				id := s.addLearner("main", ordinal)
				Expect(advance()).To(
					Equal(Progress{Reason: steps.ReasonJoiningEtcdMembers, Message: "the member of pod etcd-main-" +
						string(rune('0'+ordinal)) + " was added and has not started yet"}))
				s.clusters["main"].Start(id, memberName("seed-b", "main", ordinal))
				Expect(advance().Message).To(ContainSubstring("is catching up"))
				s.clusters["main"].CatchUp(id)
				Expect(advance().Done).To(Equal(ordinal == 1))
			}
			Expect(s.clusters["main"].Calls()).
				To(Equal([]string{"promote seed-b-etcd-main-0", "promote seed-b-etcd-main-1"}))
			Expect(s.sawVoters("main")).To(Equal([]int{3, 4, 5}))
		})

		It("should not promote a learner that does not answer, although it has the data", func() {
			id := s.addLearner("main", 0)
			s.clusters["main"].Start(id, "seed-b-etcd-main-0")
			s.clusters["main"].CatchUp(id)
			s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
			Expect(advance()).To(
				Equal(Progress{Reason: steps.ReasonWaitingForEtcdMember,
					Message: "member seed-b-etcd-main-0 does not answer yet"}))
			Expect(s.clusters["main"].Calls()).To(BeEmpty())

			s.clusters["main"].SetUp("seed-b-etcd-main-0", true)
			Expect(advance().Reason).To(Equal(steps.ReasonJoiningEtcdMembers), "the second one is missing")
			Expect(s.clusters["main"].Calls()).To(Equal([]string{"promote seed-b-etcd-main-0"}))
		})

		It("should not promote when a failure of the new voter would cost the quorum", func() {
			id := s.addLearner("main", 0)
			s.clusters["main"].Start(id, "seed-b-etcd-main-0")
			s.clusters["main"].CatchUp(id)
			s.clusters["main"].SetUp("seed-a-etcd-main-2", false)
			progress := advance()
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
			Expect(progress.Message).To(ContainSubstring("seed-a-etcd-main-2"))
			Expect(s.clusters["main"].Calls()).To(BeEmpty())
		})

		It("should remove a learner that never starts, with its pod", func() {
			fakeClock := testclock.NewFakeClock(time.Now())
			j = s.joint(steps.Destination, func(c *Config) { c.Clock = fakeClock })
			s.addLearner("main", 0)
			advance()
			fakeClock.Step(2 * time.Minute)
			Expect(advance().Message).To(ContainSubstring("has not started yet"))
			Expect(s.clusters["main"].Names()).To(HaveLen(4))

			fakeClock.Step(2 * time.Minute)
			Expect(advance().Message).To(ContainSubstring("was removed"))
			Expect(s.clusters["main"].Names()).To(HaveLen(3))
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-0"}, &corev1.Pod{})).
				To(MatchError(ContainSubstring("not found")))
		})

		It("should leave a pod alone that has followed the one of the stuck learner", func() {
			fakeClock := testclock.NewFakeClock(time.Now())
			j = s.joint(steps.Destination, func(c *Config) { c.Clock = fakeClock })
			s.addLearner("main", 0)
			advance()
			fakeClock.Step(4 * time.Minute)
			follower := pod("etcd-main-0")
			follower.UID = "follower"
			s.clusters["main"].OnRemove = func(etcdclient.Member) {
				defer GinkgoRecover()
				Expect(s.client.Delete(ctx, pod("etcd-main-0"))).To(Succeed())
				Expect(s.client.Create(ctx, follower)).To(Succeed())
			}
			Expect(advance().Message).To(ContainSubstring("was removed"))
			Expect(s.clusters["main"].Names()).To(HaveLen(3))
			there := &corev1.Pod{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-0"}, there)).To(Succeed())
			Expect(there.UID).To(Equal(follower.UID))
		})

		Describe("a pod that has formed a cluster of its own", func() {
			var fakeClock *testclock.FakeClock

			BeforeEach(func() {
				fakeClock = testclock.NewFakeClock(time.Now())
				j = s.joint(steps.Destination, func(c *Config) { c.Clock = fakeClock })
				for ordinal := range 3 {
					s.runEtcd(ordinal)
				}
			})
			join := func(ordinal int) {
				GinkgoHelper()
				id := s.addLearner("main", ordinal)
				s.clusters["main"].Start(id, memberName("seed-b", "main", ordinal))
				s.clusters["main"].CatchUp(id)
				advance()
			}
			uid := func(name string) types.UID {
				GinkgoHelper()
				there := &corev1.Pod{}
				Expect(client.IgnoreNotFound(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name},
					there))).To(Succeed())
				return there.UID
			}

			It("should begin again, and only that one", func() {
				join(0)
				advance()
				fakeClock.Step(2 * time.Minute)
				Expect(advance().Message).To(ContainSubstring("1 of 2 members of the destination have joined"))
				Expect(s.deletions()).To(BeEmpty())

				fakeClock.Step(time.Minute)
				Expect(advance()).To(Equal(Progress{Reason: steps.ReasonJoiningEtcdMembers,
					Message: "pod etcd-main-1 has run for 3m0s without becoming a member and was deleted; " +
						"a new one joins"}))
				Expect(s.deletions()).To(Equal([]deletion{{Pod: "etcd-main-1", UID: "of-etcd-main-1", Grace: -1}}))
				Expect(uid("etcd-main-0")).NotTo(BeEmpty())
				Expect(uid("etcd-main-2")).NotTo(BeEmpty(), "it is not expected yet")
				Expect(s.clusters["main"].Calls()).To(Equal([]string{"promote seed-b-etcd-main-0"}))
			})

			It("should be left alone while etcd takes no more learners", func() {
				advance()
				fakeClock.Step(2 * time.Minute)
				join(0)
				fakeClock.Step(2 * time.Minute)
				advance()
				Expect(s.deletions()).To(BeEmpty())
				fakeClock.Step(3 * time.Minute)
				advance()
				Expect(s.deletions()).To(HaveLen(1))
			})

			It("should be left alone while the cluster has no quorum, and get its time again afterwards", func() {
				advance()
				fakeClock.Step(10 * time.Minute)
				s.clusters["main"].SetUp("seed-a-etcd-main-1", false)
				s.clusters["main"].SetUp("seed-a-etcd-main-2", false)
				Expect(advance().Reason).To(Equal(steps.ReasonQuorumLost))
				s.clusters["main"].SetUp("seed-a-etcd-main-1", true)
				s.clusters["main"].SetUp("seed-a-etcd-main-2", true)
				advance()
				fakeClock.Step(2 * time.Minute)
				advance()
				Expect(s.deletions()).To(BeEmpty())
				fakeClock.Step(time.Minute)
				advance()
				Expect(s.deletions()).To(HaveLen(1))
			})

			It("should be left alone while its etcd does not run, and while it ends", func() {
				there := &corev1.Pod{}
				Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-0"}, there)).
					To(Succeed())
				there.Status.ContainerStatuses = nil
				Expect(s.client.Status().Update(ctx, there)).To(Succeed())
				join(1)
				advance()
				fakeClock.Step(10 * time.Minute)
				advance()
				Expect(s.deletions()).To(BeEmpty())
			})

			It("should be none of the source's business", func() {
				j = s.joint(steps.Source, func(c *Config) { c.Clock = fakeClock })
				advance()
				fakeClock.Step(10 * time.Minute)
				advance()
				Expect(s.deletions()).To(BeEmpty())
			})
		})

		It("should touch nothing when a stranger is in the member list", func() {
			id, err := s.clusters["main"].AddLearner("https://stranger:2380")
			Expect(err).NotTo(HaveOccurred())
			s.clusters["main"].Start(id, "stranger")
			s.clusters["main"].CatchUp(id)
			Expect(advance().Reason).To(Equal(steps.ReasonForeignEtcdMember))
			Expect(s.clusters["main"].Calls()).To(BeEmpty())
		})

		It("should wait while a voter is unhealthy", func() {
			s.joinDestination("main", 2)
			s.clusters["main"].SetUp("seed-a-etcd-main-0", false)
			progress := advance()
			Expect(progress.Done).To(BeFalse())
			Expect(progress.Reason).To(Equal(steps.ReasonWaitingForEtcdMember))
		})

		It("should say so when the quorum is lost, and change nothing", func() {
			s.joinDestination("main", 2)
			for _, name := range []string{"seed-a-etcd-main-0", "seed-a-etcd-main-1", "seed-a-etcd-main-2"} {
				s.clusters["main"].SetUp(name, false)
			}
			calls := len(s.clusters["main"].Calls())
			progress := advance()
			Expect(progress.Done).To(BeFalse())
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumLost))
			Expect(progress.Message).
				To(ContainSubstring("no leader is known: 5 voters (3 in the source, 2 in the destination)"))
			Expect(s.clusters["main"].Calls()).To(HaveLen(calls))

			left, missing, err := j.OnlyDestinationLeft(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(left).To(BeFalse())
			Expect(missing).To(ContainSubstring("no leader is known"))
		})

		It("should take members of which none answers for a cut", func() {
			s.joinDestination("main", 2)
			for _, name := range s.clusters["main"].Names() {
				s.clusters["main"].SetUp(name, false)
			}
			_, err := j.Advance(ctx, "main", 2)
			Expect(err).To(MatchError(ContainSubstring("failed to look at etcd-main")))
		})

		It("should call six members joined although one of the destination restarts", func() {
			s.joinDestination("main", 3)
			s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
			progress, err := j.Advance(ctx, "main", 3)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeTrue())

			s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
			progress, err = j.Advance(ctx, "main", 3)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeFalse())
		})
	})

	Describe("#Join", func() {
		It("should wait for both clusters and report", func() {
			s.joinDestination("main", 2)
			s.joinDestination("events", 1)
			var reported []string
			seen, see := context.WithCancel(ctx)
			go func() {
				defer GinkgoRecover()
				<-seen.Done() // of the state before
				id := s.addLearner("events", 1)
				s.clusters["events"].Start(id, "seed-b-etcd-events-1")
				s.clusters["events"].CatchUp(id)
			}()
			Expect(j.Join(ctx, 2, func(_ context.Context, reason steps.Reason, message string) error {
				reported = append(reported, string(reason)+": "+message)
				see()
				return nil
			})).To(Succeed())
			Expect(reported).To(
				ContainElement(And(ContainSubstring("JoiningEtcdMembers"), ContainSubstring("etcd-events: 1 of 2"))))
		})

		It("should end with the context and say what was missing", func() {
			timeout, expire := patience.Expiring(ctx)
			err := j.Join(timeout, 2, func(context.Context, steps.Reason, string) error { expire(); return nil })
			Expect(err).To(MatchError(ContainSubstring("0 of 2 members")))
			Expect(err).To(MatchError(context.DeadlineExceeded))
		})
	})

	Describe("holding the restart of the destination's first members", func() {
		var statefulSet *appsv1.StatefulSet
		etcd := func() *druidcorev1alpha1.Etcd {
			GinkgoHelper()
			etcd := &druidcorev1alpha1.Etcd{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, etcd)).To(Succeed())
			return etcd
		}
		advance := func(members int) *appsv1.StatefulSet {
			GinkgoHelper()
			_, err := j.Advance(ctx, "main", members)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
			return statefulSet
		}

		BeforeEach(func() {
			statefulSet = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}
			joining := etcd()
			joining.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{}
			joining.Spec.Replicas = 3
			joining.Annotations = map[string]string{"gardener.cloud/operation": "reconcile"}
			Expect(s.client.Update(ctx, joining)).To(Succeed())
		})

		It("should leave the StatefulSet alone while two members join and before etcd-druid has scaled it", func() {
			Expect(advance(2).Spec.UpdateStrategy.RollingUpdate).To(BeNil())
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
			statefulSet.Spec.Replicas = new(int32(2))
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			Expect(advance(3).Spec.UpdateStrategy.RollingUpdate).To(BeNil())
			Expect(etcd().Annotations).To(HaveLen(1))
		})

		It("should hold, pause etcd-druid when it is done, and release when only the destination is left", func() {
			Expect(*advance(3).Spec.UpdateStrategy.RollingUpdate.Partition).To(Equal(int32(2)))
			Expect(etcd().Annotations).To(And(HaveKey("druid.gardener.cloud/disable-etcd-component-protection"),
				Not(HaveKey("druid.gardener.cloud/suspend-etcd-spec-reconcile"))))

			done := etcd()
			delete(done.Annotations, "gardener.cloud/operation")
			Expect(s.client.Update(ctx, done)).To(Succeed())
			advance(3)
			Expect(etcd().Annotations).To(HaveKey("druid.gardener.cloud/suspend-etcd-spec-reconcile"))

			for _, etcdRole := range naming.EtcdRoles {
				s.joinDestination(etcdRole, 3)
			}
			left, _, err := j.OnlyDestinationLeft(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(left).To(BeFalse())
			Expect(etcd().Annotations).To(HaveKey("druid.gardener.cloud/suspend-etcd-spec-reconcile"))

			for _, etcdRole := range naming.EtcdRoles {
				s.removeSource(etcdRole, 0)
			}
			left, _, err = j.OnlyDestinationLeft(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(left).To(BeTrue())
			Expect(etcd().Annotations).To(BeEmpty())
		})

		It("should not hold an Etcd with its ordinary specification", func() {
			plain := etcd()
			plain.Spec.Etcd.BootstrapWithExistingCluster = nil
			Expect(s.client.Update(ctx, plain)).To(Succeed())
			Expect(advance(3).Spec.UpdateStrategy.RollingUpdate).To(BeNil())
		})
	})

	DescribeTable("spares the first member to leave leadership", func(leader, expected string, down ...string) {
		s.joinDestination("main", 2)
		s.joinDestination("events", 2)
		s.lead("main", leader)
		for _, name := range down {
			s.clusters["main"].SetUp(name, false)
		}
		for range 2 {
			Expect(j.SpareFirstToLeave(ctx)).To(Succeed())
			Expect(s.clusters["main"].Leader()).To(Equal(expected))
			Expect(s.clusters["events"].Leader()).To(Equal("seed-a-etcd-events-0"))
		}
	},
		Entry("when it has it", "seed-a-etcd-main-2", "seed-a-etcd-main-0"),
		Entry("when it has it and the last one is down", "seed-a-etcd-main-2", "seed-a-etcd-main-1",
			"seed-a-etcd-main-0"),
		Entry("not when it is the last one of the source that is left", "seed-a-etcd-main-2", "seed-a-etcd-main-2",
			"seed-a-etcd-main-0", "seed-a-etcd-main-1"),
		Entry("not when another one has it", "seed-a-etcd-main-1", "seed-a-etcd-main-1"),
		Entry("not when the destination has it", "seed-b-etcd-main-1", "seed-b-etcd-main-1"),
	)

	Describe("#CheckPlain", func() {
		It("should say what is missing", func() {
			plain, message, err := j.CheckPlain(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(plain).To(BeFalse())
			Expect(message).To(ContainSubstring("observed generation"))

			etcd := &druidcorev1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd-main"}}
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			etcd.Spec.Etcd.ServerPort = new(int32(2381))
			Expect(s.client.Update(ctx, etcd)).To(Succeed())
			_, message, err = j.CheckPlain(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(message).To(ContainSubstring("etcd-main: its peer port is 2381, not 2380"))

			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{}
			Expect(s.client.Update(ctx, etcd)).To(Succeed())
			_, message, err = j.CheckPlain(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(message).To(ContainSubstring("still has the bootstrap"))
		})
	})
})
