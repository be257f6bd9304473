// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"slices"

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
		Entry("steps by number, both moments", environment("FAULT", "cut-5s", "STEP", "2, 7"),
			robustness.Cell{Fault: "cut-5s", Step: joined, Moment: fault.Boundary},
			robustness.Cell{Fault: "cut-5s", Step: joined, Moment: fault.Inside},
			robustness.Cell{Fault: "cut-5s", Step: cleanup, Moment: fault.Boundary},
			robustness.Cell{Fault: "cut-5s", Step: cleanup, Moment: fault.Inside}),
		Entry("only where there is something to hit",
			environment("FAULT", "cut-60s,garden-stop", "STEP", "SourceEtcdPreparedForPeerJoin", "MOMENT", "boundary"),
			robustness.Cell{Fault: "garden-stop-60s", Step: prepared, Moment: fault.Boundary}),
	)

	It("should choose all cells by default", func() {
		cells, err := robustness.Select(environment())
		Expect(err).NotTo(HaveOccurred())
		Expect(cells).To(Equal(robustness.AllCells()))
		Expect(len(cells)).To(BeNumerically(">", 200))
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

	It("should let few faults strike together, and few long ones in a migration", func() {
		for _, migration := range robustness.Plan(robustness.AllCells()) {
			together, long := map[robustness.Cell]int{}, 0
			for _, cell := range migration {
				f, _ := fault.Get(cell.Fault)
				if fault.Long(f) {
					long++
				}
				cell.Fault = ""
				together[cell]++
			}
			Expect(together).To(HaveEach(BeNumerically("<=", 3)))
			Expect(long).To(BeNumerically("<=", 3))
		}
	})

	It("should need far fewer migrations than one for each cell of a step", func() {
		most := map[gardencorev1beta1.ConditionType]int{}
		longest := 0
		for _, cell := range robustness.AllCells() {
			most[cell.Step]++
			longest = max(longest, most[cell.Step])
		}
		Expect(len(robustness.Plan(robustness.AllCells()))).To(BeNumerically("<=", longest/2))
	})

	It("should run what cannot be together one after the other", func() {
		cells := []robustness.Cell{
			{Fault: "cut-5s", Step: joined, Moment: fault.Boundary},
			{Fault: "cut-60s", Step: joined, Moment: fault.Inside},
		}
		Expect(robustness.Plan(cells)).To(Equal([][]robustness.Cell{cells[:1], cells[1:]}))
	})

	It("should plan nothing for nothing", func() {
		Expect(robustness.Plan(nil)).To(BeEmpty())
	})
})

var _ = Describe("Sample", func() {
	It("should let every fault strike in few migrations, at both moments", func() {
		sample := robustness.Sample(robustness.AllCells(), &robustness.Matrix{}, 2)
		Expect(sample).To(HaveLen(2))
		faults, moments, reached := map[string]int{}, map[fault.Moment]int{}, map[gardencorev1beta1.ConditionType]int{}
		for _, migration := range sample {
			for _, cell := range migration {
				faults[cell.Fault]++
				moments[cell.Moment]++
				reached[cell.Step]++
			}
		}
		Expect(reached).To(HaveLen(len(steps.Table())))
		Expect(reached).To(HaveEach(BeNumerically(">=", 4)))
		Expect(faults).To(HaveLen(len(fault.All())))
		Expect(moments[fault.Boundary]).To(BeNumerically("~", moments[fault.Inside], 8))
	})

	It("should continue where the matrix ends", func() {
		matrix := &robustness.Matrix{}
		var all []robustness.Cell
		for sample := robustness.Sample(robustness.AllCells(), matrix,
			3); len(sample) > 0; sample = robustness.Sample(robustness.AllCells(), matrix, 3) {
			for _, cell := range slices.Concat(sample...) {
				all = append(all, cell)
				Expect(matrix.Merge(robustness.CellResult{Cell: cell, Outcome: robustness.Passed})).To(Succeed())
			}
		}
		Expect(all).To(ConsistOf(robustness.AllCells()))
	})

	It("should repeat what is stale", func() {
		cells := []robustness.Cell{{Fault: "cut-5s", Step: joined, Moment: fault.Boundary}}
		matrix := &robustness.Matrix{Cells: []robustness.CellResult{{Cell: cells[0], Outcome: robustness.Passed}}}
		Expect(robustness.Sample(cells, matrix, 5)).To(BeEmpty())
		matrix.Cells[0].Stale = "pkg/agent has changed since"
		Expect(robustness.Sample(cells, matrix, 5)).To(Equal([][]robustness.Cell{cells}))
	})

	It("should repeat what has not passed", func() {
		cells := []robustness.Cell{{Fault: "cut-5s", Step: joined, Moment: fault.Boundary}}
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

var _ = Describe("Duration", func() {
	It("should leave faults their time", func() {
		short := []robustness.Cell{{Fault: "cut-5s", Step: joined, Moment: fault.Boundary}}
		long := []robustness.Cell{{Fault: "cut-10m", Step: joined, Moment: fault.Boundary}}
		Expect((robustness.Duration(long) - robustness.Duration(short)).Seconds()).To(BeEquivalentTo(595))
	})
})
