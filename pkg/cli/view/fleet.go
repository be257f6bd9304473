// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"time"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

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
