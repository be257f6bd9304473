// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math"
	"time"
)

// Result is what the clients had to endure. Its fields are named as the report of `make demo` names them.
type Result struct {
	Writes                    int64    `json:"writes"`
	WritesFailed              int64    `json:"writesFailed"`
	Reads                     int64    `json:"reads"`
	ReadsFailed               int64    `json:"readsFailed"`
	RawConnectionErrors       int64    `json:"rawConnectionErrors"`
	WatchEvents               int64    `json:"watchEvents"`
	WatchEventsLost           int64    `json:"watchEventsLost"`
	LongestWriteGapMs         int64    `json:"longestWriteGapMs"`
	BaselineLongestWriteGapMs int64    `json:"baselineLongestWriteGapMs"`
	WriteP99Ms                ByPhase  `json:"writeP99Ms"`
	Details                   *Details `json:"-"`
}

// ByPhase is a figure for each phase, in milliseconds.
type ByPhase struct {
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
}

// Details say more than the report has room for.
type Details struct {
	// Verified is true if everything acknowledged was looked for at the end.
	Verified bool `json:"verified"`
	// AcknowledgedWritesLost and AcknowledgedEventsLost are missing from etcd-main and etcd-events.
	AcknowledgedWritesLost int64 `json:"acknowledgedWritesLost"`
	AcknowledgedEventsLost int64 `json:"acknowledgedEventsLost"`

	Seconds           float64 `json:"seconds"`
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	// MissedTicks counts requests that were due and not sent because too many others were still waiting.
	MissedTicks int64   `json:"missedTicks"`
	StaleReads  int64   `json:"staleReads"`
	WriteP50Ms  ByPhase `json:"writeP50Ms"`

	Dials           int64 `json:"dials"`
	DialErrors      int64 `json:"dialErrors"`
	HandshakeErrors int64 `json:"handshakeErrors"`
	ConnectionsLost int64 `json:"connectionsLost"`
	RequestsResent  int64 `json:"requestsResent"`
	// RequestsDeferred counts answers with Retry-After, upon which client-go sent the request again.
	RequestsDeferred int64 `json:"requestsDeferred"`

	Watches []WatchDetails `json:"watches"`
	DNS     *DNSResult     `json:"dns,omitempty"`

	// Phases holds when each phase began.
	Phases map[Phase]time.Time `json:"phases,omitempty"`
	// Series is the course of the run.
	Series *Series `json:"series,omitempty"`

	Incidents        []Incident `json:"incidents"`
	IncidentsDropped int64      `json:"incidentsDropped"`
}

// WatchDetails is what one long watch saw.
type WatchDetails struct {
	Events int64 `json:"events"`
	Lost   int64 `json:"lost"`
	// LostExamples names some of the writes of which no event came.
	LostExamples []string `json:"lostExamples,omitempty"`
	// Established counts how often the watch was opened, Resets how often it could not continue where it had stopped.
	Established int64   `json:"established"`
	Resets      int64   `json:"resets"`
	Duplicates  int64   `json:"duplicates"`
	OutOfOrder  int64   `json:"outOfOrder"`
	MaxLagMs    float64 `json:"maxLagMs"`
}

// Failures says what the clients had to endure, one line for each kind; nothing if all went well. A check that was not
// made is no check that passed.
func (r *Result) Failures() []string {
	var out []string
	add := func(count int64, what string) {
		if count != 0 {
			out = append(out, fmt.Sprintf("%d %s", count, what))
		}
	}
	add(r.WritesFailed, "writes failed")
	add(r.ReadsFailed, "reads failed")
	add(r.WatchEventsLost, "watch events were lost")
	if d := r.Details; d != nil {
		add(d.AcknowledgedWritesLost, "acknowledged writes were lost")
		add(d.AcknowledgedEventsLost, "acknowledged Events were lost")
		if d.DNS != nil {
			add(d.DNS.MomentsWithoutRecord, "moments without a DNS record")
		}
		for i, w := range d.Watches {
			if w.Duplicates+w.OutOfOrder > 0 {
				out = append(out, fmt.Sprintf("watch %d delivered %d events twice and %d out of order", i+1,
					w.Duplicates, w.OutOfOrder))
			}
		}
	}
	if r.Details == nil || !r.Details.Verified {
		out = append(out, "the acknowledged writes could not be verified")
	}
	if r.Writes == 0 || r.Reads == 0 {
		out = append(out, "the run was too short: nothing was written or read")
	}
	return out
}

// Snapshot is the state of the counters at a moment.
type Snapshot struct {
	Writes, WritesFailed, Reads, ReadsFailed, RawConnectionErrors, WatchEvents int64
	// SinceLastWrite is the time since the last acknowledged write.
	SinceLastWrite time.Duration
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
		RawConnectionErrors:       p.clients.errors(),
		LongestWriteGapMs:         rest.Milliseconds(),
		BaselineLongestWriteGapMs: baseline.Milliseconds(),
		WriteP99Ms:                p.byPhase(0.99),
	}
	d := &Details{
		AcknowledgedWritesLost: lostWrites,
		AcknowledgedEventsLost: lostEvents,
		Seconds:                seconds,
		RequestsPerSecond:      float64(r.Writes+r.Reads) / max(seconds, 1e-3),
		MissedTicks:            p.counters.missedTicks.Load(),
		StaleReads:             p.counters.stale.Load(),
		WriteP50Ms:             p.byPhase(0.5),
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
		lost, examples := w.missing(p.ledger)
		r.WatchEvents += w.events.Load()
		r.WatchEventsLost += lost
		d.Watches = append(d.Watches, WatchDetails{
			Events:       w.events.Load(),
			Lost:         lost,
			LostExamples: examples,
			Established:  w.established.Load(),
			Resets:       w.resets.Load(),
			Duplicates:   w.duplicates.Load(),
			OutOfOrder:   w.disorder.Load(),
			MaxLagMs:     milliseconds(time.Duration(w.maxLag.Load())),
		})
	}
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

func (p *Probe) byPhase(share float64) ByPhase {
	return ByPhase{
		Before: milliseconds(p.timeline.percentile(PhaseBefore, share)),
		During: milliseconds(p.timeline.percentile(PhaseDuring, share)),
		After:  milliseconds(p.timeline.percentile(PhaseAfter, share)),
	}
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d.Microseconds())/100) / 10
}
