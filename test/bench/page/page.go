// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package page makes docs/benchmarks.md and its pictures of the figures that were recorded.
package page

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/test/bench/data"
)

// Paths below docs.
const (
	// File is the page.
	File = "benchmarks.md"
	// Folder is where its pictures are.
	Folder = "benchmarks"
	// Data is where the figures are.
	Data = "benchmarks/data"
)

// Generate returns the page and its pictures by their paths below docs.
func Generate(set data.Set) map[string]string {
	p := &document{files: map[string]string{}}
	p.out.WriteString(head)
	p.targets(set)
	p.live(set)
	p.production(set.Production)
	p.distance(set)
	p.size(set.Size)
	p.join(set.Join)
	p.relay(set.Relay)
	p.agent(set.Agent)
	p.landscape(set.Landscape)
	p.files[File] = strings.TrimRight(p.out.String(), "\n") + "\n"
	return p.files
}

// Write writes the page and its pictures below the folder docs, and removes pictures that it does not have any more.
func Write(docs string, set data.Set) error {
	files := Generate(set)
	old, err := filepath.Glob(filepath.Join(docs, Folder, "*.svg"))
	if err != nil {
		return fmt.Errorf("failed to look for pictures: %w", err)
	}
	for _, file := range old {
		if _, ok := files[path.Join(Folder, filepath.Base(file))]; !ok {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("failed to remove a picture: %w", err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(docs, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("failed to make the folder of %s: %w", name, err)
		}
		if err := os.WriteFile(file, []byte(files[name]), 0o644); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
	}
	return nil
}

const head = `# Benchmarks

What a live migration costs, beside a classic one, and how that grows with the distance between the seeds and the size
of the data. ` + "`make bench`" + ` measures it and writes this page: do not edit it.

- The figures are in [benchmarks/data](benchmarks/data).
- [Testing](development/testing.md#the-benchmarks) says how to run the parts and what each of them does.
- [Costs](benchmarks/costs.md) says what the figures are due to, and what was done about it.

All seeds are on one machine. Times of different machines cannot be compared; what can are the ratios within one run.

`

type document struct {
	out   strings.Builder
	files map[string]string
}

func (d *document) say(format string, args ...any) { fmt.Fprintf(&d.out, format, args...) }

// section begins a part.
func (d *document) section(title string) { d.say("## %s\n\n", title) }

// notMeasured ends a section of which there is nothing to show.
func (d *document) notMeasured(part string) {
	d.say("Not measured yet: `make bench BENCH=%s`.\n\n", part)
}

// measured says where the figures of the section come from.
func (d *document) measured(e data.Environment) { d.say("Measured %s.\n\n", origin(e)) }

// origins are the environments that the runs of a section come from, with what they are called in its table.
type origins struct {
	texts []string
	runs  map[string][]string
}

func (o *origins) add(run string, e data.Environment) {
	text := origin(e)
	if o.runs == nil {
		o.runs = map[string][]string{}
	}
	if _, known := o.runs[text]; !known {
		o.texts = append(o.texts, text)
	}
	o.runs[text] = append(o.runs[text], run)
}

// measuredOn says it of a section whose runs need not have been measured together.
func (d *document) measuredOn(o origins) {
	for _, text := range o.texts {
		if len(o.texts) > 1 {
			text += " (" + strings.Join(o.runs[text], ", ") + ")"
		}
		d.say("Measured %s.\n\n", text)
	}
}

// origin tells what was measured, when, and on what.
func origin(e data.Environment) string {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(e.Versions)) {
		versions = append(versions, name+" "+e.Versions[name])
	}
	text := fmt.Sprintf("%s at commit %s on %s, %d cores, %.0f GiB of memory, Linux %s",
		e.Time.UTC().Format(time.DateOnly), e.Commit, e.Processor, e.Cores, e.MemoryGiB, e.Kernel)
	if len(versions) > 0 {
		text += "; " + strings.Join(versions, ", ")
	}
	return text
}

func (d *document) table(header []string, rows [][]string) {
	d.say("| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat(" --- |", len(header)))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(cell)
		}
		d.say("| %s |\n", strings.Join(cells, " | "))
	}
	d.say("\n")
}

func (d *document) picture(name, title, svg string) {
	d.files[path.Join(Folder, name+".svg")] = svg
	d.say("![%s](%s/%s.svg)\n\n", title, Folder, name)
}

func (d *document) targets(set data.Set) {
	d.say("## Targets\n\n")
	var rows [][]string
	for _, target := range data.Targets(set) {
		verdict := "not measured"
		switch {
		case target.Met:
			verdict = "met"
		case target.Measured():
			verdict = "**missed**"
		}
		rows = append(rows, []string{target.Name, target.Wanted, target.Got, verdict})
	}
	d.table([]string{"what", "target", "measured", ""}, rows)
}

func (d *document) live(set data.Set) {
	live := set.Live
	d.section("Live against classic")
	if live == nil {
		d.notMeasured(data.PartLive)
		return
	}
	d.say("The same shoot moves back and forth, classically and live in turns, with the same clients. Of several " +
		"runs, figures are medians with the range, and counts are sums. A client fails when a request is answered " +
		"with an error or not within ten seconds. The shoot is unavailable in an interval in which not a single " +
		"write was acknowledged. Quiet figures are from before each migration, for as long as the last one of its " +
		"kind took (formerly for a minute). A classic migration takes etcd-main along by its backups and leaves " +
		"etcd-events behind, so the Events that were written are among what it loses.\n\n")
	columns := []column{{"classic", live.Of(data.KindClassic)}, {"live", live.Of(data.KindLive)}}
	if runs := set.Production.Of(data.KindLive); len(runs) > 0 {
		columns = append(columns, column{"live, with the waits of production", runs})
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return len(c.runs) == 0 })
	header := []string{""}
	for _, c := range columns {
		header = append(header, c.name)
	}
	d.table(header, migrationRows(columns))

	var (
		names       []string
		unavailable = bar{label: "unavailable"}
		durations   = bar{label: "migration"}
		failed      = bar{label: "requests"}
	)
	for _, c := range columns {
		names = append(names, c.name)
		unavailable.values = append(unavailable.values, c.median(func(m data.Migration) float64 {
			return m.UnavailableSeconds
		}))
		durations.values = append(durations.values, c.median(func(m data.Migration) float64 { return m.Seconds }))
		failed.values = append(failed.values, c.median(func(m data.Migration) float64 { return float64(m.Failed()) }))
	}
	d.picture("live-seconds", "Duration and time without the API server",
		bars("Duration, and time without the API server", "s", names, []bar{durations, unavailable}))
	d.picture("live-failed", "Failed requests", bars("Failed requests", "failed", names, []bar{failed}))
	if live.Live != nil && len(live.Live.Steps) > 0 {
		d.steps("live-steps", "Steps of the live migration", live.Live.Steps)
	}
	d.measured(live.Environment)
}

func (d *document) production(production *data.Live) {
	d.section("With the waits of production")
	if production == nil || production.Live == nil {
		d.notMeasured(data.PartProduction)
		return
	}
	d.say("A live migration with the TTL of DNS records (120 s) and the drain (60 s) that Gardener and livecpm have " +
		"without configuration, and with three name servers, of which two know of a change 30 s and 60 s later, and " +
		"the last answers nothing for 30 s after it. The other parts have 30 s, 20 s and one name server.\n\n")
	d.table([]string{"", production.Live.Kind}, migrationRows([]column{{"live", production.Of(data.KindLive)}}))
	if len(production.Live.Steps) > 0 {
		d.steps("production-steps", "Steps with the waits of production", production.Live.Steps)
	}
	d.measured(production.Environment)
}

func (d *document) steps(name, title string, steps []data.Step) {
	var groups []bar
	var rows [][]string
	header := []string{"#", "step", "owner", "seconds"}
	measured := slices.ContainsFunc(steps, func(step data.Step) bool { return step.WriteMaxMs > 0 })
	if measured {
		header = append(header, "p99 of writes (ms)", "slowest write (ms)")
	}
	for i, step := range steps {
		row := []string{fmt.Sprint(i + 1), step.Name, step.Owner, number(step.Seconds)}
		if measured {
			row = append(row, number(step.WriteP99Ms), number(step.WriteMaxMs))
		}
		rows = append(rows, row)
		groups = append(groups, bar{label: fmt.Sprintf("%d %s", i+1, step.Name), values: []float64{step.Seconds}})
	}
	d.table(header, rows)
	d.picture(name, title, bars(title, "s", []string{"seconds"}, groups))
}

// column are the migrations that a column of a table shows.
type column struct {
	name string
	runs []data.Migration
}

func (c column) median(figure func(data.Migration) float64) float64 {
	return data.SpreadOver(c.runs, figure).Median
}

func (c column) sum(count func(data.Migration) int64) int64 {
	var out int64
	for _, run := range c.runs {
		out += count(run)
	}
	return out
}

// of shows a count among another one, both over all runs.
func (c column) of(part, all func(data.Migration) int64) string {
	return fmt.Sprintf("%d of %d", c.sum(part), c.sum(all))
}

// each shows a figure over all runs.
func (c column) each(figure func(data.Migration) float64) string {
	return spread(data.SpreadOver(c.runs, figure))
}

// phases shows a figure beside the quiet one, and how many times the quiet one it is.
func (c column) phases(figure func(data.Migration) data.ByPhase) string {
	during := c.each(func(m data.Migration) float64 { return figure(m).During })
	if c.median(func(m data.Migration) float64 { return figure(m).Quiet }) == 0 {
		return during
	}
	quiet := c.each(func(m data.Migration) float64 { return figure(m).Quiet })
	times := data.SpreadOver(c.runs, func(m data.Migration) float64 { return figure(m).Ratio() })
	text := fmt.Sprintf("%s, quiet %s: %.1f", during, quiet, times.Median)
	if times.Runs > 1 {
		text += fmt.Sprintf(" (%.1f to %.1f)", times.Low, times.High)
	}
	return text + " times"
}

// all reports whether something is true of all migrations.
func all(columns []column, is func(data.Migration) bool) bool {
	for _, c := range columns {
		if slices.ContainsFunc(c.runs, func(m data.Migration) bool { return !is(m) }) {
			return false
		}
	}
	return true
}

// migrationRows are the figures of migrations, a column for each way.
func migrationRows(columns []column) [][]string {
	var rows [][]string
	add := func(name string, value func(column) string) {
		row := []string{name}
		for _, c := range columns {
			row = append(row, value(c))
		}
		rows = append(rows, row)
	}
	add("outcome", outcomes)
	add("duration (s)", func(c column) string {
		return c.each(func(m data.Migration) float64 { return m.Seconds })
	})
	if all(columns, func(m data.Migration) bool { return m.RequestsDue > 0 }) {
		add("without a migration before (s)", func(c column) string {
			return c.each(func(m data.Migration) float64 { return m.QuietSeconds })
		})
		add("requests that were due and not sent", func(c column) string {
			return c.of(func(m data.Migration) int64 { return m.RequestsUnsent },
				func(m data.Migration) int64 { return m.RequestsDue })
		})
	}
	rows = append(rows, writeRows(columns)...)
	add("failed reads", func(c column) string {
		return c.of(func(m data.Migration) int64 { return m.ReadsFailed },
			func(m data.Migration) int64 { return m.Reads })
	})
	add("unavailable (s)", func(c column) string {
		return c.each(func(m data.Migration) float64 { return m.UnavailableSeconds })
	})
	add("watch events lost", func(c column) string {
		return c.of(func(m data.Migration) int64 { return m.WatchEventsLost },
			func(m data.Migration) int64 { return m.WatchEvents })
	})
	add("watches that had to begin again", func(c column) string {
		return fmt.Sprint(c.sum(func(m data.Migration) int64 { return m.WatchResets }))
	})
	add("longest time from a write to its event (ms)", func(c column) string {
		return c.each(func(m data.Migration) float64 { return m.WatchLagMs })
	})
	add("six-member window (s)", func(c column) string {
		if c.runs[0].Kind == data.KindClassic {
			return ""
		}
		return c.each(data.Migration.SixMemberSeconds)
	})
	add("processor of the machine (cores)", func(c column) string {
		return c.phases(func(m data.Migration) data.ByPhase { return m.CPUCores })
	})
	add("memory of the machine (MiB)", func(c column) string {
		return c.phases(func(m data.Migration) data.ByPhase { return m.MemoryMiB })
	})
	return append(rows, processRows(columns)...)
}

// writeRows are those of the writes: of Events apart from the others if they were kept apart in all migrations.
func writeRows(columns []column) [][]string {
	whole := func(m data.Migration) *data.Writes {
		return &data.Writes{Sent: m.Writes, Failed: m.WritesFailed, Lost: m.WritesLost, GapMs: m.WriteGapMs,
			P50Ms: m.WriteP50Ms, P99Ms: m.WriteP99Ms}
	}
	if all(columns, func(m data.Migration) bool { return m.Events != nil && m.Others != nil }) {
		return append(rowsOfWrites(columns, "writes without Events",
			func(m data.Migration) *data.Writes { return m.Others }),
			rowsOfWrites(columns, "Events", func(m data.Migration) *data.Writes { return m.Events })...)
	}
	return rowsOfWrites(columns, "writes", whole)
}

// rowsOfWrites are those of a part of the writes.
func rowsOfWrites(columns []column, name string, part func(data.Migration) *data.Writes) [][]string {
	phases := func(c column, of func(*data.Writes) data.ByPhase) string {
		return c.phases(func(m data.Migration) data.ByPhase { return of(part(m)) })
	}
	var rows [][]string
	for _, row := range []struct {
		name  string
		value func(column) string
	}{
		{"failed " + name, func(c column) string {
			return c.of(func(m data.Migration) int64 { return part(m).Failed },
				func(m data.Migration) int64 { return part(m).Sent })
		}},
		{"acknowledged " + name + " lost", func(c column) string {
			return fmt.Sprint(c.sum(func(m data.Migration) int64 { return part(m).Lost }))
		}},
		{"longest gap between " + name + " (ms)", func(c column) string {
			return phases(c, func(w *data.Writes) data.ByPhase { return w.GapMs })
		}},
		{"p50 of " + name + " (ms)", func(c column) string {
			return phases(c, func(w *data.Writes) data.ByPhase { return w.P50Ms })
		}},
		{"p99 of " + name + " (ms)", func(c column) string {
			return phases(c, func(w *data.Writes) data.ByPhase { return w.P99Ms })
		}},
	} {
		cells := []string{row.name}
		for _, c := range columns {
			cells = append(cells, row.value(c))
		}
		rows = append(rows, cells)
	}
	return rows
}

// processRows are those of livecpm's own processes.
func processRows(columns []column) [][]string {
	programs := map[string]bool{}
	for _, c := range columns {
		for _, run := range c.runs {
			for program := range run.Processes {
				programs[program] = true
			}
		}
	}
	var rows [][]string
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		row := []string{program + ": processor (s), memory of the largest (MiB)"}
		for _, c := range columns {
			if _, ok := c.runs[0].Processes[program]; !ok {
				row = append(row, "")
				continue
			}
			row = append(row, c.each(func(m data.Migration) float64 { return m.Processes[program].CPUSeconds })+", "+
				c.each(func(m data.Migration) float64 { return m.Processes[program].PeakMiB }))
		}
		rows = append(rows, row)
	}
	return rows
}

// outcomes says what became of the migrations: in a word if it is the same of all.
func outcomes(c column) string {
	var out []string
	for _, run := range c.runs {
		if text := outcome(&run); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if len(c.runs) > 1 && len(out) == 1 {
		return fmt.Sprintf("%d %s", len(c.runs), out[0])
	}
	return strings.Join(out, "; ")
}

func outcome(m *data.Migration) string {
	if m.Reason != "" {
		return m.Outcome + ": " + m.Reason
	}
	return m.Outcome
}

func (d *document) distance(set data.Set) {
	d.section("Distance between the seeds")
	if set.Distance == nil {
		d.notMeasured(data.PartDistance)
		return
	}
	var (
		runs []data.Migration
		on   origins
	)
	for _, run := range set.Distance.Runs {
		runs = append(runs, run.Migration)
		on.add(fmt.Sprintf("%d ms", run.RoundTripMs), run.Environment)
	}
	d.say("Live migrations with an added round trip between the seeds, from before the trigger to the end. Where 0 " +
		"ms is not among them, it is the live migration from above.\n\n")
	if set.Live != nil && set.Live.Live != nil &&
		!slices.ContainsFunc(runs, func(m data.Migration) bool { return m.RoundTripMs == 0 }) {
		runs = append(runs, *set.Live.Live)
	}
	slices.SortFunc(runs, func(a, b data.Migration) int { return a.RoundTripMs - b.RoundTripMs })
	var (
		rows              [][]string
		p99, join, window = curve{name: "p99 of writes during the migration"}, curve{name: "longest join"}, curve{
			name: "six-member window",
		}
		p50 = curve{name: "p50 of writes during the migration"}
	)
	for _, m := range runs {
		rows = append(rows, []string{
			fmt.Sprintf("%d ms", m.RoundTripMs), outcome(&m), number(m.Seconds),
			fmt.Sprintf("%d of %d", m.Failed(), m.Writes+m.Reads),
			number(m.JoinSeconds()), number(m.SixMemberSeconds()),
			number(m.WriteP50Ms.Quiet), number(m.WriteP50Ms.During), number(m.WriteP99Ms.Quiet),
			number(m.WriteP99Ms.During),
			number(m.WriteGapMs.Quiet), number(m.WriteGapMs.During),
		})
		if m.Outcome != data.OutcomeCompleted {
			continue
		}
		at := float64(m.RoundTripMs)
		p50.points = append(p50.points, [2]float64{at, m.WriteP50Ms.During})
		p99.points = append(p99.points, [2]float64{at, m.WriteP99Ms.During})
		join.points = append(join.points, [2]float64{at, m.JoinSeconds()})
		window.points = append(window.points, [2]float64{at, m.SixMemberSeconds()})
	}
	d.table([]string{"round trip", "outcome", "duration (s)", "failed requests", "longest join (s)",
		"six-member window (s)",
		"p50 quiet (ms)", "p50 (ms)", "p99 quiet (ms)", "p99 (ms)", "gap quiet (ms)", "gap (ms)"}, rows)
	d.picture("distance-writes", "Latency of writes over the distance",
		lines("Latency of writes over the distance", "round trip in ms", "ms", []curve{p50, p99}))
	d.picture("distance-members", "Joining of members and the six-member window over the distance",
		lines("Members over the distance", "round trip in ms", "s", []curve{join, window}))
	d.measuredOn(on)
}

func (d *document) size(size *data.Size) {
	d.section("Size of the data")
	if size == nil {
		d.notMeasured(data.PartSize)
		return
	}
	d.say("Two members of the destination join clusters of which etcd-main has so much data, in values of 8 KiB, " +
		"with 50 writes per second going on. The migration is aborted then.\n\n")
	var (
		rows       [][]string
		join, step = curve{name: "longest join"}, curve{name: "the whole step"}
		on         origins
	)
	for _, run := range size.Runs {
		on.add(fmt.Sprintf("%d MiB", run.MiB), run.Environment)
		result := run.Outcome
		if run.Reason != "" {
			result += ": " + run.Reason
		}
		rows = append(rows, []string{
			fmt.Sprintf("%d MiB", run.MiB), number(run.DatabaseMiB), result, number(run.PrepareSeconds),
			number(run.JoinStepSeconds), number(run.LongestJoin()),
			fmt.Sprintf("%d of %d", run.WritesFailed, run.Writes),
			number(run.WriteP99Ms.Quiet), number(run.WriteP99Ms.During), number(run.WriteGapMs.Quiet),
			number(run.WriteGapMs.During),
		})
		if run.Outcome == data.OutcomeCompleted {
			join.points = append(join.points, [2]float64{run.DatabaseMiB, run.LongestJoin()})
			step.points = append(step.points, [2]float64{run.DatabaseMiB, run.JoinStepSeconds})
		}
	}
	d.table([]string{"data", "database (MiB)", "outcome", "step 1 (s)", "step 2 (s)", "longest join (s)",
		"failed writes",
		"p99 quiet (ms)", "p99 (ms)", "gap quiet (ms)", "gap (ms)"}, rows)
	d.picture("size", "Joining of members over the size of the database",
		lines("Joining over the size of the database", "MiB", "s", []curve{join, step}))
	d.measuredOn(on)
}

// extrapolatedGiB is for how much data the page says what a join would take by the model.
const extrapolatedGiB = 8

func (d *document) join(joins *data.Joins) {
	d.section("A join by its parts")
	if joins == nil || len(joins.Runs) == 0 {
		d.notMeasured(data.PartJoin)
		return
	}
	d.say("A learner joins an etcd with so much data on a disk, directly and through two relays in turns, with " +
		"nothing else on the machine. There is no landscape: these are etcds and relays as processes, all over " +
		"loopback. Each figure is the median of its runs, with the range.\n\n")
	var (
		rows, speeds [][]string
		on           origins
	)
	for _, run := range joins.Runs {
		name := fmt.Sprintf("%d MiB", run.MiB)
		on.add(name, run.Environment)
		for _, way := range []struct {
			name  string
			parts data.JoinParts
		}{{"direct", run.Direct}, {"relayed", run.Relayed}} {
			p := way.parts
			rows = append(rows, []string{name, way.name, spread(p.Begin), spread(p.Transfer), spread(p.Sync),
				spread(p.Apply), spread(p.Vote), spread(p.Total), spread(p.LeaderCPU), spread(p.LearnerCPU),
				spread(p.RelaysCPU)})
		}
		speeds = append(speeds, []string{name, number(run.DatabaseMiB), number(run.ReadMBPerSecond),
			number(run.WriteMBPerSecond), number(run.ClientMBPerSecond), number(run.MBPerSecond())})
	}
	d.table([]string{"data", "way", "until sent (s)", "transfer (s)", "sync (s)", "apply (s)", "vote (s)", "in all (s)",
		"processor of the leader (s)", "of the learner (s)", "of both relays (s)"}, rows)
	d.say("How fast each of it is by itself, in MB/s, and how fast the snapshot comes through the relays with its " +
		"sync:\n\n")
	d.table([]string{"data", "database (MiB)", "read", "write and sync", "snapshot to a client", "join"}, speeds)
	if model, ok := joins.Model(); ok {
		d.say("A line through the joins through the relays has %s s for any size and %s s for each GiB of the "+
			"database. By that, %d GiB take %s s.\n\n", number(model.FixedSeconds), number(model.SecondsPerGiB),
			extrapolatedGiB, number(model.Seconds(extrapolatedGiB)))
	}
	d.measuredOn(on)
}

// spread shows a figure over several runs.
func spread(s data.Spread) string {
	if s.Runs < 2 {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median), number(s.Low), number(s.High))
}

func (d *document) relay(relay *data.Relay) {
	d.section("Relay")
	if relay == nil {
		d.notMeasured(data.PartRelay)
		return
	}
	d.say("The way through two relays compared with a direct connection, both over loopback, with TLS from end to " +
		"end and the keys that the agents make. Each relay is a process of its own.\n\n")
	pair := func(name string, p data.Pair) []string {
		return []string{
			name, number(p.Direct.P50), number(p.Relayed.P50), number(p.Relayed.P50 - p.Direct.P50),
			number(p.Direct.P99), number(p.Relayed.P99), number(p.Relayed.P99 - p.Direct.P99),
		}
	}
	d.table([]string{"µs", "p50 direct", "p50 relayed", "added", "p99 direct", "p99 relayed", "added"}, [][]string{
		pair("connect", relay.Connect), pair("round trip of 1 KiB", relay.RoundTrip),
	})
	d.table([]string{"", "direct", "relayed"},
		[][]string{{"throughput of one connection (MB/s)", number(relay.DirectMBPerSecond),
			number(relay.RelayedMBPerSecond)}})
	d.table([]string{"", "near relay", "far relay"}, [][]string{
		{"cores for 100 MB/s", number(relay.NearCPUSeconds), number(relay.FarCPUSeconds)},
		{fmt.Sprintf("memory for a connection (KiB, of %d)", relay.Connections), number(relay.NearKiBPerConnection),
			number(relay.FarKiBPerConnection)},
	})
	d.picture("relay", "Latency direct and through the relays",
		bars("Latency direct and through the relays", "µs", []string{"direct", "relayed"}, []bar{
			{label: "round trip, p50", values: []float64{relay.RoundTrip.Direct.P50, relay.RoundTrip.Relayed.P50}},
			{label: "round trip, p99", values: []float64{relay.RoundTrip.Direct.P99, relay.RoundTrip.Relayed.P99}},
			{label: "connect, p50", values: []float64{relay.Connect.Direct.P50, relay.Connect.Relayed.P50}},
			{label: "connect, p99", values: []float64{relay.Connect.Direct.P99, relay.Connect.Relayed.P99}},
		}))
	if len(relay.GoBenchmarks) > 0 {
		d.say("The Go benchmarks of pkg/tunnel/relay, both relays and both ends in one process (benchstat takes " +
			"[what go test printed](benchmarks/data/relay-go.txt)):\n\n")
		var rows [][]string
		for _, b := range relay.GoBenchmarks {
			rows = append(rows, []string{b.Name, b.Unit, number(b.Median), number(b.Low) + " to " + number(b.High),
				fmt.Sprint(b.Runs)})
		}
		d.table([]string{"benchmark", "unit", "median", "range", "runs"}, rows)
	}
	d.measured(relay.Environment)
}

func (d *document) agent(agent *data.Agent) {
	d.section("Agent and controller manager")
	if agent == nil {
		d.notMeasured(data.PartAgent)
		return
	}
	d.say("So many migrations at once from one seed to another in a real garden. The agents' frame, gate, guards and " +
		"caches are the real ones; what they do in the seeds takes a second for each step and nothing else. Real " +
		"actions come on top, five at a time by default.\n\n")
	var (
		rows   [][]string
		memory []bar
	)
	for _, run := range agent.Runs {
		n := float64(run.InFlight)
		rows = append(rows, []string{
			fmt.Sprint(run.InFlight), number(run.Seconds),
			number(run.IdleMiB), number(run.Agents.PeakMiB), number(run.Agents.CPUSeconds / n),
			number(run.RequestsPerMigration()),
			number(run.ControllerManager.PeakMiB), number(run.ControllerManager.CPUSeconds / n),
			number(run.ManagerRequestsPerMigration()),
		})
		memory = append(memory, bar{label: fmt.Sprintf("%d in flight", run.InFlight),
			values: []float64{run.Agents.PeakMiB, run.ControllerManager.PeakMiB}})
	}
	d.table([]string{"in flight", "seconds", "agent idle (MiB)", "agent peak (MiB)",
		"processor of both agents per migration (s)", "their requests per migration",
		"controller manager peak (MiB)", "its processor per migration (s)", "its requests per migration"}, rows)
	d.picture("agent", "Memory over the number of migrations at once",
		bars("Resident memory at its peak", "MiB", []string{"agent", "controller manager"}, memory))

	if last := len(agent.Runs) - 1; last >= 0 {
		d.say("What the agents ask for, per migration:\n\n")
		kinds := map[string]bool{}
		header := []string{"request"}
		for _, run := range agent.Runs {
			header = append(header, fmt.Sprintf("%d in flight", run.InFlight))
			for kind := range run.Requests {
				kinds[kind] = true
			}
		}
		var requests [][]string
		sorted := slices.Sorted(maps.Keys(kinds))
		slices.SortStableFunc(sorted, func(a, b string) int {
			return int(math.Round(1000 * (agent.Runs[last].Requests[b] - agent.Runs[last].Requests[a])))
		})
		for _, kind := range sorted {
			row := []string{kind}
			for _, run := range agent.Runs {
				row = append(row, number(run.Requests[kind]))
			}
			requests = append(requests, row)
		}
		d.table(header, requests)
	}
	d.measured(agent.Environment)
}

func (d *document) landscape(landscape *data.Landscape) {
	d.section("The landscape")
	if landscape == nil {
		d.notMeasured(data.PartLandscape)
		return
	}
	d.say("Time until the shoot was ready:\n\n")
	starts := [][]string{}
	for _, start := range []struct {
		caches string
		*data.Start
	}{{"built before", landscape.Warm}, {"to be built", landscape.Cold}} {
		if start.Start == nil {
			starts = append(starts, []string{start.caches, "not measured", ""})
			continue
		}
		starts = append(starts, []string{start.caches, number(start.Seconds), origin(start.Environment)})
	}
	d.table([]string{"the real components are", "seconds", "measured"}, starts)
	d.say("At rest:\n\n")
	row := func(name string, usage data.Usage) []string {
		return []string{name, number(usage.CPUCores), number(usage.MemoryMiB)}
	}
	rows := [][]string{row("the whole machine", landscape.Machine)}
	for _, name := range slices.Sorted(maps.Keys(landscape.Clusters)) {
		rows = append(rows, row(name, landscape.Clusters[name]))
	}
	d.table([]string{"", "cores", "memory (MiB)"}, rows)
	d.measured(landscape.Environment)
}
