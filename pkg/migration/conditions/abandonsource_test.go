// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Abandonments of the source", func() {
	It("should be recorded in the source's step by the destination, which then begins its last one", func() {
		clk := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		all := conditions.Initialize(clk, nil)
		pending := all[7]
		for _, step := range steps.Table()[:6] {
			_, err := conditions.AbandonSource(clk, all, "too early")
			Expect(err).To(MatchError(ContainSubstring("the source cannot be abandoned: the current step is")))
			all, err = conditions.Apply(clk, all, conditions.Change{Step: step, Role: step.Owner, Status: "True",
				Reason: steps.ReasonCompleted})
			Expect(err).NotTo(HaveOccurred())
		}

		all, err := conditions.AbandoningSource(clk, all, "its gardenlet answers")
		Expect(err).NotTo(HaveOccurred())
		Expect(all[7]).To(And(HaveField("Reason", "AbandoningSource"), HaveField("Message", "its gardenlet answers"),
			HaveField("Status", BeEquivalentTo("Unknown"))))
		Expect(all[6].Status).To(BeEquivalentTo("Unknown"), "the condition is the source's")
		current, _ := steps.Current(all)
		Expect(current).To(Equal(steps.Table()[6]))

		clk.Step(time.Minute)
		all, err = conditions.AbandonSource(clk, all, "left: everything")
		Expect(err).NotTo(HaveOccurred())
		Expect(all[6]).To(And(HaveField("Reason", "SourceAbandoned"), HaveField("Message", "left: everything"),
			HaveField("Status", BeEquivalentTo("True"))))
		Expect(all[7]).To(And(HaveField("Reason", pending.Reason), HaveField("Message", pending.Message),
			HaveField("LastTransitionTime", pending.LastTransitionTime)))
		Expect(steps.SourceAbandoned(all)).To(BeTrue())
		_, err = conditions.AbandoningSource(clk, all, "again")
		Expect(err).To(HaveOccurred(), "it is over")
	})

	It("should not let a source show life in its other steps, whose conditions say so", func() {
		clk := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		all := conditions.Initialize(clk, nil)
		for i, step := range steps.Table()[:6] {
			_, err := conditions.ShowLife(clk, all, step.Owner)
			Expect(err).To(HaveOccurred(), "%d", i)
			all, err = conditions.Apply(clk, all, conditions.Change{Step: step, Role: step.Owner, Status: "True",
				Reason: steps.ReasonCompleted})
			Expect(err).NotTo(HaveOccurred())
		}
		clk.Step(time.Minute)
		all, err := conditions.ShowLife(clk, all, steps.Source)
		Expect(err).NotTo(HaveOccurred())
		Expect(steps.SeenAt(all, steps.Source)).To(Equal(clk.Now()))
	})
})
