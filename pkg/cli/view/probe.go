// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"
)

// ProbeResult is what a run of the probe has measured, as far as it is drawn. The probe drives clients, so its own type
// cannot be imported here; steer.Measured makes the one of the other.
type ProbeResult struct {
	// Writes, Reads and WatchEvents are the sums, the others say how many of them failed or were lost.
	Writes, WritesFailed, Reads, ReadsFailed, WatchEvents, WatchEventsLost int64
	// ConnectionErrors are those that clients hide from their callers.
	ConnectionErrors int64
	// LongestGapMs is the longest time without a write during the migration, BaselineLongestGapMs before it.
	LongestGapMs, BaselineLongestGapMs int64
	// P99Ms is the 99th percentile of the writes' latencies.
	P99Ms ByPhase
	// Details say more; nil if the run did not get that far.
	Details *ProbeDetails
	// Failures say in sentences what went wrong; empty if nothing did.
	Failures []string
}

// ByPhase is a figure before, during and after a migration; zero where nothing was measured.
type ByPhase struct{ Before, During, After float64 }

// ProbeDetails say more about a run of the probe.
type ProbeDetails struct {
	// AcknowledgedLost are the writes and Events that were acknowledged and not found in the end.
	AcknowledgedLost int64
	// DNS is what sampling the shoot's name gave; nil if no DNS server was given.
	DNS *DNSSamples
	// RequestsPerSecond is the rate, MissedTicks how many requests were not sent in time.
	RequestsPerSecond float64
	MissedTicks       int64
	// P50Ms is the median of the writes' latencies.
	P50Ms ByPhase
	// Incidents are the failures, each as it happened.
	Incidents []Incident
}

// DNSSamples are lookups of the shoot's name, and at how many moments it had no record.
type DNSSamples struct{ Samples, MomentsWithoutRecord int64 }

// Incident is one failure.
type Incident struct {
	Time        time.Time
	Kind, Error string
}

// Text draws the result.
func (r ProbeResult) Text(o Options) string {
	return r.sums(o) + "\n" + r.latencies(o) + "\n" + r.verdict(o)
}

func (r ProbeResult) sums(o Options) string {
	rows := [][]string{
		{"writes", fmt.Sprint(r.Writes), fmt.Sprintf("%d failed", r.WritesFailed)},
		{"reads", fmt.Sprint(r.Reads), fmt.Sprintf("%d failed", r.ReadsFailed)},
		{"watch events", fmt.Sprint(r.WatchEvents), fmt.Sprintf("%d lost", r.WatchEventsLost)},
		{"connection errors hidden from clients", fmt.Sprint(r.ConnectionErrors), ""},
	}
	if d := r.Details; d != nil {
		rows = append(rows, []string{"acknowledged writes lost", fmt.Sprint(d.AcknowledgedLost), ""})
		if d.DNS != nil {
			rows = append(rows, []string{"DNS moments without a record", fmt.Sprint(d.DNS.MomentsWithoutRecord),
				fmt.Sprintf("of %d samples", d.DNS.Samples)})
		}
		rows = append(rows, []string{"requests per second", fmt.Sprintf("%.1f", d.RequestsPerSecond),
			fmt.Sprintf("%d not sent in time", d.MissedTicks)})
	}
	return o.paint(bold, "RESULT") + "\n" + Table([]string{"", "SUM", ""}, rows)
}

func (r ProbeResult) latencies(o Options) string {
	ms := func(v float64) string { return unlessZero(v, "%.1f") }
	gap := func(v int64) string { return unlessZero(v, "%d") }
	var rows [][]string
	if d := r.Details; d != nil {
		rows = append(rows, []string{"p50 (ms)", ms(d.P50Ms.Before), ms(d.P50Ms.During), ms(d.P50Ms.After)})
	}
	rows = append(rows,
		[]string{"p99 (ms)", ms(r.P99Ms.Before), ms(r.P99Ms.During), ms(r.P99Ms.After)},
		[]string{"longest gap (ms)", gap(r.BaselineLongestGapMs), gap(r.LongestGapMs), ""})
	return o.paint(bold, "WRITES") + "\n" + Table([]string{"", "BEFORE", "DURING", "AFTER"}, rows)
}

// unlessZero writes the value, or a dash for zero: there was nothing to measure.
func unlessZero[T int64 | float64](value T, format string) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func (r ProbeResult) verdict(o Options) string {
	if len(r.Failures) == 0 {
		return o.paint(green, "No request failed and nothing was lost.") + "\n"
	}
	var out strings.Builder
	out.WriteString(o.paint(red, "Problems found:") + "\n")
	for _, failure := range r.Failures {
		out.WriteString("  - " + failure + "\n")
	}
	if r.Details == nil {
		return out.String()
	}
	const shown = 5
	for i, incident := range r.Details.Incidents {
		if i == shown {
			fmt.Fprintf(&out, "  and %d more incidents (-o json shows them)\n", len(r.Details.Incidents)-shown)
			break
		}
		out.WriteString(indentedLines(
			fmt.Sprintf("%s %s: %s", incident.Time.UTC().Format("15:04:05.000"), incident.Kind, incident.Error), o))
	}
	return out.String()
}

func indentedLines(text string, o Options) string {
	return "  " + strings.Join(wrap(text, o.width()-4), "\n    ") + "\n"
}
