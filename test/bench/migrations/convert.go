// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"errors"
	"math"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
)

// figures turns what a run has seen into what is recorded.
func figures(
	report *demo.Report, kind string, roundTrip time.Duration, processes map[string]data.Process,
) data.Migration {
	p := report.Probe
	m := data.Migration{
		Kind: kind, Source: report.Source, Destination: report.Destination, RoundTripMs: int(roundTrip.Milliseconds()),
		Seconds: report.DurationSeconds,
		Writes:  p.Writes, WritesFailed: p.WritesFailed, Reads: p.Reads, ReadsFailed: p.ReadsFailed,
		WriteGapMs:  data.ByPhase{Quiet: float64(p.BaselineLongestWriteGapMs), During: float64(p.LongestWriteGapMs)},
		WriteP99Ms:  data.ByPhase{Quiet: p.WriteP99Ms.Before, During: p.WriteP99Ms.During},
		WatchEvents: p.WatchEvents, WatchEventsLost: p.WatchEventsLost,
		Processes: processes,
	}
	m.Outcome, m.Reason = outcome(report.Details.Migration)
	if details := p.Details; details != nil {
		m.WriteP50Ms = data.ByPhase{Quiet: details.WriteP50Ms.Before, During: details.WriteP50Ms.During}
		m.WritesLost = details.AcknowledgedWritesLost + details.AcknowledgedEventsLost
		m.RequestsDue, m.RequestsUnsent = details.RequestsDue, details.MissedTicks
		m.Events = writes(details.EventWrites, details.AcknowledgedEventsLost)
		m.Others = writes(details.OtherWrites, details.AcknowledgedWritesLost)
		if before, during := details.Phases[probe.PhaseBefore], details.Phases[probe.PhaseDuring]; !before.IsZero() {
			m.QuietSeconds = math.Round(during.Sub(before).Seconds())
		}
		for _, w := range details.Watches {
			m.WatchResets += w.Resets
			m.WatchLagMs = max(m.WatchLagMs, w.MaxLagMs)
		}
		m.UnavailableSeconds, m.IntervalSeconds = unavailable(details.Series, details.Phases[probe.PhaseDuring])
	}
	for _, step := range report.Steps {
		m.Steps = append(m.Steps,
			data.Step{Name: string(step.Condition), Owner: step.Owner, Seconds: step.Seconds,
				WriteP99Ms: step.WriteP99Ms, WriteMaxMs: step.WriteMaxMs})
	}
	if kind == data.KindLive {
		m.Etcd = map[string]data.Etcd{}
		for role, etcd := range report.Etcd {
			m.Etcd[role] = data.Etcd{SixMemberSeconds: etcd.SixMemberWindowSeconds,
				Joins: joins(report.Details.Etcd[role])}
		}
	}
	before, during := report.Details.Machine["before"], report.Details.Machine["during"]
	m.CPUCores = data.ByPhase{Quiet: before.CPUCores, During: during.CPUCores}
	m.MemoryMiB = data.ByPhase{Quiet: float64(before.MaxMemoryMiB), During: float64(during.MaxMemoryMiB)}
	return m
}

// writes turns the figures of a part of the writes, of which so many were lost, into what is recorded.
func writes(part *recording.WriteFigures, lost int64) *data.Writes {
	if part == nil {
		return nil
	}
	return &data.Writes{
		Sent: part.Sent, Failed: part.Failed, Lost: lost,
		GapMs: data.ByPhase{Quiet: float64(part.BaselineLongestGapMs), During: float64(part.LongestGapMs)},
		P50Ms: data.ByPhase{Quiet: part.P50Ms.Before, During: part.P50Ms.During},
		P99Ms: data.ByPhase{Quiet: part.P99Ms.Before, During: part.P99Ms.During},
	}
}

// outcome tells what became of a migration that ended with the error.
func outcome(err error) (outcome, reason string) {
	var refused *demo.RefusedError
	switch {
	case err == nil:
		return data.OutcomeCompleted, ""
	case errors.As(err, &refused):
		return data.OutcomeRefused, err.Error()
	}
	return data.OutcomeStopped, err.Error()
}

// unavailable sums up the intervals since the time in which not a single write was acknowledged. The last interval is
// left out: the load ended within it.
func unavailable(series *probe.Series, since time.Time) (seconds, interval float64) {
	if series == nil {
		return 0, 0
	}
	for i, point := range series.Points[:max(len(series.Points)-1, 0)] {
		begin := series.Begin.Add(time.Duration(float64(i) * series.IntervalSeconds * float64(time.Second)))
		if point.Writes == 0 && !begin.Before(since) {
			seconds += series.IntervalSeconds
		}
	}
	return seconds, series.IntervalSeconds
}

// joins returns the members that became voters, with the time since they had been added. There is never more than one
// learner in a cluster, and one that has not started has no name yet.
func joins(changes []driver.MembersAt) []data.Join {
	var out []data.Join
	voters := map[string]bool{}
	var since time.Time
	for i, change := range changes {
		learner := false
		for _, member := range change.Members {
			if member.Learner {
				learner = true
				continue
			}
			if !voters[member.Name] {
				voters[member.Name] = true
				if i == 0 {
					continue
				}
				join := data.Join{Member: member.Name}
				// One that was never seen as a learner joined between two looks.
				if !since.IsZero() {
					join.Seconds = math.Round(change.Time.Sub(since).Seconds()*10) / 10
				}
				out, since = append(out, join), time.Time{}
			}
		}
		switch {
		case !learner:
			since = time.Time{}
		case since.IsZero():
			since = change.Time
		}
	}
	return out
}
