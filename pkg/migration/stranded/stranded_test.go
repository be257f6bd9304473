// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package stranded_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/stranded"
)

func TestStranded(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Stranded Suite")
}

var _ = Describe("A stranded pod", func() {
	due := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	pod := func(ended *metav1.Time, ready ...corev1.ConditionStatus) *corev1.Pod {
		out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main-1", DeletionTimestamp: ended},
			Spec: corev1.PodSpec{NodeName: "lost"}}
		for _, status := range ready {
			out.Status.Conditions = append(out.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodReady, Status: status})
		}
		return out
	}

	DescribeTable("is told from others", func(told *corev1.Pod, after time.Duration, expected bool) {
		Expect(stranded.Pod(told, due.Add(after))).To(Equal(expected))
	},
		Entry("its node is silent", pod(&metav1.Time{Time: due}, corev1.ConditionFalse), 30*time.Second, true),
		Entry("nobody knows of it", pod(&metav1.Time{Time: due}, corev1.ConditionUnknown), 30*time.Second, true),
		Entry("it has never been ready", pod(&metav1.Time{Time: due}), 30*time.Second, true),
		Entry("its kubelet may be slow", pod(&metav1.Time{Time: due}, corev1.ConditionFalse), 29*time.Second, false),
		Entry("its node has not been found silent", pod(&metav1.Time{Time: due}, corev1.ConditionTrue), time.Hour,
			false),
		Entry("nobody has told it to end", pod(nil, corev1.ConditionFalse), time.Hour, false),
	)

	It("should be described with the way out", func() {
		Expect(stranded.Describe(pod(&metav1.Time{Time: due}))).To(Equal("pod etcd-main-1 should have ended at " +
			"2026-03-01T12:00:00Z, and node lost does not report that; if the node is lost, delete the Node, or give " +
			"it the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"))
	})
})
