// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = DescribeTable("An abandonment of the source",
	func(seed string, conditions []gardencorev1beta1.Condition, possible, due bool) {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", conditions...)
		s.Annotations[steps.AnnotationAbandonSource] = seed
		Expect(steps.AbandonSourcePossible(conditions)).To(Equal(possible), "possible")
		Expect(steps.AbandonSourceDue(s)).To(Equal(due), "due")
	},
	Entry("without conditions", "a", nil, false, false),
	Entry("in the second step", "a", world(isTrue, isProgressing), false, false),
	Entry("before the sixth step, when the way back is open", "a", finished(5), false, false),
	Entry("in the sixth step, which the destination finishes as its own", "a", append5(isProgressing), true, false),
	Entry("in an overdue sixth step", "a", append5(isFalse), true, false),
	Entry("before the seventh step, which nobody begins", "a", finished(6), true, true),
	Entry("in the seventh step", "a", append5(isTrue, isProgressing), true, true),
	Entry("in an overdue seventh step", "a", append5(isTrue, isFalse), true, true),
	Entry("for the destination", "b", append5(isTrue, isProgressing), true, false),
	Entry("without a name", "true", append5(isTrue, isProgressing), true, false),
	Entry("in the last step, which asks nothing of the source", "a", append5(isTrue, isTrue, isProgressing), false,
		false),
	Entry("after the migration", "a", allTrue(), false, false),
)

var _ = Describe("What an abandonment of the source leaves", func() {
	It("should be recorded with the name of the source, and outlive the migration", func() {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", finished(6)...)
		s.Annotations[steps.AnnotationAbandonSource] = "a"
		steps.LeaveBehindInSource(s)
		steps.RemoveAnnotations(s)
		Expect(s.Annotations).To(Equal(map[string]string{steps.AnnotationLeftBehind: "a"}))
	})

	It("should be told from a source that has cleaned up", func() {
		Expect(steps.SourceAbandoned(finished(7))).To(BeFalse())
		Expect(steps.SourceAbandoned(with(finished(7), 6, steps.ReasonSourceAbandoned))).To(BeTrue())
		Expect(steps.SourceAbandoned(with(append5(isTrue, isProgressing), 6, steps.ReasonSourceAbandoned))).
			To(BeFalse())
	})

	It("should be recorded in the cleanup of the source only", func() {
		Expect(steps.CheckAbandonSource(finished(6))).To(Succeed())
		Expect(steps.CheckAbandonSource(append5(isProgressing))).
			To(MatchError(ContainSubstring("the current step is \"EtcdMigrationComplete\"")))
		Expect(steps.CheckAbandonSource(finished(7))).To(MatchError(ContainSubstring("MigrationCompleted")))
		Expect(steps.CheckAbandonSource(allTrue())).NotTo(Succeed())
	})

	It("should hold the last step without being a fault", func() {
		Expect(steps.ReasonAbandoningSource.Hold()).To(BeTrue())
		Expect(steps.ReasonAbandoningSource.Fault()).To(BeFalse())
	})
})

// finished are the conditions of a migration with so many steps finished.
func finished(count int) []gardencorev1beta1.Condition {
	var statuses []gardencorev1beta1.ConditionStatus
	for range count {
		statuses = append(statuses, isTrue)
	}
	return world(statuses...)
}

// append5 are the conditions with five steps finished, and the next ones as given.
func append5(next ...gardencorev1beta1.ConditionStatus) []gardencorev1beta1.Condition {
	return world(append([]gardencorev1beta1.ConditionStatus{isTrue, isTrue, isTrue, isTrue, isTrue}, next...)...)
}
