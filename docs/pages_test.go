// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/pages"
)

var _ = Describe("pages that messages lead to", func() {
	inRepository := regexp.MustCompile(`\bdocs/[a-z]+`)
	url := regexp.MustCompile(regexp.QuoteMeta(pages.Base) + `([\w/.-]+\.md)`)

	// expectURLs expects no path of the repository in the text, and pages that exist.
	expectURLs := func(text, where string) int {
		GinkgoHelper()
		for _, match := range url.FindAllStringSubmatch(text, -1) {
			Expect(match[1]).To(BeAnExistingFile(), where)
		}
		Expect(inRepository.MatchString(url.ReplaceAllString(text, ""))).To(BeFalse(),
			"%s leads to a path in a repository, which its readers do not have; use pkg/migration/pages: %s", where,
			text)
		return len(url.FindAllString(text, -1))
	}

	It("should be URLs in every message of the programs", func() {
		looked := 0
		for _, folder := range []string{"pkg", "cmd"} {
			Expect(filepath.WalkDir(filepath.Join("..", folder), func(path string, _ fs.DirEntry, err error) error {
				Expect(err).NotTo(HaveOccurred())
				if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
					filepath.Base(path) == "pages.go" {
					return nil
				}
				file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
				Expect(err).NotTo(HaveOccurred())
				ast.Inspect(file, func(node ast.Node) bool {
					if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
						text, err := strconv.Unquote(literal.Value)
						Expect(err).NotTo(HaveOccurred())
						if !strings.HasPrefix(text, "github.com/") {
							looked++
							expectURLs(text, path)
						}
					}
					return true
				})
				return nil
			})).To(Succeed())
		}
		Expect(looked).To(BeNumerically(">", 1000))
	})

	It("should be URLs in every alert, dashboard and policy of the charts", func() {
		found := 0
		for _, pattern := range []string{"*/monitoring/*", "*/templates/*.yaml", "*/templates/*/*.yaml"} {
			files, err := filepath.Glob(filepath.Join("..", "charts", filepath.FromSlash(pattern)))
			Expect(err).NotTo(HaveOccurred())
			Expect(files).NotTo(BeEmpty())
			for _, file := range files {
				content, err := os.ReadFile(file)
				Expect(err).NotTo(HaveOccurred())
				for line := range strings.Lines(string(content)) {
					// What monitoring fills in is tested beside the charts.
					filled := strings.Contains(line, "{{ $labels.reason }}") || strings.Contains(line, pages.Base) &&
						(strings.Contains(line, "${__field.labels.reason}") ||
							strings.Contains(line, "${__value.text}"))
					if !strings.HasPrefix(strings.TrimSpace(line), "#") && !filled {
						found += expectURLs(line, file)
					}
				}
			}
		}
		Expect(found).To(BeNumerically(">", 15))
	})

	It("should exist where the code names them", func() {
		for _, page := range []string{pages.Operations, pages.Abort, pages.Pause, pages.Recovery, pages.Monitoring,
			pages.Deployment} {
			Expect(expectURLs(page, "pkg/migration/pages")).To(Equal(1))
		}
	})
})
