// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	fakecluster "github.com/livecpm/livecpm/pkg/etcd/client/fake"
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The restart of an only member", func() {
	const before, after, member = "etcd-6d5f7c9b4", "etcd-7f8c6d9b5", "seed-b-etcd-main-0"

	var (
		ctx       = context.Background()
		ordinary  = naming.PlainPeerURL(steps.Source, namespace, "main")
		migration = naming.PlainPeerURL(steps.Destination, namespace, "main")
		s         *seeds
		j         *Joint
	)

	get := func(obj client.Object, name string) {
		GinkgoHelper()
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)).To(Succeed())
	}
	specification := func(bootstrap *druidcorev1alpha1.BootstrapWithExistingCluster) {
		GinkgoHelper()
		for _, etcdRole := range naming.EtcdRoles {
			etcd := &druidcorev1alpha1.Etcd{}
			get(etcd, naming.EtcdName(etcdRole))
			etcd.Spec.Etcd.BootstrapWithExistingCluster = bootstrap
			Expect(s.client.Update(ctx, etcd)).To(Succeed())
		}
	}
	revision := func(name string) {
		GinkgoHelper()
		statefulSet := &appsv1.StatefulSet{}
		get(statefulSet, "etcd-main")
		statefulSet.Status.UpdateRevision, statefulSet.Status.ObservedGeneration = name, statefulSet.Generation
		Expect(s.client.Status().Update(ctx, statefulSet)).To(Succeed())
	}
	// start makes the pod with the revision.
	start := func(name string, mutate ...func(*corev1.Pod)) {
		GinkgoHelper()
		p := pod("etcd-main-0")
		p.Labels = map[string]string{appsv1.StatefulSetRevisionLabel: name}
		for _, m := range mutate {
			m(p)
		}
		Expect(s.client.Create(ctx, p)).To(Succeed())
	}
	stop := func() {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(s.client.Delete(ctx, pod("etcd-main-0")))).To(Succeed())
		s.clusters["main"].SetUp(member, false)
	}
	budget := func(etcdRole string) int {
		GinkgoHelper()
		out := &policyv1.PodDisruptionBudget{}
		get(out, naming.EtcdName(etcdRole))
		return out.Spec.MinAvailable.IntValue()
	}
	peerURLs := func() []string {
		GinkgoHelper()
		list, err := s.clusters["main"].List(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Members).To(HaveLen(1))
		return list.Members[0].PeerURLs
	}
	look := func() Progress {
		GinkgoHelper()
		progress, err := j.RollNext(ctx, "main")
		Expect(err).NotTo(HaveOccurred())
		return progress
	}

	BeforeEach(func() {
		s = newSingleSeeds("seed-b")
		j = s.joint(steps.Destination, single)
		for _, etcdRole := range naming.EtcdRoles {
			s.clusters[etcdRole] = fakecluster.New(plainURL(steps.Destination, etcdRole),
				memberName("seed-b", etcdRole, 0))
			zero := intstr.FromInt32(0) // as etcd-druid v0.38.1 writes it for one replica
			Expect(s.client.Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole)},
				Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &zero},
			})).To(Succeed())
		}
		specification(&druidcorev1alpha1.BootstrapWithExistingCluster{})
		Expect(s.client.Delete(ctx, pod("etcd-main-0"))).To(Succeed())
		start(before)
		revision(before)
	})

	Describe("prepared", func() {
		It("should put both peer URLs into the list, and stop and move nothing", func() {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			Expect(peerURLs()).To(ConsistOf(ordinary, migration))
			Expect(s.deletions()).To(BeEmpty())
			Expect(s.clusters["main"].Calls()).To(HaveLen(1))
			Expect(budget("main")).To(Equal(1), "nobody else stops it meanwhile")
		})

		It("should wait for a member that is slow, or being defragmented", func() {
			s.clusters["main"].SetTook(member, 3*time.Second)
			Expect(j.PrepareRoll(ctx)).To(MatchError(ContainSubstring("member " + member + " does not restart yet")))
			Expect(peerURLs()).To(Equal([]string{migration}))
			s.clusters["main"].SetTook(member, 0)
			s.clusters["main"].SetDefragmenting(member, true)
			j = s.joint(steps.Destination, single)
			Expect(j.PrepareRoll(ctx)).To(MatchError(ContainSubstring("is being defragmented")))
			Expect(peerURLs()).To(Equal([]string{migration}))
		})

		It("should not be done while the member of the source is in the list", func() {
			_, err := s.clusters["main"].AddLearner(ordinary)
			Expect(err).NotTo(HaveOccurred())
			Expect(j.PrepareRoll(ctx)).To(MatchError(ContainSubstring("before it is alone and healthy")))
		})
	})

	Describe("with the ordinary specification", func() {
		BeforeEach(func() {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			specification(nil)
			revision(after)
		})

		It("should end the pod soon, ask nobody while it is away, and keep the ordinary peer URL", func() {
			Expect(look()).To(Equal(Progress{Reason: steps.ReasonRollingEtcd,
				Message: "the only member restarts: pod etcd-main-0 ends"}))
			Expect(s.deletions()).To(ConsistOf(HaveField("Grace", int64(2))))
			stop()
			Expect(look().Message).To(Equal("the only member restarts: its pod is being made"))
			start(after, func(p *corev1.Pod) { p.Status.Conditions = nil })
			Expect(look().Message).To(Equal("the only member restarts: pod etcd-main-0 is not ready"))
			stop()
			start(after)
			s.clusters["main"].SetUp(member, true)

			Expect(look().Message).To(ContainSubstring("keeps its ordinary peer URL"))
			Expect(peerURLs()).To(Equal([]string{ordinary}))
			for range 3 {
				look()
			}
			Expect(look()).To(Equal(Progress{Done: true, Message: "all members have been restarted"}))
			Expect(s.deletions()).To(HaveLen(1))
			rolled, missing, err := j.CheckRolled(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(rolled).To(BeFalse())
			Expect(missing).NotTo(ContainSubstring("etcd-main:"), "the other one has not restarted")
		})

		It("should let a StatefulSet replace the pod that was held back", func() {
			statefulSet := &appsv1.StatefulSet{}
			get(statefulSet, "etcd-main")
			statefulSet.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
				Partition: new(int32(1))}
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			look()
			get(statefulSet, "etcd-main")
			Expect(*statefulSet.Spec.UpdateStrategy.RollingUpdate.Partition).To(BeZero())
		})

		It("should not touch a StatefulSet with more than one replica", func() {
			statefulSet := &appsv1.StatefulSet{}
			get(statefulSet, "etcd-main")
			statefulSet.Spec.Replicas = new(int32(3))
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
			Expect(look().Reason).To(Equal(steps.ReasonQuorumAtRisk))
			Expect(s.deletions()).To(BeEmpty())
		})

		It("should say what is wrong with a member that is back and does not serve", func() {
			stop()
			start(after)
			_, err := j.RollNext(ctx, "main")
			Expect(err).To(MatchError(ContainSubstring("failed to look at etcd-main")))
		})
	})

	Describe("its disruption budget", func() {
		It("should let nobody evict it while the other seed has a member, and be etcd-druid's otherwise", func() {
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			Expect(budget("main")).To(BeZero())
			_, err := s.clusters["main"].AddLearner(ordinary)
			Expect(err).NotTo(HaveOccurred())
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			Expect(budget("main")).To(Equal(1))
			Expect(budget("events")).To(BeZero())
		})

		It("should be etcd-druid's after an abort", func() {
			_, err := s.clusters["main"].AddLearner(ordinary)
			Expect(err).NotTo(HaveOccurred())
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			Expect(j.ReleaseBudgets(ctx)).To(Succeed())
			Expect(budget("main")).To(BeZero())
		})

		It("should let nothing go if nothing is known", func() {
			j = s.joint(steps.Destination, single, func(c *Config) {
				c.NewCluster = func(context.Context, string) (etcdclient.Cluster, error) {
					return nil, errors.New("no certificate")
				}
			})
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			Expect(budget("main")).To(Equal(1))
		})
	})
})
