// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// What a drain of a node of the destination is to find: the disruption budgets hold the members of etcd before step 6,
// and let them go after it.
var _ = Describe("Drains of a node of the destination", func() {
	var (
		targets *fault.Targets
		kube    *fake.Clientset
		mu      sync.Mutex
		logged  []string
	)

	drain := func(ctx context.Context, name string) fault.Fleeting {
		GinkgoHelper()
		f, ok := fault.Get(name)
		Expect(ok).To(BeTrue())
		Expect(f.Inject(ctx, targets)).To(Succeed())
		return f.(fault.Fleeting)
	}
	left := func(ctx context.Context) []string {
		pods, err := kube.CoreV1().Pods(shootNamespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		names := []string{}
		for _, pod := range pods.Items {
			names = append(names, pod.Name)
		}
		return names
	}
	// budget lets pods go, members of etcd only if it permits that.
	budget := func(permitsMembers bool) {
		kube.PrependReactor("create", "pods", func(action testing.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "eviction" {
				return false, nil, nil
			}
			eviction := action.(testing.CreateAction).GetObject().(*policyv1.Eviction)
			if eviction.Name == "etcd-main-1" && !permitsMembers {
				return true, nil, apierrors.NewTooManyRequests("the disruption budget", 0)
			}
			return true, nil, kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), shootNamespace,
				eviction.Name)
		})
	}

	BeforeEach(func() {
		pod := func(name string, labels map[string]string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shootNamespace, Name: name, Labels: labels},
				Spec: corev1.PodSpec{NodeName: "one"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		}
		kube = fake.NewClientset(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "two"}},
			pod("etcd-main-1", map[string]string{"app.kubernetes.io/managed-by": "etcd-druid"}),
			pod("kube-apiserver-1", nil),
		)
		logged = nil
		targets = &fault.Targets{
			Namespace: shootNamespace,
			Seeds:     map[steps.Role]fault.Seed{steps.Destination: {Name: "seed-b", Kube: kube}},
			Log: func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, fmt.Sprintf(format, args...))
			},
		}
	})

	It("should be in force when all but the members have left, and these are held", func(ctx SpecContext) {
		budget(false)
		f := drain(ctx, "node-drain-held-destination")
		Eventually(ctx, func() (bool, error) { return f.InForce(ctx, targets) }).
			WithTimeout(patience.Eventually).Should(BeTrue())
		Expect(left(ctx)).To(Equal([]string{"etcd-main-1"}))
	})

	It("should not be in force when a member was let go that was to be held", func(ctx SpecContext) {
		budget(true)
		f := drain(ctx, "node-drain-held-destination")
		Eventually(ctx, func() ([]string, error) {
			_, err := f.InForce(ctx, targets) // It tells why not.
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(logged), err
		}).WithTimeout(patience.Eventually).Should(ContainElement(ContainSubstring("let go of pod " + shootNamespace +
			"/etcd-main-1")))
		Expect(f.InForce(ctx, targets)).To(BeFalse())
	})

	It("should empty the node where nothing is held", func(ctx SpecContext) {
		budget(true)
		f := drain(ctx, "node-drain-destination")
		Eventually(ctx, func() (bool, error) { return f.InForce(ctx, targets) }).
			WithTimeout(patience.Eventually).Should(BeTrue())
		Expect(left(ctx)).To(BeEmpty())
	})
})
