// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("architecture.md", func() {
	page := read(filepath.Join("concepts", "architecture.md"))

	It("should lead to files and folders that exist", func() {
		path := regexp.MustCompile("`((?:pkg|cmd|charts|hack|docs)/[^` ]+)`")
		table := rows(page, "you look for |")
		Expect(len(table)).To(BeNumerically(">", 8))
		found := 0
		for _, row := range table {
			for _, match := range path.FindAllStringSubmatch(row[1], -1) {
				found++
				Expect(filepath.Join("..", match[1])).To(Or(BeAnExistingFile(), BeADirectory()), row[0])
			}
		}
		Expect(found).To(BeNumerically(">", 10))
	})

	It("should show every room that there is, and no other", func() {
		tree := regexp.MustCompile("(?s)```\npkg/\n(.*?)\ncmd/").FindStringSubmatch(page)
		Expect(tree).To(HaveLen(2))
		line := regexp.MustCompile(`^( +)((?:[a-z]+/ )+)`)
		var shown []string
		group := ""
		for text := range strings.SplitSeq(tree[1], "\n") {
			match := line.FindStringSubmatch(text)
			Expect(match).NotTo(BeNil(), text)
			for _, name := range strings.Fields(match[2]) {
				if len(match[1]) == 2 {
					group = name
					shown = append(shown, strings.TrimSuffix(name, "/"))
					continue
				}
				shown = append(shown, group+strings.TrimSuffix(name, "/"))
			}
		}
		// Rooms that hold the packages of one room only, or have one line with all of theirs.
		inOneLine := []string{"apis", "garden", "preflight", "proof"}
		var there []string
		for _, pattern := range []string{"*", "*/*"} {
			folders, err := filepath.Glob(filepath.Join("..", "pkg", pattern))
			Expect(err).NotTo(HaveOccurred())
			for _, folder := range folders {
				name := strings.TrimPrefix(filepath.ToSlash(folder), "../pkg/")
				info, err := os.Stat(folder)
				Expect(err).NotTo(HaveOccurred())
				parent, _, below := strings.Cut(name, "/")
				if !info.IsDir() || filepath.Base(name) == "testdata" || below && slices.Contains(inOneLine, parent) {
					continue
				}
				there = append(there, name)
			}
		}
		Expect(shown).To(ConsistOf(there))
	})
})

var _ = Describe("the picture of one Shoot", func() {
	picture := read(filepath.Join("images", "migration.svg"))
	texts := regexp.MustCompile(`<text class="(\w+)"[^>]*>([^<]*)`).FindAllStringSubmatch(picture, -1)

	It("should have every condition in its order", func() {
		var named, expected []string
		for _, step := range steps.Table() {
			expected = append(expected, step.String())
		}
		for _, text := range texts {
			if _, ok := steps.Get(gardencorev1beta1.ConditionType(text[2])); ok {
				named = append(named, text[2])
			}
		}
		Expect(named).To(Equal(expected))
	})

	It("should have only reasons that a step shows", func() {
		var reasons []string
		for _, step := range append(steps.Table(), steps.AbortTable()...) {
			for _, work := range step.Work {
				for _, reason := range work.Reasons {
					reasons = append(reasons, string(reason))
				}
			}
		}
		reasons = append(reasons, string(steps.ReasonAborted), string(steps.ReasonWithdrawn))
		word := regexp.MustCompile(`\b[A-Z][a-z]+(?:[A-Z][A-Za-z]+)+\b`)
		found := 0
		for _, text := range texts {
			for _, name := range word.FindAllString(text[2], -1) {
				if text[1] != "quiet" && !strings.HasPrefix(text[2], "on ") {
					continue // A sentence may name kinds.
				}
				found++
				Expect(reasons).To(ContainElement(name))
			}
		}
		Expect(found).To(BeNumerically(">", 15))
	})

	It("should name files that exist", func() {
		found := 0
		for _, text := range texts {
			if text[1] != "file" {
				continue
			}
			for name := range strings.SplitSeq(text[2], ", ") {
				found++
				matches, err := filepath.Glob(filepath.Join("..", "pkg", "agent", "*", name))
				Expect(err).NotTo(HaveOccurred())
				if strings.HasPrefix(name, "pkg/") {
					matches = []string{filepath.Join("..", name)}
				}
				Expect(matches).NotTo(BeEmpty(), name)
				for _, match := range matches {
					Expect(match).To(Or(BeAnExistingFile(), BeADirectory()))
				}
			}
		}
		Expect(found).To(BeNumerically(">", 12))
	})
})
