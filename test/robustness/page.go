// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/evidence"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// legend explains the table of faults and steps.
const legend = "A cell has a line for the start of the step (`b`) and one for its midst (`i`): result, failed " +
	"requests, longest time without an acknowledged write of any client, " +
	"acknowledged writes lost, linearizability. A third line (`r`) sums up the cells at each reason that the step's " +
	"condition shows: how many passed, and of how many. `+` marks those that struck together with another fault and " +
	"share its figures (matrix.json names it). `~` marks results that are stale: code in `pkg/` that the step uses " +
	"has changed since, or nobody recorded what it was. `!` marks cells of which an earlier attempt did not pass. " +
	"`–` was not run; an empty cell has nothing for the fault to hit.\n\n"

// Markdown returns the matrix as a table of faults and steps, the figures of each cell, and lists of the attempts that
// have not passed.
func (m *Matrix) Markdown() string {
	var b strings.Builder
	b.WriteString("# Fault matrix\n\n")
	m.summary(&b)
	b.WriteString(legend)
	b.WriteString("| fault |")
	for i := range steps.Table() {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(steps.Table())) + "\n")
	for _, f := range fault.All() {
		fmt.Fprintf(&b, "| %s |", f.Name())
		for _, step := range steps.Table() {
			fmt.Fprintf(&b, " %s |", m.entry(f, step))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, step := range steps.Table() {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	withheld(&b)
	unavailable(&b)
	m.failures(&b)
	m.figures(&b)
	m.staleness(&b)
	return b.String()
}

// summary counts the cells.
func (m *Matrix) summary(b *strings.Builder) {
	passed, stale := 0, 0
	for _, cell := range m.Cells {
		if cell.Outcome == Passed {
			passed++
		}
		if cell.Stale != "" {
			stale++
		}
	}
	fmt.Fprintf(b, "%d of %d cells were run, %d of them passed.", len(m.Cells), len(AllCells()), passed)
	if m.Assessed != nil {
		fmt.Fprintf(b, " %d of the results are stale. They were compared with commit %s on %s.", stale,
			evidence.Short(m.Assessed.Commit), day(m.Assessed.Time))
	}
	b.WriteString("\n\n")
}

// withheld says which moments cannot be struck here, and why.
func withheld(b *strings.Builder) {
	var named []steps.Reason
	plain := CellsOf(fault.Variant{})
	for _, other := range []struct {
		variant fault.Variant
		why     string
	}{
		{fault.Variant{ForceShrink: true},
			"belong to migrations with `FORCE_SHRINK=true`, whose results are kept apart"},
		{fault.Variant{Workers: true}, "need a shoot with workers, which the suite does not move"},
	} {
		var moments []string
		for _, cell := range CellsOf(other.variant) {
			moment := fmt.Sprintf("%s of %s", cell.Moment, cell.Step)
			if !slices.Contains(plain, cell) && !slices.Contains(moments, moment) {
				moments = append(moments, moment)
			}
		}
		fmt.Fprintf(b, "\nNot in the table: %s. They %s.\n", strings.Join(moments, ", "), other.why)
	}
	for _, step := range steps.Table() {
		for _, work := range step.Work {
			for _, reason := range work.Reasons {
				if why := fault.Withheld(reason); why != "" && !slices.Contains(named, reason) {
					named = append(named, reason)
					fmt.Fprintf(b, "\nNot in the table: %s of %s: %s.\n", reason, step, why)
				}
			}
		}
	}
}

// unavailable says which faults the landscape does not have, and why.
func unavailable(b *strings.Builder) {
	b.WriteString("\n## What is not available here\n\n")
	for _, missing := range []struct{ what, why string }{
		{"Slow fsync, and a disk that is full", "etcd's failpoints (gofail) have to be compiled in by rewriting its " +
			"sources, and the landscape runs etcd as its module has it; all pods of a seed share the disk of the " +
			"machine. What etcd does when its quota is full is `quota-full`"},
		{"Reordering as a fault of its own", "the kernel has no netem, and the load balancer hands on streams. With " +
			"`loss`, packets come out of order as far as the load balancer"},
		{"A clock that is five minutes off", "time namespaces do not change the time of day, the programs are " +
			"linked statically, and all nodes share the clock of the machine"},
		{"Certificates that expire", "it needs the clock of the row before"},
		{"etcd at its limit of memory", "Gardener sets none; the kernel would end the process, as `etcd-kill` does"},
		{"Saturated processors on a machine with fewer than four", "the loops in one seed then take from the other " +
			"seed, the garden and the clients what these need. On two, 347 of 1,950 writes failed meanwhile"},
		{"Faults other than a cut that come back", "nobody has built them yet"},
		{"Pairs of faults", "a cell has one. `make test-robustness` draws them, and keeps its results apart"},
		{"A moment that comes back", "a fault strikes when a reason shows for the first time in its step. " +
			"`WaitingForEtcdMember` shows for each member that joins, `ReadyForSourceMemberRemoval` while all three " +
			"of them leave"},
		{"Nodes that are drained or lost", "they need seeds with three nodes: `make test-e2e LABELS=nodes NODES=3`, " +
			"whose results are kept apart"},
	} {
		fmt.Fprintf(b, "- %s: %s.\n", missing.what, missing.why)
	}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// failures lists the cells that have not passed, and the earlier attempts that have not.
func (m *Matrix) failures(b *strings.Builder) {
	var last, earlier []CellResult
	for _, cell := range m.Cells {
		if cell.Outcome != Passed {
			last = append(last, cell)
		}
		for _, attempt := range cell.Earlier {
			if attempt.Outcome != Passed {
				earlier = append(earlier, attempt)
			}
		}
	}
	if len(last) > 0 {
		b.WriteString("\n## Not passed\n\n")
	}
	for _, cell := range last {
		fmt.Fprintf(b, "- %s: %s. `%s`\n", cell.Cell, cell.Outcome, cell.Repro)
		problems(b, cell)
	}
	if len(earlier) > 0 {
		b.WriteString("\n## Earlier attempts that did not pass\n\n")
	}
	for _, attempt := range earlier {
		fmt.Fprintf(b, "- %s: %s on %s, %s.\n", attempt.Cell, attempt.Outcome, day(attempt.when()),
			madeWith(attempt))
		problems(b, attempt)
	}
}

func problems(b *strings.Builder, cell CellResult) {
	for _, problem := range cell.Problems {
		fmt.Fprintf(b, "  - %s\n", strings.ReplaceAll(problem, "\n", " "))
	}
}

func madeWith(cell CellResult) string {
	if cell.Commit == "" {
		return "commit not recorded"
	}
	return "commit " + evidence.Short(cell.Commit)
}

// figures shows what each cell cost in its own window.
func (m *Matrix) figures(b *strings.Builder) {
	head := "\n## Figures of each cell\n\nOnly results with a window of their own are here. Each part of the window " +
		"has the requests of the clients whose history is judged, those that were not answered, those of the " +
		"demo's load that failed at the first try, and the longest time without an acknowledged write. An age is " +
		"that on the day of the comparison.\n\n" +
		"| cell | result | commit | day, age | before | during | after | lost | linearizable: window, run | attempts " +
		"| history |\n|" + strings.Repeat(" --- |", 11) + "\n"
	for _, cell := range m.Cells {
		w := cell.Window
		if w == nil {
			continue
		}
		b.WriteString(head)
		head = ""
		fmt.Fprintf(b, "| %s | %s%s | %s | %s | %s | %s | %s | %d | %s, %s | %d | %.12s |\n", cell.Cell, cell.Outcome,
			staleMark[cell.Stale != ""], evidence.Short(cell.Commit), m.age(cell), w.Before, w.During, w.After,
			cell.LostWrites, w.Linearizable, cell.Linearizable, len(cell.attempts()), w.History)
	}
}

// String returns the figures of a part for the table.
func (p Part) String() string {
	return fmt.Sprintf("%d, %d, %d, %.1f s", p.Requests, p.Failed, p.LoadFailed, float64(p.LongestWriteGapMs)/1000)
}

// What marks a result in the tables, if it is so.
var (
	staleMark    = map[bool]string{true: " ~"}
	failedMark   = map[bool]string{true: " !"}
	togetherMark = map[bool]string{true: " +"}
)

// age is when the result was made, and how many days before the assessment.
func (m *Matrix) age(cell CellResult) string {
	made := cell.when()
	if made.IsZero() {
		return "not recorded"
	}
	if m.Assessed == nil {
		return day(made)
	}
	return fmt.Sprintf("%s, %d d", day(made), int(m.Assessed.Time.Sub(made).Hours()/24))
}

// staleness says why results are stale, and how old they are.
func (m *Matrix) staleness(b *strings.Builder) {
	var whys []string
	cells := map[string][]CellResult{}
	for _, cell := range m.Cells {
		if cell.Stale == "" {
			continue
		}
		if cells[cell.Stale] == nil {
			whys = append(whys, cell.Stale)
		}
		cells[cell.Stale] = append(cells[cell.Stale], cell)
	}
	if len(whys) == 0 {
		return
	}
	b.WriteString("\n## Stale\n\n")
	for _, why := range whys {
		oldest := slices.MinFunc(cells[why], func(a, b CellResult) int { return a.when().Compare(b.when()) })
		newest := slices.MaxFunc(cells[why], func(a, b CellResult) int { return a.when().Compare(b.when()) })
		fmt.Fprintf(b, "- %d results: %s. The oldest is of %s, the newest of %s.\n", len(cells[why]), why,
			m.age(oldest), m.age(newest))
	}
}

// entry is what the table says of a fault in a step.
func (m *Matrix) entry(f fault.Fault, step steps.Step) string {
	var lines []string
	for _, moment := range fault.Moments() {
		if !f.Applies(step, moment) {
			continue
		}
		line := string(moment[0]) + " –"
		cell := Cell{Fault: f.Name(), Step: step.Condition, Moment: moment}
		if i := slices.IndexFunc(m.Cells, func(c CellResult) bool { return c.Cell == cell }); i >= 0 {
			line = string(moment[0]) + " " + m.Cells[i].line()
		}
		lines = append(lines, line)
	}
	if line := m.reasons(f, step); line != "" {
		lines = append(lines, line)
	}
	return strings.Join(lines, "<br>")
}

// reasons sums up the cells at the reasons of a step.
func (m *Matrix) reasons(f fault.Fault, step steps.Step) string {
	all, run, passed, stale, failedBefore := 0, 0, 0, false, false
	for _, moment := range fault.MomentsOf(step, fault.Variant{}) {
		if _, ok := moment.Reason(); !ok || !f.Applies(step, moment) {
			continue
		}
		all++
		cell := Cell{Fault: f.Name(), Step: step.Condition, Moment: moment}
		i := slices.IndexFunc(m.Cells, func(c CellResult) bool { return c.Cell == cell })
		if i < 0 {
			continue
		}
		run++
		if m.Cells[i].Outcome == Passed {
			passed++
		}
		stale = stale || m.Cells[i].Stale != ""
		failedBefore = failedBefore || m.Cells[i].failedBefore()
	}
	switch {
	case all == 0:
		return ""
	case run == 0:
		return fmt.Sprintf("r – of %d", all)
	}
	return fmt.Sprintf("r %d of %d ok, %d not run", passed, all, all-run) + staleMark[stale] + failedMark[failedBefore]
}

// failedBefore reports whether an earlier attempt did not pass.
func (c CellResult) failedBefore() bool {
	return slices.ContainsFunc(c.Earlier, func(a CellResult) bool { return a.Outcome != Passed })
}

// line is what the table says of a result.
func (c CellResult) line() string {
	line := fmt.Sprintf("**%s**", c.Outcome) + staleMark[c.Stale != ""] + failedMark[c.failedBefore()]
	if c.Struck.IsZero() {
		return line
	}
	return line + fmt.Sprintf("%s %d failed, %.1f s, %d lost, %s", togetherMark[len(c.With) > 0], c.FailedRequests,
		float64(c.LongestWriteGapMs)/1000, c.LostWrites, c.Linearizable)
}
