// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/explain"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

var _ = Describe("Explain", func() {
	onDisk := func(url string) string {
		page, _, _ := strings.Cut(url, "#")
		repository := strings.TrimSuffix(pages.Base, "docs/")
		Expect(page).To(HavePrefix(repository))
		return filepath.Join("..", "..", "..", strings.TrimPrefix(page, repository))
	}

	It("should know every word once, with a page that exists, and find it in whatever case", func() {
		all, err := explain.All()
		Expect(err).NotTo(HaveOccurred())
		seen := map[string]bool{}
		for _, entry := range all {
			Expect(seen).NotTo(HaveKey(strings.ToLower(entry.Name)))
			seen[strings.ToLower(entry.Name)] = true
			Expect(explain.Kinds).To(ContainElement(entry.Kind))
			Expect(entry.Short).NotTo(BeEmpty(), entry.Name)
			Expect(onDisk(entry.URL)).To(BeAnExistingFile(), entry.Name)

			found, err := explain.Find(strings.ToUpper(entry.Name))
			Expect(err).NotTo(HaveOccurred())
			Expect(found.Name).To(Equal(entry.Name))
		}
	})

	It("should know every step, guard, fault and hold, with a whole page for each", func() {
		for i, step := range steps.Table() {
			entry, err := explain.Find(string(rune('1' + i)))
			Expect(err).NotTo(HaveOccurred())
			Expect(entry).To(And(HaveField("Name", step.String()), HaveField("Kind", explain.KindStep),
				HaveField("URL", pages.OfStep(step)), HaveField("Content", HavePrefix("# "+step.String()+"\n"))))
		}
		Expect(len(preflight.Names())).To(BeNumerically(">", 30))
		for _, name := range preflight.Names() {
			entry, err := explain.Find(string(name))
			Expect(err).NotTo(HaveOccurred())
			Expect(entry).To(And(HaveField("Kind", explain.KindGuard),
				HaveField("Short", ContainSubstring(string(preflight.ReasonOf(name)))),
				HaveField("Content", ContainSubstring("\n## "))), string(name))
		}
		all, err := explain.All()
		Expect(err).NotTo(HaveOccurred())
		pagesOfReasons := 0
		for _, entry := range all {
			reason := steps.Reason(entry.Name)
			if entry.Kind != explain.KindReason || !reason.Hold() && !reason.Fault() {
				continue
			}
			pagesOfReasons++
			found, err := explain.Find(entry.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(And(HaveField("URL", pages.OfReason(reason)),
				HaveField("Content", HavePrefix("# "+entry.Name+"\n"))))
		}
		Expect(pagesOfReasons).To(BeNumerically(">", 30))
	})

	It("should say when each guard is checked", func() {
		Expect(explain.Find("EtcdDefragmentation")).To(HaveField("Short",
			ContainSubstring("before the steps 1 (hold), 2 (hold), 6 (hold), 8 (hold);")))
		Expect(explain.Find("Bastions")).To(HaveField("Short", ContainSubstring("before the first step of each role")))
	})

	It("should lead from a reason without a page of its own to the step that shows it", func() {
		Expect(explain.Find("WaitingForDNS")).To(And(HaveField("Content", BeEmpty()),
			HaveField("URL", HaveSuffix("/EtcdMigrationComplete.md"))))
		Expect(explain.Find("Withdrawn")).To(HaveField("URL", pages.Operations))
	})

	It("should know every alert of the charts", func() {
		found := 0
		for _, chart := range []string{"livecpm-agent", "livecpm-garden"} {
			rules, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", chart, "monitoring", "rules.yaml"))
			Expect(err).NotTo(HaveOccurred())
			for _, alert := range regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(string(rules),
				-1) {
				found++
				Expect(explain.Find(alert[1])).To(And(HaveField("Kind", explain.KindAlert),
					HaveField("Short", Not(ContainSubstring("](reasons/")))))
			}
		}
		Expect(found).To(BeNumerically(">", 10))
	})

	It("should make URLs of all links of its pages, which lead to files that exist", func() {
		all, err := explain.All()
		Expect(err).NotTo(HaveOccurred())
		links := 0
		for _, entry := range all {
			found, err := explain.Find(entry.Name)
			Expect(err).NotTo(HaveOccurred())
			for _, match := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(found.Content, -1) {
				if strings.HasPrefix(match[1], strings.TrimSuffix(pages.Base, "docs/")) {
					links++
					Expect(onDisk(match[1])).To(BeAnExistingFile(), entry.Name)
					continue
				}
				Expect(match[1]).To(HavePrefix("https://"), entry.Name)
			}
		}
		Expect(links).To(BeNumerically(">", 100))
	})

	It("should tell which word has the page of a URL", func() {
		name, ok := explain.Named(pages.Base + "operations/reasons/BastionExists.md#do")
		Expect(ok).To(BeTrue())
		Expect(name).To(Equal("BastionExists"))
		for _, url := range []string{pages.Operations, pages.Base + "concepts/guards.md", "https://etcd.io/"} {
			_, ok := explain.Named(url)
			Expect(ok).To(BeFalse(), url)
		}
	})

	It("should say what is near to a word that it does not know", func() {
		_, err := explain.Find("Bastion")
		Expect(err).To(MatchError(And(ContainSubstring("BastionExists"), ContainSubstring("Bastions"))))
		_, err = explain.Find("Elsewhere")
		Expect(err).To(MatchError("nothing is known about \"Elsewhere\"; `kubectl livecpm explain` lists all words"))
		_, err = explain.Find("9")
		Expect(err).To(MatchError(ContainSubstring(`"9"`)))
	})
})
