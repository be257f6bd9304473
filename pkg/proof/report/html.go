// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

//go:embed page.html
var page string

// style is the style sheet of the page; the notice at its top stays in the repository.
//
//go:embed style.css
var style string

func init() { _, style, _ = strings.Cut(style, "*/") }

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"duration":  func(s float64) string { return duration(seconds(s)) },
	"day":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") },
	"inc":       func(i int) int { return i + 1 },
	"breakable": Breakable,
}).Parse(page))

// Style returns the style sheet of the page, for others that look alike.
func Style() string { return style }

// HashOf returns the source by which a Content-Security-Policy permits a style sheet or a script that is in the page
// itself.
func HashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// tile is a figure at the top of the page.
type tile struct {
	Name, Value, Note string
	Bad               bool
}

// stepRow is a row of the table of the steps. Status is what the condition of one that has not ended says: that is no
// time that it took, and has a place of its own.
type stepRow struct {
	Cells  []string
	Status string
}

// row is a row of the table of events.
type row struct {
	Offset, Time, Kind, Text string
	Bad                      bool
}

// drawn is a report with everything that the page shows of it.
type drawn struct {
	Report
	Style      template.CSS
	StyleHash  string
	Tiles      []tile
	StepsChart template.HTML
	EtcdCharts []template.HTML
	Latency    template.HTML
	// Series reports that the course of the latencies is known, Heat that it is drawn as a map.
	Series, Heat bool
	HeatKey      []string
	Requests     [][]string
	StepRows     []stepRow
	Reasons      []reasonRow
	Rows         []row
	// ZoneName is that of the times in the table of events.
	ZoneName      string
	RequestHeader []string
	MeasuredSteps bool
}

const (
	// longWord is how long a word may be that is not broken, longRun how much of it is kept together in any case.
	longWord = 16
	longRun  = 24
)

var (
	word = regexp.MustCompile(`\S+`)
	// joint is where a long word may be broken into two lines: names in camel case, and what has no hyphen.
	joint = regexp.MustCompile(`([a-z])([A-Z])|([./:=,_])([^./:=,_])`)
	run   = regexp.MustCompile(fmt.Sprintf(`[^\x{200B}-]{%d}`, longRun))
)

// Breakable lets a browser break long words where that does not hurt, so that no table is wider than its page.
func Breakable(text string) template.HTML {
	const zero = "\u200B" // stands for a place where to break until the text is escaped
	text = strings.ReplaceAll(text, zero, "")
	text = word.ReplaceAllStringFunc(text, func(word string) string {
		if len(word) <= longWord {
			return word
		}
		return run.ReplaceAllString(joint.ReplaceAllString(word, "$1$3"+zero+"$2$4"), "$0"+zero)
	})
	return template.HTML(strings.ReplaceAll(html.EscapeString(text), zero, "<wbr>")) //nolint:gosec // It is escaped.
}

// ResultClass returns how the result is to be coloured. What is under way is neither good nor bad.
func (r Report) ResultClass() string {
	switch summary.State(r.Result) {
	case summary.Requested, summary.Paused, summary.Processing, summary.Aborting:
		return ""
	}
	if r.Good {
		return "good"
	}
	return "bad"
}

// HTML returns the report as one page that needs nothing from a network.
func HTML(r Report) (string, error) { return execute("page", r) }

// Sections returns what the page has between its header and its footer: everything that changes as long as a migration
// is under way.
func Sections(r Report) (template.HTML, error) {
	text, err := execute("sections", r)
	return template.HTML(text), err //nolint:gosec // The template has escaped it.
}

func execute(name string, r Report) (string, error) {
	var out strings.Builder
	if err := pageTemplate.ExecuteTemplate(&out, name, draw(r)); err != nil {
		return "", fmt.Errorf("failed to write the report: %w", err)
	}
	return out.String(), nil
}

func draw(r Report) drawn {
	out := drawn{Report: r, Tiles: tiles(r), RequestHeader: requestHeader, MeasuredSteps: r.measuredSteps(),
		HeatKey: heatKey[:], StepRows: stepRows(r), Reasons: reasonRows(r),
		Style: template.CSS(style), StyleHash: HashOf(style)} //nolint:gosec // It is ours.
	// The charts escape what they are given; all of it is text.
	out.StepsChart = template.HTML(stepsChart(r)) //nolint:gosec // See above.
	for _, etcd := range r.Etcds {
		chart := ""
		if len(etcd.Changes) > 0 {
			chart = etcdChart(r, etcd)
		}
		out.EtcdCharts = append(out.EtcdCharts, template.HTML(chart)) //nolint:gosec // See above.
	}
	if r.Probe != nil {
		out.Requests = requestRows(*r.Probe)
		out.Series = r.Probe.Series != nil && len(r.Probe.Series.Points) > 0
		out.Heat = out.Series && heatMap(r.Probe.Series)
		chart := ""
		switch {
		case out.Heat:
			chart = heatChart(r)
		case out.Series:
			chart = latencyChart(r)
		case !r.Probe.Running:
			chart = phasesChart(*r.Probe)
		}
		out.Latency = template.HTML(chart) //nolint:gosec // See above.
	}
	zone := r.zone()
	out.ZoneName = zone.String()
	for _, event := range r.Events {
		out.Rows = append(out.Rows, row{Offset: r.offset(event.Time), Time: event.Time.In(zone).Format(time.TimeOnly),
			Kind: event.Kind, Text: event.String(), Bad: event.Bad})
	}
	return out
}

// zone is the zone of the times on the page. It is the same for all of them, also where clocks are changed meanwhile:
// the head of the table names it once.
func (r Report) zone() *time.Location {
	if r.Zone == nil {
		return time.UTC
	}
	return time.FixedZone(r.Begin.In(r.Zone).Zone())
}

// String tells what happened, and how often.
func (e Event) String() string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.Text, e.Count)
	}
	return e.Text
}

// stepHeader and stepRows are the table of the steps.
func stepHeader(r Report) []string {
	header := []string{"#", "step", "owner", "begin", "took"}
	if r.measuredSteps() {
		header = append(header, "p99 of writes (ms)", "slowest write (ms)")
	}
	return append(header, "what it does")
}

// measuredSteps reports whether it is known what writes took in each step.
func (r Report) measuredSteps() bool {
	return slices.ContainsFunc(r.Steps, func(step Step) bool { return step.WriteMaxMs > 0 })
}

func stepRows(r Report) []stepRow {
	var out []stepRow
	for _, step := range r.Steps {
		begin, took := "-", "-"
		if step.Begin != nil {
			begin = r.offset(*step.Begin)
			if step.End != nil {
				took = duration(step.End.Sub(*step.Begin))
			}
		}
		row := []string{fmt.Sprint(step.Number), step.Condition, step.Owner, begin, took}
		if r.measuredSteps() {
			row = append(row, latency(step.WriteP99Ms), latency(step.WriteMaxMs))
		}
		out = append(out, stepRow{Cells: append(row, step.Title), Status: step.State})
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
	if r.Probe != nil {
		out = append(out, probeTiles(*r.Probe)...)
	}
	for _, etcd := range r.Etcds {
		if etcd.Unproved {
			continue
		}
		out = append(out, tile{Name: "lost writes in " + etcd.Name, Value: fmt.Sprint(etcd.Lost),
			Note: map[bool]string{true: "same cluster throughout",
				false: "ANOTHER CLUSTER ID"}[etcd.ClusterIDUnchanged], Bad: etcd.Lost > 0 || !etcd.ClusterIDUnchanged})
	}
	for _, fact := range r.Facts {
		out = append(out, tile(fact))
	}
	return out
}

// longestGap is the longest time without an acknowledged write.
func longestGap(p Probe, name string) tile {
	return tile{Name: name, Value: fmt.Sprintf("%d ms", p.LongestGapMs),
		Note: fmt.Sprintf("%d ms before", p.BaselineGapMs),
		Bad:  max(p.LongestGapMs, p.BaselineGapMs) > recording.MaxWriteGap.Milliseconds()}
}

// probeTiles are the figures of what clients noticed. A probe that runs has compared nothing yet.
func probeTiles(p Probe) []tile {
	if p.Running {
		return []tile{
			{Name: "failed writes so far", Value: fmt.Sprint(p.WritesFailed), Note: fmt.Sprintf("of %d", p.Writes),
				Bad: p.WritesFailed > 0},
			{Name: "failed reads so far", Value: fmt.Sprint(p.ReadsFailed), Note: fmt.Sprintf("of %d", p.Reads),
				Bad: p.ReadsFailed > 0},
			longestGap(p, "longest gap between writes so far"),
		}
	}
	out := []tile{
		{Name: "failed writes", Value: fmt.Sprint(p.WritesFailed),
			Note: failedNote(p.Writes, p.WritesFailed, p.WritesRetryable), Bad: p.WritesFailed > 0},
		{Name: "failed reads", Value: fmt.Sprint(p.ReadsFailed),
			Note: failedNote(p.Reads, p.ReadsFailed, p.ReadsRetryable), Bad: p.ReadsFailed > 0},
		{Name: "lost watch events", Value: fmt.Sprint(p.WatchEventsLost),
			Note: fmt.Sprintf("of %d", p.WatchEvents), Bad: p.WatchEventsLost > 0},
		longestGap(p, "longest gap between writes"),
		{Name: "longest time to a watch event", Value: fmt.Sprintf("%d ms", p.MaxLagMs),
			Bad: p.MaxLagMs > recording.MaxWatchLag.Milliseconds()},
	}
	// Older recordings do not tell what was due.
	if p.RequestsDue > 0 {
		out = append(out, tile{Name: "requests not sent", Value: fmt.Sprint(p.RequestsUnsent),
			Note: fmt.Sprintf("of %d that were due", p.RequestsDue),
			Bad:  p.RequestsUnsent*100 > p.RequestsDue*recording.MaxUnsentPercent})
	}
	return out
}
