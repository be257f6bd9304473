// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// History draws migrations, in the order in which they are given. With Wide it has the time of every step.
func History(records []history.Record, o Options) string {
	header := []string{"NAMESPACE", "NAME", "SEEDS", "RESULT", "STARTED", "ENDED", "DURATION"}
	if o.Wide {
		for i := range steps.Table() {
			header = append(header, fmt.Sprintf("STEP %d", i+1))
		}
	}
	var rows [][]string
	for _, record := range records {
		result := string(record.Result)
		if result == "" {
			result = "in flight"
		}
		row := []string{record.Namespace, record.Name,
			orUnknown(record.Source) + " -> " + orUnknown(record.Destination), result, moment(record.Started, o),
			moment(record.Ended, o), "-"}
		if took, ok := record.Duration(); ok {
			row[len(row)-1] = Duration(took)
		}
		if o.Wide {
			row = append(row, stepTimes(record)...)
		}
		rows = append(rows, row)
	}
	var out strings.Builder
	for i, line := range strings.SplitAfter(Table(header, rows), "\n") {
		c := plain
		if i > 0 && i <= len(records) {
			switch records[i-1].Result {
			case history.Succeeded:
				c = green
			case history.Aborted, history.Unknown:
				c = yellow
			}
		}
		text, end := strings.CutSuffix(line, "\n")
		out.WriteString(o.paint(c, text))
		if end {
			out.WriteString("\n")
		}
	}
	return out.String()
}

func stepTimes(record history.Record) []string {
	var out []string
	for _, step := range steps.Table() {
		took := "-"
		for _, known := range record.Steps {
			if known.Condition == step.String() {
				took = Duration(time.Duration(known.Seconds * float64(time.Second)))
			}
		}
		out = append(out, took)
	}
	return out
}

func moment(at *time.Time, o Options) string {
	if at == nil {
		return "-"
	}
	return o.Moment(*at)
}

func orUnknown(seed string) string {
	if seed == "" {
		return "?"
	}
	return seed
}
