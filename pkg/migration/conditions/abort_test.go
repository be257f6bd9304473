// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Aborts and retries", func() {
	var (
		start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		clk   *testclock.FakeClock
		table = steps.Table()

		apply = func(old []gardencorev1beta1.Condition, index int, status gardencorev1beta1.ConditionStatus,
			reason steps.Reason) []gardencorev1beta1.Condition {
			GinkgoHelper()
			out, err := conditions.Apply(clk, old, conditions.Change{
				Step: table[index], Role: table[index].Owner, Status: status,
				Reason: reason, Message: "x",
			})
			Expect(err).NotTo(HaveOccurred())
			return out
		}
	)

	BeforeEach(func() { clk = testclock.NewFakeClock(start) })

	It("should record the destination's part and then the source's", func() {
		all := apply(conditions.Initialize(clk, nil), 0, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		all = apply(all, 1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)

		_, err := conditions.Abort(clk, all, conditions.AbortChange{
			Role: steps.Source, Reason: steps.ReasonAborted, Message: "done",
		})
		Expect(err).To(MatchError(ContainSubstring("has not withdrawn")))

		clk.Step(time.Minute)
		all, err = conditions.Abort(clk, all, conditions.AbortChange{
			Role: steps.Destination, Reason: steps.ReasonWithdrawn, Message: "nothing left",
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(all[1].Status).To(Equal(gardencorev1beta1.ConditionFalse))
		Expect(all[1].Reason).To(Equal("Withdrawn"))
		Expect(all[1].LastTransitionTime.Time).To(Equal(start.Add(time.Minute)))

		all, err = conditions.Abort(clk, all, conditions.AbortChange{
			Role: steps.Source, Reason: steps.ReasonAborted, Message: "as before",
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(all[0].Status).To(Equal(gardencorev1beta1.ConditionFalse))
		Expect(steps.Aborted(all)).To(BeTrue())

		operation := conditions.AbortOperation(clk, nil, all,
			conditions.AbortChange{Role: steps.Source, Message: "as before"})
		Expect(operation.State).To(Equal(gardencorev1beta1.LastOperationStateAborted))
		Expect(operation.Type).To(Equal(gardencorev1beta1.LastOperationTypeLiveMigrate))
		Expect(operation.Description).To(Equal("Live migration was aborted: as before"))
		clk.Step(time.Minute)
		Expect(conditions.AbortOperation(clk, operation, all,
			conditions.AbortChange{Role: steps.Source, Message: "as before"})).
			To(BeIdenticalTo(operation))
	})

	It("should tell an abort that continues from one that fails", func() {
		all := apply(conditions.Initialize(clk, nil), 0, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		operation := conditions.AbortOperation(clk, nil, all,
			conditions.AbortChange{Role: steps.Source, Message: "removing"})
		Expect(operation.State).To(Equal(gardencorev1beta1.LastOperationStateProcessing))
		Expect(operation.Description).To(Equal("Aborting the live migration (source): removing"))
		Expect(conditions.AbortOperation(clk, operation, all,
			conditions.AbortChange{Role: steps.Source, Message: "boom", Failed: true}).State).
			To(Equal(gardencorev1beta1.LastOperationStateError))
	})

	It("should give a step its whole deadline again, on request", func() {
		all := apply(conditions.Initialize(clk, nil), 0, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		clk.Step(time.Hour)
		all = apply(all, 0, gardencorev1beta1.ConditionFalse, steps.ReasonDeadlineExceeded)
		Expect(conditions.Overdue(clk, all, table[0])).To(BeTrue())

		clk.Step(time.Hour)
		all, err := conditions.Restart(clk, all, table[0], steps.Source)
		Expect(err).NotTo(HaveOccurred())
		Expect(all[0].Status).To(Equal(gardencorev1beta1.ConditionProgressing))
		Expect(conditions.Overdue(clk, all, table[0])).To(BeFalse())
		Expect(steps.StartedAt(all, table[0])).To(Equal(start.Add(2 * time.Hour)))

		clk.Step(time.Minute)
		all, err = conditions.Restart(clk, all, table[0], steps.Source)
		Expect(err).NotTo(HaveOccurred())
		Expect(steps.StartedAt(all, table[0])).To(Equal(start.Add(2*time.Hour+time.Minute)), "also before the deadline")
	})

	It("should restart neither what has not begun nor what belongs to the peer", func() {
		all := conditions.Initialize(clk, nil)
		_, err := conditions.Restart(clk, all, table[0], steps.Source)
		Expect(err).To(MatchError(ContainSubstring("has not begun")))
		all = apply(all, 0, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		_, err = conditions.Restart(clk, all, table[0], steps.Destination)
		Expect(err).To(MatchError(ContainSubstring("written by the source only")))
		_, err = conditions.Restart(clk, all, table[1], steps.Destination)
		Expect(err).To(MatchError(ContainSubstring("the current step is")))
	})
})
