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

var _ = DescribeTable("The way back of a migration that moves etcd first",
	func(forced string, conditions []gardencorev1beta1.Condition, possible bool) {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", conditions...)
		s.Annotations[steps.AnnotationForceShrink] = forced
		s.Annotations[steps.AnnotationAbort] = "true"
		Expect(steps.AbortPossible(s)).To(Equal(possible))
		Expect(steps.AbortDue(s)).To(Equal(possible))
	},
	Entry("is open while nothing has begun", "true", nil, true),
	Entry("is open before the members move", "true", world(isTrue, isTrue, isTrue), true),
	Entry("is open in the third step", "true", world(isTrue, isTrue, isProgressing), true),
	Entry("is lost while they move", "true", world(isTrue, isTrue, isTrue, isProgressing), false),
	Entry("is lost while they move, overdue", "true", world(isTrue, isTrue, isTrue, isFalse), false),
	Entry("is lost after they have moved", "true", world(isTrue, isTrue, isTrue, isTrue), false),
	Entry("is lost while the DNSRecords are released", "true", world(isTrue, isTrue, isTrue, isTrue, isProgressing),
		false),
	Entry("is as open as ever if nobody asks for that", "false", world(isTrue, isTrue, isTrue, isProgressing), true),
	Entry("stays open for an abort that had begun before somebody asked", "true",
		with(world(isTrue, isFalse, isTrue, isProgressing), 1, steps.ReasonAborting), true),
	Entry("stays open for its end", "true",
		with(with(world(isFalse, isFalse, isTrue, isProgressing), 1, steps.ReasonWithdrawn), 0, steps.ReasonAborting),
		true),
)

var _ = DescribeTable("An abandonment",
	func(abort, seed string, conditions []gardencorev1beta1.Condition, due, abandoned bool) {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", conditions...)
		s.Annotations[steps.AnnotationAbort] = abort
		s.Annotations[steps.AnnotationAbandon] = seed
		Expect(steps.AbandonDue(s)).To(Equal(due), "due")
		Expect(steps.Abandoned(conditions)).To(Equal(abandoned), "abandoned")
	},
	Entry("needs the abort as well", "", "b", world(isTrue, isProgressing), false, false),
	Entry("needs the name of the destination", "true", "true", world(isTrue, isProgressing), false, false),
	Entry("is not of the source", "true", "a", world(isTrue, isProgressing), false, false),
	Entry("is not for a destination that has not begun", "true", "b", world(isTrue), false, false),
	Entry("of the second step", "true", "b", world(isTrue, isProgressing), true, false),
	Entry("of an overdue second step", "true", "b", world(isTrue, isFalse), true, false),
	Entry("of an abort that waits for the destination", "true", "b",
		with(world(isTrue, isFalse), 1, steps.ReasonAborting), true, false),
	Entry("of the third step", "true", "b", world(isTrue, isTrue, isProgressing), true, false),
	Entry("of the fourth step", "true", "b", world(isTrue, isTrue, isTrue, isFalse), true, false),
	Entry("of the fifth step", "true", "b", world(isTrue, isTrue, isTrue, isTrue, isProgressing), true, false),
	Entry("while the source is at it", "true", "b", with(world(isFalse, isTrue, isTrue), 0, steps.ReasonAborting), true,
		false),
	Entry("not after the destination has withdrawn", "true", "b", with(world(isTrue, isFalse), 1,
		steps.ReasonWithdrawn),
		false, false),
	Entry("once", "true", "b", with(world(isFalse, isFalse), 1, steps.ReasonAbandoned), false, true),
	Entry("too late", "true", "b", world(isTrue, isTrue, isTrue, isTrue, isTrue, isProgressing), false, false),
)

var _ = DescribeTable("What an abandonment has left behind",
	func(leftIn string, conditions []gardencorev1beta1.Condition, left, clear bool) {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", conditions...)
		s.Annotations[steps.AnnotationLeftBehind] = leftIn
		_, is := steps.LeftBehindIn(s)
		Expect(is).To(Equal(left), "left")
		Expect(steps.ClearDue(s)).To(Equal(clear), "clear")
	},
	Entry("is in another seed", "c", world(isTrue, isProgressing), false, false),
	Entry("is cleared while the source ends the abort", "b", with(world(isFalse, isFalse), 1, steps.ReasonAbandoned),
		true, true),
	Entry("is cleared after the abort", "b",
		with(with(world(isFalse, isFalse), 1, steps.ReasonAbandoned), 0, steps.ReasonAborted), true, true),
	Entry("is cleared before the next migration begins", "b", allTrue(), true, true),
	Entry("is not cleared beneath a migration that is at work", "b", world(isTrue, isProgressing), true, false),
)

var _ = Describe("#LeaveBehind", func() {
	It("should name the destination, and outlive the migration", func() {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", world(isTrue, isProgressing)...)
		s.Annotations[steps.AnnotationAbandon] = "b"
		steps.LeaveBehind(s)
		steps.RemoveAnnotations(s)
		Expect(s.Annotations).To(Equal(map[string]string{steps.AnnotationLeftBehind: "b"}))
	})
})

var _ = Describe("#CheckAbandon", func() {
	It("should refuse what there is nothing to gain from, and what comes too late", func() {
		Expect(steps.CheckAbandon(world(isTrue, isTrue, isProgressing))).To(Succeed())
		Expect(steps.CheckAbandon(world(isTrue))).To(MatchError(ContainSubstring("nothing of the migration is there")))
		Expect(steps.CheckAbandon(world(isTrue, isTrue, isTrue, isTrue, isTrue, isProgressing))).
			To(MatchError(ContainSubstring("the current step is EtcdMigrationComplete")))
	})
})
