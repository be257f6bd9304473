// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

var _ = Describe("Course", func() {
	begin := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	at := func(s int) metav1.Time { return metav1.NewTime(begin.Add(time.Duration(s) * time.Second)) }
	condition := func(step string, status gardencorev1beta1.ConditionStatus, reason string,
		updated int) gardencorev1beta1.Condition {
		return gardencorev1beta1.Condition{Type: gardencorev1beta1.ConditionType(step), Status: status, Reason: reason,
			LastTransitionTime: at(updated), LastUpdateTime: at(updated)}
	}
	told := func(c *recording.Course) []string {
		var out []string
		for _, t := range c.Transitions() {
			out = append(out, t.Time.Sub(begin).String()+" "+string(t.Condition)+" "+t.Reason)
		}
		return out
	}

	It("should tell each change of reason once, and when it was", func() {
		course := &recording.Course{}
		Expect(course.Transitions()).To(BeEmpty())
		one := condition("One", "Progressing", "Started", 1)
		two := condition("Two", "Unknown", "Pending", 0)
		course.Observe(recording.LookAt(at(2).Time), []gardencorev1beta1.Condition{one, two})
		course.Observe(recording.LookAt(at(3).Time), []gardencorev1beta1.Condition{one, two})
		one.Message, one.LastUpdateTime = "a message alone", at(4)
		course.Observe(recording.LookAt(at(4).Time), []gardencorev1beta1.Condition{one, two})
		one = condition("One", "Progressing", "Working", 8)
		course.Observe(recording.LookAt(at(9).Time), []gardencorev1beta1.Condition{one, two})
		done := condition("One", "True", "Completed", 10)
		done.LastUpdateTime = at(60) // a sign of life
		two = condition("Two", "Unknown", "Paused", 11)
		course.Observe(recording.LookAt(at(61).Time), []gardencorev1beta1.Condition{done, two})
		two = condition("Two", "Progressing", "Started", 12)
		course.Observe(recording.LookAt(at(62).Time), []gardencorev1beta1.Condition{done, two})
		Expect(told(course)).To(HaveExactElements("1s One Started", "8s One Working", "10s One Completed",
			"11s Two Paused", "12s Two Started"))
	})

	It("should tell between which looks a condition has changed", func() {
		course := &recording.Course{}
		look := func(began, ended int) recording.Look {
			return recording.Look{Began: at(began).Time, Ended: at(ended).Time}
		}
		course.Observe(look(1, 2), []gardencorev1beta1.Condition{condition("One", "Progressing", "Started", 1)})
		course.Observe(look(3, 9), []gardencorev1beta1.Condition{condition("One", "Progressing", "Started", 1)})
		course.Observe(look(10, 14), []gardencorev1beta1.Condition{condition("One", "True", "Completed", 8)})
		Expect(course.Transitions()).To(HaveExactElements(
			And(HaveField("Since", time.Time{}), HaveField("Seen", at(2).Time)),
			And(HaveField("Since", at(3).Time), HaveField("Seen", at(14).Time), HaveField("Time", at(8).Time))))
	})

	It("should begin again with another migration", func() {
		course := &recording.Course{}
		look := recording.LookAt(begin)
		course.Observe(look, []gardencorev1beta1.Condition{condition("One", "True", "Completed", 0)})
		course.Observe(look, []gardencorev1beta1.Condition{condition("One", "Unknown", "Pending", 5)})
		course.Observe(look, []gardencorev1beta1.Condition{condition("One", "Progressing", "Started", 6)})
		Expect(told(course)).To(HaveExactElements("6s One Started"))
	})

	It("should take now for a time that nobody has written", func() {
		Expect(recording.TransitionTo(gardencorev1beta1.Condition{Type: "One"}, begin).Time).To(Equal(begin))
	})
})

var _ = Describe("CountLatencies", func() {
	It("should have five bounds for each power of ten, from a millisecond to 100 seconds", func() {
		bounds := recording.LatencyBoundsMs()
		Expect(bounds).To(HaveLen(26))
		Expect(bounds[:6]).To(HaveExactElements(1.0, 1.6, 2.5, 4.0, 6.3, 10.0))
		Expect(bounds[20:]).To(HaveExactElements(10000.0, 16000.0, 25000.0, 40000.0, 63000.0, 100000.0))
	})

	It("should count each latency once, with its bound in its bucket", func() {
		bounds := []float64{1, 10}
		Expect(recording.CountLatencies(bounds, nil)).To(BeEmpty())
		Expect(recording.CountLatencies(bounds, []float64{0.5, 1, 1.1, 10, 10.1})).To(Equal([]int{2, 2, 1}))
		Expect(recording.CountLatencies(bounds, []float64{1})).To(Equal([]int{1}))
	})
})
