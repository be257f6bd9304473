// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

const (
	// heatHeight is how high the map of latencies is.
	heatHeight = 220
	// heatColumn is the least width of a column: what is thinner cannot be seen.
	heatColumn = 4
	// heatClasses is the number of shades.
	heatClasses = 5
)

// heatKey says how many writes each shade stands for. The first one is as easy to see as the others: one slow write of
// hundreds must not get lost.
var heatKey = [heatClasses]string{"1 write", "2 to 4", "5 to 14", "15 to 49", "50 and more"}

// shade returns the class of a cell with so many writes, from 1.
func shade(writes int) int {
	switch {
	case writes >= 50:
		return 5
	case writes >= 15:
		return 4
	case writes >= 5:
		return 3
	case writes >= 2:
		return 2
	}
	return 1
}

// heatMap reports whether the series tells how the latencies are spread.
func heatMap(series *recording.Series) bool { return series != nil && len(series.BoundsMs) > 0 }

// column is a part of the time axis of the map.
type column struct {
	// first is the index of its first point, points how many it has.
	first, points int
	counts        []int
	writes        int
	failed        int
	maxMs         float64
	// x1 and x2 are where it begins and ends.
	x1, x2 float64
}

// columns merges neighbours until each column is wide enough.
func columns(series *recording.Series, pixelsPerPoint float64) []column {
	merged := max(1, int(math.Ceil(heatColumn/max(pixelsPerPoint, 0.001))))
	var out []column
	for i, point := range series.Points {
		if i%merged == 0 {
			out = append(out, column{first: i, counts: make([]int, len(series.BoundsMs)+1)})
		}
		c := &out[len(out)-1]
		c.points++
		for j, count := range point.Counts {
			if j < len(c.counts) {
				c.counts[j] += count
			}
		}
		c.writes += point.Writes
		c.failed += point.Failed
		c.maxMs = max(c.maxMs, point.MaxMs)
	}
	return out
}

// heatChart draws the latencies of writes as a map of time and latency, on a logarithmic scale: every write is in a
// cell, so that the slowest are to be seen beside the many. Failed requests are above it.
func heatChart(r Report) string {
	series := r.Probe.Series
	return twice(r, margins{wide: 58, narrow: 52}, "Latencies of writes over time, and failed requests",
		func(c *canvas) {
			h := newHeat(series, c.y+20)
			c.y = h.top + heatHeight
			c.migration(h.top)
			at := func(i int) float64 {
				return c.x(series.Begin.Add(seconds(float64(i) * series.IntervalSeconds)))
			}
			total := max(r.End.Sub(r.Begin).Seconds(), 1)
			perPoint := (c.width - c.left - 12) * series.IntervalSeconds / total
			var (
				cells [heatClasses + 1]strings.Builder
				over  strings.Builder
			)
			for _, col := range columns(series, perPoint) {
				col.x1, col.x2 = at(col.first), at(col.first+col.points)
				if col.x2 <= col.x1 {
					continue // out of the time that is shown
				}
				for i, writes := range col.counts {
					if writes > 0 {
						upper, lower := h.cell(i)
						fmt.Fprintf(&cells[shade(writes)], "M%.1f %.1fH%.1fV%.1fH%.1fZ", col.x1, upper, col.x2,
							lower, col.x1)
					}
				}
				h.overlay(&over, c, col)
			}
			for i := 1; i <= heatClasses; i++ {
				if cells[i].Len() > 0 {
					fmt.Fprintf(&c.out, `<path class="heat h%d" d="%s"/>`, i, cells[i].String())
				}
			}
			h.scale(c)
			c.out.WriteString(over.String())
			c.axis(h.top)
		})
}

// heat is the vertical axis of the map.
type heat struct {
	bounds []float64
	// lowest and highest are the indices of the buckets that are shown.
	lowest, highest int
	top             float64
}

// newHeat shows the buckets that anything is in, from the one that ends at 10 ms or below up to a second at least.
func newHeat(series *recording.Series, top float64) heat {
	h := heat{bounds: series.BoundsMs, lowest: len(series.BoundsMs), top: top}
	for i, bound := range h.bounds {
		if bound <= 1000 {
			h.highest = i
		}
		if bound <= 10 {
			h.lowest = i
		}
	}
	for _, point := range series.Points {
		for i, count := range point.Counts {
			if count > 0 && i <= len(h.bounds) {
				h.lowest, h.highest = min(h.lowest, i), max(h.highest, i)
			}
		}
	}
	h.lowest = min(h.lowest, h.highest)
	return h
}

// cell returns the upper and the lower edge of a bucket.
func (h heat) cell(i int) (upper, lower float64) {
	each := heatHeight / float64(h.highest-h.lowest+1)
	lower = h.top + heatHeight - float64(i-h.lowest)*each
	return lower - each, lower
}

// scale writes the powers of ten beside the map.
func (h heat) scale(c *canvas) {
	for i, bound := range h.bounds {
		power := math.Log10(bound)
		if i < h.lowest || i > h.highest || math.Abs(power-math.Round(power)) > 0.001 {
			continue
		}
		// The bound is the upper edge of its bucket.
		y, _ := h.cell(i)
		c.level("grid", y)
		c.text("scale", c.left-6, y+4, milliseconds(bound))
	}
}

// milliseconds writes a latency with its unit.
func milliseconds(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%g s", ms/1000)
	}
	return fmt.Sprintf("%g ms", ms)
}

// overlay marks what failed in a column, and lets a pointer ask what is in it.
func (h heat) overlay(out *strings.Builder, c *canvas, col column) {
	begin := c.report.Probe.Series.Begin.Add(seconds(float64(col.first) * c.report.Probe.Series.IntervalSeconds))
	title := fmt.Sprintf("%s: no write was acknowledged", c.report.offset(begin))
	if col.writes > 0 {
		title = fmt.Sprintf("%s: %d writes, the slowest took %.0f ms", c.report.offset(begin), col.writes, col.maxMs)
	}
	if col.failed > 0 {
		title += fmt.Sprintf(", %d requests failed", col.failed)
		fmt.Fprintf(out, `<circle class="failed" cx="%.1f" cy="%.1f" r="4"/>`, (col.x1+col.x2)/2, h.top-10)
	}
	fmt.Fprintf(out, `<rect class="ask" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		col.x1, h.top-16, col.x2-col.x1, float64(heatHeight+16), html.EscapeString(title))
}
