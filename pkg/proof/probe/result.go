// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// What a run comes to is recorded together with the migration: pkg/proof/recording has the types.
type (
	// Result is what the clients had to endure.
	Result = recording.Probe
	// Details say more.
	Details = recording.ProbeDetails
	// WatchDetails is what one long watch saw.
	WatchDetails = recording.Watch
	// ByPhase is a figure for each phase, in milliseconds.
	ByPhase = recording.ByPhase
	// Phase is a part of a run.
	Phase = recording.Phase
	// Incident is one failure that the probe met.
	Incident = recording.Incident
	// Series is the course of a run in points of equal length.
	Series = recording.Series
	// Point is what happened in one interval of a Series.
	Point = recording.Point
	// DNSResult is what a DNSWatch saw.
	DNSResult = recording.Answers
	// DNSChange is an answer that differs from the one before.
	DNSChange = recording.AnswerChange
	// KindDetails counts the requests of one verb and kind.
	KindDetails = recording.KindDetails
)

// The phases of a run.
const (
	PhaseBefore = recording.PhaseBefore
	PhaseDuring = recording.PhaseDuring
	PhaseAfter  = recording.PhaseAfter
)

// Snapshot is the state of the counters at a moment.
type Snapshot struct {
	Writes, WritesFailed, Reads, ReadsFailed, RawConnectionErrors, WatchEvents int64
	// SinceLastWrite is the time since the last acknowledged write.
	SinceLastWrite time.Duration
	// LongestWriteGap is the longest time without an acknowledged write since the migration began, up to now.
	// BaselineLongestWriteGap is the one before.
	LongestWriteGap, BaselineLongestWriteGap time.Duration
}

// Snapshot returns the present counts, for a live display.
func (p *Probe) Snapshot() Snapshot {
	s := Snapshot{
		Writes:              p.counters.writes.Load(),
		WritesFailed:        p.counters.writesFailed.Load(),
		Reads:               p.counters.reads.Load(),
		ReadsFailed:         p.counters.readsFailed.Load(),
		RawConnectionErrors: p.clients.errors(),
		SinceLastWrite:      time.Since(p.timeline.lastAck()),
	}
	s.BaselineLongestWriteGap, s.LongestWriteGap = p.timeline.gaps(time.Now())
	for _, w := range p.watchers {
		s.WatchEvents += w.events.Load()
	}
	return s
}

func (p *Probe) result(lostWrites, lostEvents int64) *Result {
	baseline, rest := p.timeline.gaps(p.loadEnded)
	seconds := p.loadEnded.Sub(p.timeline.begin).Seconds()
	r := &Result{
		Writes:                    p.counters.writes.Load(),
		WritesFailed:              p.counters.writesFailed.Load(),
		Reads:                     p.counters.reads.Load(),
		ReadsFailed:               p.counters.readsFailed.Load(),
		WritesRetryable:           p.counters.writesRetryable.Load(),
		ReadsRetryable:            p.counters.readsRetryable.Load(),
		RawConnectionErrors:       p.clients.errors(),
		LongestWriteGapMs:         rest.Milliseconds(),
		BaselineLongestWriteGapMs: baseline.Milliseconds(),
		WriteP99Ms:                p.timeline.byPhase(0.99),
	}
	scheduled := p.schedule.counts()
	due, unsent := sumOf(scheduled)
	d := &Details{
		AcknowledgedWritesLost: lostWrites,
		AcknowledgedEventsLost: lostEvents,
		Seconds:                seconds,
		RequestsPerSecond:      float64(r.Writes+r.Reads) / max(seconds, 1e-3),
		RequestsDue:            due,
		MissedTicks:            unsent,
		Scheduled:              scheduled,
		StaleReads:             p.counters.stale.Load(),
		WriteP50Ms:             p.timeline.byPhase(0.5),
		Dials:                  p.clients.dials.Load(),
		DialErrors:             p.clients.dialErrors.Load(),
		HandshakeErrors:        p.clients.handshakeErrors.Load(),
		ConnectionsLost:        p.clients.lost.Load(),
		RequestsResent:         p.clients.resent.Load(),
		RequestsDeferred:       p.clients.deferred.Load(),
		Phases:                 p.timeline.phases(),
		Series:                 p.timeline.series(p.loadEnded),
	}
	r.Details = d
	for _, w := range p.watchers {
		seen := w.result()
		r.WatchEvents += seen.Events
		r.WatchEventsLost += seen.Lost
		d.Watches = append(d.Watches, seen)
	}
	p.setKinds(r)
	p.setParts(r)
	if p.dnsWatch != nil {
		dns := p.dnsWatch.Result()
		d.DNS = &dns
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Incidents = append([]Incident{}, p.incidents...)
	d.IncidentsDropped = p.dropped
	return r
}

// setKinds sets what the result says of the kinds of requests, the informers and the election.
func (p *Probe) setKinds(r *Result) {
	d := r.Details
	d.Kinds, d.Skipped = p.kinds.details(), p.skipped
	d.LeadershipLost = p.counters.leadershipLost.Load()
	for _, i := range p.informers {
		d.Relists += i.relists()
		behind, examples := i.missing()
		r.WatchEventsLost += behind
		if behind > 0 {
			p.incident(kindWatch, fmt.Errorf("the informer of %s does not have what was acknowledged of %d objects, "+
				"such as %s", i.kind, behind, strings.Join(examples, ", ")))
		}
	}
}

// sumOf sums up what was due, and what of it was not sent.
func sumOf(scheduled map[string]recording.Scheduled) (due, unsent int64) {
	for _, counts := range scheduled {
		due += counts.Due
		unsent += counts.Unsent
	}
	return due, unsent
}

// byPhase returns the latency that the given share of each phase's writes did not exceed.
func (t *timeline) byPhase(share float64) ByPhase {
	return ByPhase{
		Before: milliseconds(t.percentile(PhaseBefore, share)),
		During: milliseconds(t.percentile(PhaseDuring, share)),
		After:  milliseconds(t.percentile(PhaseAfter, share)),
	}
}

// figures returns what a part of the writes comes to, without their numbers.
func (t *timeline) figures(end time.Time) *recording.WriteFigures {
	baseline, rest := t.gaps(end)
	return &recording.WriteFigures{LongestGapMs: rest.Milliseconds(), BaselineLongestGapMs: baseline.Milliseconds(),
		P50Ms: t.byPhase(0.5), P99Ms: t.byPhase(0.99)}
}

// setParts sets what the result says of Events apart from other writes.
func (p *Probe) setParts(r *Result) {
	events, others := p.events.figures(p.loadEnded), p.others.figures(p.loadEnded)
	for _, kind := range r.Details.Kinds {
		if kind.Kind == kindEvent && kind.Verb == verbCreate {
			events.Sent, events.Failed = kind.Sent, kind.Failed
		}
	}
	others.Sent, others.Failed = r.Writes-events.Sent, r.WritesFailed-events.Failed
	r.Details.EventWrites, r.Details.OtherWrites = events, others
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d.Microseconds())/100) / 10
}
