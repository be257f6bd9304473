// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Markdown returns the report as Markdown.
func Markdown(r Report) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Live migration of %s\n\n", cell(r.Shoot))
	switch {
	case r.Source != "":
		fmt.Fprintf(&out, "From %s to %s", r.Source, r.Destination)
	case r.Destination != "":
		fmt.Fprintf(&out, "In seed %s", r.Destination)
	}
	fmt.Fprintf(&out, ", triggered %s: **%s**.\n", r.Triggered.UTC().Format(time.RFC3339), r.Result)
	for _, problem := range r.Problems {
		fmt.Fprintf(&out, "- %s\n", cell(problem))
	}
	out.WriteString("\n")

	table := func(title string, header []string, rows [][]string) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&out, "## %s\n\n| %s |\n|%s\n", title, strings.Join(header, " | "),
			strings.Repeat(" --- |", len(header)))
		for _, row := range rows {
			for i := range row {
				row[i] = cell(row[i])
			}
			fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		}
		out.WriteString("\n")
	}

	var figures [][]string
	for _, tile := range tiles(r) {
		figures = append(figures, []string{tile.Name, tile.Value, tile.Note})
	}
	table("Figures", []string{"what", "value", ""}, figures)
	header, rows := stepCells(r)
	table("Steps", header, rows)
	table("Where the time went", reasonHeader, reasonCells(r))
	if p := r.Probe; p != nil && !p.Running {
		table("Requests", requestHeader, requestRows(*p))
		table("Writes", []string{"ms", "before", "during", "after"}, [][]string{
			latencyRow("p50", p.P50), latencyRow("p99", p.P99),
		})
	}
	for _, t := range r.Tables {
		var rows [][]string
		for _, row := range t.Rows {
			rows = append(rows, slices.Clone(row.Cells))
		}
		table(t.Title, t.Header, rows)
		if t.Note != "" {
			fmt.Fprintf(&out, "%s\n\n", cell(t.Note))
		}
	}
	var events [][]string
	for _, event := range r.Events {
		events = append(events, []string{r.offset(event.Time), event.Kind, event.String()})
	}
	table("Events", []string{"offset", "kind", "what"}, events)
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// stepCells are the header and the rows of the table of the steps. It has a column for the status if a step has one.
func stepCells(r Report) (header []string, rows [][]string) {
	const column = 5 // behind what they took
	header = stepHeader(r)
	inFlight := slices.ContainsFunc(r.Steps, func(step Step) bool { return step.State != "" })
	if inFlight {
		header = slices.Insert(header, column, "status")
	}
	for _, row := range stepRows(r) {
		cells := row.Cells
		if inFlight {
			cells = slices.Insert(cells, column, cmp.Or(row.Status, "-"))
		}
		rows = append(rows, cells)
	}
	return header, rows
}

// reasonCells are the rows of the table of the reasons.
func reasonCells(r Report) [][]string {
	var out [][]string
	for _, row := range reasonRows(r) {
		out = append(out, []string{row.Step, row.Reason, row.Begin, row.Took, fmt.Sprintf("%d %%", row.Percent)})
	}
	return out
}

func latencyRow(name string, ms recording.ByPhase) []string {
	figure := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return []string{name, figure(ms.Before), figure(ms.During), figure(ms.After)}
}

// cell keeps a text from breaking out of its cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
