// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"fmt"
	"time"
)

// Probe is what the clients of a shoot had to endure.
type Probe struct {
	Writes                    int64         `json:"writes"`
	WritesFailed              int64         `json:"writesFailed"`
	Reads                     int64         `json:"reads"`
	ReadsFailed               int64         `json:"readsFailed"`
	RawConnectionErrors       int64         `json:"rawConnectionErrors"`
	WatchEvents               int64         `json:"watchEvents"`
	WatchEventsLost           int64         `json:"watchEventsLost"`
	LongestWriteGapMs         int64         `json:"longestWriteGapMs"`
	BaselineLongestWriteGapMs int64         `json:"baselineLongestWriteGapMs"`
	WriteP99Ms                ByPhase       `json:"writeP99Ms"`
	Details                   *ProbeDetails `json:"-"`
}

// ByPhase is a figure for each phase, in milliseconds.
type ByPhase struct {
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
}

// ProbeDetails say more than the report has room for.
type ProbeDetails struct {
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
	// RequestsDeferred counts answers with Retry-After, upon which client-go would send the request again by itself.
	// They are among the failed requests.
	RequestsDeferred int64 `json:"requestsDeferred"`

	Watches []Watch  `json:"watches"`
	DNS     *Answers `json:"dns,omitempty"`

	// Phases holds when each phase began.
	Phases map[Phase]time.Time `json:"phases,omitempty"`
	// Series is the course of the run.
	Series *Series `json:"series,omitempty"`

	Incidents        []Incident `json:"incidents"`
	IncidentsDropped int64      `json:"incidentsDropped"`
}

// Watch is what one long watch saw.
type Watch struct {
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
func (p *Probe) Failures() []string {
	var out []string
	add := func(count int64, what string) {
		if count != 0 {
			out = append(out, fmt.Sprintf("%d %s", count, what))
		}
	}
	add(p.WritesFailed, "writes failed")
	add(p.ReadsFailed, "reads failed")
	add(p.WatchEventsLost, "watch events were lost")
	if d := p.Details; d != nil {
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
	if p.Details == nil || !p.Details.Verified {
		out = append(out, "the acknowledged writes could not be verified")
	}
	if p.Writes == 0 || p.Reads == 0 {
		out = append(out, "the run was too short: nothing was written or read")
	}
	return out
}

// Series is the course of a run in points of equal length.
type Series struct {
	// Begin is when the first point begins.
	Begin time.Time `json:"begin"`
	// IntervalSeconds is how much time a point stands for.
	IntervalSeconds float64 `json:"intervalSeconds"`
	// Points are the points.
	Points []Point `json:"points"`
}

// Point is what happened in one interval.
type Point struct {
	// Writes is the number of acknowledged writes.
	Writes int `json:"writes"`
	// P50Ms, P99Ms and MaxMs are their latencies; zero if there were none.
	P50Ms float64 `json:"p50Ms"`
	P99Ms float64 `json:"p99Ms"`
	MaxMs float64 `json:"maxMs"`
	// Failed is the number of requests of any kind that failed.
	Failed int `json:"failed,omitempty"`
}

// AnswerChange is an answer that differs from the one before.
type AnswerChange struct {
	Time    time.Time `json:"time"`
	Name    string    `json:"name"`
	Answer  string    `json:"answer"`
	TTL     string    `json:"ttl,omitempty"`
	Missing bool      `json:"missing,omitempty"`
}

// Answers is what a watch of names at their DNS server saw.
type Answers struct {
	Samples int64 `json:"samples"`
	// Unanswered counts samples to which the server gave no usable answer at all.
	Unanswered int64 `json:"unanswered"`
	// MomentsWithoutRecord counts the times at which a name was found without a record, each stretch once.
	MomentsWithoutRecord int64          `json:"momentsWithoutRecord"`
	Changes              []AnswerChange `json:"changes"`
}

// Incident is one failure that the probe met.
type Incident struct {
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"`
	Error string    `json:"error"`
}

// Phase is a part of a run.
type Phase string

// The phases of a run: before the trigger, from the trigger to completion, and after completion.
const (
	PhaseBefore Phase = "before"
	PhaseDuring Phase = "during"
	PhaseAfter  Phase = "after"
)
