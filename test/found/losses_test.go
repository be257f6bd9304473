// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package found_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/found"
	"github.com/livecpm/livecpm/test/recovery"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

var (
	lossRow    = regexp.MustCompile(`(?m)^\| ([a-z]+) \| ([0-9a-z, ]+) \| [a-z]+ \| [^|]+ \| [^|]+ \| ([^|]+) \|$`)
	matrixOf   = regexp.MustCompile("matrix (`[a-z0-9-]+`(?:, matrix `[a-z0-9-]+`)*)")
	faultName  = regexp.MustCompile("`([a-z0-9-]+)`")
	recoveryOf = regexp.MustCompile(`recovery "([^"]+)"`)
	reasoned   = regexp.MustCompile(`(?:^|; )reasoned: (\S.{30,})$`)
)

// backing is what a row of the page says that it rests on.
type backing struct {
	specs     []found.Spec
	faults    []string
	scenarios []string
	reason    string
}

func backingOf(cell string) (backing, error) {
	var out backing
	if match := reasoned.FindStringSubmatch(cell); match != nil {
		out.reason = match[1]
		cell = strings.TrimSuffix(cell, match[0])
	}
	var err error
	if out.specs, err = found.SpecsIn(cell); err != nil {
		return backing{}, err
	}
	for _, group := range matrixOf.FindAllStringSubmatch(cell, -1) {
		for _, name := range faultName.FindAllStringSubmatch(group[1], -1) {
			out.faults = append(out.faults, name[1])
		}
	}
	for _, scenario := range recoveryOf.FindAllStringSubmatch(cell, -1) {
		out.scenarios = append(out.scenarios, scenario[1])
	}
	if len(out.specs)+len(out.faults)+len(out.scenarios) == 0 && out.reason == "" {
		return backing{}, fmt.Errorf("nothing is known of %q", cell)
	}
	return out, nil
}

// stepsOf returns the numbers of the steps that a cell names, from 1; an abort has none.
func stepsOf(cell string) []int {
	var out []int
	for part := range strings.SplitSeq(cell, ", ") {
		if part == "abort" {
			continue
		}
		from, to, ranges := strings.Cut(part, " to ")
		if !ranges {
			to = from
		}
		first, err := strconv.Atoi(from)
		Expect(err).NotTo(HaveOccurred(), cell)
		last, err := strconv.Atoi(to)
		Expect(err).NotTo(HaveOccurred(), cell)
		for number := first; number <= last; number++ {
			out = append(out, number)
		}
	}
	return out
}

var _ = Describe("docs/concepts/losses.md", func() {
	page := read(filepath.Join(repository, "docs", "concepts", "losses.md"))
	rows := lossRow.FindAllStringSubmatch(page, -1)

	It("should rest on something in each row", func() {
		Expect(len(rows)).To(BeNumerically(">", 60))
		for _, row := range rows {
			_, err := backingOf(row[3])
			Expect(err).NotTo(HaveOccurred(), row[0])
		}
	})

	It("should name specs that are there", func() {
		named := 0
		for _, row := range rows {
			backed, err := backingOf(row[3])
			Expect(err).NotTo(HaveOccurred())
			for _, spec := range backed.specs {
				named++
				Expect(spec.Check(repository)).To(Succeed(), row[0])
			}
		}
		Expect(named).To(BeNumerically(">", 50))
	})

	It("should name faults that the matrix has passed in each of the steps in which they hit something", func() {
		matrix, err := robustness.ReadMatrix(filepath.Join(repository, robustness.Recorded))
		Expect(err).NotTo(HaveOccurred())
		for _, row := range rows {
			backed, err := backingOf(row[3])
			Expect(err).NotTo(HaveOccurred())
			for _, name := range backed.faults {
				f, known := fault.Get(name)
				Expect(known).To(BeTrue(), "there is no fault %s: %s", name, row[0])
				Expect(stepsOf(row[2])).NotTo(BeEmpty(), row[0])
				for _, number := range stepsOf(row[2]) {
					Expect(passed(matrix, f, steps.Table()[number-1])).To(BeNumerically(">", 0),
						"%s in step %d: %s", name, number, row[0])
				}
			}
		}
	})

	It("should name scenarios that the recovery suite has", func() {
		named := map[string]bool{}
		for _, row := range rows {
			backed, err := backingOf(row[3])
			Expect(err).NotTo(HaveOccurred())
			for _, text := range backed.scenarios {
				at := slices.IndexFunc(recovery.Scenarios(), func(scenario recovery.Scenario) bool {
					return strings.Contains(scenario.Name, text)
				})
				Expect(at).To(BeNumerically(">=", 0), "no scenario matches %q", text)
				named[recovery.Scenarios()[at].Name] = true
			}
		}
		Expect(len(named)).To(BeNumerically(">", 4))
	})

	DescribeTable("a row does not rest on", func(cell string) {
		_, err := backingOf(cell)
		Expect(err).To(HaveOccurred())
	},
		Entry("nothing", ""),
		Entry("a word", "tested"),
		Entry("a reason that is none", "reasoned: obvious"),
		Entry("a package without specs", "`pkg/agent`: all of it"),
	)
})

// passed counts the cells of the fault in the step that were run and have passed, and fails on those that have not.
func passed(matrix *robustness.Matrix, f fault.Fault, step steps.Step) int {
	GinkgoHelper()
	count := 0
	for _, moment := range fault.Moments() {
		if !f.Applies(step, moment) {
			continue
		}
		cell := robustness.Cell{Fault: f.Name(), Step: step.Condition, Moment: moment}
		at := slices.IndexFunc(matrix.Cells, func(result robustness.CellResult) bool { return result.Cell == cell })
		Expect(at).To(BeNumerically(">=", 0), "%s was not run", cell)
		Expect(matrix.Cells[at].Outcome).To(Equal(robustness.Passed), cell.String())
		count++
	}
	return count
}
