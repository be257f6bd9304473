// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package report makes one document of a live migration: as a page for browsers, as Markdown, or as JSON. It is pure:
// it is given what was recorded, by the demo of the repository or in the Shoot.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Report is a live migration from the beginning to the end.
type Report struct {
	// Shoot is namespace and name of the shoot.
	Shoot string `json:"shoot"`
	// Source and Destination are the seeds; empty if they are not known any more.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	// Result is a word for the outcome, Good whether it is a good one.
	Result string `json:"result"`
	Good   bool   `json:"good"`
	// Problems say why the result is no good one.
	Problems []string `json:"problems,omitempty"`
	// Begin and End are what the time axes show. Triggered is when the migration was asked for; all other times are
	// told relative to it.
	Begin     time.Time `json:"begin"`
	End       time.Time `json:"end"`
	Triggered time.Time `json:"triggered"`
	// Seconds is how long the migration took; zero if it is not over.
	Seconds float64 `json:"seconds,omitempty"`
	// Steps are the steps in their order.
	Steps []Step `json:"steps"`
	// Etcds are the etcd clusters.
	Etcds []Etcd `json:"etcds,omitempty"`
	// Probe is what clients noticed; nil if nobody measured.
	Probe *Probe `json:"probe,omitempty"`
	// Facts are further figures.
	Facts []Fact `json:"facts,omitempty"`
	// Tables are what else was looked at.
	Tables []Table `json:"tables,omitempty"`
	// Events are what happened, in order.
	Events []Event `json:"events,omitempty"`

	// Zone is the time zone of the points in time in the sections of the page; nil for UTC.
	Zone *time.Location `json:"-"`

	// transitions are those that the steps were split by.
	transitions []recording.Transition
}

// Step is a step of the migration.
type Step struct {
	// Number, Condition, Owner and Title are those of the step table.
	Number    int    `json:"number"`
	Condition string `json:"condition"`
	Owner     string `json:"owner"`
	Title     string `json:"title"`
	// Begin and End are when it was at work; nil if it has not begun or ended, or nobody knows.
	Begin *time.Time `json:"begin,omitempty"`
	End   *time.Time `json:"end,omitempty"`
	// State is what its condition says if it has not ended.
	State string `json:"state,omitempty"`
	// WriteP99Ms is what 99 % of the writes that were acknowledged in it have not exceeded, WriteMaxMs the slowest of
	// them, in milliseconds; zero if there were none, or nobody measured.
	WriteP99Ms float64 `json:"writeP99Ms,omitempty"`
	WriteMaxMs float64 `json:"writeMaxMs,omitempty"`
	// Reasons are where it stood, in order, from its begin to its end; none if nobody looked.
	Reasons []Stand `json:"reasons,omitempty"`
}

// Etcd is an etcd cluster.
type Etcd struct {
	// Name is the name of the Etcd resources.
	Name string `json:"name"`
	// ClusterIDUnchanged reports that it was one cluster throughout.
	ClusterIDUnchanged bool `json:"clusterIDUnchanged"`
	// SixMemberSeconds is how long it had six voters, when it is at its weakest.
	SixMemberSeconds float64 `json:"sixMemberSeconds"`
	// Lost is the number of acknowledged writes that were lost.
	Lost int64 `json:"acknowledgedWritesLost"`
	// Changes are the member lists, each time they changed.
	Changes []Members `json:"changes"`
	// Unproved reports that its members were looked at, and nothing else: neither what the cluster was before nor what
	// became of writes is known.
	Unproved bool `json:"unproved,omitempty"`
}

// Members is a member list from a time on.
type Members struct {
	Time    time.Time          `json:"time"`
	Voters  int                `json:"voters"`
	Members []recording.Member `json:"members"`
}

// Probe is what clients noticed.
type Probe struct {
	Writes       int64 `json:"writes"`
	WritesFailed int64 `json:"writesFailed"`
	Reads        int64 `json:"reads"`
	ReadsFailed  int64 `json:"readsFailed"`
	// WritesRetryable and ReadsRetryable are those of the failed ones that client-go would have sent again by default.
	WritesRetryable int64 `json:"writesRetryable"`
	ReadsRetryable  int64 `json:"readsRetryable"`
	// RequestsDue and RequestsUnsent are the requests that were due, and those of them that were not sent.
	RequestsDue      int64 `json:"requestsDue,omitempty"`
	RequestsUnsent   int64 `json:"requestsUnsent,omitempty"`
	WatchEvents      int64 `json:"watchEvents"`
	WatchEventsLost  int64 `json:"watchEventsLost"`
	ConnectionErrors int64 `json:"connectionErrors"`
	// LongestGapMs is the longest time without an acknowledged write from the trigger on, BaselineGapMs the one before.
	LongestGapMs  int64 `json:"longestGapMs"`
	BaselineGapMs int64 `json:"baselineGapMs"`
	// MaxLagMs is the longest time from the sending of a write to its event on a watch.
	MaxLagMs int64 `json:"maxLagMs,omitempty"`
	// P50 and P99 are latencies of writes in milliseconds.
	P50 recording.ByPhase `json:"p50Ms"`
	P99 recording.ByPhase `json:"p99Ms"`
	// After is when the last phase began; zero if that is not known.
	After time.Time `json:"after,omitzero"`
	// Series is the course; nil if it was not recorded.
	Series *recording.Series `json:"series,omitempty"`
	// Running reports that the probe has not ended: it has counted requests, and compared nothing.
	Running bool `json:"running,omitempty"`
}

// Fact is a figure with its name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Note is what the value is to be seen with.
	Note string `json:"note,omitempty"`
	// Bad reports that it should be otherwise.
	Bad bool `json:"bad,omitempty"`
}

// Table is something that was looked at, in rows.
type Table struct {
	Title  string   `json:"title"`
	Header []string `json:"header"`
	Rows   []Row    `json:"rows"`
	// Note explains the figures.
	Note string `json:"note,omitempty"`
}

// Row is a row of a table.
type Row struct {
	Cells []string `json:"cells"`
	// Bad reports that it should be otherwise.
	Bad bool `json:"bad,omitempty"`
}

// The kinds of events.
const (
	KindStep    = "step"
	KindEtcd    = "etcd"
	KindDNS     = "dns"
	KindClients = "clients"
	KindEvent   = "event"
)

// Event is something that happened.
type Event struct {
	Time time.Time `json:"time"`
	// Kind is one of the kinds.
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Count is how often it happened within a second, if more than once.
	Count int `json:"count,omitempty"`
	// Bad reports that it should not have.
	Bad bool `json:"bad,omitempty"`
}

// offset writes a time relative to the trigger.
func (r Report) offset(t time.Time) string {
	d := t.Sub(r.Triggered).Round(time.Second)
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%d:%02d", sign, int(d.Minutes()), int(d.Seconds())%60)
}

// addMemberEvents tells how the member lists changed.
func (r *Report) addMemberEvents() {
	for _, etcd := range r.Etcds {
		for i := 1; i < len(etcd.Changes); i++ {
			before, now := map[string]recording.Member{}, map[string]recording.Member{}
			for _, member := range etcd.Changes[i-1].Members {
				before[member.Name] = member
			}
			var parts []string
			for _, member := range etcd.Changes[i].Members {
				now[member.Name] = member
				former, known := before[member.Name]
				switch {
				case !known && member.Learner:
					parts = append(parts, member.Name+" joins as a learner")
				case !known:
					parts = append(parts, member.Name+" is a voter")
				case former.Learner && !member.Learner:
					parts = append(parts, member.Name+" becomes a voter")
				}
			}
			for _, member := range etcd.Changes[i-1].Members {
				if _, still := now[member.Name]; !still && !unstarted(member.Name) {
					parts = append(parts, member.Name+" leaves")
				}
			}
			// That a member that was added gets its name with its first start is no event of its own.
			parts = slices.DeleteFunc(parts, unstarted)
			if len(parts) > 0 {
				r.Events = append(r.Events,
					Event{Time: etcd.Changes[i].Time, Kind: KindEtcd, Text: fmt.Sprintf("%s: %s, %d voters", etcd.Name,
						strings.Join(parts, ", "), etcd.Changes[i].Voters)})
			}
		}
	}
}

func unstarted(name string) bool { return strings.HasPrefix(name, "unstarted-") }

func (r *Report) addStepEvents() {
	for _, step := range r.Steps {
		if step.End != nil {
			r.Events = append(r.Events,
				Event{Time: *step.End, Kind: KindStep,
					Text: fmt.Sprintf("step %d, %s, is complete", step.Number, step.Condition)})
		}
	}
}

// sortEvents puts the events in order and counts what was repeated within a second.
func (r *Report) sortEvents() {
	slices.SortStableFunc(r.Events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	var out []Event
	for _, event := range r.Events {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.Kind == event.Kind && last.Text == event.Text && event.Time.Sub(last.Time) < time.Second {
				last.Count = max(last.Count, 1) + 1
				continue
			}
		}
		out = append(out, event)
	}
	r.Events = out
}

// seedOf returns the seed that a member's name begins with.
func (r Report) seedOf(member string) string {
	// One seed's name may begin with the other's.
	seeds := []string{r.Source, r.Destination}
	slices.SortFunc(seeds, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, seed := range seeds {
		if seed != "" && strings.HasPrefix(member, seed+"-") {
			return seed
		}
	}
	return ""
}
