// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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

// switches are those of nodes that do not run once they are switched off.
type switches struct{ off []string }

func (s *switches) PowerOff(node string) error {
	s.off = append(s.off, node)
	return nil
}

func (s *switches) Off() []string { return s.off }

func (s *switches) Replace(context.Context) error {
	s.off = nil
	return nil
}

// What drains are to find: the disruption budgets let members of etcd go, one in each seed, and one relay after the
// other.
var _ = Describe("Drains of nodes", func() {
	var (
		targets *fault.Targets
		// kube is the destination.
		source, kube *fake.Clientset
		mu           sync.Mutex
		logged       []string
	)

	drain := func(ctx context.Context, name string) fault.Fleeting {
		GinkgoHelper()
		f, ok := fault.Get(name)
		Expect(ok).To(BeTrue())
		Expect(f.Inject(ctx, targets)).To(Succeed())
		return f.(fault.Fleeting)
	}
	left := func(ctx context.Context, kube *fake.Clientset) []string {
		pods, err := kube.CoreV1().Pods(shootNamespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		names := []string{}
		for _, pod := range pods.Items {
			names = append(names, pod.Name)
		}
		return names
	}
	// permit lets the API server evict the pods of which the function says so.
	permit := func(kube *fake.Clientset, permitted func(pod string) bool) {
		kube.PrependReactor("create", "pods", func(action testing.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "eviction" {
				return false, nil, nil
			}
			eviction := action.(testing.CreateAction).GetObject().(*policyv1.Eviction)
			if !permitted(eviction.Name) {
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
		relay := func(ordinal int) *corev1.Pod {
			made := pod(fmt.Sprintf("livecpm-relay-%d", ordinal), map[string]string{"app": "livecpm-relay"})
			made.Status.Conditions = []corev1.PodCondition{
				{Type: "livecpm.gardener.cloud/in-use", Status: corev1.ConditionTrue},
			}
			made.Spec.NodeName = "two"
			return made
		}
		objects := func() []runtime.Object {
			return []runtime.Object{
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "two"}},
				pod("etcd-main-1", map[string]string{"app.kubernetes.io/managed-by": "etcd-druid"}),
				pod("kube-apiserver-1", nil), relay(0), relay(1), relay(2),
			}
		}
		source, kube = fake.NewClientset(objects()...), fake.NewClientset(objects()...)
		logged = nil
		targets = &fault.Targets{
			Namespace: shootNamespace,
			Seeds: map[steps.Role]fault.Seed{steps.Source: {Name: "seed-a", Kube: source},
				steps.Destination: {Name: "seed-b", Kube: kube}},
			Log: func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, fmt.Sprintf(format, args...))
			},
		}
	})

	relays := []string{"livecpm-relay-0", "livecpm-relay-1", "livecpm-relay-2"}
	logs := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(logged)
	}
	all := func(string) bool { return true }

	for _, name := range []string{"node-drain-destination", "node-drain-joint-destination"} {
		It("should empty the node of one seed: "+name, func(ctx SpecContext) {
			permit(kube, all)
			f := drain(ctx, name)
			Eventually(ctx, func() (bool, error) { return f.InForce(ctx, targets) }).
				WithTimeout(patience.Eventually).Should(BeTrue())
			Expect(left(ctx, kube)).To(Equal(relays))
			Expect(left(ctx, source)).To(HaveLen(5))
			Expect(f.(fault.Witnessed).Witness(ctx, targets)).To(Succeed())
			Expect(targets.TakeProofs()).To(Equal([]string{name + " has evicted all that it was to evict"}))
		})
	}

	It("should have seen that a lost node is off", func(ctx SpecContext) {
		off := &switches{}
		targets.Power = func(fault.Seed) fault.Power { return off }
		f, ok := fault.Get("node-loss-destination")
		Expect(ok).To(BeTrue())
		Expect(f.Inject(ctx, targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(Equal([]string{"node one in seed-b is off"}))
	})

	It("should not be in force while a budget holds a member in one of two seeds", func(ctx SpecContext) {
		var released atomic.Bool
		permit(source, func(pod string) bool { return pod != "etcd-main-1" || released.Load() })
		permit(kube, all)
		f := drain(ctx, "node-drain-joint-both")
		Eventually(ctx, func() []string { return left(ctx, kube) }).WithTimeout(patience.Eventually).
			Should(Equal(relays))
		Eventually(ctx, func() []string { return left(ctx, source) }).WithTimeout(patience.Eventually).
			Should(Equal(append([]string{"etcd-main-1"}, relays...)))
		Expect(f.InForce(ctx, targets)).To(BeFalse())
		Expect(f.(fault.Witnessed).Witness(ctx, targets)).To(Succeed())
		Expect(targets.TakeProofs()).To(BeEmpty())
		released.Store(true)
		Eventually(ctx, func() (bool, error) { return f.InForce(ctx, targets) }).
			WithTimeout(patience.Eventually).Should(BeTrue())
	})

	It("should not be in force when a relay goes while the replacement of another one is not in use",
		func(ctx SpecContext) {
			permit(kube, all)
			f := drain(ctx, "relay-evict-destination")
			Eventually(ctx, func() ([]string, error) {
				_, err := f.InForce(ctx, targets) // It tells why not.
				return logs(), err
			}).WithTimeout(patience.Eventually).Should(ContainElement(ContainSubstring(
				"the disruption budget let go of relay livecpm-relay-1 in seed-b while only 1 others run")))
			Expect(f.InForce(ctx, targets)).To(BeFalse())
		})

	It("should take each relay when the one before it has been replaced", func(ctx SpecContext) {
		replaced := func(status corev1.ConditionStatus) func(pod string) bool {
			return func(name string) bool {
				// What follows an evicted relay is there, under another UID, when the next one is asked for.
				for _, relay := range relays {
					if relay == name {
						break
					}
					made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shootNamespace, Name: relay,
						Labels: map[string]string{"app": "livecpm-relay"}},
						Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
							{Type: "livecpm.gardener.cloud/in-use", Status: status}}}}
					_ = kube.Tracker().Add(made)
				}
				return true
			}
		}
		permit(kube, replaced(corev1.ConditionTrue))
		f := drain(ctx, "relay-evict-destination")
		Eventually(ctx, func() (bool, error) { return f.InForce(ctx, targets) }).
			WithTimeout(patience.Eventually).Should(BeTrue())

		permit(source, func(name string) bool {
			if name == relays[1] {
				_ = source.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shootNamespace,
					Name: relays[0], Labels: map[string]string{"app": "livecpm-relay"}},
					Status: corev1.PodStatus{Phase: corev1.PodRunning}})
			}
			return true
		})
		f = drain(ctx, "relay-evict-source")
		Eventually(ctx, func() ([]string, error) {
			_, err := f.InForce(ctx, targets)
			return logs(), err
		}).WithTimeout(patience.Eventually).Should(ContainElement(ContainSubstring(
			"let go of relay livecpm-relay-1 in seed-a while livecpm-relay-0 is not in use")))
	})
})
