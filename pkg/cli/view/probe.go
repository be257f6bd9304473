// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// Probe draws the result of a run of the probe.
func Probe(r *probe.Result, o Options) string {
	var out strings.Builder
	section := func(title, table string) {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		out.WriteString(o.paint(bold, title) + "\n" + table)
	}

	rows := [][]string{
		{"writes", fmt.Sprint(r.Writes), fmt.Sprintf("%d failed", r.WritesFailed)},
		{"reads", fmt.Sprint(r.Reads), fmt.Sprintf("%d failed", r.ReadsFailed)},
		{"watch events", fmt.Sprint(r.WatchEvents), fmt.Sprintf("%d lost", r.WatchEventsLost)},
		{"connection errors hidden from clients", fmt.Sprint(r.RawConnectionErrors), ""},
	}
	if d := r.Details; d != nil {
		rows = append(rows, []string{"acknowledged writes lost",
			fmt.Sprint(d.AcknowledgedWritesLost + d.AcknowledgedEventsLost), ""})
		if d.DNS != nil {
			rows = append(rows, []string{"DNS moments without a record", fmt.Sprint(d.DNS.MomentsWithoutRecord),
				fmt.Sprintf("of %d samples", d.DNS.Samples)})
		}
		rows = append(rows, []string{"requests per second", fmt.Sprintf("%.1f", d.RequestsPerSecond),
			fmt.Sprintf("%d not sent in time", d.MissedTicks)})
	}
	section("RESULT", Table([]string{"", "SUM", ""}, rows))

	ms := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", v)
	}
	gap := func(v int64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprint(v)
	}
	var latencies [][]string
	if d := r.Details; d != nil {
		latencies = append(latencies,
			[]string{"p50 (ms)", ms(d.WriteP50Ms.Before), ms(d.WriteP50Ms.During), ms(d.WriteP50Ms.After)})
	}
	latencies = append(latencies,
		[]string{"p99 (ms)", ms(r.WriteP99Ms.Before), ms(r.WriteP99Ms.During), ms(r.WriteP99Ms.After)},
		[]string{"longest gap (ms)", gap(r.BaselineLongestWriteGapMs), gap(r.LongestWriteGapMs), ""})
	section("WRITES", Table([]string{"", "BEFORE", "DURING", "AFTER"}, latencies))

	out.WriteString("\n")
	failures := r.Failures()
	if len(failures) == 0 {
		out.WriteString(o.paint(green, "No request failed and nothing was lost.") + "\n")
		return out.String()
	}
	out.WriteString(o.paint(red, "Not all went well:") + "\n")
	for _, failure := range failures {
		out.WriteString("  - " + failure + "\n")
	}
	if d := r.Details; d != nil {
		const shown = 5
		for i, incident := range d.Incidents {
			if i == shown {
				fmt.Fprintf(&out, "  and %d more incidents (-o json has them)\n", len(d.Incidents)-shown)
				break
			}
			out.WriteString(indentedLines(
				fmt.Sprintf("%s %s: %s", incident.Time.UTC().Format("15:04:05.000"), incident.Kind, incident.Error), o))
		}
	}
	return out.String()
}

func indentedLines(text string, o Options) string {
	return "  " + strings.Join(wrap(text, o.width()-4), "\n    ") + "\n"
}
