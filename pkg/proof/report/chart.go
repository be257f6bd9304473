// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Charts are drawn twice, for wide and for narrow windows: a drawing that is merely scaled down cannot be read.
const (
	wideChart   = 960
	narrowChart = 360
)

// edge is how near to an edge of a drawing a mark of the time axis is too near to be centred.
const edge = 22

// canvas draws charts over time, all with the same axis, so that they can be compared.
type canvas struct {
	report Report
	width  float64
	// left is where the time axis begins; what is left of it is for labels.
	left float64
	out  strings.Builder
	// under is drawn below everything else.
	under strings.Builder
	y     float64
}

func newCanvas(r Report, width, left float64) *canvas {
	return &canvas{report: r, width: width, left: left}
}

func (c *canvas) narrow() bool { return c.width < 600 }

func (c *canvas) x(t time.Time) float64 {
	const right = 12
	total := c.report.End.Sub(c.report.Begin).Seconds()
	if total <= 0 {
		return c.left
	}
	part := min(1, max(0, t.Sub(c.report.Begin).Seconds()/total))
	return c.left + part*(c.width-c.left-right)
}

// bar is a horizontal bar.
type bar struct {
	class string
	// x1 and x2 are where it begins and ends, y is its upper edge.
	x1, x2, y, height float64
	// title is what a pointer on it shows.
	title string
}

func (c *canvas) draw(b bar) {
	// What took no time can be seen all the same.
	fmt.Fprintf(&c.out, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s</title></rect>`,
		b.class, b.x1, b.y, max(2, b.x2-b.x1), b.height, html.EscapeString(b.title))
}

func (c *canvas) text(class string, x, y float64, text string) {
	fmt.Fprintf(&c.out, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(text))
}

// level draws a line from the left end of the time axis to the right one.
func (c *canvas) level(class string, y float64) {
	fmt.Fprintf(&c.out, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, c.left, y, c.width-12, y)
}

// axis draws the times below everything, and lines up to the top.
func (c *canvas) axis(top float64) {
	step := tick(c.report.End.Sub(c.report.Begin), map[bool]int{true: 6, false: 12}[c.narrow()])
	first := c.report.Begin.Sub(c.report.Triggered) / step * step
	for offset := first; ; offset += step {
		at := c.report.Triggered.Add(offset)
		if at.After(c.report.End) {
			break
		}
		if at.Before(c.report.Begin) {
			continue
		}
		x := c.x(at)
		fmt.Fprintf(&c.under, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, top, x, c.y)
		// A mark at an edge is written beside its line: the half of it would be cut off.
		class := "tick"
		switch {
		case x > c.width-edge:
			class = "tick atend"
		case x < edge:
			class = "tick atbegin"
		}
		c.text(class, x, c.y+14, c.report.offset(at))
	}
	c.level("axis", c.y)
	c.y += 22
}

// tick returns a round time between two marks of an axis with about so many of them.
func tick(total time.Duration, marks int) time.Duration {
	steps := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	for _, step := range steps {
		if total <= step*time.Duration(marks) {
			return step
		}
	}
	return steps[len(steps)-1] * time.Duration(1+int(total/steps[len(steps)-1])/marks)
}

// migration shades the time of the migration.
func (c *canvas) migration(top float64) {
	end := c.report.End
	if c.report.Seconds > 0 {
		end = c.report.Triggered.Add(seconds(c.report.Seconds))
	}
	fmt.Fprintf(&c.out, `<rect class="span" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, c.x(c.report.Triggered),
		top, c.x(end)-c.x(c.report.Triggered), c.y-top)
}

func (c *canvas) svg(label string) string {
	class := "wide"
	if c.narrow() {
		class = "narrow"
	}
	return fmt.Sprintf(`<svg class="%s" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">%s%s</svg>`, class, c.width,
		c.y, html.EscapeString(label), c.under.String(), c.out.String())
}

// margins are the room for labels left of the time axis, in wide and in narrow windows.
type margins struct{ wide, narrow float64 }

// besideLabels are for charts with the names of what they show.
var besideLabels = margins{wide: 345, narrow: 12}

// twice draws a chart for wide and for narrow windows.
func twice(r Report, left margins, label string, draw func(*canvas)) string {
	var out strings.Builder
	for _, size := range []struct{ width, left float64 }{{wideChart, left.wide}, {narrowChart, left.narrow}} {
		c := newCanvas(r, size.width, size.left)
		draw(c)
		out.WriteString(c.svg(label))
	}
	return out.String()
}

// stepsChart draws the steps over time, in the colour of the owner's seed.
func stepsChart(r Report) string {
	return twice(r, besideLabels, "When each step was at work, and which side owned it", func(c *canvas) {
		top := c.y
		for _, step := range r.Steps {
			name := fmt.Sprintf("%d %s", step.Number, step.Condition)
			if c.narrow() {
				c.text("label", 12, c.y+12, name)
				c.y += 16
			} else {
				c.text("label", 0, c.y+16, name)
			}
			if step.Begin != nil {
				end := r.End
				if step.End != nil {
					end = *step.End
				}
				took := duration(end.Sub(*step.Begin))
				x1, x2 := c.x(*step.Begin), c.x(end)
				c.draw(bar{class: side(step.Owner), x1: x1, x2: x2, y: c.y + 4, height: 16,
					title: fmt.Sprintf("%s, %s, %s from %s", name, step.Owner, took, r.offset(*step.Begin))})
				c.stands(step)
				switch room := float64(7 * len(took)); {
				case c.width-x2 > room+16:
					c.text("value", max(x2, x1+2)+5, c.y+16, took)
				case x1 > room+10:
					c.text("value before", x1-5, c.y+16, took)
				default:
					c.text("value inside", x1+6, c.y+16, took)
				}
			}
			c.y += 26
		}
		c.axis(top)
	})
}

// stands draws the reasons of the step over its bar: every other one darker, and those that held it in their own
// colour.
func (c *canvas) stands(step Step) {
	for i, stand := range step.Reasons {
		class := "stand"
		switch {
		case stand.bad():
			class += " fault"
		case stand.held():
			class += " hold"
		case i%2 == 1:
			class += " other"
		}
		c.draw(bar{class: class, x1: c.x(stand.Begin), x2: c.x(stand.End), y: c.y + 4, height: 16,
			title: fmt.Sprintf("%d %s: %s, %s from %s", step.Number, step.Condition, stand.name(),
				duration(stand.Took()), c.report.offset(stand.Begin))})
	}
}

func side(owner string) string {
	if owner == "destination" {
		return "dst"
	}
	return "src"
}

// etcdChart draws when each member was in the cluster, and how many voters there were.
func etcdChart(r Report, etcd Etcd) string {
	return twice(r, besideLabels, "The members of "+etcd.Name+" over time", func(c *canvas) {
		top := c.y
		for _, name := range memberNames(etcd) {
			if c.narrow() {
				c.text("label", 12, c.y+11, name)
				c.y += 14
			} else {
				c.text("label", 0, c.y+14, name)
			}
			class := "src"
			if r.seedOf(name) == r.Destination {
				class = "dst"
			}
			for _, stay := range stays(r, etcd, name) {
				kind, what := class, "voter"
				if stay.learner {
					kind, what = class+" learner", "learner"
				}
				c.draw(bar{class: kind, x1: c.x(stay.from), x2: c.x(stay.to), y: c.y + 3, height: 13,
					title: fmt.Sprintf("%s: %s from %s to %s", name, what, r.offset(stay.from), r.offset(stay.to))})
			}
			c.y += 20
		}

		c.text("label", map[bool]float64{true: 12, false: 0}[c.narrow()], c.y+14, "voters")
		if c.narrow() {
			c.y += 16
		}
		previous, lastX := -1, -100.0
		for i, change := range etcd.Changes {
			if change.Voters == previous {
				continue
			}
			previous = change.Voters
			from, to := change.Time, r.End
			for _, later := range etcd.Changes[i+1:] {
				if later.Voters != change.Voters {
					to = later.Time
					break
				}
			}
			class := "count"
			if change.Voters%2 == 0 {
				// One more voter than an odd number, and not one more failure that is tolerated.
				class = "count even"
			}
			c.draw(bar{class: class, x1: c.x(from), x2: c.x(to), y: c.y + 3, height: 15,
				title: fmt.Sprintf("%d voters from %s to %s", change.Voters, r.offset(from), r.offset(to))})
			if x := c.x(from); x-lastX > 9 && c.x(to)-x > 9 {
				c.text("number", (x+c.x(to))/2, c.y+15, fmt.Sprint(change.Voters))
				lastX = x
			}
		}
		c.y += 24
		c.axis(top)
	})
}

// memberNames returns all members in the order in which they came.
func memberNames(etcd Etcd) []string {
	var out []string
	for _, change := range etcd.Changes {
		for _, member := range change.Members {
			if !unstarted(member.Name) && !slices.Contains(out, member.Name) {
				out = append(out, member.Name)
			}
		}
	}
	return out
}

// stay is a time in which a member was in the cluster with one role.
type stay struct {
	from, to time.Time
	learner  bool
}

func stays(r Report, etcd Etcd, name string) []stay {
	var out []stay
	open := false
	for _, change := range etcd.Changes {
		i := slices.IndexFunc(change.Members, func(member recording.Member) bool { return member.Name == name })
		if open {
			out[len(out)-1].to = change.Time
		}
		switch {
		case i < 0:
			open = false
		case open && out[len(out)-1].learner == change.Members[i].Learner:
		default:
			out, open = append(out, stay{from: change.Time, learner: change.Members[i].Learner}), true
		}
	}
	if open {
		out[len(out)-1].to = r.End
	}
	return out
}

// latencyChart draws the latency of writes over time on a logarithmic scale, and where requests failed.
func latencyChart(r Report) string {
	series := r.Probe.Series
	return twice(r, margins{wide: 46, narrow: 40}, "Latency of writes over time, and failed requests", func(c *canvas) {
		const height = 200
		lowest, highest := 1.0, 10.0
		for _, point := range series.Points {
			highest = max(highest, point.MaxMs)
		}
		highest = math.Pow(10, math.Ceil(math.Log10(highest)))
		top := c.y + 6
		y := func(ms float64) float64 {
			return top + height*(1-math.Log10(max(ms, lowest)/lowest)/math.Log10(highest/lowest))
		}
		c.y = top + height
		c.migration(top)
		for ms := lowest; ms <= highest; ms *= 10 {
			c.level("grid", y(ms))
			label := fmt.Sprintf("%.0f ms", ms)
			if ms >= 1000 {
				label = fmt.Sprintf("%.0f s", ms/1000)
			}
			c.text("scale", c.left-5, y(ms)+4, label)
		}
		at := func(i int) float64 {
			return c.x(series.Begin.Add(seconds((float64(i) + 0.5) * series.IntervalSeconds)))
		}
		for _, curve := range []struct {
			class string
			value func(recording.Point) float64
		}{
			{"max", func(p recording.Point) float64 { return p.MaxMs }},
			{"p99", func(p recording.Point) float64 { return p.P99Ms }},
			{"p50", func(p recording.Point) float64 { return p.P50Ms }},
		} {
			path, move := strings.Builder{}, "M"
			for i, point := range series.Points {
				if point.Writes == 0 {
					// There was none to measure: the line has a gap, as the clients had.
					move = "M"
					continue
				}
				fmt.Fprintf(&path, "%s%.1f %.1f", move, at(i), y(curve.value(point)))
				move = "L"
			}
			fmt.Fprintf(&c.out, `<path class="curve %s" d="%s"/>`, curve.class, path.String())
		}
		for i, point := range series.Points {
			if point.Failed > 0 {
				fmt.Fprintf(&c.out,
					`<circle class="failed" cx="%.1f" cy="%.1f" r="4"><title>%d failed at %s</title></circle>`,
					at(i), top+8, point.Failed, r.offset(series.Begin.Add(seconds(float64(i)*series.IntervalSeconds))))
			}
		}
		c.axis(top)
	})
}

// phasesChart draws the latencies of the phases as bars, for a run whose course was not recorded.
func phasesChart(p Probe) string {
	var out strings.Builder
	for _, width := range []float64{wideChart, narrowChart} {
		c := newCanvas(Report{}, width, 100)
		highest := max(p.P99.Before, p.P99.During, p.P99.After, 1)
		for _, phase := range []struct {
			name     string
			p50, p99 float64
		}{{"before", p.P50.Before, p.P99.Before}, {"during", p.P50.During, p.P99.During},
			{"after", p.P50.After, p.P99.After}} {
			c.text("label", 0, c.y+22, phase.name)
			for i, figure := range []struct {
				class string
				value float64
			}{{"p50", phase.p50}, {"p99", phase.p99}} {
				y := c.y + float64(i)*16 + 2
				end := 70 + figure.value/highest*(width-70-120)
				c.draw(bar{class: "bar " + figure.class, x1: 70, x2: end, y: y, height: 13,
					title: fmt.Sprintf("%s %s: %.1f ms", phase.name, figure.class, figure.value)})
				c.text("value", max(end, 72)+5, y+11, fmt.Sprintf("%s %.1f ms", figure.class, figure.value))
			}
			c.y += 42
		}
		out.WriteString(c.svg("Latency of writes before, during and after the migration"))
	}
	return out.String()
}

// duration writes a duration as people read it.
func duration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}
