// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Retire", func() {
	var (
		ctx  = context.Background()
		s    *seeds
		j    *Joint
		keep func(context.Context) error
	)

	// takeLeadership does what the agent of the destination does with the cluster.
	takeLeadership := func(etcdRole string) string {
		GinkgoHelper()
		missing, err := s.joint(steps.Destination).TakeLeadership(ctx, etcdRole)
		Expect(err).NotTo(HaveOccurred())
		return missing
	}
	of := func(name string) []string {
		return slices.DeleteFunc(s.happened(), func(e string) bool { return !strings.Contains(e, name) && e != "kept" })
	}

	BeforeEach(func() {
		s = newSeeds()
		j = s.joint(steps.Source)
		keep = func(context.Context) error { s.event("kept"); return nil }
	})

	It("should retire the members of both clusters, highest ordinal first, pod before member", func() {
		s.joinDestination("main", 3)
		s.joinDestination("events", 3)
		report := safely(func(message string) {
			if strings.Contains(message, "waiting until the agent of the destination") {
				takeLeadership("main")
				takeLeadership("events")
			}
		})
		Expect(j.Retire(ctx, keep, report)).To(Succeed())

		Expect(of("etcd-main")).To(Equal([]string{
			"kept",
			"scaled etcd-main to 2", "removed seed-a-etcd-main-2",
			"scaled etcd-main to 1", "removed seed-a-etcd-main-1",
			"scaled etcd-main to 0", "removed seed-a-etcd-main-0",
		}))
		Expect(s.clusters["events"].Names()).
			To(Equal([]string{"seed-b-etcd-events-0", "seed-b-etcd-events-1", "seed-b-etcd-events-2"}))
		Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		// Several look at it at the same time, so they may be out of order.
		Expect(s.sawVoters("main")).To(And(ContainElements(6, 5, 4, 3), HaveEach(BeElementOf(6, 5, 4, 3))))

		for _, name := range []string{"etcd-main", "etcd-events"} {
			etcd := &druidcorev1alpha1.Etcd{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, etcd)).To(Succeed())
			Expect(etcd.Annotations).To(And(
				HaveKey("druid.gardener.cloud/suspend-etcd-spec-reconcile"),
				HaveKey("druid.gardener.cloud/disable-etcd-component-protection"),
			))
		}

		left, message, err := s.joint(steps.Destination).OnlyDestinationLeft(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(message).To(BeEmpty())
		Expect(left).To(BeTrue())
	})

	It("should not remove a member that answers, although its pod is gone", func() {
		s.joinDestination("main", 3)
		s.lead("main", "seed-b-etcd-main-0")
		for !slices.Contains(s.happened(), "scaled etcd-main to 2") {
			_, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
		}
		// Somebody has deleted the pod by force, and its node is only cut off from the API server.
		s.clusters["main"].SetUp("seed-a-etcd-main-2", true)

		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(Equal("member seed-a-etcd-main-2 still answers"))
		Expect(s.clusters["main"].Names()).To(ContainElement("seed-a-etcd-main-2"))
	})

	Describe("a loss between the end of a pod and the removal of its member", func() {
		// stop ends the pod of the last member of the source: three of four voters are left.
		stop := func() {
			GinkgoHelper()
			s.retireSource("events", 0)
			s.retireSource("main", 1)
			for !slices.Contains(s.happened(), "scaled etcd-main to 0") {
				_, err := j.RetireNext(ctx, "main", keep)
				Expect(err).NotTo(HaveOccurred())
			}
		}

		It("should let the member start again, because its vote is what is missing", func() {
			stop()
			s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
			before := len(s.happened())
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumLost))
			Expect(progress.Message).To(ContainSubstring("member seed-a-etcd-main-0 starts again"))
			Expect(s.happened()[before:]).To(Equal([]string{"scaled etcd-main to 1"}))

			By("leaving it until the others are healthy")
			s.clusters["main"].SetUp("seed-a-etcd-main-0", true)
			progress, err = j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
			Expect(s.happened()[before:]).To(Equal([]string{"scaled etcd-main to 1"}))
			Expect(s.clusters["main"].Names()).To(ContainElement("seed-a-etcd-main-0"))
		})

		It("should touch nothing when the vote of the member would not be enough", func() {
			stop()
			s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
			s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
			before := len(s.happened())
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Reason).To(Equal(steps.ReasonQuorumLost))
			Expect(s.happened()[before:]).To(BeEmpty())
		})
	})

	It("should not let a leaving member wait for watches to end", func() {
		s.joinDestination("main", 3)
		s.lead("main", "seed-b-etcd-main-0")
		// A kubelet has yet to stop it: it is still there when the StatefulSet has deleted it.
		victim := &corev1.Pod{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-2"}, victim)).To(Succeed())
		victim.Finalizers = []string{"test/kubelet"}
		victim.DeletionGracePeriodSeconds = new(int64(60))
		Expect(s.client.Update(ctx, victim)).To(Succeed())

		for range 3 {
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeFalse())
		}
		Expect(s.deletions()).To(
			HaveEach(And(HaveField("Pod", "etcd-main-2"), HaveField("Grace", int64(2)), HaveField("UID", victim.UID))))
		Expect(s.deletions()).NotTo(BeEmpty())
		Expect(s.clusters["main"].Names()).To(ContainElement("seed-a-etcd-main-2"))

		// The API server has taken it over, so there is nothing more to ask for.
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-2"}, victim)).To(Succeed())
		victim.DeletionGracePeriodSeconds = new(int64(2))
		Expect(s.client.Update(ctx, victim)).To(Succeed())
		asked := len(s.deletions())
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(Equal("pod etcd-main-2 of the source is stopping"))
		Expect(s.deletions()).To(HaveLen(asked))
	})

	Describe("a pod that is still there when its etcd has ended", func() {
		const grace = 2 * time.Second
		var (
			clock  *testclock.FakeClock
			asked  []string
			answer bool
		)

		// stopping returns the pod of the first member to leave, as its kubelet has left it so far.
		stopping := func(change func(*corev1.Pod)) {
			GinkgoHelper()
			victim := &corev1.Pod{}
			key := client.ObjectKey{Namespace: namespace, Name: "etcd-main-2"}
			Expect(s.client.Get(ctx, key, victim)).To(Succeed())
			victim.Finalizers = []string{"test/kubelet"}
			victim.DeletionGracePeriodSeconds = new(int64(grace.Seconds()))
			victim.Spec.Containers = []corev1.Container{{Name: "etcd"}, {Name: "backup-restore"}}
			Expect(s.client.Update(ctx, victim)).To(Succeed())
			victim.Status.PodIP = "10.1.2.3"
			victim.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "etcd", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "backup-restore", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			}
			change(victim)
			Expect(s.client.Status().Update(ctx, victim)).To(Succeed())
			s.lead("main", "seed-b-etcd-main-0")
			for !slices.Contains(s.happened(), "scaled etcd-main to 2") {
				_, err := j.RetireNext(ctx, "main", keep)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		unchanged := func(*corev1.Pod) {}
		ready := func(pod *corev1.Pod) {
			for i := range pod.Status.ContainerStatuses {
				pod.Status.ContainerStatuses[i].Ready = true
			}
		}
		ended := func(names ...string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				for i := range pod.Status.ContainerStatuses {
					if status := &pod.Status.ContainerStatuses[i]; slices.Contains(names, status.Name) {
						status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
					}
				}
			}
		}
		// look lets the agent look, and reports whether the member is gone then.
		look := func() bool {
			GinkgoHelper()
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			if slices.Contains(s.clusters["main"].Names(), "seed-a-etcd-main-2") {
				Expect(progress.Message).To(Equal("pod etcd-main-2 of the source is stopping"))
				return false
			}
			pod := &corev1.Pod{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main-2"}, pod)).To(Succeed())
			return true
		}

		BeforeEach(func() {
			asked, answer = nil, true
			// The fake client takes the time of deletions from the machine, and puts no grace period on top.
			clock = testclock.NewFakeClock(time.Now())
			j = s.joint(steps.Source, func(config *Config) {
				config.Clock = clock
				config.Refuses = func(_ context.Context, address string) bool {
					asked = append(asked, address)
					return answer
				}
			})
			s.retireSource("events", 0)
			s.joinDestination("main", 3)
		})

		It("should not be waited for when its kubelet reports that all containers have ended", func() {
			stopping(ended("etcd", "backup-restore"))
			Expect(look()).To(BeTrue())
			Expect(asked).To(BeEmpty())
		})

		It("should not be waited for when an etcd that was ready listens to its peers no longer", func() {
			stopping(ready)
			Expect(look()).To(BeTrue())
			Expect(asked).To(Equal([]string{"10.1.2.3:2380"}))
		})

		It("should not be waited for when its time is over and nobody listens any more", func() {
			stopping(unchanged)
			clock.Step(time.Hour)
			Expect(look()).To(BeTrue())
			Expect(asked).To(Equal([]string{"10.1.2.3:2380"}))
		})

		DescribeTable("should be waited for with the last member, as long as its kubelet has not reported its end",
			func(running string) {
				leave := func(name string) {
					GinkgoHelper()
					pod := &corev1.Pod{}
					Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)).To(Succeed())
					pod.Finalizers = nil
					Expect(s.client.Update(ctx, pod)).To(Succeed())
				}
				stopping(unchanged)
				clock.Step(time.Hour)
				Expect(look()).To(BeTrue())
				leave("etcd-main-2")
				_, err := s.joint(steps.Destination).TakeLeadership(ctx, "main")
				Expect(err).NotTo(HaveOccurred())
				key := client.ObjectKey{Namespace: namespace, Name: running}
				there := &corev1.Pod{}
				Expect(s.client.Get(ctx, key, there)).To(Succeed())
				there.Finalizers = []string{"test/kubelet"}
				there.DeletionGracePeriodSeconds = new(int64(grace.Seconds()))
				there.Status.PodIP = "10.1.2.4"
				there.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				Expect(s.client.Update(ctx, there)).To(Succeed())
				Expect(s.client.Status().Update(ctx, there)).To(Succeed())
				progress := Progress{}
				for range 10 {
					progress, err = j.RetireNext(ctx, "main", keep)
					Expect(err).NotTo(HaveOccurred())
				}
				Expect(progress.Message).To(Equal("pod " + running + " of the source is stopping"))
				Expect(s.clusters["main"].Names()).To(ContainElement("seed-a-etcd-main-0"))

				leave(running)
				for range 3 {
					_, err = j.RetireNext(ctx, "main", keep)
					Expect(err).NotTo(HaveOccurred())
				}
				Expect(s.clusters["main"].Names()).
					To(Equal([]string{"seed-b-etcd-main-0", "seed-b-etcd-main-1", "seed-b-etcd-main-2"}))
			},
			Entry("its own", "etcd-main-0"),
			Entry("that of another one", "etcd-main-1"),
		)

		It("should be waited for as long as its sidecar may prepare an etcd that was not ready", func() {
			stopping(func(pod *corev1.Pod) {
				ready(pod)
				pod.Status.ContainerStatuses[0].Ready = false
			})
			clock.SetTime(clock.Now().Add(-time.Minute))
			Expect(look()).To(BeFalse())
			Expect(asked).To(BeEmpty())
		})

		DescribeTable("should be waited for as long as somebody listens, or does not answer",
			func(change func(*corev1.Pod)) {
				answer = false
				stopping(change)
				clock.Step(10 * time.Second)
				Expect(look()).To(BeFalse())
				Expect(asked).NotTo(BeEmpty())
			},
			Entry("and its etcd was ready", ready),
			Entry("and its etcd was not ready", unchanged),
		)

		It("should be waited for as long as one container runs", func() {
			stopping(ended("etcd"))
			answer = false
			clock.Step(10 * time.Second)
			Expect(look()).To(BeFalse())
		})

		It("should be waited for when nobody has reported on its containers, and it has no address", func() {
			stopping(func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{} })
			clock.Step(10 * time.Second)
			Expect(look()).To(BeFalse())
			Expect(asked).To(BeEmpty())
		})

		It("should be waited for when its member is a learner", func() {
			s.loseData(steps.Source, "main", 2)
			stopping(ended("etcd", "backup-restore"))
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Message).To(Equal("pod etcd-main-2 of the source is stopping"))
			Expect(s.clusters["main"].Names()).To(HaveLen(6))
		})
	})

	It("should scale although the end of the pod changes the StatefulSet meanwhile, unless somebody else has scaled it",
		func() {
			statefulSet := func() *appsv1.StatefulSet {
				GinkgoHelper()
				out := &appsv1.StatefulSet{}
				Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, out)).To(Succeed())
				return out
			}
			retire := func() error {
				for range 3 {
					if _, err := j.RetireNext(ctx, "main", keep); err != nil {
						return err
					}
				}
				return nil
			}
			s.retireSource("events", 0)
			s.joinDestination("main", 3)
			s.lead("main", "seed-b-etcd-main-0")
			s.onEnd = func() {
				s.onEnd = nil
				changed := statefulSet()
				changed.Status.ReadyReplicas = 2
				Expect(s.client.Status().Update(ctx, changed)).To(Succeed())
			}
			Expect(retire()).To(Succeed())
			Expect(of("etcd-main")).To(HaveExactElements("kept", "scaled etcd-main to 2", "removed seed-a-etcd-main-2",
				"kept", "scaled etcd-main to 1"))

			s.onEnd = func() {
				s.onEnd = nil
				changed := statefulSet()
				changed.Spec.Replicas = new(int32(3))
				Expect(s.client.Update(ctx, changed)).To(Succeed())
			}
			Expect(retire()).To(
				MatchError(And(ContainSubstring("failed to scale StatefulSet"), ContainSubstring("has 3 now"))))
		})

	It("should not take a timeout for a StatefulSet that is scaled", func() {
		s.joinDestination("main", 3)
		s.lead("main", "seed-b-etcd-main-0")
		s.patchErr = context.DeadlineExceeded
		_, err := j.RetireNext(ctx, "main", keep)
		Expect(err).To(MatchError(ContainSubstring("failed to scale StatefulSet shoot--demo--live/etcd-main to 2")))
		Expect(err).To(MatchError(context.DeadlineExceeded))
	})

	It("should finish from wherever it was killed", func() {
		s.retireSource("events", 0)
		s.joinDestination("main", 3)
		for moves := 0; ; moves++ {
			Expect(moves).To(BeNumerically("<", 30))
			// Every look is made by a Joint that knows nothing of the ones before.
			progress, err := s.joint(steps.Source).RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			if progress.Done {
				break
			}
			takeLeadership("main")
		}
		Expect(s.clusters["main"].Calls()[3:]).To(Equal([]string{
			"remove seed-a-etcd-main-2",
			"move leadership seed-a-etcd-main-0 -> seed-b-etcd-main-0",
			"remove seed-a-etcd-main-1", "remove seed-a-etcd-main-0",
		}))
	})

	It("should transfer leadership with six voters only if the member that leaves has it, "+
		"and the destination does not do it", func() {
		clock := newLeapingClock()
		j = s.joint(steps.Source, func(c *Config) { c.Clock = clock })
		s.joinDestination("main", 3)
		s.lead("main", "seed-a-etcd-main-2")
		for range 2 {
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Message).To(Equal("waiting until the agent of the destination has moved leadership from " +
				"seed-a-etcd-main-2, which leaves first"))
			clock.Step(4 * time.Second)
		}
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(Equal("leadership moves to another member of the source"))
		Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))

		s.lead("main", "seed-a-etcd-main-2")
		for _, ordinal := range []int{0, 1} {
			s.clusters["main"].SetUp(memberName("seed-a", "main", ordinal), false)
		}
		clock.Step(time.Minute)
		progress, err = j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(Equal("leadership moves to the destination"), "there is no other one")
		Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))

		s.joinDestination("events", 3)
		progress, err = j.RetireNext(ctx, "events", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(ContainSubstring("StatefulSet etcd-events of the source is scaled to 2"))
		Expect(s.clusters["events"].Leader()).To(Equal("seed-a-etcd-events-0"))
	})

	DescribeTable("waits for the other cluster once the first member of the source has gone",
		func(other func(), mainLeads, message string, goesOn bool) {
			s.joinDestination("main", 3)
			s.lead("main", mainLeads)
			s.removeSource("main", 2)
			statefulSet := &appsv1.StatefulSet{}
			Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, statefulSet)).
				To(Succeed())
			statefulSet.Spec.Replicas = new(int32(2))
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			other()
			before := len(s.clusters["main"].Calls())

			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress).To(
				And(HaveField("Done", BeFalse()), HaveField("Reason", steps.ReasonReadyForSourceMemberRemoval)))
			Expect(progress.Message).To(ContainSubstring(message))
			if !goesOn {
				Expect(s.clusters["main"].Calls()).To(HaveLen(before))
				Expect(s.deletions()).To(BeEmpty())
			}
		},
		Entry("whose last member joins", func() { s.joinDestination("events", 2); s.addLearner("events", 2) },
			"seed-a-etcd-main-0",
			"waiting until the first member of the source has left etcd-events as well", false),
		Entry("which has six", func() { s.joinDestination("events", 3) }, "seed-a-etcd-main-0",
			"waiting until the first member of the source has left etcd-events as well", false),
		Entry("which has six, with leadership moved before", func() { s.joinDestination("events", 3) },
			"seed-b-etcd-main-0",
			"waiting until the first member of the source has left etcd-events as well", false),
		Entry("which has come as far", func() { s.joinDestination("events", 3); s.removeSource("events", 2) },
			"seed-a-etcd-main-0",
			"waiting until the agent of the destination has moved leadership there", false),
		Entry("whose leadership is in the source",
			func() { s.joinDestination("events", 3); s.removeSource("events", 2) },
			"seed-b-etcd-main-0",
			"waiting until the destination has leadership of etcd-events as well", false),
		Entry("whose leadership is in the destination", func() { s.retireSource("events", 2) }, "seed-b-etcd-main-0",
			"StatefulSet etcd-main of the source is scaled to 1", true),
		Entry("which is ahead", func() { s.retireSource("events", 1) }, "seed-b-etcd-main-0",
			"StatefulSet etcd-main of the source is scaled to 1", true),
		Entry("which is ahead and not healthy",
			func() { s.retireSource("events", 1); s.clusters["events"].SetUp("seed-b-etcd-events-1", false) },
			"seed-b-etcd-main-0",
			"StatefulSet etcd-main of the source is scaled to 1", true),
		Entry("which has lost its quorum", func() {
			s.joinDestination("events", 3)
			for ordinal := range 3 {
				s.clusters["events"].SetUp(memberName("seed-b", "events", ordinal), false)
			}
		}, "seed-b-etcd-main-0", "waiting for etcd-events: ", false),
	)

	It("should not transfer leadership while a member of the destination is down, "+
		"of which the source's vote would have to take the place", func() {
		s.retireSource("events", 0)
		s.joinDestination("main", 3)
		for range 2 { // scale, remove
			_, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
		}
		s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
		Expect(takeLeadership("main")).To(ContainSubstring("before the members of the destination are healthy"))
		Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))

		s.clusters["main"].SetUp("seed-b-etcd-main-1", true)
		progress, err = j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(ContainSubstring("waiting until the agent of the destination"))
		Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"), "the source does not move it")
		Expect(takeLeadership("main")).To(BeEmpty())
		Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
	})

	It("should let the destination move leadership with six voters, where a front holds requests", func() {
		s.joinDestination("main", 3)
		s.lead("main", "seed-a-etcd-main-2")
		f := newFronts(s)
		Expect(s.joint(steps.Destination, f.in).TakeLeadership(ctx, "main")).
			To(Equal("leadership moves to another member of the source"))
		Expect(s.happened()).To(Equal([]string{"held main", "released main"}))
		Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))

		// The source does not wait for what has been done.
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(ContainSubstring("StatefulSet etcd-main of the source is scaled to 2"))
	})

	It("should count the time for which it waits for the destination again", func() {
		clock := newLeapingClock()
		j = s.joint(steps.Source, func(c *Config) { c.Clock = clock })
		s.joinDestination("main", 3)
		s.patchErr = errors.New("not now")
		for _, leader := range []string{"seed-a-etcd-main-2", "seed-a-etcd-main-1", "seed-a-etcd-main-2"} {
			s.lead("main", leader)
			progress, err := j.RetireNext(ctx, "main", keep)
			if leader == "seed-a-etcd-main-1" {
				Expect(err).To(MatchError(ContainSubstring("not now")))
			} else {
				Expect(err).NotTo(HaveOccurred())
				Expect(progress.Message).To(HavePrefix("waiting until the agent of the destination"))
			}
			clock.Step(time.Minute)
		}
	})

	DescribeTable("lets the destination take leadership when its turn has come",
		func(prepare func(), missing string, moves bool) {
			s.joinDestination("main", 3)
			prepare()
			before := s.clusters["main"].Leader()
			if missing == "" {
				Expect(takeLeadership("main")).To(BeEmpty())
			} else {
				Expect(takeLeadership("main")).To(ContainSubstring(missing))
			}
			if moves {
				Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
			} else {
				Expect(s.clusters["main"].Leader()).To(Equal(before))
			}
		},
		Entry("not with six voters, as long as another member than the first leads",
			func() { s.retireSource("events", 2) }, "", false),
		Entry("not before the first member has left the other one",
			func() { s.removeSource("main", 2); s.joinDestination("events", 3) },
			"waiting until the first member of the source has left etcd-events as well", false),
		Entry("not without a quorum of the other one", func() {
			s.removeSource("main", 2)
			s.joinDestination("events", 3)
			for ordinal := range 3 {
				s.clusters["events"].SetUp(memberName("seed-a", "events", ordinal), false)
			}
		}, "waiting for etcd-events", false),
		Entry("when both have come as far",
			func() { s.removeSource("main", 2); s.joinDestination("events", 3); s.removeSource("events", 2) },
			"", true),
		Entry("when the other one is ahead",
			func() { s.removeSource("main", 2); s.retireSource("events", 1) }, "", true),
		Entry("when more members are gone",
			func() { s.removeSource("main", 1); s.retireSource("events", 0) }, "", true),
		Entry("not when it has it", func() {
			s.retireSource("events", 2)
			s.lead("main", "seed-b-etcd-main-1")
			s.removeSource("main", 2)
		}, "", false),
	)

	It("should keep the client services alive also when the members have gone by hand", func() {
		s.joinDestination("main", 3)
		for ordinal := range 3 {
			s.clusters["main"].SetUp(memberName("seed-a", "main", ordinal), false)
		}
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress).To(And(HaveField("Done", BeFalse()), HaveField("Reason", steps.ReasonQuorumLost)))
		Expect(of("kept")).To(BeEmpty())

		s = newSeeds()
		j = s.joint(steps.Source)
		s.retireSource("main", 0)
		progress, err = j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Done).To(BeTrue())
		Expect(of("kept")).To(Equal([]string{"kept"}))
	})

	It("should do nothing before all members of the destination are voters", func() {
		s.joinDestination("main", 2)
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(Equal("the destination has 2 of 3 voters"))

		s.addLearner("main", 2)
		progress, err = j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Message).To(ContainSubstring("still joining"))
		Expect(of("etcd-main")).To(BeEmpty())
		Expect(s.clusters["main"].Leader()).To(Equal("seed-a-etcd-main-0"))
	})

	It("should not scale when the client services cannot be kept alive", func() {
		s.joinDestination("main", 3)
		s.joinDestination("events", 3)
		var err error
		for range 5 {
			_, err = j.RetireNext(ctx, "main", func(context.Context) error { return errors.New("no relay") })
		}
		Expect(err).To(MatchError(ContainSubstring("no relay")))
		statefulSet := &appsv1.StatefulSet{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "etcd-main"}, statefulSet)).To(Succeed())
		Expect(*statefulSet.Spec.Replicas).To(Equal(int32(3)))
	})

	It("should end the time with six members although a member of the destination restarts, "+
		"but wait with five", func() {
		s.retireSource("events", 0)
		s.joinDestination("main", 3)
		s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
		for range 3 { // scale, remove, next
			_, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(of("etcd-main")).To(Equal([]string{"kept", "scaled etcd-main to 2", "removed seed-a-etcd-main-2"}))
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumAtRisk))
		Expect(progress.Message).To(ContainSubstring("seed-b-etcd-main-1"))

		s.clusters["main"].SetUp("seed-b-etcd-main-1", true)
		Expect(takeLeadership("main")).To(BeEmpty())
		_, err = j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(of("etcd-main")).To(ContainElement("scaled etcd-main to 1"))
	})

	It("should not stop a member when too many others are down", func() {
		s.joinDestination("main", 3)
		s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
		s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
		for range 3 {
			progress, err := j.RetireNext(ctx, "main", keep)
			Expect(err).NotTo(HaveOccurred())
			Expect(progress.Done).To(BeFalse())
		}
		Expect(of("etcd-main")).To(BeEmpty())
	})

	It("should touch nothing without a quorum", func() {
		s.joinDestination("main", 3)
		for _, name := range []string{"seed-b-etcd-main-0", "seed-b-etcd-main-1", "seed-b-etcd-main-2"} {
			s.clusters["main"].SetUp(name, false)
		}
		progress, err := j.RetireNext(ctx, "main", keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(progress.Reason).To(Equal(steps.ReasonQuorumLost))
		Expect(progress.Message).To(ContainSubstring("no leader is known: 6 voters"))
		Expect(of("etcd-main")).To(BeEmpty())
	})
})
