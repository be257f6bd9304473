// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"slices"
	"strconv"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

const (
	prepared = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
	joined   = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
	cleanup  = gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup
)

func environment(values ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(values); i += 2 {
			if values[i] == name {
				return values[i+1]
			}
		}
		return ""
	}
}

var _ = Describe("Select", func() {
	DescribeTable("should choose cells", func(getenv func(string) string, expected ...robustness.Cell) {
		Expect(robustness.Select(getenv)).To(Equal(expected))
	},
		Entry("one", environment("FAULT", "relay-kill-source", "STEP", "DestinationEtcdPeersJoined", "MOMENT",
			"inside"),
			robustness.Cell{Fault: "relay-kill-source", Step: joined, Moment: fault.Inside}),
		Entry("a family of faults",
			environment("FAULT", "relay-kill", "STEP", "DestinationEtcdPeersJoined", "MOMENT", "inside"),
			robustness.Cell{Fault: "relay-kill-source", Step: joined, Moment: fault.Inside},
			robustness.Cell{Fault: "relay-kill-destination", Step: joined, Moment: fault.Inside}),
		Entry("steps by number, some moments",
			environment("FAULT", "cut-60s", "STEP", "2, 7", "MOMENT", "boundary,inside"),
			robustness.Cell{Fault: "cut-60s", Step: joined, Moment: fault.Boundary},
			robustness.Cell{Fault: "cut-60s", Step: joined, Moment: fault.Inside},
			robustness.Cell{Fault: "cut-60s", Step: cleanup, Moment: fault.Boundary},
			robustness.Cell{Fault: "cut-60s", Step: cleanup, Moment: fault.Inside}),
		Entry("only where there is something to hit",
			environment("FAULT", "cut-60s,garden-stop", "STEP", "SourceEtcdPreparedForPeerJoin", "MOMENT", "boundary"),
			robustness.Cell{Fault: "garden-stop-60s", Step: prepared, Moment: fault.Boundary}),
	)

	It("should choose the moments of a force-shrink if it is asked for", func() {
		getenv := environment("FAULT", "cut-5s", "STEP", "4", "MOMENT", "ReadyForSourceMemberRemoval", "FORCE_SHRINK",
			"true")
		cells, err := robustness.Select(getenv)
		Expect(err).NotTo(HaveOccurred())
		Expect(cells).To(HaveLen(1))
		Expect(cells[0].String()).To(Equal("cut-5s at ReadyForSourceMemberRemoval of DestinationKubeAPIServerReady"))
		Expect(cells[0].Repro()).To(HaveSuffix("MOMENT=ReadyForSourceMemberRemoval FORCE_SHRINK=true"))
	})

	It("should choose all cells by default", func() {
		cells, err := robustness.Select(environment())
		Expect(err).NotTo(HaveOccurred())
		Expect(cells).To(Equal(robustness.AllCells()))
		Expect(len(cells)).To(BeNumerically(">", 600))
	})

	DescribeTable("should refuse", func(getenv func(string) string, problem string) {
		_, err := robustness.Select(getenv)
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry("an unknown fault", environment("FAULT", "relay-kil"),
			`FAULT: "relay-kil" is unknown; there are agent-kill-source,`),
		Entry("an unknown step", environment("STEP", "9"),
			`STEP: "9" is unknown; there are SourceEtcdPreparedForPeerJoin,`),
		Entry("an unknown moment", environment("MOMENT", "boundary,later"),
			`MOMENT: "later" is unknown; there are boundary, inside`),
		Entry("a choice in which nothing is left", environment("FAULT", "cut-5s", "STEP", "1"),
			"no cell is left: with FAULT=cut-5s STEP=1 MOMENT="),
	)
})

var _ = Describe("Cell", func() {
	It("should be chosen again by its command", func() {
		for _, cell := range robustness.AllCells() {
			Expect(cell.Repro()).
				To(Equal("make test-e2e LABELS=faults FAULT=" + cell.Fault + " STEP=" + string(cell.Step) + " MOMENT=" +
					string(cell.Moment)))
			Expect(robustness.Select(environment("FAULT", cell.Fault, "STEP", string(cell.Step), "MOMENT",
				string(cell.Moment)))).To(Equal([]robustness.Cell{cell}))
		}
	})

	It("should have a folder of its own", func() {
		folders := map[string]bool{}
		for _, cell := range robustness.AllCells() {
			Expect(folders).NotTo(HaveKey(cell.Folder()))
			folders[cell.Folder()] = true
		}
		Expect(folders).To(HaveKey("cut-5s-SourceSeedCleanup/inside"))
	})
})

var _ = Describe("Plan", func() {
	It("should run every cell once, in migrations that a director accepts", func() {
		var planned []robustness.Cell
		for _, migration := range robustness.Plan(robustness.AllCells()) {
			_, err := robustness.NewDirector(migration, robustness.Stage{Faults: fault.All()})
			Expect(err).NotTo(HaveOccurred())
			planned = append(planned, migration...)
		}
		Expect(planned).To(ConsistOf(robustness.AllCells()))
	})

	It("should give each cell a step of its own in a migration, with few long ones", func() {
		for _, migration := range robustness.Plan(robustness.AllCells()) {
			Expect(robustness.DefaultAlone.Check(migration)).To(Succeed())
			long := 0
			for _, cell := range migration {
				if f, _ := fault.Get(cell.Fault); fault.Long(f) {
					long++
				}
			}
			Expect(long).To(BeNumerically("<=", 3))
		}
	})

	It("should fill each migration with a cell for every step for as long as there are some", func() {
		left := map[gardencorev1beta1.ConditionType]int{}
		most := 0
		for _, cell := range robustness.AllCells() {
			left[cell.Step]++
			most = max(most, left[cell.Step])
		}
		plan := robustness.Plan(robustness.AllCells())
		Expect(len(plan)).To(BeNumerically("~", most, 3))
		for _, migration := range plan[:len(plan)/2] {
			steps := 0
			for _, cells := range left {
				if cells > 0 {
					steps++
				}
			}
			Expect(len(migration)).To(BeNumerically(">=", steps-1), "a long fault may have to wait")
			for _, cell := range migration {
				left[cell.Step]--
			}
		}
	})

	It("should run what cannot be together one after the other", func() {
		cells := []robustness.Cell{
			{Fault: "cut-5s", Step: joined, Moment: fault.Inside},
			{Fault: "cut-60s", Step: joined, Moment: fault.Inside},
		}
		Expect(robustness.Plan(cells)).To(Equal([][]robustness.Cell{cells[:1], cells[1:]}))
	})

	It("should plan nothing for nothing", func() {
		Expect(robustness.Plan(nil)).To(BeEmpty())
	})
})

var _ = Describe("Sample", func() {
	It("should let every fault strike in few migrations, at moments of all kinds", func() {
		few := len(fault.All())/len(steps.Table()) + 2
		sample := robustness.Sample(robustness.AllCells(), &robustness.Matrix{}, few)
		Expect(sample).To(HaveLen(few))
		faults, moments, reached := map[string]int{}, map[bool]int{}, map[gardencorev1beta1.ConditionType]int{}
		for _, migration := range sample {
			for _, cell := range migration {
				faults[cell.Fault]++
				_, reason := cell.Moment.Reason()
				moments[reason]++
				reached[cell.Step]++
			}
		}
		Expect(reached).To(HaveLen(len(steps.Table())))
		Expect(reached).To(HaveEach(few))
		Expect(faults).To(HaveLen(len(fault.All())))
		Expect(moments).To(HaveEach(BeNumerically(">", 3)))
	})

	It("should continue where the matrix ends", func() {
		matrix := &robustness.Matrix{}
		var all []robustness.Cell
		for sample := robustness.Sample(robustness.AllCells(), matrix,
			3); len(sample) > 0; sample = robustness.Sample(robustness.AllCells(), matrix, 3) {
			var results []robustness.CellResult
			for _, cell := range slices.Concat(sample...) {
				all = append(all, cell)
				results = append(results, robustness.CellResult{Cell: cell, Outcome: robustness.Passed})
			}
			Expect(matrix.Merge(results...)).To(Succeed())
		}
		Expect(all).To(ConsistOf(robustness.AllCells()))
	})

	It("should repeat what is stale", func() {
		cells := []robustness.Cell{{Fault: "cut-5s", Step: joined, Moment: fault.Inside}}
		matrix := &robustness.Matrix{Cells: []robustness.CellResult{{Cell: cells[0], Outcome: robustness.Passed}}}
		Expect(robustness.Sample(cells, matrix, 5)).To(BeEmpty())
		matrix.Cells[0].Stale = "pkg/agent has changed since"
		Expect(robustness.Sample(cells, matrix, 5)).To(Equal([][]robustness.Cell{cells}))
	})

	It("should repeat what has not passed", func() {
		cells := []robustness.Cell{{Fault: "cut-5s", Step: joined, Moment: fault.Inside}}
		matrix := &robustness.Matrix{Cells: []robustness.CellResult{{Cell: cells[0], Outcome: robustness.Missed}}}
		Expect(robustness.Sample(cells, matrix, 5)).To(Equal([][]robustness.Cell{cells}))
	})
})

var _ = Describe("ForceShrink", func() {
	It("should be asked for, or not", func() {
		Expect(robustness.ForceShrink(environment())).To(BeFalse())
		Expect(robustness.ForceShrink(environment("FORCE_SHRINK", " true "))).To(BeTrue())
		Expect(robustness.ForceShrink(environment("FORCE_SHRINK", "false"))).To(BeFalse())
	})

	It("should be understood", func() {
		_, err := robustness.ForceShrink(environment("FORCE_SHRINK", "maybe"))
		Expect(err).To(MatchError(`FORCE_SHRINK: "maybe" is neither true nor false`))
	})
})

var _ = Describe("Limit", func() {
	It("should be what the variable says", func() {
		Expect(robustness.Limit(environment())).To(BeZero())
		Expect(robustness.Limit(environment("MIGRATIONS", " 3 "))).To(Equal(3))
	})

	DescribeTable("should refuse", func(value string) {
		_, err := robustness.Limit(environment("MIGRATIONS", value))
		Expect(err).To(MatchError(ContainSubstring("MIGRATIONS: ")))
	}, Entry("nonsense", "many"), Entry("none", "0"), Entry("less than none", "-1"))
})

var _ = Describe("Short", func() {
	It("should kill the agents' leaders in every step, and more, in one migration", func() {
		kills := map[gardencorev1beta1.ConditionType]bool{}
		families := map[string]bool{}
		for _, cell := range robustness.Short() {
			f, ok := fault.Get(cell.Fault)
			Expect(ok).To(BeTrue())
			families[f.Family()] = true
			if cell.Fault == "agent-kill-both" {
				kills[cell.Step] = true
			}
		}
		Expect(kills).To(HaveLen(len(steps.Table())))
		Expect(families).To(And(HaveKey("relay-kill"), HaveKey("etcd-kill"), HaveKey("cut")))
		_, err := robustness.NewDirector(robustness.Short(), robustness.Stage{Faults: fault.All()})
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("Rotating", func() {
	// added returns what the commit adds.
	added := func(commit string) []robustness.Cell {
		GinkgoHelper()
		cells, err := robustness.Rotating(commit)
		Expect(err).NotTo(HaveOccurred())
		_, err = robustness.NewDirector(cells, robustness.Stage{Faults: fault.All()})
		Expect(err).NotTo(HaveOccurred())
		Expect(cells).To(ContainElements(robustness.Short()))
		return slices.DeleteFunc(cells, func(c robustness.Cell) bool { return slices.Contains(robustness.Short(), c) })
	}

	It("should add two cells that are soon over, always the same for one commit", func() {
		for _, commit := range []string{"0", "7", "f2f1a254", "851920a9f2f1a254851920a9f2f1a254851920a9"} {
			cells := added(commit)
			Expect(cells).To(HaveLen(2))
			Expect(added(commit)).To(Equal(cells))
			all, err := robustness.Rotating(commit)
			Expect(err).NotTo(HaveOccurred())
			Expect(robustness.Duration(all) - robustness.Duration(robustness.Short())).
				To(BeNumerically("<=", 35*time.Second))
		}
	})

	It("should let each short fault have its turn at each kind of moment of each step", func() {
		faults, moments := map[string]bool{}, map[gardencorev1beta1.ConditionType]map[bool]bool{}
		for _, cell := range robustness.Rotatable() {
			faults[cell.Fault] = true
			if moments[cell.Step] == nil {
				moments[cell.Step] = map[bool]bool{}
			}
			_, reason := cell.Moment.Reason()
			moments[cell.Step][reason] = true
		}
		for _, f := range fault.All() {
			// The agents of both sides are killed in every step, and cannot stand still there.
			killed := f.Family() == "agent-kill" || f.Family() == "agent-stop"
			switch {
			case fault.Saturates(f):
				// It would slow down everything else.
				Expect(faults).NotTo(HaveKey(f.Name()))
			case !f.Course().ThroughStep && f.Course().Lasts <= 35*time.Second && !killed:
				Expect(faults).To(HaveKey(f.Name()))
			}
		}
		Expect(moments).To(And(HaveLen(len(steps.Table())), HaveEach(HaveKey(false))))
		for _, step := range steps.Table() {
			if len(fault.MomentsOf(step, fault.Variant{})) > len(fault.Moments()) {
				Expect(moments[step.Condition]).To(HaveKey(true), step.String())
			}
		}
	})

	It("should not let a fault strike that one of every run ends before its time", func() {
		for _, cell := range robustness.Rotatable() {
			relay := cell.Fault == "relay-stop-source" || cell.Fault == "relay-stop-destination"
			Expect(relay && cell.Step == steps.Table()[5].Condition).To(BeFalse(), cell.String())
		}
	})

	It("should choose others for other commits", func() {
		chosen := map[robustness.Cell]bool{}
		for commit := range 20 {
			for _, cell := range added(strconv.FormatInt(int64(commit+1)*7_654_321, 16)) {
				chosen[cell] = true
			}
		}
		Expect(len(chosen)).To(BeNumerically(">", 25))
	})

	It("should need a commit", func() {
		_, err := robustness.Rotating("HEAD")
		Expect(err).To(MatchError(ContainSubstring("give its hash")))
	})
})

var _ = Describe("Duration", func() {
	It("should leave faults their time", func() {
		short := []robustness.Cell{{Fault: "cut-5s", Step: joined, Moment: fault.Inside}}
		long := []robustness.Cell{{Fault: "cut-10m", Step: joined, Moment: fault.Inside}}
		Expect((robustness.Duration(long) - robustness.Duration(short)).Seconds()).To(BeEquivalentTo(595))
	})
})
