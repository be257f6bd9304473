// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/test/outlook"
)

var _ = Describe("Tracker", func() {
	const second = time.Second

	var (
		clock   *testclock.FakeClock
		tracker *outlook.Tracker
	)

	// Two are compiled one after the other, one starts beside the second.
	parts := []outlook.Part{
		{Name: "a", Title: "build a", Stage: outlook.StageTools, First: 100 * second},
		{Name: "b", Title: "build b", Stage: outlook.StageTools, Needs: []string{"a"}, First: 60 * second},
		{Name: "start", Title: "start it", Stage: outlook.StageLandscape, Kind: outlook.Start, Needs: []string{"a"},
			First: 40 * second},
		{Name: "end", Title: "migrate", Stage: outlook.StageMigration, Kind: outlook.Fixed,
			Needs: []string{"b", "start"}, First: 200 * second},
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Unix(1000, 0))
		tracker = outlook.NewTracker(clock.Now, clock.Now(),
			parts, func(part outlook.Part) time.Duration { return part.First })
	})

	It("should say how long the longest way takes", func() {
		Expect(tracker.Left()).To(Equal(360 * second))
		Expect(tracker.Share()).To(BeZero())
		Expect(tracker.Stages()).To(Equal([]outlook.StageOutlook{
			{Stage: outlook.StageTools, Takes: 160 * second, DoneAfter: 160 * second},
			{Stage: outlook.StageLandscape, Takes: 40 * second, DoneAfter: 140 * second},
			{Stage: outlook.StageMigration, Takes: 200 * second, DoneAfter: 360 * second},
		}))
	})

	It("should count down while a part runs, and not below a tenth of what it has taken", func() {
		tracker.Begin("a")
		clock.Step(30 * second)
		Expect(tracker.Left()).To(Equal(330 * second))
		clock.Step(90 * second) // it was to be over 20 s ago
		Expect(tracker.Left()).To(Equal(260*second + 12*second))
	})

	It("should believe what is counted the more, the more is done", func() {
		tracker.Begin("a")
		clock.Step(100 * second)
		tracker.Count("a", 50, 100)
		// Half of it says 200 s, what was expected says 100 s.
		Expect(tracker.Left()).To(Equal(260*second + 50*second))
		clock.Step(80 * second)
		tracker.Count("a", 90, 100)
		Expect(tracker.Left()).To(BeNumerically("~", 260*second+19*second, 2*second))
	})

	It("should expect of the other compilations what the finished ones have shown", func() {
		tracker.Begin("a")
		clock.Step(200 * second)
		tracker.End("a")
		Expect(tracker.Left()).To(Equal(120*second + 200*second))
		Expect(tracker.Share()).To(BeNumerically("~", 200.0/520, 0.001))
	})

	It("should take the longer of two ways beside each other", func() {
		tracker.Begin("a")
		clock.Step(100 * second)
		tracker.End("a")
		tracker.Begin("b")
		tracker.Begin("start")
		clock.Step(60 * second)
		tracker.End("b")
		Expect(tracker.Running()).To(Equal([]string{"start it"}))
		Expect(tracker.Left()).To(Equal(206*second), "a tenth of what it has taken, and the migration")
		tracker.End("start")
		Expect(tracker.Left()).To(Equal(200 * second))
		tracker.End("end")
		Expect(tracker.Left()).To(BeZero())
		Expect(tracker.Share()).To(Equal(1.0))
	})

	It("should say what runs, and how far it is", func() {
		Expect(tracker.Running()).To(BeEmpty())
		tracker.Begin("a")
		Expect(tracker.Status(0)).To(Equal(" 0 %  6 min left: build a"))
		tracker.Count("a", 12, 30)
		clock.Step(40 * second)
		Expect(tracker.Status(10)).To(Equal("█░░░░░░░░░  11 %  5 min left: build a (12 of 30 packages)"))
	})

	It("should pass over what it does not have", func() {
		tracker.Begin("x")
		tracker.Count("x", 1, 2)
		tracker.End("x")
		Expect(tracker.Left()).To(Equal(360 * second))
	})
})

var _ = Describe("Machine", func() {
	part := func(kind outlook.Kind) outlook.Part {
		return outlook.Part{Kind: kind, First: 100 * time.Second, Again: 10 * time.Second}
	}

	DescribeTable("should stretch what is computed, half of what starts, and nothing else",
		func(machine outlook.Machine, kind outlook.Kind, expected float64) {
			Expect(machine.First(part(kind)).Seconds()).To(BeNumerically("~", expected, 0.5))
			Expect(machine.Again(part(kind)).Seconds()).To(BeNumerically("~", expected/10, 0.5))
		},
		Entry(nil, outlook.Reference, outlook.Compile, 100.0),
		Entry(nil, outlook.Reference, outlook.Start, 100.0),
		Entry(nil, outlook.Machine{Cores: 2, Speed: 0.5}, outlook.Compile, 200.0),
		Entry(nil, outlook.Machine{Cores: 2, Speed: 0.5}, outlook.Start, 150.0),
		Entry(nil, outlook.Machine{Cores: 2, Speed: 0.5}, outlook.Fixed, 100.0),
		Entry(nil, outlook.Machine{Cores: 8, Speed: 1}, outlook.Compile, 33.0),
		Entry("nothing is known", outlook.Machine{}, outlook.Compile, 100.0),
	)

	It("should be measured", func() {
		machine := outlook.Measure(10 * time.Millisecond)
		Expect(machine.Cores).To(BeNumerically(">", 0))
		Expect(machine.Speed).To(BeNumerically(">", 0))
	})
})

var _ = Describe("Budget", func() {
	now := time.Unix(5000, 0)

	It("should let everything begin without an end", func() {
		GinkgoT().Setenv(outlook.EnvUntil, "")
		GinkgoT().Setenv(outlook.EnvSlowness, "")
		budget, err := outlook.BudgetFromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		fits, _ := budget.Fits(now, 100*time.Hour)
		Expect(fits).To(BeTrue())
	})

	It("should let begin what ends in time on this machine, and say what it lacks", func() {
		GinkgoT().Setenv(outlook.EnvUntil, "5600")
		GinkgoT().Setenv(outlook.EnvSlowness, "150")
		budget, err := outlook.BudgetFromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		fits, _ := budget.Fits(now, 400*time.Second)
		Expect(fits).To(BeTrue())
		fits, why := budget.Fits(now, 401*time.Second)
		Expect(fits).To(BeFalse())
		Expect(why).To(Equal("it takes up to 10m2s, and 10m0s are left"))
		fits, why = budget.Fits(now.Add(time.Hour), time.Second)
		Expect(fits).To(BeFalse())
		Expect(why).To(HaveSuffix("and 0s are left"))
	})

	It("should tell a load that leaves a migration too little of the processors", func() {
		saturated, _ := outlook.Saturated(1.6, 2)
		Expect(saturated).To(BeFalse())
		saturated, why := outlook.Saturated(1.61, 2)
		Expect(saturated).To(BeTrue())
		Expect(why).To(Equal("the load takes 1.61 of 2 processors by itself, more than 1.6"))
		saturated, _ = outlook.Saturated(1.61, 4)
		Expect(saturated).To(BeFalse())
	})

	DescribeTable("should refuse what it cannot read", func(name, value string) {
		GinkgoT().Setenv(outlook.EnvUntil, "")
		GinkgoT().Setenv(outlook.EnvSlowness, "")
		GinkgoT().Setenv(name, value)
		_, err := outlook.BudgetFromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(name)))
	},
		Entry(nil, outlook.EnvUntil, "tomorrow"),
		Entry(nil, outlook.EnvSlowness, "slow"),
		Entry(nil, outlook.EnvSlowness, "0"),
	)
})
