// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exit_test

import (
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("Exit codes", func() {
	It("should be what scripts rely on, each with a meaning", func() {
		var codes []int
		for _, meaning := range exit.Table() {
			codes = append(codes, int(meaning.Code))
			Expect(exit.Help()).To(ContainSubstring(fmt.Sprintf("%d  %s", meaning.Code, meaning.Word)))
		}
		Expect(codes).To(Equal([]int{0, 1, 2, 3, 4}))
		Expect([]exit.Code{exit.Done, exit.No, exit.Error, exit.Timeout, exit.Operator}).To(
			Equal([]exit.Code{0, 1, 2, 3, 4}))
	})

	DescribeTable("should be what the error says", func(err error, expected exit.Code) {
		Expect(exit.Of(err)).To(Equal(expected))
	},
		Entry("none", nil, exit.Done),
		Entry("any", errors.New("away"), exit.Error),
		Entry("refused", exit.Refused("the step %d has begun", 6), exit.No),
		Entry("yes", exit.Answer(true).Err(), exit.Done),
		Entry("no", exit.Answer(false).Err(), exit.No),
		Entry("done", exit.With(exit.Done, nil), exit.Done),
		Entry("timeout", exit.With(exit.Timeout, nil), exit.Timeout),
		Entry("wrapped", fmt.Errorf("failed: %w", exit.With(exit.Timeout, errors.New("late"))), exit.Timeout),
		Entry("the nearest", exit.With(exit.Error, exit.Refused("late")), exit.No),
	)

	It("should say nothing twice", func() {
		Expect(exit.Answer(false).Err().Error()).To(BeEmpty())
		cause := errors.New("late")
		Expect(exit.With(exit.Timeout, cause)).To(MatchError(cause))
		Expect(exit.With(exit.Timeout, cause).Error()).To(Equal("late"))
	})

	DescribeTable("should follow from the state of a drain",
		func(requested bool, status gardencorev1beta1.ConditionStatus, expected exit.Code, expectedEnd bool) {
			d := summary.Drain{Requested: requested}
			if status != "" {
				d.Condition = &gardencorev1beta1.Condition{Type: drain.ConditionDrained, Status: status}
			}
			code, end := exit.OfDrain(d)
			Expect(code).To(Equal(expected))
			Expect(end).To(Equal(expectedEnd))
		},
		Entry("not requested", false, gardencorev1beta1.ConditionStatus(""), exit.No, true),
		Entry("cancelled", false, gardencorev1beta1.ConditionProgressing, exit.No, true),
		Entry("not begun", true, gardencorev1beta1.ConditionStatus(""), exit.Timeout, false),
		Entry("draining", true, gardencorev1beta1.ConditionProgressing, exit.Timeout, false),
		Entry("blocked", true, gardencorev1beta1.ConditionFalse, exit.Operator, true),
		Entry("empty", true, gardencorev1beta1.ConditionTrue, exit.Done, true),
	)

	DescribeTable("should follow from the state of a migration",
		func(migration summary.Summary, expected exit.Code, needsOperator bool) {
			Expect(exit.OfMigration(migration)).To(Equal(expected))
			Expect(exit.NeedsOperator(migration)).To(Equal(needsOperator))
		},
		Entry("none", summary.Summary{State: summary.None}, exit.No, false),
		Entry("classic", summary.Summary{State: summary.Classic}, exit.No, false),
		Entry("requested", summary.Summary{State: summary.Requested}, exit.Timeout, false),
		Entry("processing", summary.Summary{State: summary.Processing}, exit.Timeout, false),
		Entry("paused", summary.Summary{State: summary.Paused, Step: "A", PauseBefore: "A"}, exit.Operator, true),
		Entry("resumed a moment ago", summary.Summary{State: summary.Paused, Step: "A"}, exit.Timeout, false),
		Entry("paused again later", summary.Summary{State: summary.Paused, Step: "A", PauseBefore: "B"}, exit.Timeout,
			false),
		Entry("held", summary.Summary{State: summary.Held}, exit.Operator, false),
		Entry("overdue", summary.Summary{State: summary.Overdue}, exit.Operator, true),
		Entry("aborting", summary.Summary{State: summary.Aborting}, exit.Timeout, false),
		Entry("aborted", summary.Summary{State: summary.Aborted}, exit.No, false),
		Entry("succeeded", summary.Summary{State: summary.Succeeded}, exit.Done, false),
	)
})
