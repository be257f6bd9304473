// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
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

	It("should have the parts of all steps", func() {
		expected := [][]string{}
		add := func(number string, step steps.Step) {
			for _, work := range step.Work {
				var reasons []string
				for _, reason := range work.Reasons {
					reasons = append(reasons, "`"+string(reason)+"`")
				}
				when := string(work.When)
				if work.When == steps.Always {
					when = "always"
				}
				expected = append(expected,
					[]string{number, work.Title, string(work.By), strings.Join(reasons, ", "), when})
			}
		}
		for i, step := range steps.Table() {
			add(strconv.Itoa(i+1), step)
		}
		for _, step := range steps.AbortTable() {
			add("abort", step)
		}
		Expect(rows(page, "# | part |")).To(Equal(expected))
	})

	It("should explain every reason, and no other", func() {
		reasons := reasonsOfCode()
		Expect(len(reasons)).To(BeNumerically(">", 20))
		documented := map[string]bool{}
		for _, row := range rows(page, "reason | appears |") {
			name := strings.Trim(row[0], "*`")
			documented[name] = true
			Expect(strings.HasPrefix(row[0], "**")).To(Equal(steps.Reason(name).Fault()),
				"%s should be bold if and only if it is a fault", name)
			Expect(row[1]).NotTo(BeEmpty())
			Expect(row[2]).NotTo(BeEmpty())
		}
		Expect(documented).To(HaveLen(len(reasons)))
		for _, reason := range reasons {
			Expect(documented).To(HaveKey(reason))
		}
	})
})

var _ = Describe("guards.md", func() {
	It("should have the table of the code", func() {
		expected := [][]string{}
		for _, guard := range preflight.Guards() {
			row := []string{string(guard.Name), "`" + string(preflight.ReasonOf(guard.Name)) + "`"}
			for _, effect := range guard.Effects {
				row = append(row, string(effect))
			}
			expected = append(expected, row)
		}
		Expect(expected).NotTo(BeEmpty())
		Expect(rows(read(filepath.Join("concepts", "guards.md")), "check | reason |")).To(Equal(expected))
	})
})

var _ = Describe("ownership.md", func() {
	page := read(filepath.Join("concepts", "ownership.md"))

	It("should have the table of the code", func() {
		expected, reasons := [][]string{}, [][]string{}
		for _, set := range ownership.Sets() {
			workers := "no"
			if set.OnlyWithWorkers {
				workers = "yes"
			}
			row := []string{string(set.Name), workers, set.Sign}
			for _, owner := range set.Owners {
				row = append(row, string(owner))
			}
			expected = append(expected, row)
			reasons = append(reasons, []string{string(set.Name), set.Why})
		}
		Expect(expected).NotTo(BeEmpty())
		Expect(rows(page, "controllers | only with workers |")).To(Equal(expected))
		Expect(rows(page, "controllers | what makes it safe |")).To(Equal(reasons))
	})
})

var _ = Describe("operations", func() {
	const folder = "operations"

	index := filepath.Join(folder, "README.md")
	stepPages := []string{index}
	for _, step := range steps.Table() {
		stepPages = append(stepPages, filepath.Join(folder, step.String()+".md"))
	}
	var otherPages []string
	for _, topic := range []string{"abort", "draining-a-seed", "force-shrink", "monitoring", "pause", "recovery",
		"retry", "snapshots"} {
		otherPages = append(otherPages, filepath.Join(folder, topic+".md"))
	}

	It("should have a page for every step, where the conditions say it is, and for what operators do, and no other",
		func() {
			files, err := filepath.Glob(filepath.Join(folder, "*.md"))
			Expect(err).NotTo(HaveOccurred())
			Expect(files).To(ConsistOf(append(slices.Clone(stepPages), otherPages...)))

			overview := [][]string{}
			for i, step := range steps.Table() {
				page := strings.TrimPrefix(pages.OfStep(step), pages.Base)
				Expect(page).To(BeAnExistingFile())
				content := read(page)
				Expect(content).To(HavePrefix("# %s\n", step))
				Expect(content).To(ContainSubstring("Step %d of %d, owner %s, deadline %s.", i+1, len(steps.Table()),
					step.Owner, minutes(step.Deadline)))
				for _, heading := range []string{"What it does", "Reasons", "Look at", "Safe", "Never"} {
					Expect(content).To(ContainSubstring("\n## %s\n", heading), page)
				}
				overview = append(overview,
					[]string{strconv.Itoa(i + 1), fmt.Sprintf("[%[1]s](%[1]s.md)", step), string(step.Owner)})
			}
			Expect(rows(read(index), "step | page |")).To(Equal(overview))
			for _, page := range otherPages {
				Expect(read(index)).To(ContainSubstring("](%s)", filepath.Base(page)))
			}
		})

	It("should have a page for every reason that holds a step or is a fault, and no other", func() {
		var expected, listed []string
		for _, reason := range reasonsOfCode() {
			if steps.Reason(reason).Hold() || steps.Reason(reason).Fault() {
				expected = append(expected, reason)
			}
		}
		Expect(len(expected)).To(BeNumerically(">", 30))
		slices.Sort(expected)

		files, err := filepath.Glob(filepath.Join(folder, "reasons", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".md")
			names = append(names, name)
			content := read(file)
			Expect(content).To(HavePrefix("# %s\n", name))
			for _, heading := range []string{"What it means", "Look at", "Do"} {
				Expect(content).To(ContainSubstring("\n## %s\n", heading), file)
			}
			Expect(content).To(MatchRegexp("```sh\n.*(kubectl|etcdctl_of) "), file)
		}
		Expect(names).To(Equal(expected))

		for _, row := range rows(read(index), "page | in short |") {
			listed = append(listed, row[0])
			Expect(row[1]).NotTo(BeEmpty())
		}
		var links []string
		for _, reason := range expected {
			links = append(links, fmt.Sprintf("[%[1]s](reasons/%[1]s.md)", reason))
		}
		Expect(listed).To(Equal(links))
	})

	It("should explain every reason of a drain", func() {
		page := read(filepath.Join(folder, "draining-a-seed.md"))
		found := 0
		for _, file := range []string{"reasons.go", "progress.go"} {
			for _, match := range regexp.MustCompile(`(?m)^\t(?:Condition)?Reason\w+(?: Reason)? += "(\w+)"`).
				FindAllStringSubmatch(read(filepath.Join("..", "pkg", "migration", "drain", file)), -1) {
				found++
				Expect(page).To(ContainSubstring("`"+match[1]+"`"), file)
			}
		}
		Expect(found).To(BeNumerically(">", 20))
	})

	It("should name only reasons that exist, and all of them", func() {
		// In these pages a word in capitals and backquotes is a reason or a status, and nothing else.
		word := regexp.MustCompile("`([A-Z][A-Za-z]*)`")
		statuses := []string{"True", "False", "Unknown", "Progressing"}
		reasons := reasonsOfCode()

		reasonPages, err := filepath.Glob(filepath.Join(folder, "reasons", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		explained := map[string]bool{}
		for _, page := range slices.Concat(stepPages, otherPages, reasonPages) {
			if name := filepath.Base(page); name == "draining-a-seed.md" || name == "monitoring.md" {
				// A drain has words of its own, and so have alerts and events; monitoring_test.go looks at those.
				continue
			}
			for _, match := range word.FindAllStringSubmatch(read(page), -1) {
				Expect(append(statuses, reasons...)).To(ContainElement(match[1]), page)
			}
		}
		for _, page := range reasonPages {
			explained[strings.TrimSuffix(filepath.Base(page), ".md")] = true
		}
		for _, page := range stepPages {
			table := rows(read(page), "reason | what it means |")
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

var _ = Describe("usage", func() {
	page := read(filepath.Join("usage", "README.md"))

	It("should show what the plugin draws, and all of the walkthrough", func() {
		quotes := regexp.MustCompile("(?s)<!-- (\\S+) -->\n\n```\n(.*?)```\n")
		pages, err := filepath.Glob(filepath.Join("usage", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		shown := map[string]bool{}
		for _, page := range pages {
			quoted := quotes.FindAllStringSubmatch(read(page), -1)
			Expect(len(quoted)).To(BeNumerically(">=", 5), page)
			for _, quote := range quoted {
				file := filepath.Join("usage", quote[1])
				Expect(quote[2]).To(Equal(read(file)), "%s quotes %s", page, quote[1])
				shown[file] = true
			}
		}
		recorded, err := filepath.Glob(filepath.Join("usage", "recorded", "walkthrough", "*.txt"))
		Expect(err).NotTo(HaveOccurred())
		Expect(recorded).NotTo(BeEmpty())
		for _, file := range recorded {
			Expect(shown).To(HaveKey(file), "no page shows it")
		}
	})

	It("should have a line for every command of the plugin, and no other", func() {
		var expected, listed []string
		for _, command := range app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}).Commands() {
			expected = append(expected, command.Name())
		}
		for _, row := range rows(page, "command | does |") {
			listed = append(listed, strings.Fields(strings.Trim(row[0], "`"))[0])
			Expect(row[1]).NotTo(BeEmpty())
		}
		Expect(listed).To(ConsistOf(expected))
	})

	It("should show commands with flags that they have, as they are spelled now, on this and on all other pages",
		func() {
			var (
				call  = regexp.MustCompile("kubectl(?: --[a-z-]+=\\S+)* livecpm ([a-z][^`#|;<>()\\n]*)")
				flag  = regexp.MustCompile(`(?:^| )--([a-z-]+)`)
				flags int
			)
			for _, path := range allPages() {
				for _, found := range call.FindAllStringSubmatch(read(path), -1) {
					command, _, err := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}).
						Find(strings.Fields(found[1]))
					if err != nil || !command.HasParent() {
						continue // It is a sentence about the plugin.
					}
					for _, name := range flag.FindAllStringSubmatch(found[1], -1) {
						flags++
						Expect(command.Flag(name[1])).To(And(Not(BeNil()), HaveField("Hidden", false)), "%s: %s", path,
							found[0])
					}
				}
			}
			Expect(flags).To(BeNumerically(">", 50))
		})

	It("should have the table of exit codes of the code", func() {
		var expected [][]string
		for _, meaning := range exit.Table() {
			expected = append(expected, []string{strconv.Itoa(int(meaning.Code)), meaning.Word, meaning.Text})
		}
		Expect(rows(page, "exit code | name |")).To(Equal(expected))
	})

	It("should explain every state", func() {
		for _, state := range []summary.State{
			summary.None, summary.Classic, summary.Requested, summary.Processing, summary.Paused, summary.Held,
			summary.Overdue, summary.Aborting, summary.Aborted, summary.Succeeded,
		} {
			Expect(page).To(ContainSubstring("`%s`", state))
		}
	})
})

var _ = Describe("index", func() {
	It("should lead to every page", func() {
		index := read("README.md")
		for _, folder := range []string{"concepts", "development", "usage"} {
			pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
			Expect(err).NotTo(HaveOccurred())
			for _, page := range pages {
				Expect(index).To(ContainSubstring("](" + page + ")"))
			}
		}
	})
})

var _ = Describe("adding a step", func() {
	It("should show the step that a test adds", func() {
		page := regexp.MustCompile("(?s)   ```go\n(.*?)\n   ```\n").FindStringSubmatch(
			read(filepath.Join("development", "adding-a-step.md")))
		Expect(page).To(HaveLen(2))
		_, file, found := strings.Cut(read(filepath.Join("..", "pkg", "migration", "steps", "added_test.go")),
			"// begin of the step\n")
		Expect(found).To(BeTrue())
		step, _, found := strings.Cut(file, "// end of the step")
		Expect(found).To(BeTrue())
		var shown []string
		for line := range strings.SplitSeq(page[1], "\n") {
			shown = append(shown, strings.TrimPrefix(line, "   "))
		}
		Expect(strings.Join(shown, "\n")).To(Equal(strings.TrimSpace(step)))
	})
})

var _ = Describe("links", func() {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)]*)?\)`)

	It("should lead somewhere, and anchors to a heading", func() {
		for _, page := range allPages() {
			for _, match := range link.FindAllStringSubmatch(read(page), -1) {
				if strings.Contains(match[1], "://") {
					continue
				}
				target := page
				if match[1] != "" {
					target = filepath.Join(filepath.Dir(page), match[1])
				}
				Expect(target).To(Or(BeAnExistingFile(), BeADirectory()), "link in %s", page)
				if anchor := strings.TrimPrefix(match[2], "#"); anchor != "" && filepath.Ext(target) == ".md" {
					Expect(anchors(read(target))).To(ContainElement(anchor), "link to %s in %s", target, page)
				}
			}
		}
	})
})

var (
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	omitted = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those of the headings of a page, as GitHub makes them.
func anchors(page string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		text := linked.ReplaceAllString(match[1], "$1")
		names = append(names, strings.ReplaceAll(omitted.ReplaceAllString(strings.ToLower(text), ""), " ", "-"))
	}
	return names
}

// allPages are the paths of all pages.
func allPages() []string {
	out := []string{filepath.Join("..", "README.md"), filepath.Join("..", "CONTRIBUTING.md"),
		filepath.Join("..", "SECURITY.md"), filepath.Join("..", "CHANGELOG.md")}
	if err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			out = append(out, path)
		}
		return err
	}); err != nil {
		panic(err)
	}
	return out
}

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
	files, err := filepath.Glob(filepath.Join("..", "pkg", "migration", "steps", "*.go"))
	Expect(err).NotTo(HaveOccurred())
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue // A test adds a step with a reason of its own.
		}
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
