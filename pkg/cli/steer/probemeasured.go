// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// Measured returns the result of a run as it is drawn.
func Measured(r *probe.Result) view.ProbeResult {
	out := view.ProbeResult{
		Writes: r.Writes, WritesFailed: r.WritesFailed, Reads: r.Reads, ReadsFailed: r.ReadsFailed,
		WatchEvents: r.WatchEvents, WatchEventsLost: r.WatchEventsLost, ConnectionErrors: r.RawConnectionErrors,
		LongestGapMs: r.LongestWriteGapMs, BaselineLongestGapMs: r.BaselineLongestWriteGapMs,
		P99Ms: view.ByPhase(r.WriteP99Ms), Failures: r.Failures(),
	}
	if d := r.Details; d != nil {
		out.Details = &view.ProbeDetails{
			AcknowledgedLost:  d.AcknowledgedWritesLost + d.AcknowledgedEventsLost,
			RequestsPerSecond: d.RequestsPerSecond, MissedTicks: d.MissedTicks, P50Ms: view.ByPhase(d.WriteP50Ms),
		}
		if d.DNS != nil {
			out.Details.DNS = &view.DNSSamples{Samples: d.DNS.Samples, MomentsWithoutRecord: d.DNS.MomentsWithoutRecord}
		}
		for _, incident := range d.Incidents {
			out.Details.Incidents = append(out.Details.Incidents, view.Incident(incident))
		}
	}
	return out
}
