// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"maps"
	"slices"
	"time"
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
	for i, own := range latencies {
		points[i].Writes = len(own)
		if len(own) == 0 {
			continue
		}
		slices.Sort(own)
		points[i].P50Ms = milliseconds(share(own, 0.5))
		points[i].P99Ms = milliseconds(share(own, 0.99))
		points[i].MaxMs = milliseconds(own[len(own)-1])
	}
	return &Series{Begin: t.begin, IntervalSeconds: interval.Seconds(), Points: points}
}

// share returns what the given share of the sorted durations, of which there is one at least, does not exceed.
func share(sorted []time.Duration, part float64) time.Duration {
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
