// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"path/filepath"
	"regexp"
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
