// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"maps"
	"slices"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

const (
	// seriesInterval is how much of a short run is one point of its series.
	seriesInterval = 2 * time.Second
	// maxPoints bounds the series of a long run: its points stand for more time each.
	maxPoints = 600
)

// phases returns when each phase began.
func (t *timeline) phases() map[Phase]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.marks)
}

// series returns the course until the given end.
func (t *timeline) series(end time.Time) *Series {
	t.mu.Lock()
	defer t.mu.Unlock()

	interval := seriesInterval
	for end.Sub(t.begin) > maxPoints*interval {
		interval *= 2
	}
	count := max(1, int((end.Sub(t.begin)+interval-1)/interval))
	index := func(at time.Time) int { return min(max(0, int(at.Sub(t.begin)/interval)), count-1) }

	points, latencies := make([]Point, count), make([][]time.Duration, count)
	for _, ack := range t.acks {
		i := index(ack.at)
		latencies[i] = append(latencies[i], ack.latency)
	}
	for _, at := range t.failures {
		points[index(at)].Failed++
	}
	bounds := recording.LatencyBoundsMs()
	for i, own := range latencies {
		points[i].Writes = len(own)
		if len(own) == 0 {
			continue
		}
		slices.Sort(own)
		points[i].P50Ms = milliseconds(share(own, 0.5))
		points[i].P99Ms = milliseconds(share(own, 0.99))
		points[i].MaxMs = milliseconds(own[len(own)-1])
		ms := make([]float64, 0, len(own))
		for _, latency := range own {
			ms = append(ms, milliseconds(latency))
		}
		points[i].Counts = recording.CountLatencies(bounds, ms)
	}
	return &Series{Begin: t.begin, IntervalSeconds: interval.Seconds(), BoundsMs: bounds, Points: points}
}

// Series returns the course until now. It may be asked for while the load runs.
func (p *Probe) Series() *Series { return p.timeline.series(time.Now()) }

// WritesBetween returns what 99 % of the writes that were acknowledged from begin on and before the end have not
// exceeded, from when they were due, and the slowest of them, in milliseconds. Both are zero if there were none.
func (p *Probe) WritesBetween(begin, end time.Time) (p99, slowest float64) {
	latencies := p.timeline.between(begin, end)
	if len(latencies) == 0 {
		return 0, 0
	}
	return milliseconds(share(latencies, 0.99)), milliseconds(latencies[len(latencies)-1])
}

// between returns the sorted latencies of those writes.
func (t *timeline) between(begin, end time.Time) []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []time.Duration
	for _, ack := range t.acks {
		if !ack.at.Before(begin) && ack.at.Before(end) {
			out = append(out, ack.latency)
		}
	}
	slices.Sort(out)
	return out
}

// share returns what the given share of the sorted durations, of which there is one at least, does not exceed.
func share(sorted []time.Duration, part float64) time.Duration {
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
