// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	. "github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

var _ = Describe("A relay pod", func() {
	// caches is how long caches of the cluster DNS keep an address: that of CoreDNS for 30 s, and then, if it was asked
	// in its last second, that of the node-local DNS for another 5 s, which is the least that CoreDNS' cache keeps.
	const caches = 35 * time.Second
	var (
		ctx       = context.Background()
		c         client.WithWatch
		clock     *testclock.FakeClock
		relay     *appsv1.StatefulSet
		forbidden func() bool
	)
	pod := func(ordinal int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", Name,
			ordinal)}}
	}
	// run has a pod run as the StatefulSet makes it, instead of the one that there was.
	run := func(ordinal int, address string) {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(c.Delete(ctx, pod(ordinal)))).To(Succeed())
		made := pod(ordinal)
		made.Labels, made.Spec = relay.Spec.Template.Labels, relay.Spec.Template.Spec
		made.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address,
			Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}
		Expect(c.Create(ctx, made)).To(Succeed())
	}
	sync := func() {
		GinkgoHelper()
		Expect(SyncDeployed(ctx, c, clock, relay)).To(Succeed())
	}
	// inUse are the ordinals of the pods whose gate is open.
	inUse := func() []int {
		GinkgoHelper()
		out := []int{}
		for ordinal := range 3 {
			there := pod(ordinal)
			if err := c.Get(ctx, client.ObjectKeyFromObject(there), there); apierrors.IsNotFound(err) {
				continue
			}
			Expect(there.Status.Conditions).To(ContainElement(HaveField("Type", corev1.ContainersReady)),
				"what others have written stays")
			for _, condition := range there.Status.Conditions {
				if condition.Type == ConditionInUse && condition.Status == corev1.ConditionTrue {
					out = append(out, ordinal)
				}
			}
		}
		return out
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		forbidden = func() bool { return false }
		c = fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, under client.Client, subResource string, object client.Object,
				patch client.Patch, opts ...client.SubResourcePatchOption,
			) error {
				if forbidden() {
					return apierrors.NewForbidden(corev1.Resource("pods/status"), object.GetName(),
						errors.New("no role"))
				}
				return under.SubResource(subResource).Patch(ctx, object, patch, opts...)
			},
			Create: func(ctx context.Context, under client.WithWatch, object client.Object, opts ...client.CreateOption,
			) error {
				if review, ok := object.(*authenticationv1.SelfSubjectReview); ok {
					review.Status.UserInfo.Username = "system:serviceaccount:garden:livecpm-agent"
					return nil
				}
				return under.Create(ctx, object, opts...)
			},
		}).Build()
		Expect(New(logr.Discard(), c, Values{Namespace: namespace, Role: steps.Source, Image: "relay",
			TLSSecretName: "tls", Domain: "a.example", PeerDomain: "b.example"}).Deploy(ctx)).To(Succeed())
		relay = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(relay), relay)).To(Succeed())
	})

	It("should be in use at once where nobody can know another address", func() {
		run(0, "10.1.0.1")
		sync()
		Expect(inUse()).To(Equal([]int{0}))
		run(1, "10.1.0.2")
		run(2, "10.1.0.3")
		sync()
		Expect(inUse()).To(Equal([]int{0, 1, 2}))
	})

	It("should not be in use while caches have the address of the one that it replaces", func() {
		for ordinal := range 3 {
			run(ordinal, fmt.Sprintf("10.1.0.%d", ordinal+1))
		}
		sync()
		// Somebody looks while the pod is away.
		Expect(c.Delete(ctx, pod(1))).To(Succeed())
		sync()
		run(1, "10.1.0.9")
		sync()
		Expect(inUse()).To(Equal([]int{0, 2}))
		clock.Step(caches)
		sync()
		Expect(inUse()).To(Equal([]int{0, 2}), "the record had to get to the cluster DNS first")
		clock.Step(5 * time.Second)
		sync()
		Expect(inUse()).To(Equal([]int{0, 1, 2}))
	})

	It("should wait again when it moves again, or gets another address", func() {
		run(0, "10.1.0.1")
		sync()
		run(0, "10.1.0.2")
		sync()
		clock.Step(caches)
		run(0, "10.1.0.3")
		sync()
		clock.Step(caches)
		sync()
		Expect(inUse()).To(BeEmpty())
		clock.Step(caches)
		sync()
		Expect(inUse()).To(Equal([]int{0}))

		there := pod(0)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(there), there)).To(Succeed())
		there.Status.PodIP = "10.1.0.4"
		Expect(c.Status().Update(ctx, there)).To(Succeed())
		sync()
		Expect(inUse()).To(BeEmpty())
	})

	It("should be ready only when it is in use, so that a drain takes the next one after that", func() {
		Expect(relay.Spec.Template.Spec.ReadinessGates).To(ConsistOf(HaveField("ConditionType", ConditionInUse)))
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
		Expect(budget.Spec.MaxUnavailable.IntValue()).To(Equal(1))
		Expect(relay.Spec.Template.Annotations).NotTo(HaveKey("cluster-autoscaler.kubernetes.io/safe-to-evict"),
			"the autoscaler has to ask the budget, and that is enough")
	})

	It("should be left alone if it has no gate, as those of an earlier version", func() {
		relay.Spec.Template.Spec.ReadinessGates = nil
		run(0, "10.1.0.1")
		sync()
		Expect(inUse()).To(BeEmpty())
	})

	It("should get its condition from an agent that is permitted just that", func() {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
		binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta}
		forbidden = func() bool {
			return c.Get(ctx, client.ObjectKeyFromObject(binding), &rbacv1.RoleBinding{}) != nil
		}
		run(0, "10.1.0.1")
		sync()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		Expect(role.Rules).To(ConsistOf(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status"},
			ResourceNames: []string{Name + "-0", Name + "-1", Name + "-2"}, Verbs: []string{"patch"}}))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(Succeed())
		Expect(binding.RoleRef.Name).To(Equal(Name))
		Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User",
			Name: "system:serviceaccount:garden:livecpm-agent"}))
		Expect(binding.OwnerReferences).To(ConsistOf(HaveField("UID", relay.UID)))

		Expect(inUse()).To(BeEmpty())
		sync()
		Expect(inUse()).To(Equal([]int{0}), "it has not moved, and need not wait")

		forbidden = func() bool { return true }
		run(0, "10.1.0.2")
		Expect(SyncDeployed(ctx, c, clock, relay)).To(MatchError(ContainSubstring("and yet it is forbidden")))
		Expect(New(logr.Discard(), c, Values{Namespace: namespace, Role: steps.Source}).Withdraw(ctx)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(role), role)).To(MatchError(ContainSubstring("not found")))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(binding), binding)).To(MatchError(ContainSubstring("not found")))
	})
})
