// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What the rows rest on is looked at in test/found.
var _ = Describe("losses.md", func() {
	const nothing = "–"

	page := read(filepath.Join("concepts", "losses.md"))
	moments := []string{}
	for i := range steps.Table() {
		moments = append(moments, strconv.Itoa(i+1))
	}
	moments = append(moments, "abort")
	overview := rows(page, "loss | in |")

	// sections are the tables of the losses, by their headings.
	sections := map[string][][]string{}
	var order []string
	for _, section := range strings.Split(page, "\n## ")[1:] {
		name, content, _ := strings.Cut(section, "\n")
		order = append(order, name)
		sections[name] = rows(content, "in | steps | in short |")
	}

	It("should have every kind of loss", func() {
		Expect(order).To(Equal([]string{"A member of etcd", "A volume", "A node", "An agent", "A relay", "A gateway",
			"A seed's API server", "The garden", "DNS", "A bucket", "A whole seed"}))
		for _, name := range order[:7] {
			Expect(sidesOf(sections[name])).To(Equal([]string{"source", "destination"}), name)
		}
	})

	It("should say what happens in every step and in an abort, once, and the same in short", func() {
		expected := [][]string{}
		for _, name := range order {
			for _, side := range sidesOf(sections[name]) {
				row := []string{name, side}
				cells := map[string]string{}
				for _, cell := range sections[name] {
					if cell[0] != side {
						continue
					}
					for _, moment := range momentsOf(cell[1]) {
						Expect(cells).NotTo(HaveKey(moment), "%s of the %s twice in %s", name, side, moment)
						cells[moment] = cell[2]
					}
				}
				for _, moment := range moments {
					Expect(cells).To(HaveKey(moment), "%s of the %s", name, side)
					row = append(row, cells[moment])
				}
				Expect(cells).To(HaveLen(len(moments)), "%s of the %s", name, side)
				expected = append(expected, row)
			}
		}
		Expect(len(expected)).To(BeNumerically(">=", 20))
		Expect(overview).To(Equal(expected))
	})

	It("should say how long it lasts, with a unit", func() {
		duration := regexp.MustCompile(`\d ?(s|min|h)\b`)
		for _, name := range order {
			for _, row := range sections[name] {
				Expect(row).To(HaveLen(6), "%s: %v", name, row)
				Expect(row).NotTo(ContainElement(BeEmpty()), "%s: %v", name, row)
				Expect([]string{"continues", "waits", "operator", nothing}).To(ContainElement(row[2]), name)
				if row[2] == nothing {
					Expect(row[3:]).To(Equal([]string{"nothing of it is there", nothing, nothing}), name)
					continue
				}
				Expect(row[4]).To(MatchRegexp(duration.String()), "%s: %v", name, row)
			}
		}
	})

	It("should need an operator only where a whole seed is lost", func() {
		for _, name := range order {
			for _, row := range sections[name] {
				if row[2] == "operator" {
					Expect(name).To(Equal("A whole seed"))
					Expect(row[3]).To(Or(ContainSubstring("](../operations/recovery.md"),
						ContainSubstring("restore it"), ContainSubstring("deploy it again")),
						"the way out is missing: %v", row)
				}
			}
		}
	})
})

// sidesOf returns where something is lost, each side once.
func sidesOf(table [][]string) []string {
	var sides []string
	for _, row := range table {
		if len(sides) == 0 || sides[len(sides)-1] != row[0] {
			sides = append(sides, row[0])
		}
	}
	return sides
}

// momentsOf returns the steps that a cell names, and the abort.
func momentsOf(cell string) []string {
	var out []string
	for part := range strings.SplitSeq(cell, ", ") {
		from, to, ranges := strings.Cut(part, " to ")
		if !ranges {
			out = append(out, part)
			continue
		}
		first, err := strconv.Atoi(from)
		Expect(err).NotTo(HaveOccurred(), cell)
		last, err := strconv.Atoi(to)
		Expect(err).NotTo(HaveOccurred(), cell)
		for number := first; number <= last; number++ {
			out = append(out, strconv.Itoa(number))
		}
	}
	return out
}
