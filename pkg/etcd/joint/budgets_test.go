// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint_test

import (
	"context"
	"errors"

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
	. "github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The disruption budgets", func() {
	var (
		ctx = context.Background()
		s   *seeds
	)

	// druidApplies writes the budgets as etcd-druid v0.38.1 does, for a number of replicas, and scales.
	druidApplies := func(replicas int32) {
		GinkgoHelper()
		for _, etcdRole := range naming.EtcdRoles {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: naming.EtcdName(etcdRole)}
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
			Expect(client.IgnoreNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(budget), budget))).To(Succeed())
			minAvailable := intstr.FromInt32(replicas/2 + 1)
			budget.Spec.MinAvailable = &minAvailable
			if budget.ResourceVersion == "" {
				Expect(s.client.Create(ctx, budget)).To(Succeed())
			} else {
				Expect(s.client.Update(ctx, budget)).To(Succeed())
			}
			statefulSet := &appsv1.StatefulSet{ObjectMeta: meta}
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet)).To(Succeed())
			statefulSet.Spec.Replicas = &replicas
			Expect(s.client.Update(ctx, statefulSet)).To(Succeed())
		}
	}
	budget := func(etcdRole string) *policyv1.PodDisruptionBudget {
		GinkgoHelper()
		out := &policyv1.PodDisruptionBudget{}
		Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}, out)).
			To(Succeed())
		Expect(out.Spec.MaxUnavailable).To(BeNil(), "etcd-druid could not write the budget any more")
		return out
	}
	expectAvailable := func(minAvailable int) {
		GinkgoHelper()
		for _, etcdRole := range naming.EtcdRoles {
			Expect(budget(etcdRole).Spec.MinAvailable.IntValue()).To(Equal(minAvailable), etcdRole)
		}
	}
	each := func(do func(etcdRole string)) {
		for _, etcdRole := range naming.EtcdRoles {
			do(etcdRole)
		}
	}
	down := func(seed string, ordinals ...int) {
		each(func(etcdRole string) {
			for _, ordinal := range ordinals {
				s.clusters[etcdRole].SetUp(memberName(seed, etcdRole, ordinal), false)
			}
		})
	}

	Context("while the members of the destination restart", func() {
		var j *Joint
		specification := func(mutate func(*druidcorev1alpha1.Etcd)) {
			GinkgoHelper()
			each(func(etcdRole string) {
				etcd := &druidcorev1alpha1.Etcd{}
				key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}
				Expect(s.client.Get(ctx, key, etcd)).To(Succeed())
				mutate(etcd)
				Expect(s.client.Update(ctx, etcd)).To(Succeed())
			})
		}
		suspend := func(etcd *druidcorev1alpha1.Etcd) {
			etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
			etcd.Annotations = map[string]string{druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation: "true"}
		}
		BeforeEach(func() {
			s = newSeedsOf("seed-b")
			druidApplies(3)
			each(func(etcdRole string) { s.retireSource(etcdRole, 0) })
			specification(func(etcd *druidcorev1alpha1.Etcd) {
				etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidcorev1alpha1.BootstrapWithExistingCluster{}
			})
			j = s.joint(steps.Destination)
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
		})

		It("should let nothing go from before the specification changes", func() {
			Expect(j.PrepareRoll(ctx)).To(Succeed())
			expectAvailable(3)
		})

		It("should let nothing go once etcd-druid has written its own number", func() {
			specification(suspend)
			druidApplies(3)
			expectAvailable(2)
			each(func(etcdRole string) {
				statefulSet := &appsv1.StatefulSet{}
				key := client.ObjectKey{Namespace: namespace, Name: naming.EtcdName(etcdRole)}
				Expect(s.client.Get(ctx, key, statefulSet)).To(Succeed())
				statefulSet.Status.UpdateRevision = "etcd-7f8c6d9b5"
				Expect(s.client.Status().Update(ctx, statefulSet)).To(Succeed())
				_, err := j.RollNext(ctx, etcdRole)
				Expect(err).NotTo(HaveOccurred())
			})
			expectAvailable(3)
		})

		It("should let nothing go with the passes of the agent, and one when it is over", func() {
			specification(suspend)
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
			specification(func(etcd *druidcorev1alpha1.Etcd) { etcd.Annotations = nil })
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
		})
	})

	Context("in the source", func() {
		BeforeEach(func() {
			s = newSeeds()
			druidApplies(3)
		})

		It("should let no member go that is needed, and one as soon as it is not", func() {
			j := s.joint(steps.Source)
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
			Expect(s.happened()).To(BeEmpty(), "etcd-druid has written the same")

			each(func(etcdRole string) { s.addLearner(etcdRole, 0) })
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
			s = newSeeds()
			druidApplies(3)
			j = s.joint(steps.Source)
			each(func(etcdRole string) { s.joinDestination(etcdRole, 2) })
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
			down("seed-b", 0, 1)
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
		})

		It("should let nothing go while there are six voters", func() {
			each(func(etcdRole string) { s.joinDestination(etcdRole, 3) })
			Expect(s.joint(steps.Source).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
		})

		It("should not change because a member restarts, which the budget counts itself", func() {
			each(func(etcdRole string) {
				s.joinDestination(etcdRole, 2)
				there := &corev1.Pod{}
				Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: naming.PodName(etcdRole, 2)},
					there)).To(Succeed())
				there.Status.Conditions = nil
				Expect(s.client.Status().Update(ctx, there)).To(Succeed())
			})
			down("seed-a", 2)
			Expect(s.joint(steps.Source).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
		})

		It("should let nothing go beside a member that is down while its pod is ready", func() {
			each(func(etcdRole string) { s.joinDestination(etcdRole, 2) })
			down("seed-a", 2)
			Expect(s.joint(steps.Source).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
		})

		It("should let nothing go if nothing is known of the members", func() {
			j := s.joint(steps.Source, func(c *Config) {
				c.NewCluster = func(context.Context, string) (etcdclient.Cluster, error) {
					return nil, errors.New("no certificate")
				}
			})
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
		})

		It("should be written again when etcd-druid has written its own, and protected again afterwards", func() {
			each(func(etcdRole string) { s.joinDestination(etcdRole, 3) })
			j := s.joint(steps.Source)
			for range 2 {
				Expect(j.KeepBudgets(ctx)).To(Succeed())
				expectAvailable(3)
				each(func(etcdRole string) {
					etcd := &druidcorev1alpha1.Etcd{}
					Expect(s.client.Get(ctx, client.ObjectKey{Namespace: namespace,
						Name: naming.EtcdName(etcdRole)}, etcd)).To(Succeed())
					Expect(etcd.Annotations).NotTo(HaveKey(protection))
				})
				druidApplies(3)
			}
		})

		It("should be those of etcd-druid after an abort, whatever is known of the members", func() {
			each(func(etcdRole string) { s.joinDestination(etcdRole, 3) })
			j := s.joint(steps.Source)
			Expect(j.KeepBudgets(ctx)).To(Succeed())
			expectAvailable(3)
			Expect(j.ReleaseBudgets(ctx)).To(Succeed())
			expectAvailable(2)
		})

		It("should be left alone where there is no budget, or no pod for it any more", func() {
			druidApplies(0)
			Expect(s.joint(steps.Source).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(1)
			s = newSeeds()
			Expect(s.joint(steps.Source).KeepBudgets(ctx)).To(Succeed())
			budgets := &policyv1.PodDisruptionBudgetList{}
			Expect(s.client.List(ctx, budgets)).To(Succeed())
			Expect(budgets.Items).To(BeEmpty())
		})
	})

	Context("in the destination", func() {
		BeforeEach(func() {
			s = newSeedsOf("seed-b")
			druidApplies(2)
			each(func(etcdRole string) { s.joinDestination(etcdRole, 2) })
		})

		It("should not block drains for the hours of a pause", func() {
			expectAvailable(2)
			Expect(s.joint(steps.Destination).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(1)
		})

		It("should let one go beside one of the source that is down, and none beside two", func() {
			down("seed-a", 1)
			Expect(s.joint(steps.Destination).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(1)
			down("seed-a", 2)
			Expect(s.joint(steps.Destination).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
		})

		It("should be those of etcd-druid when the source has left", func() {
			s = newSeedsOf("seed-b")
			druidApplies(3)
			each(func(etcdRole string) { s.retireSource(etcdRole, 0) })
			Expect(s.joint(steps.Destination).KeepBudgets(ctx)).To(Succeed())
			expectAvailable(2)
			Expect(s.happened()).NotTo(ContainElement("changed etcd-main"))
		})
	})
})
