// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// ProbeResult draws what a run of the probe has measured.
func ProbeResult(r *recording.Probe, o Options) string {
	return sums(r, o) + "\n" + latencies(r, o) + "\n" + probeVerdict(r, o)
}

func sums(r *recording.Probe, o Options) string {
	rows := [][]string{
		{"writes", fmt.Sprint(r.Writes), failedOf(r.WritesFailed, r.WritesRetryable)},
		{"reads", fmt.Sprint(r.Reads), failedOf(r.ReadsFailed, r.ReadsRetryable)},
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
	return o.paint(bold, "RESULT") + "\n" + Table([]string{"", "SUM", ""}, rows)
}

// failedOf says how many requests failed, and how many of them client-go's own retries would not have hidden.
func failedOf(count, retryable int64) string {
	if count == 0 {
		return "0 failed"
	}
	return fmt.Sprintf("%d failed, of which client-go would not have sent %d again", count, count-retryable)
}

func latencies(r *recording.Probe, o Options) string {
	ms := func(v float64) string { return unlessZero(v, "%.1f") }
	gap := func(v int64) string { return unlessZero(v, "%d") }
	var rows [][]string
	if d := r.Details; d != nil {
		p50 := d.WriteP50Ms
		rows = append(rows, []string{"p50 (ms)", ms(p50.Before), ms(p50.During), ms(p50.After)})
	}
	rows = append(rows,
		[]string{"p99 (ms)", ms(r.WriteP99Ms.Before), ms(r.WriteP99Ms.During), ms(r.WriteP99Ms.After)},
		[]string{"longest gap (ms)", gap(r.BaselineLongestWriteGapMs), gap(r.LongestWriteGapMs), ""})
	return o.paint(bold, "WRITES") + "\n" + Table([]string{"", "BEFORE", "DURING", "AFTER"}, rows)
}

// unlessZero writes the value, or a dash for zero: there was nothing to measure.
func unlessZero[T int64 | float64](value T, format string) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func probeVerdict(r *recording.Probe, o Options) string {
	failures := r.Failures()
	if len(failures) == 0 {
		return o.paint(green, "No request failed and nothing was lost.") + "\n"
	}
	var out strings.Builder
	out.WriteString(o.paint(red, "Problems found:") + "\n")
	for _, failure := range failures {
		out.WriteString("  - " + failure + "\n")
	}
	if r.Details == nil {
		return out.String()
	}
	const shown = 5
	for i, incident := range r.Details.Incidents {
		if i == shown {
			fmt.Fprintf(&out, "  and %s (-o json shows them)\n",
				conditions.Count(len(r.Details.Incidents)-shown, "more incident"))
			break
		}
		out.WriteString(indentedLines(
			fmt.Sprintf("%s %s: %s", o.in(incident.Time).Format("15:04:05.000Z07:00"), incident.Kind,
				incident.Error), o))
	}
	return out.String()
}

func indentedLines(text string, o Options) string {
	return "  " + strings.Join(wrap(text, o.width()-4), "\n    ") + "\n"
}
