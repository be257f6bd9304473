// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// This file is the one place that judges what was recorded: for the demo, the suites, the report and kubectl livecpm.
// It is pure. A check that was not made is no check that passed.

// The bounds within which a recording is good.
const (
	// MaxUnsentPercent is how many of the requests that were due may not have been sent, of all and of each kind. A
	// load that became smaller proves less than it seems to.
	MaxUnsentPercent = 1
	// MaxWriteGap is the longest time without an acknowledged write, before the trigger and after it.
	MaxWriteGap = 5 * time.Second
	// MaxWatchLag is the longest time from the sending of a write to its event on a watch.
	MaxWatchLag = 10 * time.Second
	// MinRequestsPerSecond is the load of a migration below which it proves nothing.
	MinRequestsPerSecond = 60

	// maxSecondsPerLook is the time in which both seeds are looked at at least once on the average. The demo asks for
	// it every second; a busy machine answers later.
	maxSecondsPerLook = 5
	// finalVoters is how many voters an etcd cluster has at the end, and finalVoterWithGap how many one has whose shoot
	// is not highly available.
	finalVoters, finalVoterWithGap = 3, 1
)

// How the problems end that count failed requests, after the count and a space.
const (
	problemWritesFailed = "writes failed"
	problemReadsFailed  = "reads failed"
)

// problems collects what is wrong.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// count adds a count that must be zero.
func (p *problems) count(count int64, what string) {
	if count != 0 {
		p.add("%d %s", count, what)
	}
}

// Failures says what is wrong with what the clients had to endure, one line for each kind; nothing if all went well.
func (p *Probe) Failures() []string {
	var out problems
	out.count(p.WritesFailed, problemWritesFailed)
	out.count(p.ReadsFailed, problemReadsFailed)
	out.count(p.WatchEventsLost, "watch events were lost")
	if d := p.Details; d != nil {
		out.count(d.AcknowledgedWritesLost, "acknowledged writes were lost")
		out.count(d.AcknowledgedEventsLost, "acknowledged Events were lost")
		if d.DNS != nil {
			out.count(d.DNS.MomentsWithoutRecord, "moments without a DNS record")
			if d.DNS.Unanswered > 0 {
				out.add("the DNS server did not answer %d of %d samples", d.DNS.Unanswered, d.DNS.Samples)
			}
		}
		out = append(out, p.watchFailures()...)
		out = append(out, d.unsent()...)
	}
	out = append(out, p.gap()...)
	out = p.withoutAgreedGap(out)
	if p.Details == nil || !p.Details.Verified {
		out.add("the acknowledged writes could not be verified")
	}
	if p.Writes == 0 || p.Reads == 0 {
		out.add("the run was too short: nothing was written or read")
	}
	return out
}

// Unserved says what is wrong with how the requests were answered, in the words of Failures: requests that failed or
// were not sent, events that came late, a gap between writes. All of it also happens where a load alone takes the
// processors that the servers need. What was lost, and what was read wrongly, is never part of it.
func (p *Probe) Unserved() []string {
	var out problems
	out.count(p.WritesFailed, problemWritesFailed)
	if d := p.Details; d != nil {
		if d.StaleReads == 0 {
			out.count(p.ReadsFailed, problemReadsFailed)
		}
		for i, w := range d.Watches {
			out = append(out, w.late(i)...)
		}
		if d.RequestsDue != 0 {
			out = append(out, d.unsent()...)
		}
	}
	return append(out, p.gap()...)
}

// gap says whether too long no write was acknowledged.
func (p *Probe) gap() problems {
	var out problems
	if gap := p.LongestGap(); gap > MaxWriteGap {
		out.add("no write was acknowledged for %s, longer than %s", gap, MaxWriteGap)
	}
	return out
}

// LongestGap returns the longest time without an acknowledged write, before the trigger or after it.
func (p *Probe) LongestGap() time.Duration {
	return time.Duration(max(p.LongestWriteGapMs, p.BaselineLongestWriteGapMs)) * time.Millisecond
}

// MaxLag returns the longest time from the sending of a write to its event on any of the watches.
func (d *ProbeDetails) MaxLag() time.Duration {
	longest := 0.0
	for _, w := range d.Watches {
		longest = max(longest, w.MaxLagMs)
	}
	return time.Duration(longest * float64(time.Millisecond))
}

// watchFailures says what is wrong with the watches, beside those that count as failed reads.
func (p *Probe) watchFailures() problems {
	var out problems
	for i, w := range p.Details.Watches {
		if w.Duplicates+w.OutOfOrder > 0 {
			out.add("watch %d delivered %d events twice and %d out of order", i+1, w.Duplicates, w.OutOfOrder)
		}
		out = append(out, w.late(i)...)
	}
	if len(p.Details.Watches) > 0 && p.WatchEvents == 0 {
		out.add("the watches delivered no event")
	}
	return out
}

// late says whether the watch with the index delivered an event too late.
func (w *Watch) late(i int) problems {
	var out problems
	if lag := time.Duration(w.MaxLagMs * float64(time.Millisecond)); lag > MaxWatchLag {
		out.add("watch %d delivered an event %s after its write, later than %s", i+1, lag, MaxWatchLag)
	}
	return out
}

// unsent says whether the load became smaller than it was meant to be.
func (d *ProbeDetails) unsent() problems {
	var out problems
	if d.RequestsDue == 0 {
		out.add("how many requests were due is not known")
		return out
	}
	if tooMany(d.MissedTicks, d.RequestsDue) {
		out.add("%d of %d requests that were due were not sent, more than %d %%", d.MissedTicks, d.RequestsDue,
			MaxUnsentPercent)
	}
	for _, kind := range slices.Sorted(maps.Keys(d.Scheduled)) {
		// One request is more than the share of a kind of which few are due.
		if counts := d.Scheduled[kind]; counts.Unsent > 1 && tooMany(counts.Unsent, counts.Due) {
			out.add("%d of %d %s that were due were not sent, more than %d %%", counts.Unsent, counts.Due, kind,
				MaxUnsentPercent)
		}
	}
	return out
}

func tooMany(unsent, due int64) bool { return unsent*100 > due*MaxUnsentPercent }

// Expected is what a migration has that has come to its end.
type Expected struct {
	// Etcds are the roles of the etcd clusters.
	Etcds []string
	// Steps is the number of steps.
	Steps int
	// Phases are the phases in which both seeds must have been looked at.
	Phases []string
}

// Problems says what is wrong with a migration, one line for each problem; nothing if all went well.
func (r *Recording) Problems(d *Details, expected Expected) []string {
	var out problems
	out = append(out, r.Probe.Failures()...)
	if r.Probe.Details == nil {
		out.add("there was no load")
	} else {
		out = append(out, r.loadProblems()...)
	}
	for _, count := range []struct {
		name  string
		value int
	}{
		{"sourceEtcdRestarts", r.sourceEtcdRestarts()},
		{"controllersActiveInBothSeeds", len(r.ControllersActiveInBothSeeds)},
		{"objects left in the source seed", len(d.LeftInSource)},
	} {
		if count.value != 0 {
			out.add("%s must be 0 and is %d", count.name, count.value)
		}
	}
	for _, role := range expected.Etcds {
		out = append(out, r.etcdProblems(role)...)
	}
	if len(r.Steps) != expected.Steps {
		out.add("only %d of %d steps finished", len(r.Steps), expected.Steps)
	}
	out = append(out, r.ownershipProblems(expected.Phases)...)
	if r.Workers != nil {
		out = append(out, r.workersProblems()...)
	}
	for _, text := range d.ObserverErrors {
		out.add("an observer could not see everything: %s", text)
	}
	return out
}

// loadProblems says why the load may not be worth much, and what the DNS server itself tells.
func (r *Recording) loadProblems() problems {
	var out problems
	details := r.Probe.Details
	if details.RequestsPerSecond < MinRequestsPerSecond {
		out.add("the load was %.1f requests per second, less than %d", details.RequestsPerSecond, MinRequestsPerSecond)
	}
	if len(details.Watches) == 0 {
		out.add("there was no watch")
	}
	sampled := int64(0)
	if details.DNS == nil || details.DNS.Samples == 0 {
		out.add("no DNS record was sampled")
	} else {
		sampled = details.DNS.MomentsWithoutRecord
	}
	if r.DNSMomentsWithoutRecord > sampled {
		out.add("dnsMomentsWithoutRecord must be 0 and is %d", r.DNSMomentsWithoutRecord)
	}
	return out
}

// sourceEtcdRestarts counts those restarts of the source's etcds that must not be. An only member is removed while it
// works, ends by itself then, and its container starts again until the pod is taken away.
func (r *Recording) sourceEtcdRestarts() int {
	if r.Probe.AgreedGap {
		return 0
	}
	return r.SourceEtcdRestarts
}

// finalVoters is how many voters each etcd cluster has at the end.
func (p *Probe) finalVoters() int {
	if p.AgreedGap {
		return finalVoterWithGap
	}
	return finalVoters
}

func (r *Recording) etcdProblems(role string) problems {
	var out problems
	etcd, ok := r.Etcd[role]
	if !ok || len(etcd.Voters) == 0 {
		out.add("etcd-%s was not observed", role)
		return out
	}
	if etcd.AcknowledgedWritesLost != 0 {
		out.add("etcd.%s.acknowledgedWritesLost must be 0 and is %d", role, etcd.AcknowledgedWritesLost)
	}
	if !etcd.ClusterIDUnchanged {
		out.add("the cluster ID of etcd-%s changed", role)
	}
	if last, expected := etcd.Voters[len(etcd.Voters)-1], r.Probe.finalVoters(); last != expected {
		out.add("etcd-%s ended with %d voters instead of %d", role, last, expected)
	}
	return out
}

// ownershipProblems says who acted where it was not their turn, and when nobody looked.
func (r *Recording) ownershipProblems(phases []string) problems {
	var (
		out  problems
		seen Ownership
	)
	if r.Ownership != nil {
		seen = *r.Ownership
	}
	if len(seen.Violations) > 0 {
		out.add("ownership.violations must be 0 and is %d", len(seen.Violations))
		out.add("%s", seen.Violations[0])
	}
	if float64(seen.Samples) < r.DurationSeconds/maxSecondsPerLook || seen.Samples == 0 {
		out.add("who acts in which seed was looked at only %d times in %.0f s", seen.Samples, r.DurationSeconds)
	}
	for _, phase := range phases {
		if seen.Phases[phase] == 0 {
			out.add("who acts in which seed was never looked at in the phase %q", phase)
		}
	}
	return out
}
