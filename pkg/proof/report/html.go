// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"duration": func(s float64) string { return duration(seconds(s)) },
	"day":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") },
}).Parse(page))

// tile is a figure at the top of the page.
type tile struct {
	Name, Value, Note string
	Bad               bool
}

// row is a row of the table of events.
type row struct {
	Offset, Time, Kind, Text string
	Bad                      bool
}

// HTML returns the report as one page that needs nothing from a network.
func HTML(r Report) (string, error) {
	var (
		out  strings.Builder
		data = struct {
			Report
			Tiles         []tile
			StepsChart    template.HTML
			EtcdCharts    []template.HTML
			Latency       template.HTML
			Series        bool
			Requests      [][]string
			StepRows      [][]string
			Rows          []row
			RequestHeader []string
		}{Report: r, Tiles: tiles(r), RequestHeader: requestHeader}
	)
	// The charts escape what they are given; all of it is text.
	data.StepsChart = template.HTML(stepsChart(r)) //nolint:gosec // See above.
	for _, etcd := range r.Etcds {
		if len(etcd.Changes) > 0 {
			data.EtcdCharts = append(data.EtcdCharts, template.HTML(etcdChart(r, etcd))) //nolint:gosec // See above.
		} else {
			data.EtcdCharts = append(data.EtcdCharts, "")
		}
	}
	if r.Probe != nil {
		data.Requests = requestRows(*r.Probe)
		data.Series = r.Probe.Series != nil && len(r.Probe.Series.Points) > 0
		if data.Series {
			data.Latency = template.HTML(latencyChart(r)) //nolint:gosec // See above.
		} else {
			data.Latency = template.HTML(phasesChart(*r.Probe)) //nolint:gosec // See above.
		}
	}
	data.StepRows = stepRows(r)
	for _, event := range r.Events {
		data.Rows = append(data.Rows, row{Offset: r.offset(event.Time), Time: event.Time.UTC().Format(time.TimeOnly),
			Kind: event.Kind, Text: event.String(), Bad: event.Bad})
	}
	if err := pageTemplate.Execute(&out, data); err != nil {
		return "", fmt.Errorf("failed to write the report: %w", err)
	}
	return out.String(), nil
}

// String tells what happened, and how often.
func (e Event) String() string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.Text, e.Count)
	}
	return e.Text
}

func stepRows(r Report) [][]string {
	var out [][]string
	for _, step := range r.Steps {
		begin, took := "-", step.State
		if step.Begin != nil {
			begin = r.offset(*step.Begin)
			if step.End != nil {
				took = duration(step.End.Sub(*step.Begin))
			}
		}
		out = append(out, []string{fmt.Sprint(step.Number), step.Condition, step.Owner, begin, took, step.Title})
	}
	return out
}

// requestHeader and requestRows are the table of all requests and of those that failed: at the first try, and those of
// them that a client with client-go's defaults has noticed at least.
var requestHeader = []string{"requests", "sum", "failed", "client-go would not have sent again"}

func requestRows(p Probe) [][]string {
	row := func(name string, all, failed, retryable int64) []string {
		return []string{name, fmt.Sprint(all), fmt.Sprint(failed), fmt.Sprint(failed - retryable)}
	}
	return [][]string{
		row("writes", p.Writes, p.WritesFailed, p.WritesRetryable),
		row("reads", p.Reads, p.ReadsFailed, p.ReadsRetryable),
	}
}

// failedNote says of how many requests some have failed, and what client-go would have made of these.
func failedNote(all, failed, retryable int64) string {
	if failed == 0 {
		return fmt.Sprintf("of %d", all)
	}
	return fmt.Sprintf("of %d; client-go would not have sent %d of them again", all, failed-retryable)
}

func tiles(r Report) []tile {
	var out []tile
	if r.Seconds > 0 {
		out = append(out, tile{Name: "migration", Value: duration(seconds(r.Seconds))})
	}
	if p := r.Probe; p != nil {
		out = append(out,
			tile{Name: "failed writes", Value: fmt.Sprint(p.WritesFailed),
				Note: failedNote(p.Writes, p.WritesFailed, p.WritesRetryable), Bad: p.WritesFailed > 0},
			tile{Name: "failed reads", Value: fmt.Sprint(p.ReadsFailed),
				Note: failedNote(p.Reads, p.ReadsFailed, p.ReadsRetryable), Bad: p.ReadsFailed > 0},
			tile{Name: "lost watch events", Value: fmt.Sprint(p.WatchEventsLost),
				Note: fmt.Sprintf("of %d", p.WatchEvents), Bad: p.WatchEventsLost > 0},
			tile{Name: "longest gap between writes", Value: fmt.Sprintf("%d ms", p.LongestGapMs),
				Note: fmt.Sprintf("%d ms before", p.BaselineGapMs),
				Bad:  max(p.LongestGapMs, p.BaselineGapMs) > recording.MaxWriteGap.Milliseconds()},
			tile{Name: "longest time to a watch event", Value: fmt.Sprintf("%d ms", p.MaxLagMs),
				Bad: p.MaxLagMs > recording.MaxWatchLag.Milliseconds()},
		)
		// Older recordings do not tell what was due.
		if p.RequestsDue > 0 {
			out = append(out, tile{Name: "requests not sent", Value: fmt.Sprint(p.RequestsUnsent),
				Note: fmt.Sprintf("of %d that were due", p.RequestsDue),
				Bad:  p.RequestsUnsent*100 > p.RequestsDue*recording.MaxUnsentPercent})
		}
	}
	for _, etcd := range r.Etcds {
		out = append(out, tile{Name: "lost writes in " + etcd.Name, Value: fmt.Sprint(etcd.Lost),
			Note: map[bool]string{true: "same cluster throughout",
				false: "ANOTHER CLUSTER ID"}[etcd.ClusterIDUnchanged], Bad: etcd.Lost > 0 || !etcd.ClusterIDUnchanged})
	}
	for _, fact := range r.Facts {
		out = append(out, tile(fact))
	}
	return out
}
