// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recording

import "time"

// Probe is what the clients of a shoot had to endure.
type Probe struct {
	// WritesFailed and ReadsFailed failed at the first try; there is no other.
	Writes       int64 `json:"writes"`
	WritesFailed int64 `json:"writesFailed"`
	Reads        int64 `json:"reads"`
	ReadsFailed  int64 `json:"readsFailed"`
	// WritesRetryable and ReadsRetryable are those of the failed ones that a client with client-go's defaults would
	// have sent again by itself, by client-go's rules for the first answer. Whether that would have helped is not
	// known: the others are the least that such a client has seen fail.
	WritesRetryable           int64   `json:"writesRetryable"`
	ReadsRetryable            int64   `json:"readsRetryable"`
	RawConnectionErrors       int64   `json:"rawConnectionErrors"`
	WatchEvents               int64   `json:"watchEvents"`
	WatchEventsLost           int64   `json:"watchEventsLost"`
	LongestWriteGapMs         int64   `json:"longestWriteGapMs"`
	BaselineLongestWriteGapMs int64   `json:"baselineLongestWriteGapMs"`
	WriteP99Ms                ByPhase `json:"writeP99Ms"`
	// AgreedGap reports that the users of the shoot have agreed to one gap, because its etcds have one member each.
	AgreedGap bool          `json:"agreedGap,omitempty"`
	Details   *ProbeDetails `json:"-"`
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
	// RequestsDue counts the requests that were due by the schedule, MissedTicks those of them that were not sent,
	// because too many others were still waiting or because the probe itself was too late. Scheduled has both by kind.
	RequestsDue int64                `json:"requestsDue"`
	MissedTicks int64                `json:"missedTicks"`
	Scheduled   map[string]Scheduled `json:"scheduled,omitempty"`
	StaleReads  int64                `json:"staleReads"`
	// WriteP50Ms is counted from when writes were due, as all latencies are.
	WriteP50Ms ByPhase `json:"writeP50Ms"`
	// EventWrites are the creations of Events, which are in etcd-events, OtherWrites all other writes, which are in
	// etcd-main. All writes together hide a gap in one of the two. They are missing in records from before they were
	// kept apart.
	EventWrites *WriteFigures `json:"eventWrites,omitempty"`
	OtherWrites *WriteFigures `json:"otherWrites,omitempty"`

	Dials           int64 `json:"dials"`
	DialErrors      int64 `json:"dialErrors"`
	HandshakeErrors int64 `json:"handshakeErrors"`
	ConnectionsLost int64 `json:"connectionsLost"`
	RequestsResent  int64 `json:"requestsResent"`
	// RequestsDeferred counts answers with Retry-After, upon which client-go would send the request again by itself.
	// They are among the failed requests.
	RequestsDeferred int64 `json:"requestsDeferred"`

	// Kinds counts the requests of each verb and kind.
	Kinds []KindDetails `json:"kinds,omitempty"`
	// Relists is how often an informer had to list all its objects again. Every informer of a cluster would have had
	// to.
	Relists int64 `json:"relists"`
	// LeadershipLost is how often a leader was not able to renew its Lease in time. They are among the failed writes.
	LeadershipLost int64 `json:"leadershipLost"`
	// Skipped says what the load had to do without.
	Skipped []string `json:"skipped,omitempty"`

	Watches []Watch  `json:"watches"`
	DNS     *Answers `json:"dns,omitempty"`

	// Phases holds when each phase began.
	Phases map[Phase]time.Time `json:"phases,omitempty"`
	// Series is the course of the run.
	Series *Series `json:"series,omitempty"`

	Incidents        []Incident `json:"incidents"`
	IncidentsDropped int64      `json:"incidentsDropped"`
}

// WriteFigures are those of a part of the writes.
type WriteFigures struct {
	// Sent is how many were sent, Failed how many of them failed.
	Sent   int64 `json:"sent"`
	Failed int64 `json:"failed"`
	// LongestGapMs is the longest time without one that was acknowledged from the trigger on, BaselineLongestGapMs the
	// one before.
	LongestGapMs         int64 `json:"longestGapMs"`
	BaselineLongestGapMs int64 `json:"baselineLongestGapMs"`
	// P50Ms and P99Ms are counted from when they were due.
	P50Ms ByPhase `json:"p50Ms"`
	P99Ms ByPhase `json:"p99Ms"`
}

// KindDetails counts the requests of one verb and kind.
type KindDetails struct {
	// Verb and Kind say what the requests do, as in merge patch and ConfigMap.
	Verb string `json:"verb"`
	Kind string `json:"kind"`
	// Sent is how many were sent, Failed how many of them failed at the first try; there is no other.
	Sent   int64 `json:"sent"`
	Failed int64 `json:"failed"`
	// Retryable are those of the failed ones that client-go would have sent again by default.
	Retryable int64 `json:"retryable"`
	// P99Ms is what 99 % of those that succeeded have not exceeded, from when they were due; zero where it was not
	// measured: of watches, and of elections.
	P99Ms ByPhase `json:"p99Ms"`
}

// Scheduled counts requests of one kind.
type Scheduled struct {
	// Due is how many were due by the schedule, Unsent how many of them were not sent.
	Due    int64 `json:"due"`
	Unsent int64 `json:"unsent"`
}

// Watch is what one long watch saw.
type Watch struct {
	Events int64 `json:"events"`
	Lost   int64 `json:"lost"`
	// LostExamples names some of the writes of which no event came.
	LostExamples []string `json:"lostExamples,omitempty"`
	// Established counts how often the watch was opened, Resets how often it could not continue where it had stopped.
	Established int64 `json:"established"`
	Resets      int64 `json:"resets"`
	// Broken counts how often the stream broke off, Failed how often the watch did not do what a watch has to. The
	// latter are among the failed reads.
	Broken     int64   `json:"broken,omitempty"`
	Failed     int64   `json:"failed,omitempty"`
	Duplicates int64   `json:"duplicates"`
	OutOfOrder int64   `json:"outOfOrder"`
	MaxLagMs   float64 `json:"maxLagMs"`
}

// Series is the course of a run in points of equal length.
type Series struct {
	// Begin is when the first point begins.
	Begin time.Time `json:"begin"`
	// IntervalSeconds is how much time a point stands for.
	IntervalSeconds float64 `json:"intervalSeconds"`
	// BoundsMs are the upper bounds of the buckets of all points; none in recordings from before 2026-11-27.
	BoundsMs []float64 `json:"boundsMs,omitempty"`
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
	// Counts are how many of them are in each bucket (see CountLatencies).
	Counts []int `json:"counts,omitempty"`
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
	// Retryable reports that it is a request that client-go would have sent again by default.
	Retryable bool `json:"retryable,omitempty"`
}

// Phase is a part of a run.
type Phase string

// The phases of a run: before the trigger, from the trigger to completion, and after completion.
const (
	PhaseBefore Phase = "before"
	PhaseDuring Phase = "during"
	PhaseAfter  Phase = "after"
)
