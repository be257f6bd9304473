// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"

	"github.com/livecpm/livecpm/test/conformance"
)

var _ = Describe("The hollow node", func() {
	It("should be ready and schedulable, also if one was left, and go", func(ctx SpecContext) {
		kube := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: conformance.NodeName},
			Spec: corev1.NodeSpec{Unschedulable: true}})
		// As the admission plugin TaintNodesByCondition does it.
		kube.PrependReactor("create", "nodes", func(action testing.Action) (bool, runtime.Object, error) {
			node := action.(testing.CreateAction).GetObject().(*corev1.Node)
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
			return false, nil, nil
		})
		Expect(conformance.AddNode(ctx, kube)).To(Succeed())
		node, err := kube.CoreV1().Nodes().Get(ctx, conformance.NodeName, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Spec).To(Equal(corev1.NodeSpec{}))
		Expect(node.Status.Conditions).To(ConsistOf(And(HaveField("Type", corev1.NodeReady),
			HaveField("Status", corev1.ConditionTrue))))
		Expect(node.Status.Allocatable.Pods().Value()).To(BeNumerically(">", 10))

		Expect(conformance.RemoveNode(ctx, kube)).To(Succeed())
		Expect(conformance.RemoveNode(ctx, kube)).To(Succeed())
		nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.Items).To(BeEmpty())
	})
})
