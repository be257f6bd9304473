// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/conditions"
	"github.com/livecpm/livecpm/pkg/steps"
)

var _ = Describe("steps.md", func() {
	page := read(filepath.Join("concepts", "steps.md"))

	It("should have the step table of the code", func() {
		expected := [][]string{}
		for i, step := range steps.Table() {
			abort := "no"
			switch {
			case step.Abortable:
				abort = "yes"
			case step.PointOfNoReturn:
				abort = "no return"
			}
			expected = append(expected, []string{
				strconv.Itoa(i + 1),
				"`" + step.String() + "`",
				string(step.Owner),
				step.Title,
				minutes(step.Deadline),
				abort,
				fmt.Sprintf("%d %%", step.Progress),
			})
		}
		Expect(rows(page, "# | condition |")).To(Equal(expected))
	})

	It("should explain every reason, and no other", func() {
		reasons := reasonsOfCode()
		Expect(len(reasons)).To(BeNumerically(">", 20))
		documented := map[string]bool{}
		for _, row := range rows(page, "reason | appears |") {
			name := strings.Trim(row[0], "*`")
			documented[name] = true
			Expect(strings.HasPrefix(row[0], "**")).To(Equal(steps.Reason(name).Fault()), "%s should be bold if and only if it is a fault", name)
			Expect(row[1]).NotTo(BeEmpty())
			Expect(row[2]).NotTo(BeEmpty())
		}
		Expect(documented).To(HaveLen(len(reasons)))
		for _, reason := range reasons {
			Expect(documented).To(HaveKey(reason))
		}
	})
})

var _ = Describe("runbooks", func() {
	const folder = "runbooks"

	index := filepath.Join(folder, "README.md")
	pages := []string{index}
	for _, step := range steps.Table() {
		pages = append(pages, filepath.Join(folder, step.String()+".md"))
	}

	It("should have a page for every step, where the conditions say it is, and no other", func() {
		files, err := filepath.Glob(filepath.Join(folder, "*.md"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(ConsistOf(pages))

		overview := [][]string{}
		for i, step := range steps.Table() {
			page := filepath.Join("..", conditions.Runbook(step))
			Expect(page).To(BeAnExistingFile())
			content := read(page)
			Expect(content).To(HavePrefix("# %s\n", step))
			Expect(content).To(ContainSubstring("Step %d of %d, owner %s, deadline %s.", i+1, len(steps.Table()), step.Owner, minutes(step.Deadline)))
			for _, heading := range []string{"What it does", "Reasons", "Look at", "Safe", "Never"} {
				Expect(content).To(ContainSubstring("\n## %s\n", heading), page)
			}
			overview = append(overview, []string{strconv.Itoa(i + 1), fmt.Sprintf("[%[1]s](%[1]s.md)", step), string(step.Owner)})
		}
		Expect(rows(read(index), "step | page |")).To(Equal(overview))
	})

	It("should name only reasons that exist, and all of them", func() {
		// In the runbooks a word in capitals and backquotes is a reason or a status, and nothing else.
		word := regexp.MustCompile("`([A-Z][A-Za-z]*)`")
		statuses := []string{"True", "False", "Unknown", "Progressing"}
		reasons := reasonsOfCode()

		explained := map[string]bool{}
		for _, page := range pages {
			content := read(page)
			for _, match := range word.FindAllStringSubmatch(content, -1) {
				Expect(append(statuses, reasons...)).To(ContainElement(match[1]), page)
			}
			table := rows(content, "reason | what it means |")
			Expect(table).NotTo(BeEmpty(), page)
			for _, row := range table {
				name := strings.Trim(row[0], "`")
				Expect(reasons).To(ContainElement(name), page)
				Expect(row[1]).NotTo(BeEmpty(), page)
				explained[name] = true
			}
		}
		for _, reason := range reasons {
			Expect(explained).To(HaveKey(reason))
		}
	})
})

var _ = Describe("runbooks", func() {
	It("should have a page for every step", func() {
		for _, step := range steps.Table() {
			Expect(filepath.Join("runbooks", step.String()+".md")).To(BeAnExistingFile())
		}
	})
})

var _ = Describe("index", func() {
	It("should lead to every page", func() {
		index := read("README.md")
		for _, folder := range []string{"concepts", "development"} {
			pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
			Expect(err).NotTo(HaveOccurred())
			for _, page := range pages {
				Expect(index).To(ContainSubstring("](" + page + ")"))
			}
		}
	})
})

var _ = Describe("links", func() {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

	It("should lead somewhere", func() {
		pages := []string{filepath.Join("..", "README.md")}
		Expect(filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				pages = append(pages, path)
			}
			return err
		})).To(Succeed())
		for _, page := range pages {
			for _, match := range link.FindAllStringSubmatch(read(page), -1) {
				if strings.Contains(match[1], "://") {
					continue
				}
				Expect(filepath.Join(filepath.Dir(page), match[1])).To(BeAnExistingFile(), "link in %s", page)
			}
		}
	})
})

func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// rows returns the cells of the table whose header begins with the given words.
func rows(page, header string) [][]string {
	out := [][]string{}
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "| "+header):
			inside = true
		case !inside || strings.HasPrefix(line, "| ---"):
		case !strings.HasPrefix(line, "|"):
			inside = false
		default:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out = append(out, cells)
		}
	}
	return out
}

func minutes(d time.Duration) string { return fmt.Sprintf("%dm", int(d.Minutes())) }

// reasonsOfCode returns the values of all constants of type steps.Reason.
func reasonsOfCode() []string {
	GinkgoHelper()
	reasons := []string{}
	files, err := filepath.Glob(filepath.Join("..", "pkg", "steps", "*.go"))
	Expect(err).NotTo(HaveOccurred())
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, err := strconv.Unquote(literal.Value)
				Expect(err).NotTo(HaveOccurred())
				reasons = append(reasons, value)
			}
			return true
		})
	}
	return reasons
}
