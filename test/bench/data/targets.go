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
	windowNearSeconds = 6
	windowFarSeconds  = 12
	maxDurationRatio  = 0.9
	maxGapRatio       = 2
	maxStallMs        = 1500
	maxP99Ratio       = 3
	maxRelaySeconds   = 25
	productionSeconds = 400
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
		production(set),
		window(set, 0, windowNearSeconds),
		window(set, farthestMs, windowFarSeconds),
		gap(set),
		stall(set),
		p99(set),
		relayProcessor(set),
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

// nearby returns the live migrations without a distance.
func nearby(set Set) []Migration {
	if run := atDistance(set, 0); run != nil && (set.Live == nil || run != set.Live.Live) {
		return []Migration{*run}
	}
	return set.Live.Of(KindLive)
}

// incomplete returns the outcome of a run that was not completed; empty if there is none.
func incomplete(runs []Migration) string {
	for _, run := range runs {
		if run.Outcome != OutcomeCompleted {
			return run.Outcome
		}
	}
	return ""
}

// failedRequests is only measured if the farthest distance is.
func failedRequests(set Set) Target {
	target := Target{Name: fmt.Sprintf("failed requests of live migrations at any distance up to %d ms", farthestMs),
		Wanted: "0"}
	if atDistance(set, farthestMs) == nil {
		return target
	}
	runs := set.Live.Of(KindLive)
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
	target := Target{Name: "duration of a live migration",
		Wanted: fmt.Sprintf("at most %.1f times that of a classic one", maxDurationRatio)}
	lives, classics := set.Live.Of(KindLive), set.Live.Of(KindClassic)
	if len(lives) == 0 || len(classics) == 0 {
		return target
	}
	for _, runs := range [][]Migration{lives, classics} {
		if outcome := incomplete(runs); outcome != "" {
			target.Got = fmt.Sprintf("a %s one was %s", runs[0].Kind, outcome)
			return target
		}
	}
	seconds := func(m Migration) float64 { return m.Seconds }
	live, classic := SpreadOver(lives, seconds), SpreadOver(classics, seconds)
	target.Got = fmt.Sprintf("%.2f times (%.0f s, classic %.0f s)", ratio(live.Median, classic.Median), live.Median,
		classic.Median)
	target.Met = live.Median <= maxDurationRatio*classic.Median
	return target
}

func production(set Set) Target {
	target := Target{Name: "duration with the waits of production",
		Wanted: fmt.Sprintf("at most %d s", productionSeconds)}
	return worst(target, set.Production.Of(KindLive), productionSeconds, figure{
		of: func(m Migration) float64 { return m.Seconds }, show: "%.0f s"})
}

func window(set Set, roundTripMs int, limit float64) Target {
	target := Target{Name: fmt.Sprintf("six-member window at %d ms", roundTripMs),
		Wanted: fmt.Sprintf("at most %.0f s", limit)}
	runs := nearby(set)
	if roundTripMs > 0 {
		runs = nil
		if run := atDistance(set, roundTripMs); run != nil {
			runs = []Migration{*run}
		}
	}
	return worst(target, runs, limit, figure{of: Migration.SixMemberSeconds, show: "%.1f s"})
}

// figure is one of a migration, and how it is shown.
type figure struct {
	of   func(Migration) float64
	show string
}

// worst judges a figure by the run in which it is largest.
func worst(target Target, runs []Migration, limit float64, f figure) Target {
	if len(runs) == 0 {
		return target
	}
	if outcome := incomplete(runs); outcome != "" {
		target.Got = outcome
		return target
	}
	spread := SpreadOver(runs, f.of)
	target.Got = fmt.Sprintf(f.show, spread.High)
	if spread.Runs > 1 {
		target.Got += fmt.Sprintf(", the most of %d runs", spread.Runs)
	}
	target.Met = spread.High <= limit
	return target
}

// worstRatio judges a figure by the run in which it is the most times the quiet one. Without a quiet one in each run,
// nothing is met.
func worstRatio(target Target, runs []Migration, limit float64, of func(Migration) ByPhase) Target {
	if len(runs) == 0 {
		return target
	}
	if outcome := incomplete(runs); outcome != "" {
		target.Got = outcome
		return target
	}
	var most ByPhase
	quiet := true
	for _, run := range runs {
		p := of(run)
		quiet = quiet && p.Quiet > 0
		if p.Ratio() >= most.Ratio() {
			most = p
		}
	}
	target.Got = fmt.Sprintf("%.1f times (%.0f ms, quiet %.0f ms)", most.Ratio(), most.During, most.Quiet)
	if len(runs) > 1 {
		target.Got += fmt.Sprintf(", the most of %d runs", len(runs))
	}
	target.Met = quiet && most.Ratio() <= limit
	return target
}

func gap(set Set) Target {
	target := Target{Name: "longest gap between writes at 0 ms",
		Wanted: fmt.Sprintf("at most %d times the quiet one", maxGapRatio)}
	return worstRatio(target, nearby(set), maxGapRatio, Migration.Gap)
}

func stall(set Set) Target {
	target := Target{Name: "longest time without an acknowledged write at 0 ms",
		Wanted: fmt.Sprintf("at most %.1f s", maxStallMs/1000.0)}
	return worst(target, nearby(set), maxStallMs, figure{
		of: func(m Migration) float64 { return m.Gap().During }, show: "%.0f ms"})
}

func p99(set Set) Target {
	target := Target{Name: "p99 of writes at 0 ms", Wanted: fmt.Sprintf("at most %d times the quiet one", maxP99Ratio)}
	return worstRatio(target, nearby(set), maxP99Ratio, Migration.P99)
}

func relayProcessor(set Set) Target {
	target := Target{Name: "processor of all relays in a live migration",
		Wanted: fmt.Sprintf("at most %d s", maxRelaySeconds)}
	return worst(target, nearby(set), maxRelaySeconds, figure{
		of: func(m Migration) float64 { return m.Processes["livecpm-relay"].CPUSeconds }, show: "%.1f s"})
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
