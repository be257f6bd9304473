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

// with sets the reason of the condition at the index.
func with(conditions []gardencorev1beta1.Condition, index int, reason steps.Reason) []gardencorev1beta1.Condition {
	conditions[index].Reason = string(reason)
	return conditions
}

var _ = DescribeTable("An abort",
	func(annotation string, conditions []gardencorev1beta1.Condition, due, withdrawn, aborted bool) {
		s := shoot(ptr.To("b"), ptr.To("a"), "true", conditions...)
		if annotation != "" {
			s.Annotations[steps.AnnotationAbort] = annotation
		}
		Expect(steps.AbortDue(s)).To(Equal(due), "due")
		Expect(steps.Withdrawn(conditions)).To(Equal(withdrawn), "withdrawn")
		Expect(steps.Aborted(conditions)).To(Equal(aborted), "aborted")
		Expect(steps.Initialized(conditions) && aborted).To(BeFalse(),
			"the conditions of an aborted migration are not those of the next one")
	},
	Entry("not asked for", "", world(isProgressing), false, true, false),
	Entry("asked for with nonsense", "yes please", world(isProgressing), false, true, false),
	Entry("before anything began", "true", nil, true, true, false),
	Entry("before the first step began", "true", world(), true, true, false),
	Entry("in the first step", "true", world(isProgressing), true, true, false),
	Entry("in the first step, overdue", "1", world(isFalse), true, true, false),
	Entry("in the first step, when the destination prepares", "true",
		with(world(isProgressing), 0, steps.ReasonShootStatePersisted), true, false, false),
	Entry("in the first step, overdue, when the destination prepares", "true",
		with(world(isFalse), 0, steps.ReasonShootStatePersisted), true, false, false),
	Entry("between the first steps, when the destination was asked to prepare", "true",
		with(world(isTrue), 0, steps.ReasonShootStatePersisted), true, false, false),
	Entry("while the destination withdraws from what it has prepared", "true",
		with(with(world(isProgressing, isFalse), 0, steps.ReasonShootStatePersisted), 1, steps.ReasonAborting), true,
		false, false),
	Entry("after the destination has withdrawn from what it has prepared", "true",
		with(with(world(isProgressing, isFalse), 0, steps.ReasonShootStatePersisted), 1, steps.ReasonWithdrawn), true,
		true, false),
	Entry("in the second step", "true", world(isTrue, isProgressing), true, false, false),
	Entry("in the second step, overdue", "true", world(isTrue, isFalse), true, false, false),
	Entry("while the destination withdraws", "true", with(world(isTrue, isFalse), 1, steps.ReasonAborting), true, false,
		false),
	Entry("after the destination has withdrawn", "true", with(world(isTrue, isFalse), 1, steps.ReasonWithdrawn), true,
		true, false),
	Entry("while the source cleans up", "true",
		with(with(world(isFalse, isFalse), 1, steps.ReasonWithdrawn), 0, steps.ReasonAborting), true, true, false),
	Entry("completed", "true", with(with(world(isFalse, isFalse), 1, steps.ReasonWithdrawn), 0, steps.ReasonAborted),
		false, true, true),
	Entry("completed in the first step", "true", with(world(isFalse), 0, steps.ReasonAborted), false, true, true),
	Entry("before the extensions move", "true", world(isTrue, isTrue), true, false, false),
	Entry("while the extensions move", "true", world(isTrue, isTrue, isProgressing), true, false, false),
	Entry("while the kube-apiserver starts", "true", world(isTrue, isTrue, isTrue, isFalse), true, false, false),
	Entry("while the DNSRecords are released", "true", world(isTrue, isTrue, isTrue, isTrue, isProgressing), true,
		false, false),
	Entry("before DNS moves", "true", world(isTrue, isTrue, isTrue, isTrue, isTrue), true, false, false),
	Entry("while the destination withdraws from a later step", "true",
		with(world(isTrue, isFalse, isTrue, isTrue, isProgressing), 1, steps.ReasonAborting), true, false, false),
	Entry("completed from a later step", "true",
		with(with(world(isFalse, isFalse, isTrue, isTrue, isTrue), 1, steps.ReasonWithdrawn), 0, steps.ReasonAborted),
		false, true, true),
	Entry("too late", "true", world(isTrue, isTrue, isTrue, isTrue, isTrue, isProgressing), false, false, false),
	Entry("much too late", "true", world(isTrue, isTrue, isTrue, isTrue, isTrue, isTrue, isTrue), false, false, false),
	Entry("of the migration after one that is over", "true", allTrue(), true, false, false),
)

var _ = Describe("#AbortDue", func() {
	It("should not look at shoots that are not on a live way", func() {
		s := shoot(ptr.To("a"), ptr.To("a"), "true", world(isProgressing)...)
		s.Annotations[steps.AnnotationAbort] = "true"
		Expect(steps.AbortDue(s)).To(BeFalse())

		s = shoot(ptr.To("b"), ptr.To("a"), "false", world(isProgressing)...)
		s.Annotations[steps.AnnotationAbort] = "true"
		Expect(steps.AbortDue(s)).To(BeFalse())
	})
})

var _ = Describe("#CheckAbort", func() {
	It("should let the destination withdraw first", func() {
		Expect(steps.CheckAbort(world(isTrue, isProgressing), steps.Destination)).To(Succeed())
		Expect(steps.CheckAbort(world(isTrue, isProgressing), steps.Source)).
			To(MatchError(ContainSubstring("the destination has not withdrawn yet")))
		Expect(steps.CheckAbort(with(world(isTrue, isFalse), 1, steps.ReasonWithdrawn), steps.Source)).To(Succeed())
		Expect(steps.CheckAbort(world(isProgressing), steps.Source)).To(Succeed())
	})

	It("should refuse when the way back is lost", func() {
		for _, role := range []steps.Role{steps.Source, steps.Destination} {
			Expect(steps.CheckAbort(world(isTrue, isTrue, isTrue, isTrue, isTrue, isProgressing), role)).
				To(MatchError(ContainSubstring("the current step is EtcdMigrationComplete")))
		}
	})
})

var _ = Describe("#AbortOf", func() {
	It("should be what the role's part in an abort is recorded in", func() {
		Expect(steps.AbortOf(steps.Source).String()).To(Equal("SourceEtcdPreparedForPeerJoin"))
		Expect(steps.AbortOf(steps.Destination).String()).To(Equal("DestinationEtcdPeersJoined"))
		Expect(steps.AbortOf("other")).To(BeZero())
	})
})

var _ = Describe("#ForceShrinkRequested", func() {
	It("should read the annotation", func() {
		s := shoot(ptr.To("b"), ptr.To("a"), "true")
		Expect(steps.ForceShrinkRequested(s)).To(BeFalse())
		s.Annotations[steps.AnnotationForceShrink] = "true"
		Expect(steps.ForceShrinkRequested(s)).To(BeTrue())
		s.Annotations[steps.AnnotationWithGap] = "true"
		Expect(steps.ForceShrinkRequested(s)).To(BeFalse(), "an only member moves last")
	})
})
