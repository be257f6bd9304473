// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("rolling restart of the destination's members", func() {
	const before, after = "etcd-6d5f7c9b4", "etcd-7f8c6d9b5"

	var (
		ctx = context.Background()
		s   *seeds
		f   *fronts
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
	plainURL := func(etcdRole string, ordinal int) string {
		return naming.PeerURL(steps.Source, namespace, etcdRole, ordinal)
	}
	bothURLs := func(etcdRole string, ordinal int) []string {
		return []string{plainURL(etcdRole, ordinal), naming.PeerURL(steps.Destination, namespace, etcdRole, ordinal)}
	}
	peerURLsOf := func(etcdRole string, ordinal int) []string {
		GinkgoHelper()
		list, err := s.clusters[etcdRole].List(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, member := range list.Members {
			if member.Name == memberName("seed-b", etcdRole, ordinal) {
				return member.PeerURLs
			}
		}
		Fail("no such member")
		return nil
	}
	// updates are the changes of peer URLs in the member list.
	updates := func(etcdRole string) []string {
		var out []string
		for _, call := range s.clusters[etcdRole].Calls() {
			if update, ok := strings.CutPrefix(call, "update peer URLs of "); ok {
				out = append(out, update)
			}
		}
		return out
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
		name := memberName("seed-b", etcdRole, ordinal)
		s.clusters[etcdRole].SetUp(name, true)
		// Its sidecar puts the peer URL of its configuration into the member list, and stops etcd, if it is not there.
		if !slices.Contains(peerURLsOf(etcdRole, ordinal), plainURL(etcdRole, ordinal)) {
			s.clusters[etcdRole].SetPeerURLs(name, plainURL(etcdRole, ordinal))
			s.event(fmt.Sprintf("restarted %s %d once more", etcdRole, ordinal))
		}
	}
	partition := func(etcdRole string, lowest int32) {
		GinkgoHelper()
		statefulSet := &appsv1.StatefulSet{}
		get(statefulSet, naming.EtcdName(etcdRole))
		statefulSet.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &lowest}
		Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
	}
	partitionOf := func(etcdRole string) int {
		GinkgoHelper()
		statefulSet := &appsv1.StatefulSet{}
		get(statefulSet, naming.EtcdName(etcdRole))
		return int(*statefulSet.Spec.UpdateStrategy.RollingUpdate.Partition)
	}
	annotationsOf := func(etcdRole string) map[string]string {
		GinkgoHelper()
		etcd := &druidcorev1alpha1.Etcd{}
		get(etcd, naming.EtcdName(etcdRole))
		return etcd.Annotations
	}
	// restartNext is what the controller of StatefulSets does next: it starts the pod that is gone, or stops the next
	// one if all above it have come back. It judges whether the member may be stopped.
	restartNext := func(etcdRole string) {
		GinkgoHelper()
		for ordinal := 2; ordinal >= partitionOf(etcdRole); ordinal-- {
			p := &corev1.Pod{}
			key := client.ObjectKey{Namespace: namespace, Name: naming.PodName(etcdRole, ordinal)}
			if err := s.client.Get(ctx, key, p); err != nil {
				Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
				start(etcdRole, ordinal)
				s.event(fmt.Sprintf("started %s %d", etcdRole, ordinal))
				return
			}
			if p.Labels[appsv1.StatefulSetRevisionLabel] == after {
				continue
			}
			name := memberName("seed-b", etcdRole, ordinal)
			world, err := j.Observe(ctx, etcdRole)
			Expect(err).NotTo(HaveOccurred())
			Expect(world.Members.Healthy()).To(HaveLen(3), "%s must not be stopped while another one is down", name)
			Expect(s.clusters[etcdRole].Leader()).NotTo(Equal(name), "the leader must not be stopped")
			if !f.none && f.refusals["drain"] == 0 {
				f.lock.Lock()
				drained := fmt.Sprint(f.drained[etcdRole][0], f.drained[etcdRole][1], f.drained[etcdRole][2])
				f.lock.Unlock()
				Expect(drained).To(Equal(fmt.Sprint(ordinal == 0, ordinal == 1, ordinal == 2)),
					"just the one that is stopped must be drained")
			}
			stop(etcdRole, ordinal)
			s.event(fmt.Sprintf("stopped %s %d", etcdRole, ordinal))
			return
		}
	}
	// rollToEnd restarts the members of a cluster and returns what happened.
	rollToEnd := func(etcdRole string, joint func() *Joint) []string {
		GinkgoHelper()
		for looks := 0; ; looks++ {
			Expect(looks).To(BeNumerically("<", 50), "the restart does not end: %v", s.happened())
			progress, err := joint().RollNext(ctx, etcdRole)
			Expect(err).NotTo(HaveOccurred())
			if progress.Done {
				break
			}
			restartNext(etcdRole)
		}
		var out []string
		for _, e := range s.happened() {
			if strings.Contains(e, " "+etcdRole) {
				out = append(out, e)
			}
		}
		return out
	}
	expectOrdinary := func(etcdRole string) {
		GinkgoHelper()
		Expect(partitionOf(etcdRole)).To(BeZero())
		Expect(annotationsOf(etcdRole)).To(BeEmpty())
		for ordinal := range 3 {
			p := &corev1.Pod{}
			get(p, naming.PodName(etcdRole, ordinal))
			Expect(p.Labels).To(HaveKeyWithValue(appsv1.StatefulSetRevisionLabel, after))
		}
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
		f = newFronts(s)
		j = s.joint(steps.Destination, f.in, func(c *Config) { c.FrontPatience = time.Nanosecond })
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
		It("should lead nothing any more to the member that restarts at once", func() {
			leadTo("main", 2)
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(s.happened()).To(ContainElements("held main", "released main", "drained main 2", "drained events 2"))
			Expect(f.drained["main"]).To(Equal(map[int]bool{2: true}))
		})

		It("should not lead past a member while another one is down", func() {
			s.clusters["main"].SetUp("seed-b-etcd-main-1", false)
			Expect(j.PrepareRoll(ctx)).To(MatchError(ContainSubstring("would lose the quorum")))
			Expect(f.drained["main"]).To(BeEmpty())
		})

		It("should let etcd-druid apply the specification", func() {
			specification("main", func(etcd *druidcorev1alpha1.Etcd) {
				etcd.Annotations = map[string]string{druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation: "true"}
			})
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(annotationsOf("main")).To(BeEmpty())
		})

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
			Expect(f.drained["main"]).To(BeEmpty())
		})

		It("should wait with it, and with leadership, while the others answer slowly", func() {
			leadTo("main", 2)
			s.clusters["main"].SetTook("seed-b-etcd-main-1", 2300*time.Millisecond)
			Expect(j.PrepareRoll(ctx)).To(MatchError("failed to prepare the restart of etcd-main: member " +
				"seed-b-etcd-main-2 does not stop yet: seed-b-etcd-main-1 answered in 2.3 s, more than 1 s: the seed " +
				"is overloaded"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-2"))
			Expect(f.drained["main"]).To(BeEmpty())
		})

		It("should say what is wrong without a quorum", func() {
			for ordinal := range 2 {
				s.clusters["main"].SetUp(memberName("seed-b", "main", ordinal), false)
			}
			Expect(j.PrepareRoll(ctx)).To(MatchError(ContainSubstring("etcd-main")))
		})
	})

	Describe("RollNext", func() {
		// applied is what etcd-druid and the controller of StatefulSets make of the ordinary specification.
		applied := func(etcdRole string) {
			GinkgoHelper()
			specification(etcdRole, plain)
			partition(etcdRole, 0)
			revision(etcdRole, after)
		}

		It("should restart the members one by one, each without clients and leadership", func() {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied("main")
			Expect(rollToEnd("main", func() *Joint { return j })).To(Equal([]string{
				"drained main 2", "stopped main 2", "started main 2", "restored main 2",
				"drained main 1", "stopped main 1", "started main 1", "restored main 1",
				"held main", "released main",
				"drained main 0", "stopped main 0", "started main 0", "restored main 0",
			}))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-2"), "it has restarted first")
			expectOrdinary("main")
		})

		It("should restart no member twice, whose sidecar finds its peer URL in the member list", func() {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(peerURLsOf("main", 2)).To(ConsistOf(bothURLs("main", 2)))
			applied("main")
			Expect(rollToEnd("main", func() *Joint { return j })).NotTo(ContainElement(HaveSuffix("once more")))
			var expected []string
			for _, ordinal := range []int{2, 1, 0} {
				name := memberName("seed-b", "main", ordinal)
				expected = append(expected, fmt.Sprintf("%s to %v", name, bothURLs("main", ordinal)),
					fmt.Sprintf("%s to [%s]", name, plainURL("main", ordinal)))
				Expect(peerURLsOf("main", ordinal)).To(ConsistOf(plainURL("main", ordinal)))
			}
			Expect(updates("main")).To(Equal(expected))
		})

		It("should leave the member list to the sidecar where nobody has changed it before the restart", func() {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			look()
			Expect(s.happened()).To(ContainElement("restarted main 2 once more"))
			Expect(updates("main")).To(HaveExactElements(HavePrefix("seed-b-etcd-main-1 to ")))
		})

		DescribeTable("keeps both peer URLs", func(hold func()) {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied("main")
			look()
			stop("main", 2)
			look()
			Expect(peerURLsOf("main", 2)).To(ConsistOf(bothURLs("main", 2)), "while it restarts")
			start("main", 2)
			hold()
			look()
			Expect(peerURLsOf("main", 2)).To(ConsistOf(bothURLs("main", 2)))
			Expect(partitionOf("main")).To(Equal(2))
		},
			Entry("until the pod is ready", func() {
				p := &corev1.Pod{}
				get(p, "etcd-main-2")
				p.Status.Conditions[0].Status = corev1.ConditionFalse
				Expect(s.client.Status().Update(ctx, p)).To(Succeed())
			}),
			Entry("until the member is healthy", func() { s.clusters["main"].SetUp("seed-b-etcd-main-2", false) }),
			Entry("until the pod is the new one", func() { label("main", 2, before) }),
		)

		It("should stop no member whose peer URL cannot be put into the member list", func() {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			s.clusters["main"].SetPeerURLs("seed-b-etcd-main-0", plainURL("main", 1))
			for range 3 {
				_, err := j.RollNext(ctx, "main")
				Expect(err).To(MatchError(fakecluster.ErrPeerURLExists))
				Expect(err).To(MatchError(ContainSubstring(
					"failed to change the peer URLs of etcd member seed-b-etcd-main-1")))
			}
			Expect(partitionOf("main")).To(Equal(2))
			Expect(f.drained["main"]).NotTo(HaveKey(1))
		})

		It("should finish from wherever it was killed", func() {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied("main")
			rollToEnd("main", func() *Joint { return s.joint(steps.Destination, f.in) })
			expectOrdinary("main")
		})

		It("should do the same without a front", func() {
			f.none = true
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied("main")
			Expect(rollToEnd("main", func() *Joint { return j })).To(Equal([]string{
				"stopped main 2", "started main 2", "stopped main 1", "started main 1", "stopped main 0",
				"started main 0",
			}))
			expectOrdinary("main")
		})

		It("should go on with a front that does not obey", func() {
			f.refusals["drain"], f.refusals["restore"] = -1, -1
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied("main")
			rollToEnd("main", func() *Joint { return j })
			expectOrdinary("main")
		})

		It("should keep the StatefulSet where it is before etcd-druid has finished", func() {
			applied("main")
			specification("main", func(etcd *druidcorev1alpha1.Etcd) {
				etcd.Annotations = map[string]string{
					druidcorev1alpha1.DruidOperationAnnotation: druidcorev1alpha1.DruidOperationReconcile,
				}
			})
			Expect(look().Message).To(ContainSubstring("etcd-druid has not applied"))
			Expect(partitionOf("main")).To(Equal(2))
			Expect(annotationsOf("main")).NotTo(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation),
				"it would apply the specification later")
			Expect(f.drained["main"][2]).To(BeTrue())

			// It applies it once more and finishes.
			partition("main", 0)
			specification("main", func(etcd *druidcorev1alpha1.Etcd) {
				delete(etcd.Annotations, druidcorev1alpha1.DruidOperationAnnotation)
			})
			look()
			Expect(partitionOf("main")).To(Equal(2))
			Expect(annotationsOf("main")).To(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation))
		})

		DescribeTable("should not go back when it comes late", func(reach func(), lowest int) {
			applied("main")
			stop("main", 2)
			start("main", 2)
			reach()
			look()
			Expect(partitionOf("main")).To(Equal(lowest))
		},
			Entry("the next one is stopping", func() { stop("main", 1) }, 1),
			Entry("the next one is back", func() { stop("main", 1); start("main", 1) }, 1),
			Entry("the last one is stopping", func() { stop("main", 1); start("main", 1); stop("main", 0) }, 0),
		)

		DescribeTable("waits with the next member", func(missing func(), message string) {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			missing()
			for range 3 {
				Expect(look().Message).To(ContainSubstring(message))
				Expect(partitionOf("main")).To(Equal(2))
				Expect(f.drained["main"][1]).To(BeFalse())
			}
		},
			Entry("until the pod is ready", func() {
				p := &corev1.Pod{}
				get(p, "etcd-main-2")
				p.Status.Conditions[0].Status = corev1.ConditionFalse
				Expect(s.client.Status().Update(ctx, p)).To(Succeed())
			}, "its pod is not ready"),
			Entry("until it is healthy", func() { s.clusters["main"].SetUp("seed-b-etcd-main-2", false) },
				"connection refused"),
			Entry("until it is known by its peer URL", func() {
				s.clusters["main"].SetPeerURLs("seed-b-etcd-main-2", "https://of-the-migration:2381")
			}, "it has the peer URLs [https://of-the-migration:2381]"),
			Entry("until it has the log", func() { s.clusters["main"].SetBehind("seed-b-etcd-main-2", 1000) },
				"it has applied entry 0, the leader has committed 1000"),
			Entry("until the others are healthy", func() { s.clusters["main"].SetUp("seed-b-etcd-main-0", false) },
				"would lose the quorum"),
		)

		It("should wait until etcd has restarted once more in the new pod", func() {
			j = s.joint(steps.Destination, f.in, func(c *Config) { c.SteadyTime = time.Hour })
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			Expect(look().Message).To(ContainSubstring("it has not been as it should be for 1h"))
			Expect(partitionOf("main")).To(Equal(2))
		})

		It("should not take back what it has let restart, however long the StatefulSet takes", func() {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			look()
			Expect(partitionOf("main")).To(Equal(1))
			look()
			Expect(partitionOf("main")).To(Equal(1))
			// Its controller has not seen it yet.
			statefulSet := &appsv1.StatefulSet{}
			get(statefulSet, "etcd-main")
			statefulSet.Generation = 5
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			look()
			Expect(partitionOf("main")).To(Equal(1))
			Expect(f.drained["main"]).To(Equal(map[int]bool{2: false, 1: true}))
		})

		It("should restart nothing when another member fails while requests end", func() {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			s.onEvent = func(text string) {
				if text == "drained main 1" {
					s.clusters["main"].SetUp("seed-b-etcd-main-0", false)
				}
			}
			for range 3 {
				look()
			}
			Expect(partitionOf("main")).To(Equal(2))
			Expect(f.drained["main"]).To(HaveKeyWithValue(1, false))
		})

		It("should restart no member while the others answer slowly", func() {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			s.clusters["main"].SetTook("seed-b-etcd-main-0", 2300*time.Millisecond)
			for range 3 {
				_, err := j.RollNext(ctx, "main")
				Expect(err).To(MatchError(ContainSubstring(
					"member seed-b-etcd-main-1 does not stop yet: " +
						"seed-b-etcd-main-0 answered in 2.3 s, more than 1 s")))
			}
			Expect(partitionOf("main")).To(Equal(2))
			Expect(f.drained["main"]).NotTo(HaveKey(1))
		})

		It("should take leadership from a member that may be stopped any time, however slowly others answer", func() {
			applied("main")
			look()
			leadTo("main", 2)
			s.clusters["main"].SetTook("seed-b-etcd-main-1", 2300*time.Millisecond)
			s.clusters["main"].SetTook("seed-b-etcd-main-2", 2300*time.Millisecond)
			look()
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		It("should take leadership from a member that may be stopped at any time", func() {
			applied("main")
			look()
			leadTo("main", 2)
			Expect(look().Message).To(
				ContainSubstring("leadership moves from seed-b-etcd-main-2 to seed-b-etcd-main-0"))
			Expect(s.clusters["main"].Leader()).To(Equal("seed-b-etcd-main-0"))
		})

		It("should not drain a member again that was done and does not answer", func() {
			applied("main")
			look()
			stop("main", 2)
			start("main", 2)
			look()
			Expect(f.drained["main"]).To(HaveKeyWithValue(2, false))
			s.clusters["main"].SetUp("seed-b-etcd-main-2", false)
			look()
			Expect(f.drained["main"]).To(HaveKeyWithValue(2, false))
		})

		It("should see to it that an Etcd that was deployed again meanwhile gets through", func() {
			applied("main")
			look()
			// The agent has restarted.
			deployed := func(etcd *druidcorev1alpha1.Etcd) {
				etcd.Annotations[druidcorev1alpha1.DruidOperationAnnotation] = druidcorev1alpha1.DruidOperationReconcile
			}
			specification("main", deployed)
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			var progress Progress
			for range 30 {
				restartNext("main")
				progress = look()
			}
			Expect(progress.Done).To(BeFalse())
			Expect(progress.Message).To(ContainSubstring("etcd-druid has not"))
			Expect(annotationsOf("main")).NotTo(HaveKey(druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation))
			specification("main", func(etcd *druidcorev1alpha1.Etcd) {
				delete(etcd.Annotations, druidcorev1alpha1.DruidOperationAnnotation)
			})
			Expect(look().Done).To(BeTrue())
			expectOrdinary("main")
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
			applied("main")
			statefulSet := &appsv1.StatefulSet{}
			get(statefulSet, "etcd-main")
			statefulSet.Generation = 5
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			Expect(look().Message).To(ContainSubstring("etcd-druid has not applied"))
		})
	})

	Describe("CheckRolled", func() {
		rolled := func() string {
			GinkgoHelper()
			done, missing, err := j.CheckRolled(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(done).To(Equal(missing == ""))
			return missing
		}
		applied := func() {
			GinkgoHelper()
			for _, etcdRole := range naming.EtcdRoles {
				specification(etcdRole, plain)
				partition(etcdRole, 0)
				revision(etcdRole, after)
			}
		}

		It("should be so when all members have restarted and etcd-druid has both Etcds, whatever it reports", func() {
			Expect(rolled()).To(ContainSubstring("still has the bootstrap"))
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied()
			Expect(rolled()).To(ContainSubstring("its members have not all been restarted"))
			rollToEnd("main", func() *Joint { return j })
			Expect(rolled()).To(HavePrefix("etcd-events: "))
			rollToEnd("events", func() *Joint { return j })
			Expect(rolled()).To(BeEmpty())
		})

		DescribeTable("is not so", func(undo func(), missing string) {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			applied()
			rollToEnd("main", func() *Joint { return j })
			rollToEnd("events", func() *Joint { return j })
			undo()
			Expect(rolled()).To(ContainSubstring(missing))
		},
			Entry("while etcd-druid is suspended", func() {
				specification("main", func(etcd *druidcorev1alpha1.Etcd) {
					etcd.Annotations = map[string]string{druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation: "true"}
				})
			}, "have not all been restarted"),
			Entry("while the StatefulSet is held", func() { partition("main", 1); revision("main", after) },
				"have not all been restarted"),
			Entry("while a member is down", func() { s.clusters["main"].SetUp("seed-b-etcd-main-1", false) },
				"2 healthy"),
			Entry("while a member has both peer URLs", func() {
				s.clusters["main"].SetPeerURLs("seed-b-etcd-main-1", bothURLs("main", 1)...)
			}, "has the peer URLs"),
		)
	})

	It("should report that it waits for an overloaded seed, and that it does not any more", func() {
		Expect(j.PrepareRoll(ctx)).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			specification(etcdRole, plain)
			partition(etcdRole, 0)
			revision(etcdRole, after)
		}
		look()
		stop("main", 2)
		start("main", 2)
		s.clusters["main"].SetTook("seed-b-etcd-main-0", 2300*time.Millisecond)
		clock := newLeapingClock()
		j = s.joint(steps.Destination, f.in, func(c *Config) { c.Clock, c.PollInterval = clock, time.Second })
		ended, end := context.WithCancel(ctx)
		var reported []steps.Reason
		Expect(j.AccompanyRoll(ended, func(_ context.Context, reason steps.Reason, message string) error {
			reported = append(reported, reason)
			if reason != steps.ReasonSeedOverloaded {
				end()
				return nil
			}
			Expect(message).To(ContainSubstring("the seed is overloaded"))
			s.clusters["main"].SetTook("seed-b-etcd-main-0", 0)
			return nil
		})).NotTo(Succeed())
		Expect(reported[0]).To(Equal(steps.ReasonSeedOverloaded))
		Expect(reported[len(reported)-1]).To(Equal(steps.ReasonRollingEtcd))
	})

	It("should accompany the restart of both clusters to its end", func() {
		Expect(j.PrepareRoll(ctx)).To(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			specification(etcdRole, plain)
			partition(etcdRole, 0)
			revision(etcdRole, after)
		}
		done := make(chan error, 1)
		go func() { done <- j.AccompanyRoll(ctx, nil) }()
		Eventually(func(g Gomega) {
			for _, etcdRole := range naming.EtcdRoles {
				restartNext(etcdRole)
			}
			g.Expect(done).To(Receive(BeNil()))
		}).Should(Succeed())
		for _, etcdRole := range naming.EtcdRoles {
			expectOrdinary(etcdRole)
		}
	})
})
