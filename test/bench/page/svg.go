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

// label says how a text looks and which end of it is where it is put.
type label struct{ class, anchor string }

var (
	heading  = label{"title", "start"}
	plain    = label{"", "start"}
	leftOf   = label{"", "end"}
	tick     = label{"tick", "start"}
	tickLeft = label{"tick", "end"}
	tickAt   = label{"tick", "middle"}
)

func (p *picture) text(label label, x, y float64, text string) {
	fmt.Fprintf(&p.out, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", label.class, label.anchor,
		x, y, html.EscapeString(text))
}

// across draws a horizontal line.
func (p *picture) across(class string, left, right, y float64) {
	fmt.Fprintf(&p.out, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, left, y, right, y)
}

// legend says which colour is what.
func (p *picture) legend(names []string) {
	x := 12.0
	for i, name := range names {
		fmt.Fprintf(&p.out, `<rect class="s%d" x="%.1f" y="%.1f" width="10" height="10" rx="2"/>`+"\n", i%maxSeries, x,
			p.y)
		p.text(plain, x+15, p.y+9, name)
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
	p.text(heading, 12, p.y-4, title)
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
		p.text(leftOf, left-8, p.y+height/2+4, group.label)
		for i, value := range group.values {
			if !math.IsNaN(value) {
				length := 0.0
				if highest > 0 {
					length = value / highest * room
				}
				// What is next to nothing can be seen all the same.
				fmt.Fprintf(&p.out, `<rect class="s%d" x="%.1f" y="%.1f" width="%.1f" height="14" rx="2"/>`+"\n",
					i%maxSeries, left, p.y+2, max(1, length))
				p.text(tick, left+max(1, length)+6, p.y+13, number(value)+" "+unit)
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

// The room around the area that curves are drawn in, and its height.
const (
	chartLeft, chartRight, chartHeight = 64.0, 24.0, 240.0
)

// scale is where values are in a picture, on linear axes from zero.
type scale struct {
	// xs are the values on the horizontal axis that there are points for, in order.
	xs []float64
	// farthest is the largest of them, top the upper end of the vertical axis, step the distance of the lines on it.
	farthest, top, step float64
	// base is where the horizontal axis is.
	base float64
}

// scaleOf returns a scale that has room for all points. The area begins at the given height.
func scaleOf(curves []curve, begin float64) scale {
	s := scale{farthest: 1, base: begin + chartHeight}
	highest := 0.0
	for _, c := range curves {
		for _, point := range c.points {
			highest = max(highest, point[1])
			if !slices.Contains(s.xs, point[0]) {
				s.xs = append(s.xs, point[0])
			}
		}
	}
	slices.Sort(s.xs)
	if len(s.xs) > 0 && s.xs[len(s.xs)-1] > 0 {
		s.farthest = s.xs[len(s.xs)-1]
	}
	s.step = roundStep(highest / 5)
	s.top = s.step * math.Ceil(max(highest, s.step)/s.step)
	return s
}

func (s scale) x(v float64) float64 { return chartLeft + v/s.farthest*(width-chartLeft-chartRight) }

func (s scale) y(v float64) float64 { return s.base - v/s.top*chartHeight }

// lines draws curves over a linear axis from zero.
func lines(title, xUnit, yUnit string, curves []curve) string {
	p := &picture{y: 24}
	p.text(heading, 12, p.y-4, title)
	p.y += 8
	var names []string
	for _, c := range curves {
		names = append(names, c.name)
	}
	p.legend(names)
	s := scaleOf(curves, p.y+8)
	p.axes(s)
	p.text(tickLeft, chartLeft-6, s.base-chartHeight-8, yUnit)
	p.text(tickLeft, width-chartRight, s.base+32, xUnit)
	for i, c := range curves {
		p.curve(s, i, c)
	}
	p.y = s.base + 44
	return p.svg(title)
}

// axes draws the axes with as many figures as there is room for.
func (p *picture) axes(s scale) {
	for v := 0.0; v <= s.top+s.step/2; v += s.step {
		p.across("grid", chartLeft, width-chartRight, s.y(v))
		p.text(tickLeft, chartLeft-6, s.y(v)+4, number(v))
	}
	p.across("axis", chartLeft, width-chartRight, s.base)
	last := -100.0
	for _, v := range s.xs {
		if s.x(v)-last < 28 {
			continue
		}
		last = s.x(v)
		p.text(tickAt, s.x(v), s.base+16, number(v))
	}
}

// curve draws the curve with the given number.
func (p *picture) curve(s scale, i int, c curve) {
	points := slices.SortedFunc(slices.Values(c.points), func(a, b [2]float64) int {
		if a[0] < b[0] {
			return -1
		}
		return 1
	})
	path := strings.Builder{}
	for j, point := range points {
		fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], s.x(point[0]), s.y(point[1]))
		fmt.Fprintf(&p.out, `<circle class="s%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n", i%maxSeries, s.x(point[0]),
			s.y(point[1]))
	}
	fmt.Fprintf(&p.out, `<path class="s%d" d="%s"/>`+"\n", i%maxSeries, path.String())
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
