// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// plainURL gives peer URLs as an only member has them.
func plainURL(role steps.Role, etcdRole string) func(name string) string {
	return func(string) string { return naming.PlainPeerURL(role, namespace, etcdRole) }
}

// newSingleSeeds returns seeds in which the source has one member of each etcd, with the objects of one of them.
func newSingleSeeds(seed string) *seeds {
	s := newSeedsOf(seed)
	for _, etcdRole := range naming.EtcdRoles {
		s.clusters[etcdRole] = fakecluster.New(plainURL(steps.Source, etcdRole), memberName("seed-a", etcdRole, 0))
		s.clusters[etcdRole].OnRemove = func(m etcdclient.Member) { s.event("removed " + m.Name) }
		for ordinal := 1; ordinal < 3; ordinal++ {
			Expect(s.client.Delete(context.Background(), pod(naming.PodName(etcdRole, ordinal)))).To(Succeed())
		}
		statefulSet := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: naming.EtcdName(etcdRole)}}
		Expect(s.client.Get(context.Background(), client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
		statefulSet.Spec.Replicas = new(int32(1))
		Expect(s.client.Update(context.Background(), statefulSet)).To(Succeed())
	}
	return s
}

// single makes a Joint one for etcds with one member.
func single(config *Config) { config.Members = naming.SingleMember }

var _ = Describe("A cluster with one member", func() {
	const former, successor = "seed-a-etcd-main-0", "seed-b-etcd-main-0"

	var (
		ctx     = context.Background()
		s       *seeds
		cluster *fakecluster.Cluster
	)

	// add adds the member of the destination as a learner that has not started.
	add := func() uint64 {
		GinkgoHelper()
		id, err := cluster.AddLearner(naming.PlainPeerURL(steps.Destination, namespace, "main"))
		Expect(err).NotTo(HaveOccurred())
		return id
	}
	// join lets it start and catch up.
	join := func() uint64 {
		GinkgoHelper()
		id := add()
		cluster.Start(id, successor)
		cluster.CatchUp(id)
		return id
	}
	// second makes the second voter of it.
	second := func() uint64 {
		GinkgoHelper()
		id := join()
		Expect(cluster.Promote(ctx, id)).To(Succeed())
		return id
	}
	idOf := func(name string) uint64 {
		GinkgoHelper()
		list, err := cluster.List(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, m := range list.Members {
			if m.Name == name {
				return m.ID
			}
		}
		Fail("no member " + name)
		return 0
	}
	always := func(context.Context) (*Progress, error) { return nil, nil }

	Describe("as the source of a bootstrap", func() {
		BeforeEach(func() { s = newSingleSeeds("seed-b"); cluster = s.clusters["main"] })

		It("should be joined without TLS between peers, at its one URL", func() {
			bootstrap, err := s.joint(steps.Destination, single).Bootstrap(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(bootstrap).To(Equal(&druidcorev1alpha1.BootstrapWithExistingCluster{
				Members: []druidcorev1alpha1.BootstrapExistingMember{{Name: former,
					PeerURLs: []string{"http://etcd-main-0.etcd-main-peer.shoot--demo--live.svc:2380"}}},
				ClientEndpoints: []string{"https://source-client.etcd-main-peer.shoot--demo--live.svc:22379"},
			}))
		})

		It("should not be joined at an address that leads the new member to itself", func() {
			cluster.SetPeerURLs(former, "http://localhost:2380")
			_, err := s.joint(steps.Destination, single).Bootstrap(ctx, "main")
			Expect(err).To(MatchError(And(ContainSubstring("etcd-main cannot be joined"),
				ContainSubstring("http://localhost:2380"), ContainSubstring("when the pod restarts"))))
		})

		It("should be refused as one of three, and one of three as this", func() {
			_, err := s.joint(steps.Destination).Bootstrap(ctx, "main")
			Expect(err).To(MatchError(ContainSubstring("3 healthy voters of the source are expected")))
			_, err = newSeeds().joint(steps.Destination, single).Bootstrap(ctx, "main")
			Expect(err).To(MatchError(ContainSubstring("1 healthy voters of the source are expected")))
		})
	})

	Describe("#PassOn", func() {
		var (
			fronts *fronts
			clock  *testclock.FakeClock
			j      *Joint
		)

		BeforeEach(func() {
			s = newSingleSeeds("seed-b")
			cluster, fronts, clock = s.clusters["main"], newFronts(s), testclock.NewFakeClock(time.Now())
			j = s.joint(steps.Destination, single, fronts.in, func(c *Config) { c.Clock = clock })
		})

		passOn := func() Progress {
			GinkgoHelper()
			progress, err := j.PassOn(ctx, "main", always)
			Expect(err).NotTo(HaveOccurred())
			return progress
		}

		It("should wait for the member of the destination", func() {
			Expect(passOn()).To(And(HaveField("Reason", steps.ReasonJoiningEtcdMembers),
				HaveField("Message", ContainSubstring("has not joined"))))
			id := add()
			Expect(passOn().Message).To(ContainSubstring("was added and has not started yet"))
			cluster.Start(id, successor)
			Expect(passOn().Message).To(ContainSubstring("is catching up"))
			Expect(cluster.Calls()).To(BeEmpty())
		})

		It("should promote, move leadership under a hold, and remove the member that works, in one look", func() {
			join()
			Expect(passOn().Done).To(BeTrue())
			Expect(cluster.Calls()).To(Equal([]string{"promote " + successor,
				"move leadership " + former + " -> " + successor, "remove " + former}))
			Expect(s.happened()).To(Equal([]string{"held main", "released main", "drained main 3",
				"removed " + former}))
			Expect(s.sawVoters("main")).To(Equal([]int{1, 2, 1}))
			Expect(passOn().Done).To(BeTrue())
			Expect(s.deletions()).To(BeEmpty())
		})

		It("should ask the front again that does not know the new voter yet, and not for long", func() {
			var waits int
			leaping := newLeapingClock()
			leaping.onWait = func() { waits++ }
			fronts.refusals["drain"] = 2
			join()
			j = s.joint(steps.Destination, single, fronts.in, func(c *Config) { c.Clock = leaping })
			Expect(passOn().Done).To(BeTrue())
			Expect(s.happened()).To(ContainElement("drained main 3"))
			Expect(waits).To(Equal(2))
		})

		It("should remove the member without a front, and with one that never obeys", func() {
			leaping := newLeapingClock()
			begin := leaping.Now()
			fronts.refusals["drain"] = -1
			join()
			j = s.joint(steps.Destination, single, fronts.in, func(c *Config) { c.Clock = leaping })
			Expect(passOn().Done).To(BeTrue())
			Expect(s.happened()).To(Equal([]string{"held main", "released main", "removed " + former}))
			Expect(leaping.Since(begin)).To(BeNumerically("<", time.Second), "two voters wait for this")

			s = newSingleSeeds("seed-b")
			cluster = s.clusters["main"]
			join()
			j = s.joint(steps.Destination, single)
			Expect(passOn().Done).To(BeTrue())
		})

		It("should enter the time with two voters only if all else is ready", func() {
			join()
			silent := Progress{Reason: steps.ReasonSourceSilent, Message: "no sign of life"}
			progress, err := j.PassOn(ctx, "main", func(context.Context) (*Progress, error) { return &silent, nil })
			Expect(err).NotTo(HaveOccurred())
			Expect(progress).To(Equal(silent))
			_, err = j.PassOn(ctx, "main", func(context.Context) (*Progress, error) {
				return nil, errors.New("no answer")
			})
			Expect(err).To(MatchError("no answer"))
			Expect(cluster.Calls()).To(BeEmpty())
			Expect(passOn().Done).To(BeTrue())
		})

		It("should not ask any more what else is ready when there are two voters", func() {
			second()
			progress, err := j.PassOn(ctx, "main", func(context.Context) (*Progress, error) {
				return nil, errors.New("too late")
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeTrue())
		})

		It("should not enter it while a member is slow, and not wait for that within", func() {
			join()
			cluster.SetTook(former, 2*time.Second)
			_, err := j.PassOn(ctx, "main", always)
			Expect(err).To(MatchError(ContainSubstring("is not promoted yet")))
			Expect(cluster.Calls()).To(BeEmpty())

			Expect(cluster.Promote(ctx, idOf(successor))).To(Succeed())
			Expect(passOn().Done).To(BeTrue())
		})

		It("should not promote a learner that does not answer", func() {
			join()
			cluster.SetUp(successor, false)
			Expect(passOn()).To(Equal(Progress{Reason: steps.ReasonWaitingForEtcdMember,
				Message: "member " + successor + " does not answer yet"}))
		})

		It("should change nothing while one of two voters is away, and continue when it is back", func() {
			second()
			for _, name := range []string{former, successor} {
				cluster.SetUp(name, false)
				Expect(passOn().Reason).To(Equal(steps.ReasonQuorumLost), name)
				Expect(cluster.Calls()).To(Equal([]string{"promote " + successor}))
				cluster.SetUp(name, true)
			}
			Expect(passOn().Done).To(BeTrue())
		})

		It("should continue after an interruption, from the list alone", func() {
			second()
			s.lead("main", successor)
			Expect(passOn().Done).To(BeTrue())
			Expect(cluster.Calls()).To(HaveLen(3))
		})

		It("should remove a pod that has joined again before it was taken away", func() {
			join()
			Expect(passOn().Done).To(BeTrue())
			again, err := cluster.AddLearner(naming.PlainPeerURL(steps.Source, namespace, "main"))
			Expect(err).NotTo(HaveOccurred())
			Expect(passOn().Done).To(BeTrue())
			Expect(cluster.Names()).To(Equal([]string{successor}))
			Expect(cluster.Calls()).To(HaveLen(4), "member %x", again)
		})

		It("should remove a learner that never starts, and its pod", func() {
			add()
			passOn()
			clock.Step(3 * time.Minute)
			Expect(passOn().Message).To(ContainSubstring("did not start within 3m0s and was removed"))
			Expect(cluster.Names()).To(Equal([]string{former}))
			Expect(s.deletions()).To(ConsistOf(HaveField("Pod", "etcd-main-0")))
		})

		It("should leave other clusters alone", func() {
			s.clusters["main"] = newSeeds().clusters["main"]
			Expect(passOn()).To(And(HaveField("Reason", steps.ReasonQuorumAtRisk),
				HaveField("Message", ContainSubstring("etcd-main cannot be passed on"))))
		})
	})

	Describe("#RetireOnly", func() {
		var (
			j   *Joint
			led []string
		)

		BeforeEach(func() {
			s = newSingleSeeds("seed-a")
			cluster, led = s.clusters["main"], nil
			j = s.joint(steps.Source, single)
		})

		leads := func(context.Context) error {
			for _, etcdRole := range naming.EtcdRoles {
				err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.PodName(etcdRole, 0)},
					&corev1.Pod{})
				led = append(led, fmt.Sprintf("%s gone: %t", etcdRole, apierrors.IsNotFound(err)))
			}
			return nil
		}
		// pass passes a cluster on to the destination.
		pass := func(etcdRole string) {
			GinkgoHelper()
			there := s.joint(steps.Destination, single)
			id, err := s.clusters[etcdRole].AddLearner(naming.PlainPeerURL(steps.Destination, namespace, etcdRole))
			Expect(err).NotTo(HaveOccurred())
			s.clusters[etcdRole].Start(id, memberName("seed-b", etcdRole, 0))
			s.clusters[etcdRole].CatchUp(id)
			progress, err := there.PassOn(ctx, etcdRole, always)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeTrue())
		}

		It("should take no pod of a voter", func() {
			progress, err := j.TakeOnlyPod(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(progress).To(And(HaveField("Reason", steps.ReasonReadyForSourceMemberRemoval),
				HaveField("Message", ContainSubstring("until the agent of the destination has removed "+former))))
			second()
			Expect(j.TakeOnlyPod(ctx, "main")).To(HaveField("Done", false))
			Expect(s.deletions()).To(BeEmpty())
			Expect(s.happened()).To(BeEmpty())
		})

		It("should lead clients to the destination when both pods are gone, and not before", func() {
			pass("main")
			pass("events")
			Expect(j.RetireOnly(ctx, leads, nil)).To(Succeed())
			Expect(led).To(Equal([]string{"main gone: true", "events gone: true"}))
			Expect(s.happened()).To(ContainElements("scaled etcd-main to 0", "scaled etcd-events to 0"))
			for _, etcdRole := range naming.EtcdRoles {
				etcd := &druidcorev1alpha1.Etcd{}
				key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}
				Expect(s.client.Get(ctx, key, etcd)).To(Succeed())
				Expect(etcd.Annotations).To(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation))
			}
		})

		It("should take a pod that has joined again out of the list, when it is gone", func() {
			pass("main")
			_, err := cluster.AddLearner(naming.PlainPeerURL(steps.Source, namespace, "main"))
			Expect(err).NotTo(HaveOccurred())
			var looks int
			for progress := (Progress{}); !progress.Done; looks++ {
				Expect(looks).To(BeNumerically("<", 5))
				progress, err = j.TakeOnlyPod(ctx, "main")
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(looks).To(BeNumerically(">", 1), "its pod goes first")
			Expect(cluster.Names()).To(Equal([]string{successor}))
			Expect(j.TakeOnlyPod(ctx, "main")).To(HaveField("Done", true))
		})

		It("should say what has failed of the way of clients", func() {
			pass("main")
			pass("events")
			Expect(j.RetireOnly(ctx, func(context.Context) error { return errors.New("refused") }, nil)).
				To(MatchError(ContainSubstring("failed to lead the client services of etcd")))
		})
	})

	Describe("its initial cluster in the source", func() {
		It("should name one member of the destination, without TLS, and none after an abort", func() {
			s = newSingleSeeds("seed-a")
			j := s.joint(steps.Source, single)
			Expect(j.WidenInitialCluster(ctx)).To(Succeed())
			config := func() string {
				configMap := &corev1.ConfigMap{}
				Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-config"}, configMap)).
					To(Succeed())
				return configMap.Data["etcd.conf.yaml"]
			}
			Expect(config()).To(ContainSubstring(",seed-b-etcd-main-0=http://etcd-main-0.etcd-main-peer." + namespace +
				".svc:2381\n"))
			Expect(config()).NotTo(ContainSubstring("seed-b-etcd-main-1"))
			Expect(j.NarrowInitialCluster(ctx)).To(Succeed())
			Expect(config()).NotTo(ContainSubstring("seed-b"))
		})
	})

	Describe("#WithdrawNext", func() {
		BeforeEach(func() { s = newSingleSeeds("seed-b"); cluster = s.clusters["main"] })

		It("should take a learner back", func() {
			join()
			j := s.joint(steps.Destination, single)
			var progress Progress
			for range 6 {
				var err error
				progress, err = j.WithdrawNext(ctx, "main")
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(progress.Done).To(BeTrue(), progress.Message)
			Expect(cluster.Names()).To(Equal([]string{former}))
		})

		It("should leave two voters as they are: either of them would take the quorum with it", func() {
			second()
			progress, err := s.joint(steps.Destination, single).WithdrawNext(ctx, "main")
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
			Expect(s.deletions()).To(BeEmpty())
		})
	})

	It("should be the destination's when nothing else is left", func() {
		s = newSingleSeeds("seed-b")
		j := s.joint(steps.Destination, single)
		for _, etcdRole := range naming.EtcdRoles {
			cluster = s.clusters[etcdRole]
			id, err := cluster.AddLearner(naming.PlainPeerURL(steps.Destination, namespace, etcdRole))
			Expect(err).NotTo(HaveOccurred())
			left, missing, err := j.OnlyDestinationLeft(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(left).To(BeFalse(), missing)
			cluster.Start(id, memberName("seed-b", etcdRole, 0))
			cluster.CatchUp(id)
			Expect(j.PassOn(ctx, etcdRole, always)).To(HaveField("Done", true))
		}
		left, missing, err := j.OnlyDestinationLeft(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(BeTrue(), missing)
		seen, err := j.Observe(ctx, "events")
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.Members.On(quorum.Destination)).To(HaveLen(1))
	})
})
