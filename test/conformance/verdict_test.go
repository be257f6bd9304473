// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/json"
	"os"
	"path/filepath"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/conformance"
)

// conditions are those of a migration in which so many steps are finished.
func conditions(finished int) []gardencorev1beta1.Condition {
	var all []gardencorev1beta1.Condition
	for i, conditionType := range steps.ConditionTypes() {
		status := gardencorev1beta1.ConditionFalse
		if i < finished {
			status = gardencorev1beta1.ConditionTrue
		}
		all = append(all, gardencorev1beta1.Condition{Type: conditionType, Status: status})
	}
	return all
}

// numbered is how the step is called.
func numbered(i int) string {
	return string(rune('1'+i)) + " " + steps.Table()[i].String()
}

var _ = Describe("The timeline", func() {
	It("should know the step at each time", func() {
		t := &conformance.Timeline{}
		all := len(steps.Table())
		Expect(t.At(at(0))).To(Equal(conformance.Before))
		t.Enter(at(10), conformance.Requested)
		t.Observe(at(11), conditions(all)) // of an earlier migration
		t.Observe(at(12), nil)
		t.Observe(at(20), conditions(0))
		t.Observe(at(25), conditions(0))
		t.Observe(at(30), conditions(2))
		t.Observe(at(40), conditions(all))
		t.Enter(at(50), conformance.After)
		for seconds, step := range map[int]string{9: conformance.Before, 10: conformance.Requested,
			19: conformance.Requested, 20: numbered(0), 29: numbered(0), 30: numbered(2), 40: conformance.HandingOver,
			50: conformance.After, 79: conformance.After} {
			Expect(t.At(at(seconds))).To(Equal(step), "after %d seconds", seconds)
		}
		Expect(t.Between(at(15), at(30))).To(Equal(conformance.Requested + ", " + numbered(0) + ", " + numbered(2)))
		Expect(t.Between(at(60), at(70))).To(Equal(conformance.After))
		t.Observe(at(75), conditions(all))
		t.Enter(at(80), conformance.Requested)
		t.Observe(at(81), conditions(all)) // of the migration before
		t.Observe(at(85), conditions(1))
		Expect(t.Between(at(75), at(90))).
			To(Equal(conformance.After + ", " + conformance.Requested + ", " + numbered(1)))
	})
})

var _ = Describe("The verdict", func() {
	var evidence conformance.Evidence

	// rounds are one before, one in, and one after the migration.
	BeforeEach(func() {
		timeline := &conformance.Timeline{}
		timeline.Enter(at(100), conformance.Requested)
		timeline.Observe(at(110), conditions(4))
		timeline.Enter(at(200), conformance.After)
		evidence = conformance.Evidence{List: parse(listText), Timeline: timeline,
			Migrations: []conformance.Migration{{Triggered: at(100), Completed: at(200)}}}
		for i, begin := range []int{50, 120, 250} {
			evidence.Rounds = append(evidence.Rounds, &conformance.Round{Number: i + 1, Seed: int64(i),
				Begin: at(begin), End: at(begin + 10), Runs: []conformance.SpecRun{
					{Spec: reads, Begin: at(begin), End: at(begin + 2), Passed: true},
					{Spec: writes, Begin: at(begin), End: at(begin + 4), Passed: true}}})
		}
	})

	It("should be good if each run of each spec passed", func() {
		verdict := conformance.Judge(evidence)
		Expect(verdict.Err()).NotTo(HaveOccurred())
		Expect(verdict.Specs).To(HaveExactElements(
			conformance.SpecResult{Spec: reads, Passed: 3, Before: 1, During: 1, After: 1, LongestSeconds: 2},
			conformance.SpecResult{Spec: writes, Passed: 3, Before: 1, During: 1, After: 1, LongestSeconds: 4}))
		Expect(verdict.Rounds).To(HaveLen(3))
		Expect(verdict.Rounds[1]).To(And(HaveField("Passed", 2), HaveField("Failed", 0),
			HaveField("Steps", numbered(4))))
	})

	It("should name the spec that failed, when and in which step, and why", func() {
		run := &evidence.Rounds[1].Runs[1]
		run.Passed, run.FailedAt, run.Message = false, at(123), "failed: EOF"
		verdict := conformance.Judge(evidence)
		Expect(verdict.Err()).To(MatchError(And(ContainSubstring(writes), ContainSubstring("round 2 (seed 1)"),
			ContainSubstring("12:02:03"), ContainSubstring(numbered(4)), ContainSubstring("failed: EOF"))))
		Expect(verdict.Failures).To(ConsistOf(conformance.Failure{Spec: writes, Round: 2, Seed: 1, Begin: at(120),
			At: at(123), Step: numbered(4), Steps: numbered(4), Message: "failed: EOF"}))
		Expect(verdict.Specs[1]).To(And(HaveField("Passed", 2), HaveField("Failed", 1)))
		Expect(verdict.Specs[0]).To(And(HaveField("Passed", 3), HaveField("Failed", 0)))
		Expect(verdict.Rounds[1]).To(And(HaveField("Passed", 1), HaveField("Failed", 1)))
	})

	DescribeTable("should not be good", func(change func(), message string) {
		change()
		Expect(conformance.Judge(evidence).Err()).To(MatchError(ContainSubstring(message)))
	},
		Entry("if a spec did not run in a round", func() { evidence.Rounds[2].Runs = evidence.Rounds[2].Runs[:1] },
			`"`+writes+`" failed in round 3 (seed 2) at 12:04:20, step "after the migration", having run through `+
				`"after the migration": it did not run`),
		Entry("if a round has a problem of its own", func() { evidence.Rounds[0].Problems = []string{"no report"} },
			"round 1: no report"),
		Entry("if what runs before the specs failed", func() {
			evidence.Rounds[1].Runs = append(evidence.Rounds[1].Runs,
				conformance.SpecRun{Spec: "[SynchronizedBeforeSuite]", Begin: at(120), End: at(121), FailedAt: at(121),
					Message: "failed: no answer"})
		}, `"[SynchronizedBeforeSuite]" failed in round 2`),
		Entry("if something ran that is not in the list", func() { evidence.Rounds[1].Runs[0].Spec = pods },
			`"`+pods+`" ran, and is not in the list`),
		Entry("if no round was before the migration", func() { evidence.Rounds = evidence.Rounds[1:] },
			`"`+reads+`" did not run before the migration`),
		Entry("if no round was in the migration",
			func() { evidence.Rounds = append(evidence.Rounds[:1], evidence.Rounds[2:]...) },
			`"`+reads+`" did not run during the migration`),
		Entry("if no round was after the migration", func() { evidence.Rounds = evidence.Rounds[:2] },
			`"`+writes+`" did not run after the migration`),
		Entry("if the migration was never asked for",
			func() { evidence.Migrations = nil }, "there was no migration"),
		Entry("if a migration did not end",
			func() { evidence.Migrations = append(evidence.Migrations, conformance.Migration{Triggered: at(300)}) },
			"a migration did not come to its end"),
	)

	It("should count what ran at rest between two migrations as after the first", func() {
		evidence.Migrations = append(evidence.Migrations, conformance.Migration{Triggered: at(300), Completed: at(400)})
		for _, begin := range []int{299, 399, 401} {
			evidence.Rounds = append(evidence.Rounds, &conformance.Round{Begin: at(begin), End: at(begin + 2),
				Runs: []conformance.SpecRun{{Spec: reads, Begin: at(begin), End: at(begin + 2), Passed: true}}})
		}
		Expect(conformance.Judge(evidence).Specs[0]).To(Equal(conformance.SpecResult{Spec: reads, Passed: 6, Before: 1,
			During: 3, After: 2, LongestSeconds: 2}))
	})

	It("should be written for people and for programs", func() {
		evidence.Rounds[0].Problems = []string{"no report"}
		verdict := conformance.Judge(evidence)
		folder := filepath.Join(GinkgoT().TempDir(), "new")
		Expect(verdict.Write(folder)).To(Succeed())
		content, err := os.ReadFile(filepath.Join(folder, "result.json"))
		Expect(err).NotTo(HaveOccurred())
		read := &conformance.Verdict{}
		Expect(json.Unmarshal(content, read)).To(Succeed())
		Expect(read).To(Equal(verdict))
		content, err = os.ReadFile(filepath.Join(folder, "result.md"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).To(And(
			ContainSubstring("2 conformance specs of Kubernetes v1.2.3: 6 runs, 0 failed; rounds: 3, migrations: 1."),
			ContainSubstring("| "+writes+" | 3 | 0 | 1 | 1 | 1 | 4.0 |"),
			ContainSubstring("| 2 | 1 | 12:02:00 | 10 | 2 | 0 | "+numbered(4)+" |"),
			ContainSubstring("round 1: no report")))
	})
})
