// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

var _ = Describe("Draw", func() {
	const migrations = 300

	It("should draw the same for the same seed and number, and other cells for others", func() {
		Expect(robustness.Draw(7, 3)).To(Equal(robustness.Draw(7, 3)))
		Expect(robustness.Draw(7, 3)).NotTo(Equal(robustness.Draw(7, 4)))
		Expect(robustness.Draw(7, 3)).NotTo(Equal(robustness.Draw(8, 3)))
	})

	It("should draw what a migration can have, and everything in the course of many", func() {
		var (
			families = map[string]bool{}
			pairs    int
			untried  = map[string]bool{}
			empty    int
		)
		for _, f := range fault.All() {
			untried[f.Family()] = true
		}
		for number := range migrations {
			cells := robustness.Draw(1, number)
			Expect(cells).NotTo(BeEmpty())
			_, err := robustness.NewDirector(cells, robustness.Stage{Faults: fault.All()})
			Expect(err).NotTo(HaveOccurred(), "%v", cells)
			Expect(robustness.DefaultAlone.Check(cells)).To(Succeed())
			Expect(robustness.ParseCells(robustness.Cells(cells))).To(Equal(cells))
			perStep, long := map[string]int{}, 0
			for _, cell := range cells {
				perStep[string(cell.Step)]++
				f, _ := fault.Get(cell.Fault)
				families[f.Family()] = true
				delete(untried, f.Family())
				if fault.Long(f) {
					long++
				}
			}
			Expect(long).To(BeNumerically("<=", 3))
			for _, count := range perStep {
				Expect(count).To(BeNumerically("<=", 2))
				if count == 2 {
					pairs++
				}
			}
			empty += len(steps.Table()) - len(perStep)
		}
		Expect(untried).To(BeEmpty())
		Expect(pairs).To(BeNumerically(">", migrations/2), "about a quarter of the steps")
		Expect(empty).To(BeNumerically(">", migrations), "about two steps of each migration")
	})
})

var _ = Describe("ParseCells", func() {
	It("should take steps by number or name, in any order", func() {
		Expect(robustness.ParseCells("cut-60s@7@inside, agent-kill-both@DestinationEtcdPeersJoined@boundary")).
			To(Equal([]robustness.Cell{
				{Fault: "agent-kill-both", Step: joined, Moment: fault.Boundary},
				{Fault: "cut-60s", Step: cleanup, Moment: fault.Inside},
			}))
	})

	DescribeTable("should refuse what is no migration", func(text, problem string) {
		_, err := robustness.ParseCells(text)
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry("no cell", "cut-60s", `CELLS: "cut-60s" is no cell; write fault@step@moment, such as cut-5s@2@inside`),
		Entry("no such fault", "flood@2@inside", "is no cell of the matrix"),
		Entry("nothing to hit", "cut-60s@1@inside", "is no cell of the matrix"),
		Entry("two moments of a step", "cut-60s@2@inside,agent-kill-both@2@boundary",
			"cannot be in one migration: a step has one window"),
	)
})

var _ = Describe("SearchOf", func() {
	It("should draw for an hour if nobody says more", func() {
		Expect(robustness.SearchOf(environment(), 42)).To(Equal(robustness.Search{Seed: 42, Lasts: time.Hour}))
	})

	It("should take seed and hours", func() {
		Expect(robustness.SearchOf(environment("SEED", "7", "HOURS", "2.5"), 42)).
			To(Equal(robustness.Search{Seed: 7, Lasts: 150 * time.Minute}))
	})

	It("should take the cells of one migration", func() {
		search, err := robustness.SearchOf(environment("CELLS", "cut-60s@7@inside"), 42)
		Expect(err).NotTo(HaveOccurred())
		Expect(search.Cells).To(Equal([]robustness.Cell{{Fault: "cut-60s", Step: cleanup, Moment: fault.Inside}}))
	})

	DescribeTable("should refuse what it does not understand", func(name, value, problem string) {
		_, err := robustness.SearchOf(environment(name, value), 1)
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry(nil, "SEED", "-1", `SEED: "-1" is not a number from 0`),
		Entry(nil, "HOURS", "0", `HOURS: "0" is not a number of hours`),
		Entry(nil, "HOURS", "NaN", `HOURS: "NaN" is not a number of hours`),
		Entry(nil, "HOURS", "1000", "up to 168"),
		Entry(nil, "CELLS", "x", "is no cell"),
	)
})

var _ = Describe("Minimise", func() {
	var (
		cells = robustness.Draw(1, 0)
		tried [][]robustness.Cell
	)

	BeforeEach(func() {
		for number := 0; len(cells) < 4; number++ {
			cells = robustness.Draw(1, number)
		}
		tried = nil
	})

	always := func() bool { return true }
	// failing fails if all the cells are there.
	failing := func(needed ...robustness.Cell) robustness.Try {
		return func(cells []robustness.Cell) (bool, error) {
			tried = append(tried, cells)
			for _, cell := range needed {
				if !slices.Contains(cells, cell) {
					return false, nil
				}
			}
			return true, nil
		}
	}

	It("should find the one cell that fails", func() {
		Expect(robustness.Minimise(cells, failing(cells[1]), always)).To(Equal(cells[1:2]))
		Expect(tried).To(HaveLen(2))
	})

	It("should find the two cells that fail together", func() {
		Expect(robustness.Minimise(cells, failing(cells[0], cells[2]), always)).
			To(Equal([]robustness.Cell{cells[0], cells[2]}))
	})

	It("should leave all cells that have failed only once", func() {
		never := func([]robustness.Cell) (bool, error) { return false, nil }
		Expect(robustness.Minimise(cells, never, always)).To(Equal(cells))
	})

	It("should repeat nothing for a single cell", func() {
		Expect(robustness.Minimise(cells[:1], failing(), always)).To(Equal(cells[:1]))
		Expect(tried).To(BeEmpty())
	})

	It("should end with what it has when its time is over", func() {
		more := func() bool { return len(tried) < 1 }
		Expect(robustness.Minimise(cells, failing(cells[3]), more)).To(Equal(cells))
		Expect(tried).To(HaveLen(1))
	})

	It("should end with what it has when a migration cannot be judged", func() {
		broken := errors.New("the landscape is down")
		left, err := robustness.Minimise(cells, func([]robustness.Cell) (bool, error) { return false, broken }, always)
		Expect(err).To(MatchError(broken))
		Expect(left).To(Equal(cells))
	})
})

var _ = Describe("Search", func() {
	var (
		clock *clocktesting.FakeClock
		said  []string
		tried [][]robustness.Cell
	)

	BeforeEach(func() {
		clock, said, tried = clocktesting.NewFakeClock(time.Now()), nil, nil
	})

	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	// failing takes twenty minutes for a migration, and fails if the cell is in it.
	failing := func(cell robustness.Cell) robustness.Try {
		return func(cells []robustness.Cell) (bool, error) {
			clock.Step(20 * time.Minute)
			tried = append(tried, cells)
			return slices.Contains(cells, cell), nil
		}
	}

	It("should draw migrations until its time is over", func() {
		Expect(robustness.Search{Seed: 7, Lasts: time.Hour}.Run(clock, say, failing(robustness.Cell{}))).To(Equal(3))
		Expect(tried).To(Equal([][]robustness.Cell{
			robustness.Draw(7, 0), robustness.Draw(7, 1), robustness.Draw(7, 2)}))
		Expect(said).To(HaveLen(3))
		Expect(said[1]).To(HavePrefix("migration 1 of SEED=7: make test-robustness CELLS="))
	})

	It("should name the cell that fails", func() {
		cells := robustness.Draw(7, 1)
		Expect(len(cells)).To(BeNumerically(">", 1))
		made, err := robustness.Search{Seed: 7, Lasts: 24 * time.Hour}.Run(clock, say, failing(cells[1]))
		Expect(made).To(Equal(1))
		Expect(err).To(MatchError(fmt.Sprintf("migration 1 has failed; repeat with: %s; fewer cells fail as well: %s",
			robustness.ReproTogether(cells), robustness.ReproTogether(cells[1:2]))))
		Expect(robustness.ParseCells(robustness.Cells(cells[1:2]))).To(Equal(cells[1:2]))
	})

	It("should make the migration that it is asked for once", func() {
		search := robustness.Search{Seed: 7, Lasts: time.Hour, Cells: robustness.Draw(7, 1)}
		Expect(search.Run(clock, say, failing(robustness.Cell{}))).To(Equal(1))
		Expect(said).To(ConsistOf(HavePrefix("migration 0 of CELLS: make test-robustness CELLS=")))
		_, err := search.Run(clock, say, failing(search.Cells[0]))
		Expect(err).To(MatchError(&robustness.Found{Cells: search.Cells, Left: search.Cells}))
		Expect(tried).To(Equal([][]robustness.Cell{search.Cells, search.Cells}))
	})

	It("should end when a migration cannot be judged", func() {
		broken := errors.New("it does not end")
		_, err := robustness.Search{Seed: 7, Lasts: time.Hour}.Run(clock, say,
			func([]robustness.Cell) (bool, error) { return false, broken })
		Expect(err).To(MatchError(broken))
		Expect(err).To(MatchError(ContainSubstring(robustness.ReproTogether(robustness.Draw(7, 0)))))
	})
})
