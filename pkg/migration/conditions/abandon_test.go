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

var _ = Describe("Abandonments", func() {
	It("should be recorded by the source alone, which then ends the abort", func() {
		clk := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		all := conditions.Initialize(clk, nil)
		_, err := conditions.Abandon(clk, all, "too early")
		Expect(err).To(MatchError(ContainSubstring("nothing of the migration is there")))
		for _, step := range steps.Table()[:4] {
			all, err = conditions.Apply(clk, all, conditions.Change{Step: step, Role: step.Owner, Status: "True",
				Reason: steps.ReasonCompleted})
			Expect(err).NotTo(HaveOccurred())
		}

		change := conditions.AbortChange{Role: steps.Source, Reason: steps.ReasonAborting, Message: "closing"}
		_, err = conditions.Abort(clk, all, change)
		Expect(err).To(MatchError(ContainSubstring("has not withdrawn")))
		change.Abandoning = true
		all, err = conditions.Abort(clk, all, change)
		Expect(err).NotTo(HaveOccurred())
		Expect(all[0]).To(And(HaveField("Reason", "Aborting"), HaveField("Message", "closing")))
		change.Reason = steps.ReasonAborted
		_, err = conditions.Abort(clk, all, change)
		Expect(err).To(MatchError(ContainSubstring("has not withdrawn")), "that is not all")

		all, err = conditions.Abandon(clk, all, "left: everything")
		Expect(err).NotTo(HaveOccurred())
		Expect(all[1]).To(And(HaveField("Reason", "Abandoned"), HaveField("Message", "left: everything"),
			HaveField("Status", BeEquivalentTo("False"))))
		Expect(steps.Abandoned(all)).To(BeTrue())

		all, err = conditions.Abort(clk, all, conditions.AbortChange{
			Role: steps.Source, Reason: steps.ReasonAborted, Message: "as before",
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(steps.Aborted(all)).To(BeTrue())

		cleared := conditions.Cleared(clk, all, "nothing left")
		Expect(steps.Aborted(cleared)).To(BeTrue())
		Expect(cleared[1]).To(And(HaveField("Reason", "Withdrawn"), HaveField("Message", "nothing left")))
		Expect(conditions.Cleared(clk, cleared, "again")).To(Equal(cleared))
	})

	It("should be recorded too if the destination has only been asked to prepare, however long it takes", func() {
		clk := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		for _, status := range []gardencorev1beta1.ConditionStatus{"Progressing", "True"} {
			all, err := conditions.Apply(clk, conditions.Initialize(clk, nil), conditions.Change{
				Step: steps.First(), Role: steps.Source, Status: status, Reason: steps.ReasonShootStatePersisted})
			Expect(err).NotTo(HaveOccurred())
			change := conditions.AbortChange{Role: steps.Source, Reason: steps.ReasonAborting, Message: "closing",
				Abandoning: true}
			for range 2 {
				all, err = conditions.Abort(clk, all, change)
				Expect(err).NotTo(HaveOccurred())
				Expect(all[0]).To(And(HaveField("Reason", "ShootStatePersisted"),
					HaveField("Message", "Aborting: closing"), HaveField("Status", BeEquivalentTo("False"))))
				Expect(steps.Withdrawn(all)).To(BeFalse(), "there is still something to abandon")
			}
			all, err = conditions.Abandon(clk, all, "left: a namespace")
			Expect(err).NotTo(HaveOccurred())
			change.Abandoning = false
			all, err = conditions.Abort(clk, all, change)
			Expect(err).NotTo(HaveOccurred())
			Expect(all[0]).To(And(HaveField("Reason", "Aborting"), HaveField("Message", "closing")))
		}
	})
})
