// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"strings"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

var _ = Describe("Page", func() {
	const markdown = `# Something

<!-- not shown -->
A paragraph that is long enough to be broken, with a [page](https://example.org/page.md#part) and **a warning**
over two lines.
## Look at

` + "```sh\nkubectl get shoot NAME -o yaml   # a command stays on one line, however long it is, so that it can be " +
		"copied\n\n  --indented\n```" + `

1. First, as in [the page](https://example.org/page.md#part), over a line that is too long for a narrow screen
   and continues.
2. Second: see [another](https://example.org/other.md).
   - Below it.

| reason | what it means |
| --- | --- |
| ` + "`One`" + ` | the first |
| ` + "`Two`" + ` | either \| or |

| check | 1 | 2 |
| --- | --- | --- |
| Etcd | hold | warn |
`
	lead := func(url string) string { return "see " + url }

	It("should draw a page for a terminal, narrow ones too", func() {
		expectGolden("page", view.Page(markdown, lead, view.Options{}))
		expectGolden("page-narrow", view.Page(markdown, lead, view.Options{Width: 40}))
		expectGolden("page-color", view.Page(markdown, lead, view.Options{Color: true, Width: 160}))
	})

	It("should keep commands as they are, and everything else within the terminal", func() {
		for line := range strings.Lines(view.Page(markdown, lead, view.Options{Width: 40})) {
			if strings.HasPrefix(line, "    ") || strings.Contains(line, "https://") {
				continue
			}
			Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", 40), line)
		}
		Expect(view.Page(markdown, lead, view.Options{Width: 40})).
			To(ContainSubstring("    kubectl get shoot NAME -o yaml   # a command stays on one line, however long it " +
				"is, so that it can be copied\n\n      --indented\n"))
	})

	It("should draw a list of words by kind", func() {
		words := []view.Word{{Kind: "Step", Name: "First", Short: "does [something](https://example.org)"},
			{Kind: "Reason", Name: "BastionExists", Short: "**held**: " + strings.Repeat("delete it ", 20)},
			{Kind: "Reason", Name: "Paused", Short: "wait"}}
		expectGolden("words", view.Words(words, view.Options{Width: 60}))
		expectGolden("words-wide", view.Words(words, view.Options{Width: 60, Wide: true}))
	})
})
