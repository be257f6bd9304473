// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package explain finds what the pages for operators say about a word: a reason, a step, a guard, an alert. The pages
// are in the program, so an answer needs neither a network nor a garden.
package explain

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/livecpm/livecpm/docs"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// Kind says what a word is.
type Kind string

const (
	// KindStep is a step, named by its condition or its number.
	KindStep Kind = "Step"
	// KindReason is a reason of a condition or an event.
	KindReason Kind = "Reason"
	// KindGuard is a check that holds a step.
	KindGuard Kind = "Guard"
	// KindAlert is an alert of the charts.
	KindAlert Kind = "Alert"
	// KindTopic is what an operator does, and has a page of its own, as abort and recovery.
	KindTopic Kind = "Topic"
)

// Kinds are all kinds, in the order in which they are listed.
var Kinds = []Kind{KindStep, KindReason, KindGuard, KindAlert, KindTopic}

// Entry is a word that can be explained.
type Entry struct {
	// Name is the word, Kind what it is.
	Name string `json:"name"`
	Kind Kind   `json:"type"`
	// Short says it in a few words; empty if only the page does.
	Short string `json:"short,omitempty"`
	// URL is where the page is.
	URL string `json:"url"`
	// Content is the page as Markdown, whose links are URLs; empty for a word of which a page has only what Short says.
	Content string `json:"content,omitempty"`

	page string
}

const (
	folder         = "operations"
	pageSteps      = "concepts/steps.md"
	pageGuards     = "concepts/guards.md"
	pageMonitoring = folder + "/monitoring.md"
)

// All returns everything that can be explained, by kind and name; the steps are in their order.
func All() ([]Entry, error) {
	var out []Entry
	for _, list := range []func() ([]Entry, error){stepEntries, reasonEntries, guardEntries, alertEntries,
		topicEntries} {
		entries, err := list()
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	return out, nil
}

// Find explains the word, whose case does not matter. A step has its number as a second name.
func Find(name string) (Entry, error) {
	all, err := All()
	if err != nil {
		return Entry{}, err
	}
	if number, err := strconv.Atoi(name); err == nil && number >= 1 && number <= len(steps.Table()) {
		name = steps.Table()[number-1].String()
	}
	for _, entry := range all {
		if !strings.EqualFold(entry.Name, name) {
			continue
		}
		if entry.page == "" {
			return entry, nil
		}
		content, err := read(entry.page)
		if err != nil {
			return Entry{}, err
		}
		entry.Content = absolute(entry.page, content)
		return entry, nil
	}
	return Entry{}, fmt.Errorf("nothing is known about %q%s; `kubectl livecpm explain` lists all words", name,
		similar(name, all))
}

// Named returns the word that has the page with the URL, or false.
func Named(url string) (string, bool) {
	page, _, _ := strings.Cut(url, "#")
	page, ok := strings.CutPrefix(page, pages.Base+folder+"/")
	if !ok || page == "README.md" {
		return "", false
	}
	return strings.TrimSuffix(path.Base(page), ".md"), true
}

func similar(name string, all []Entry) string {
	var found []string
	for _, entry := range all {
		if strings.Contains(strings.ToLower(entry.Name), strings.ToLower(name)) && name != "" {
			found = append(found, entry.Name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (is it " + strings.Join(found, " or ") + "?)"
}

func stepEntries() ([]Entry, error) {
	var out []Entry
	for i, step := range steps.Table() {
		out = append(out, Entry{Name: step.String(), Kind: KindStep, URL: pages.OfStep(step),
			Short: fmt.Sprintf("step %d, owner %s: %s", i+1, step.Owner, step.Title),
			page:  folder + "/" + step.String() + ".md"})
	}
	return out, nil
}

// reasonEntries are the rows of the table of reasons. Those without a page of their own are led to the page of the step
// that shows them.
func reasonEntries() ([]Entry, error) {
	table, err := rows(pageSteps, "reason | appears |")
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, row := range table {
		entry := Entry{Name: strings.Trim(row[0], "*`"), Kind: KindReason, Short: row[1] + ": " + row[2],
			URL: pages.Operations}
		if own := folder + "/reasons/" + entry.Name + ".md"; exists(own) {
			entry.page, entry.URL = own, pages.OfReason(steps.Reason(entry.Name))
		} else if step, ok := stepThatShows(steps.Reason(entry.Name)); ok {
			entry.URL = pages.OfStep(step)
		}
		out = append(out, entry)
	}
	return sorted(out), nil
}

func stepThatShows(reason steps.Reason) (steps.Step, bool) {
	for _, step := range steps.Table() {
		for _, work := range step.Work {
			if slices.Contains(work.Reasons, reason) {
				return step, true
			}
		}
	}
	return steps.Step{}, false
}

// guardEntries are the checks. Their page is that of the reason with which they hold a step.
func guardEntries() ([]Entry, error) {
	always := map[preflight.Name][]string{}
	for _, guard := range preflight.Guards() {
		for i, effect := range guard.Effects {
			if effect != steps.Ignores {
				always[guard.Name] = append(always[guard.Name], fmt.Sprintf("%d (%s)", i+1, effect))
			}
		}
	}
	var out []Entry
	for _, name := range preflight.Names() {
		reason := preflight.ReasonOf(name)
		when := "is checked before the first step of each role"
		if before, ok := always[name]; ok {
			when = "is checked before the steps " + strings.Join(before, ", ")
		}
		entry := Entry{Name: string(name), Kind: KindGuard, URL: pages.OfReason(reason),
			Short: fmt.Sprintf("%s; alone, it holds a step with the reason %s", when, reason),
			page:  folder + "/reasons/" + string(reason) + ".md"}
		if !exists(entry.page) {
			entry.page, entry.URL = pageGuards, pages.Base+pageGuards
		}
		out = append(out, entry)
	}
	return out, nil
}

func alertEntries() ([]Entry, error) {
	table, err := rows(pageMonitoring, "alert | in | severity |")
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, row := range table {
		out = append(out, Entry{Name: strings.Trim(row[0], "`"), Kind: KindAlert, URL: pages.Monitoring + "#alerts",
			Short: fmt.Sprintf("%s, in the %s: %s", row[2], row[1], absolute(pageMonitoring, row[3]))})
	}
	return sorted(out), nil
}

// topicEntries are the pages that are about no step.
func topicEntries() ([]Entry, error) {
	files, err := fs.Glob(docs.Pages, folder+"/*.md")
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".md")
		if name == "README" || slices.ContainsFunc(steps.Table(),
			func(s steps.Step) bool { return s.String() == name }) {
			continue
		}
		content, err := read(file)
		if err != nil {
			return nil, err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(content, "# "), "\n")
		out = append(out, Entry{Name: name, Kind: KindTopic, Short: title, URL: pages.Base + file, page: file})
	}
	return out, nil
}

func sorted(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

func exists(page string) bool {
	_, err := fs.Stat(docs.Pages, page)
	return err == nil
}

func read(page string) (string, error) {
	content, err := docs.Pages.ReadFile(page)
	if err != nil {
		return "", fmt.Errorf("failed to read the page %s in this program: %w", page, err)
	}
	return string(content), nil
}

// rows returns the cells of the table whose header begins with the given words. A page without it is a fault of this
// program.
func rows(page, header string) ([][]string, error) {
	content, err := read(page)
	if err != nil {
		return nil, err
	}
	_, below, found := strings.Cut(content, "\n| "+header)
	if !found {
		return nil, fmt.Errorf("the page %s in this program has no table %q", page, header)
	}
	var out [][]string
	for i, line := range strings.Split(below, "\n") {
		if i > 0 && !strings.HasPrefix(line, "|") {
			break
		}
		if i > 1 {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			for c := range cells {
				cells[c] = strings.TrimSpace(cells[c])
			}
			out = append(out, cells)
		}
	}
	return out, nil
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// absolute makes URLs of the links in the text, which is on the page.
func absolute(page, text string) string {
	root := strings.TrimSuffix(pages.Base, "docs/")
	return link.ReplaceAllStringFunc(text, func(found string) string {
		target := link.FindStringSubmatch(found)[1]
		if strings.Contains(target, "://") {
			return found
		}
		file, anchor, anchored := strings.Cut(target, "#")
		to := path.Join("docs", page)
		if file != "" {
			to = path.Join("docs", path.Dir(page), file)
		}
		if anchored {
			to += "#" + anchor
		}
		return "](" + root + to + ")"
	})
}
