// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/mutations"
)

var _ = Describe("Table", func() {
	all := mutations.Table()

	It("should have mutations of every area, each under a name of its own", func() {
		Expect(len(all)).To(BeNumerically(">=", 20))
		names, areas := map[string]bool{}, map[mutations.Area]int{}
		for _, mutation := range all {
			Expect(mutation.Name).To(MatchRegexp("^[a-z0-9]+(-[a-z0-9]+)+$"))
			Expect(names).NotTo(HaveKey(mutation.Name))
			names[mutation.Name] = true
			areas[mutation.Area]++
		}
		Expect(areas).To(HaveLen(len(mutations.Areas())))
		for _, area := range mutations.Areas() {
			Expect(areas[area]).To(BeNumerically(">", 1), string(area))
		}
	})

	It("should say what goes wrong in one sentence without a period", func() {
		for _, mutation := range all {
			Expect(mutation.Harm).To(MatchRegexp("^[A-Za-z].{20,}[^.]$"), mutation.Name)
			Expect(mutation.Harm).NotTo(ContainSubstring("|"), mutation.Name)
		}
	})

	It("should change the product, and no test", func() {
		product := regexp.MustCompile("^(pkg|cmd)/.*[.]go$")
		for _, mutation := range all {
			Expect(mutation.File).To(MatchRegexp(product.String()), mutation.Name)
			Expect(mutation.File).NotTo(HaveSuffix("_test.go"), mutation.Name)
		}
	})

	It("should find every text that is replaced exactly once, and leave a file of Go behind", func() {
		for _, mutation := range all {
			source, err := os.ReadFile(filepath.Join(repository, mutation.File))
			Expect(err).NotTo(HaveOccurred(), mutation.Name)
			changed, err := mutation.Apply(string(source))
			Expect(err).NotTo(HaveOccurred())
			Expect(changed).NotTo(Equal(string(source)), mutation.Name)
			_, err = parser.ParseFile(token.NewFileSet(), mutation.File, changed, parser.SkipObjectResolution)
			Expect(err).NotTo(HaveOccurred(), mutation.Name)
		}
	})

	It("should name packages that have specs", func() {
		for _, mutation := range all {
			Expect(mutation.Packages).NotTo(BeEmpty(), mutation.Name)
			for _, folder := range mutation.Packages {
				Expect(folder).NotTo(HavePrefix("test/suites"), "%s: they need the landscape", mutation.Name)
				suites, err := filepath.Glob(filepath.Join(repository, folder, "*_suite_test.go"))
				Expect(err).NotTo(HaveOccurred())
				Expect(suites).To(HaveLen(1), "%s: %s", mutation.Name, folder)
			}
		}
	})
})

var _ = Describe("Apply", func() {
	mutation := mutations.Mutation{Name: "one-fault", File: "pkg/file.go", Old: "old", New: "new"}

	It("should replace the text", func() {
		Expect(mutation.Apply("an old house")).To(Equal("an new house"))
	})

	DescribeTable("should refuse a text that is not there exactly once", func(source, found string) {
		_, err := mutation.Apply(source)
		Expect(err).To(MatchError(And(ContainSubstring("one-fault"), ContainSubstring("pkg/file.go"),
			ContainSubstring(found))))
	},
		Entry("missing", "a house", "0 times"),
		Entry("twice", "an old, old house", "2 times"),
	)
})

var _ = Describe("Focus", func() {
	It("should choose by the name", func() {
		chosen, err := mutations.Focus(mutations.Table(), "^gate-forgotten$")
		Expect(err).NotTo(HaveOccurred())
		Expect(chosen).To(ConsistOf(HaveField("Name", "gate-forgotten")))
	})

	It("should choose all without an expression", func() {
		Expect(mutations.Focus(mutations.Table(), "")).To(HaveLen(len(mutations.Table())))
	})

	It("should refuse what chooses none, and what is no expression", func() {
		_, err := mutations.Focus(mutations.Table(), "no-such-mutation")
		Expect(err).To(MatchError(ContainSubstring("no mutation has a name")))
		_, err = mutations.Focus(mutations.Table(), "(")
		Expect(err).To(MatchError(ContainSubstring("regular expression")))
	})
})

var _ = Describe("Sample", func() {
	all := make([]mutations.Mutation, 10)
	for i := range all {
		all[i].Name = strings.Repeat("x", i)
	}

	It("should begin where the commit says, and go round", func() {
		Expect(mutations.Sample(all, 3, "1")).To(Equal(all[1:4]))
		Expect(mutations.Sample(all, 3, "9")).To(Equal([]mutations.Mutation{all[9], all[0], all[1]}))
		// 0x1b is 27.
		Expect(mutations.Sample(all, 1, "1b")).To(Equal(all[7:8]))
	})

	It("should take whole hashes, and choose the same for the same one", func() {
		const commit = "1bfb1ec9e2c3a4d5f60718293a4b5c6d7e8f9001"
		first, err := mutations.Sample(all, 4, commit)
		Expect(err).NotTo(HaveOccurred())
		Expect(first).To(HaveLen(4))
		Expect(mutations.Sample(all, 4, commit)).To(Equal(first))
	})

	It("should give every mutation its turn", func() {
		seen := map[string]bool{}
		for _, commit := range []string{"0", "3", "6", "9"} {
			chosen, err := mutations.Sample(all, 3, commit)
			Expect(err).NotTo(HaveOccurred())
			for _, mutation := range chosen {
				seen[mutation.Name] = true
			}
		}
		Expect(seen).To(HaveLen(len(all)))
	})

	It("should be all of them if more are asked for", func() {
		Expect(mutations.Sample(all, 99, "abc")).To(Equal(all))
	})

	DescribeTable("should refuse", func(size int, commit, text string) {
		_, err := mutations.Sample(all, size, commit)
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("an empty sample", -1, "abc", "proves nothing"),
		Entry("a branch in the place of a commit", 3, "main", "give its hash"),
		Entry("no commit", 3, "", "give its hash"),
		Entry("a negative number", 3, "-1", "give its hash"),
	)
})
