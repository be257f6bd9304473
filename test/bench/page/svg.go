// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The pictures stand alone, so that a document can show them as images. They follow the reader's colour scheme.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:14px}.tick{fill:#59636e;font-size:11px}
.grid{stroke:#d1d9e0;stroke-width:1}.axis{stroke:#59636e;stroke-width:1}
.s0{fill:#0969da;stroke:#0969da}.s1{fill:#bc4c00;stroke:#bc4c00}.s2{fill:#1a7f37;stroke:#1a7f37}.s3{fill:#8250df;stroke:#8250df}
rect.s0,rect.s1,rect.s2,rect.s3{stroke:none}path{fill:none!important;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#9198a1}.grid{stroke:#30363d}.axis{stroke:#9198a1}
.s0{fill:#4493f8;stroke:#4493f8}.s1{fill:#db6d28;stroke:#db6d28}.s2{fill:#3fb950;stroke:#3fb950}.s3{fill:#ab7df8;stroke:#ab7df8}}
</style>`

const (
	width     = 720.0
	maxSeries = 4
)

// picture collects what is drawn.
type picture struct {
	out strings.Builder
	y   float64
}

func (p *picture) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(&p.out, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y,
		html.EscapeString(text))
}

func (p *picture) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&p.out, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

// legend says which colour is what.
func (p *picture) legend(names []string) {
	x := 12.0
	for i, name := range names {
		fmt.Fprintf(&p.out, `<rect class="s%d" x="%.1f" y="%.1f" width="10" height="10" rx="2"/>`+"\n", i%maxSeries, x,
			p.y)
		p.text("", "start", x+15, p.y+9, name)
		x += 15 + 7*float64(len(name)) + 20
	}
	p.y += 24
}

func (p *picture) svg(title string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+
		"\n%s\n%s</svg>\n",
		width, p.y, html.EscapeString(title), style, p.out.String())
}

// bar is a group of bars with a label.
type bar struct {
	label string
	// values are in the order of the series; NaN draws none.
	values []float64
}

// bars draws horizontal bars, a group for each label.
func bars(title, unit string, series []string, groups []bar) string {
	p := &picture{y: 24}
	p.text("title", "start", 12, p.y-4, title)
	p.y += 8
	if len(series) > 1 {
		p.legend(series)
	}
	left, highest := 60.0, 0.0
	for _, group := range groups {
		left = max(left, 7*float64(len(group.label))+24)
		for _, value := range group.values {
			if !math.IsNaN(value) {
				highest = max(highest, value)
			}
		}
	}
	room := width - left - 110
	for _, group := range groups {
		height := 18 * float64(len(group.values))
		p.text("", "end", left-8, p.y+height/2+4, group.label)
		for i, value := range group.values {
			if !math.IsNaN(value) {
				length := 0.0
				if highest > 0 {
					length = value / highest * room
				}
				// What is next to nothing can be seen all the same.
				fmt.Fprintf(&p.out, `<rect class="s%d" x="%.1f" y="%.1f" width="%.1f" height="14" rx="2"/>`+"\n",
					i%maxSeries, left, p.y+2, max(1, length))
				p.text("tick", "start", left+max(1, length)+6, p.y+13, number(value)+" "+unit)
			}
			p.y += 18
		}
		p.y += 8
	}
	p.y += 4
	return p.svg(title)
}

// curve is a row of points.
type curve struct {
	name   string
	points [][2]float64
}

// lines draws curves over a linear axis from zero.
func lines(title, xUnit, yUnit string, curves []curve) string {
	const (
		left, right, height = 64.0, 24.0, 240.0
	)
	p := &picture{y: 24}
	p.text("title", "start", 12, p.y-4, title)
	p.y += 8
	var names []string
	var xs []float64
	highest := 0.0
	for _, c := range curves {
		names = append(names, c.name)
		for _, point := range c.points {
			highest = max(highest, point[1])
			if !slices.Contains(xs, point[0]) {
				xs = append(xs, point[0])
			}
		}
	}
	p.legend(names)
	slices.Sort(xs)
	farthest := 1.0
	if len(xs) > 0 && xs[len(xs)-1] > 0 {
		farthest = xs[len(xs)-1]
	}
	step := roundStep(highest / 5)
	top := step * math.Ceil(max(highest, step)/step)
	base := p.y + 8 + height
	x := func(v float64) float64 { return left + v/farthest*(width-left-right) }
	y := func(v float64) float64 { return base - v/top*height }
	for v := 0.0; v <= top+step/2; v += step {
		p.line("grid", left, y(v), width-right, y(v))
		p.text("tick", "end", left-6, y(v)+4, number(v))
	}
	p.line("axis", left, base, width-right, base)
	last := -100.0
	for _, v := range xs {
		if x(v)-last < 28 {
			continue
		}
		last = x(v)
		p.text("tick", "middle", x(v), base+16, number(v))
	}
	p.text("tick", "end", left-6, base-height-8, yUnit)
	p.text("tick", "end", width-right, base+32, xUnit)
	for i, c := range curves {
		points := slices.SortedFunc(slices.Values(c.points), func(a, b [2]float64) int {
			if a[0] < b[0] {
				return -1
			}
			return 1
		})
		path := strings.Builder{}
		for j, point := range points {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], x(point[0]), y(point[1]))
			fmt.Fprintf(&p.out, `<circle class="s%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n", i%maxSeries, x(point[0]),
				y(point[1]))
		}
		fmt.Fprintf(&p.out, `<path class="s%d" d="%s"/>`+"\n", i%maxSeries, path.String())
	}
	p.y = base + 44
	return p.svg(title)
}

// roundStep returns the next round number: 1, 2 or 5 and zeros.
func roundStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if v <= factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// number writes a figure with three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.01:
		return fmt.Sprintf("%.2g", v)
	case a < 1:
		return trim(fmt.Sprintf("%.2f", v))
	case a < 100:
		return trim(fmt.Sprintf("%.1f", v))
	}
	return fmt.Sprintf("%.0f", v)
}

func trim(text string) string { return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") }
