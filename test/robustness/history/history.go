// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package history records what clients of a shoot ask of its API server and what they are told, and judges afterwards
// whether one single, correct store can have given these answers: the operations must be linearizable, and every watch
// must have delivered each change once, in order, and nothing else.
//
// The check is as good as the record. A run with too little load, a stream that did not reach its end or a search that
// ran out of time is a failure, not a success.
package history

import (
	"slices"
	"time"
)

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	// Read gets an object with quorum.
	Read Kind = "read"
	// Create writes an object that must not exist.
	Create Kind = "create"
	// Update replaces an object that must be as expected.
	Update Kind = "update"
	// Delete removes an object that must be as expected.
	Delete Kind = "delete"
)

// Writes reports whether an operation of the kind may change the object.
func (k Kind) Writes() bool { return k != Read }

// Outcome is what a client knows about its operation.
type Outcome string

// The outcomes of operations.
const (
	// Done means that the server acknowledged the operation.
	Done Outcome = "done"
	// Rejected means that the server refused the operation because the object is not as the operation demands. That is
	// an answer about the state of the object, and not a failure.
	Rejected Outcome = "rejected"
	// Unknown means that a write failed in a way that does not report whether it was carried out.
	Unknown Outcome = "unknown"
	// Failed means that a read got no answer. It says nothing about the object.
	Failed Outcome = "failed"
)

// Operation is one request of a client and its answer. Times count from the beginning of the history.
type Operation struct {
	Client int    `json:"client"`
	Kind   Kind   `json:"kind"`
	Key    string `json:"key"`
	// Value is what is written. No value is ever written twice in a history, so it names the write.
	Value string `json:"value,omitempty"`
	// Expect is the value that the object must have for an update or a delete to be carried out.
	Expect string `json:"expect,omitempty"`
	// Found is the value that a read returned; empty if the object does not exist.
	Found string `json:"found,omitempty"`
	// Revision is that of the object after the operation; 0 if the answer does not tell.
	Revision uint64        `json:"revision,omitempty"`
	Outcome  Outcome       `json:"outcome"`
	Error    string        `json:"error,omitempty"`
	Call     time.Duration `json:"call"`
	Return   time.Duration `json:"return"`
}

// Answered reports whether the server answered the operation, be it with a refusal.
func (o Operation) Answered() bool { return o.Outcome == Done || o.Outcome == Rejected }

// Acknowledged reports whether the server confirmed that the operation changed the object.
func (o Operation) Acknowledged() bool { return o.Kind.Writes() && o.Outcome == Done }

// EventType is the type of a watch event.
type EventType string

// The types of watch events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
)

// Event is what a watch delivered.
type Event struct {
	Type EventType `json:"type"`
	Key  string    `json:"key"`
	// Value is the one that the object has, or had before it was deleted.
	Value string `json:"value"`
	// Revision is that of the change.
	Revision uint64        `json:"revision"`
	At       time.Duration `json:"at"`
}

// Gap is a range of revisions after After up to and including Until that the server said it could not deliver any more
// (410 Gone). A stream need not hold their events; a stream that leaves out anything else has lost it.
type Gap struct {
	After uint64 `json:"after"`
	Until uint64 `json:"until"`
}

// Stream is all that one watch delivered, across its reconnects.
type Stream struct {
	Name string `json:"name"`
	// Start is the revision after which the stream began.
	Start  uint64  `json:"start"`
	Gaps   []Gap   `json:"gaps,omitempty"`
	Events []Event `json:"events"`
	// Established counts how often the watch was opened.
	Established int `json:"established"`
	// Complete is true if the stream has seen the revision of the last write of the history.
	Complete bool `json:"complete"`
	// Errors are those of attempts to open the watch.
	Errors []string `json:"errors,omitempty"`
}

// covers reports whether the stream must hold the event of the revision.
func (s *Stream) covers(revision uint64) bool {
	return s.Complete && revision > s.Start && !slices.ContainsFunc(s.Gaps, func(g Gap) bool {
		return revision > g.After && revision <= g.Until
	})
}

// whole reports whether the stream holds all events since its start.
func (s *Stream) whole() bool { return s.Complete && len(s.Gaps) == 0 }

// History is the record of a run.
type History struct {
	Begin      time.Time   `json:"begin"`
	Operations []Operation `json:"operations"`
	Streams    []*Stream   `json:"streams"`
}

// Since returns the time of the history at the given moment.
func (h *History) Since(t time.Time) time.Duration { return t.Sub(h.Begin) }

// Window sums up what clients noticed in a part of a history.
type Window struct {
	Requests int
	// Failed counts the requests that were not answered.
	Failed int
	// LongestWriteGap is the longest time in the window without an acknowledged write of any client.
	LongestWriteGap time.Duration
}

// Window returns what happened from one moment to another. A request belongs to the window in which it ended.
func (h *History) Window(from, to time.Time) Window {
	begin, end := h.Since(from), h.Since(to)
	var (
		window Window
		acks   []time.Duration
	)
	for _, o := range h.Operations {
		if o.Return < begin || o.Return >= end {
			continue
		}
		window.Requests++
		if !o.Answered() {
			window.Failed++
		}
		if o.Acknowledged() {
			acks = append(acks, o.Return)
		}
	}
	slices.Sort(acks)
	previous := begin
	for _, ack := range append(acks, end) {
		window.LongestWriteGap = max(window.LongestWriteGap, ack-previous)
		previous = ack
	}
	return window
}
