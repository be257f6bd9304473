// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// DrainChanges returns a function that tells a line about every drain whose progress has changed since it was last
// called, and about every one that is not requested any more.
func DrainChanges(tell func(line string), o Options) func([]summary.Drain, time.Time) {
	previous := map[string]string{}
	return func(all []summary.Drain, now time.Time) {
		lines := map[string]string{}
		for _, d := range all {
			lines[d.Seed] = DrainLine(d)
		}
		all = slices.Clone(all)
		for seed := range previous {
			if _, requested := lines[seed]; !requested {
				all = append(all, summary.Drain{Seed: seed})
			}
		}
		slices.SortFunc(all, func(a, b summary.Drain) int { return cmp.Compare(a.Seed, b.Seed) })
		for _, d := range all {
			if line := DrainLine(d); line != previous[d.Seed] {
				tell(fmt.Sprintf("%s  %s\n", o.Clock(now), line))
			}
		}
		previous = lines
	}
}

// FleetChanges returns a function that tells every migration that has changed since it was last called, with a line
// about it. The first time it tells those that are in flight.
func FleetChanges(tell func(summary.Summary, string), o Options) func([]summary.Summary, time.Time) {
	var previous map[string]string
	return func(all []summary.Summary, now time.Time) {
		lines := map[string]string{}
		for _, s := range InFlightFirst(all) {
			lines[s.Key()] = unexpected(s, o)
			if lines[s.Key()] == previous[s.Key()] || previous == nil && s.State.Final() {
				continue
			}
			tell(s, timedLine(s, now, o))
		}
		previous = lines
	}
}
