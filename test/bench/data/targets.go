// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data

import "fmt"

// Target is something that the figures are measured against.
type Target struct {
	// Name says what is measured, Wanted what it should be.
	Name, Wanted string
	// Got is what it is; empty if it was not measured.
	Got string
	// Met reports that the target is reached.
	Met bool
}

// Measured reports whether there is a figure.
func (t Target) Measured() bool { return t.Got != "" }

const (
	farthestMs        = 180
	windowNearSeconds = 10
	windowFarSeconds  = 30
	maxGapRatio       = 2
	maxOverheadUs     = 1000
	minMBPerCPUSecond = 300
	agentInFlight     = 50
	maxAgentMB        = 150
	largeMiB          = 1024
	maxTransferRatio  = 1.5
	bytesPerMiB       = 1 << 20
	bytesPerMB        = 1_000_000
)

// Targets compares the figures with what they should be.
func Targets(set Set) []Target {
	return []Target{
		failedRequests(set),
		duration(set),
		window(set, 0, windowNearSeconds),
		window(set, farthestMs, windowFarSeconds),
		gap(set),
		overhead(set),
		throughput(set),
		agentMemory(set),
		join(set),
	}
}

// atDistance returns the live migration with so much round trip between the seeds.
func atDistance(set Set, roundTripMs int) *Migration {
	if set.Distance != nil {
		for i := range set.Distance.Runs {
			if set.Distance.Runs[i].RoundTripMs == roundTripMs {
				return &set.Distance.Runs[i].Migration
			}
		}
	}
	if roundTripMs == 0 && set.Live != nil {
		return set.Live.Live
	}
	return nil
}

// failedRequests is only measured if the farthest distance is.
func failedRequests(set Set) Target {
	target := Target{Name: fmt.Sprintf("failed requests of live migrations at any distance up to %d ms", farthestMs),
		Wanted: "0"}
	if atDistance(set, farthestMs) == nil {
		return target
	}
	var runs []Migration
	if set.Live != nil && set.Live.Live != nil {
		runs = append(runs, *set.Live.Live)
	}
	for _, run := range set.Distance.Runs {
		runs = append(runs, run.Migration)
	}
	var failed int64
	target.Met = true
	for _, run := range runs {
		if run.RoundTripMs > farthestMs {
			continue
		}
		if run.Outcome != OutcomeCompleted {
			target.Got, target.Met = fmt.Sprintf("%s at %d ms", run.Outcome, run.RoundTripMs), false
			return target
		}
		failed += run.Failed()
	}
	target.Got, target.Met = fmt.Sprint(failed), failed == 0
	return target
}

func duration(set Set) Target {
	target := Target{Name: "duration of a live migration", Wanted: "not above that of a classic one"}
	if set.Live == nil || set.Live.Live == nil || set.Live.Classic == nil {
		return target
	}
	live, classic := set.Live.Live, set.Live.Classic
	for _, m := range []*Migration{live, classic} {
		if m.Outcome != OutcomeCompleted {
			target.Got = fmt.Sprintf("the %s one was %s", m.Kind, m.Outcome)
			return target
		}
	}
	target.Got = fmt.Sprintf("%.0f s, classic %.0f s", live.Seconds, classic.Seconds)
	target.Met = live.Seconds <= classic.Seconds
	return target
}

func window(set Set, roundTripMs int, limit float64) Target {
	target := Target{Name: fmt.Sprintf("six-member window at %d ms", roundTripMs),
		Wanted: fmt.Sprintf("at most %.0f s", limit)}
	if run := atDistance(set, roundTripMs); run != nil {
		if run.Outcome != OutcomeCompleted {
			target.Got = run.Outcome
			return target
		}
		target.Got = fmt.Sprintf("%.1f s", run.SixMemberSeconds())
		target.Met = run.SixMemberSeconds() <= limit
	}
	return target
}

func gap(set Set) Target {
	target := Target{Name: "longest gap between writes at 0 ms",
		Wanted: fmt.Sprintf("at most %d times the quiet one", maxGapRatio)}
	if run := atDistance(set, 0); run != nil {
		if run.Outcome != OutcomeCompleted {
			target.Got = run.Outcome
			return target
		}
		target.Got = fmt.Sprintf("%.1f times (%.0f ms, quiet %.0f ms)", run.WriteGapMs.Ratio(), run.WriteGapMs.During,
			run.WriteGapMs.Quiet)
		target.Met = run.WriteGapMs.Quiet > 0 && run.WriteGapMs.Ratio() <= maxGapRatio
	}
	return target
}

func overhead(set Set) Target {
	target := Target{Name: "p99 of a round trip through the relays",
		Wanted: fmt.Sprintf("at most %.0f ms above a direct one", maxOverheadUs/1000.0)}
	if set.Relay != nil {
		added := set.Relay.RoundTrip.Relayed.P99 - set.Relay.RoundTrip.Direct.P99
		target.Got = fmt.Sprintf("%.2f ms above", added/1000)
		target.Met = added <= maxOverheadUs
	}
	return target
}

func throughput(set Set) Target {
	target := Target{Name: "throughput of a relay with one core",
		Wanted: fmt.Sprintf("at least %d MB/s", minMBPerCPUSecond)}
	if set.Relay != nil {
		target.Got = fmt.Sprintf("%.0f MB/s", set.Relay.MBPerCPUSecond())
		target.Met = set.Relay.MBPerCPUSecond() >= minMBPerCPUSecond
	}
	return target
}

func agentMemory(set Set) Target {
	target := Target{Name: fmt.Sprintf("memory of an agent with %d migrations in flight", agentInFlight),
		Wanted: fmt.Sprintf("at most %d MB", maxAgentMB)}
	if set.Agent == nil {
		return target
	}
	for _, run := range set.Agent.Runs {
		if run.InFlight == agentInFlight {
			mb := run.Agents.PeakMiB * bytesPerMiB / bytesPerMB
			target.Got, target.Met = fmt.Sprintf("%.0f MB", mb), mb <= maxAgentMB
		}
	}
	return target
}

// join compares the join with the time that the relays take for so many bytes. Both are without a distance.
func join(set Set) Target {
	target := Target{Name: "join with 1 GB of data",
		Wanted: fmt.Sprintf("at most %.1f times the transfer through the relays", maxTransferRatio)}
	if set.Size == nil || set.Relay == nil || set.Relay.RelayedMBPerSecond == 0 {
		return target
	}
	for _, run := range set.Size.Runs {
		if run.MiB != largeMiB {
			continue
		}
		if run.Outcome != OutcomeCompleted {
			target.Got = run.Outcome
			return target
		}
		transfer := run.DatabaseMiB * bytesPerMiB / bytesPerMB / set.Relay.RelayedMBPerSecond
		times := ratio(run.LongestJoin(), transfer)
		target.Got = fmt.Sprintf("%.1f times (%.1f s, transfer %.1f s)", times, run.LongestJoin(), transfer)
		target.Met = times > 0 && times <= maxTransferRatio
	}
	return target
}
