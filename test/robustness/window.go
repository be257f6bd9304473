// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"time"

	"github.com/livecpm/livecpm/test/robustness/history"
)

// Window is a cell's own part of a run: from the end of the fault before it to the fault after it. Figures of different
// windows do not overlap, except those of faults that strike together.
type Window struct {
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Before is what clients met before the fault struck, During while it was in force, After once it was over.
	Before Part `json:"before"`
	During Part `json:"during"`
	After  Part `json:"after"`
	// LongestWriteGapMs is the longest time without an acknowledged write in the whole window: one that the fault has
	// begun may have continued afterwards.
	LongestWriteGapMs int64 `json:"longestWriteGapMs"`
	// History is the digest of what clients were told in the window.
	History string `json:"history"`
	// Linearizable tells whether an order of all operations up to the end of the window explains their answers; that of
	// the result tells so until the end of the run.
	Linearizable string `json:"linearizable"`
}

// Part is what clients met in a part of a window.
type Part struct {
	Seconds float64 `json:"seconds"`
	// Requests is how many requests of the clients whose history is judged ended in it, Failed how many of these were
	// not answered, and LoadFailed how many of the demo's load failed at the first try.
	Requests   int `json:"requests"`
	Failed     int `json:"failed"`
	LoadFailed int `json:"loadFailed"`
	// LongestWriteGapMs is the longest time without an acknowledged write of any client.
	LongestWriteGapMs int64 `json:"longestWriteGapMs"`
}

// windowTimeout bounds the search for an order of the operations of a window.
const windowTimeout = time.Minute

// window measures what happened from one time to another, in which the fault struck.
func (r *Result) window(s *strike, begin, end time.Time) *Window {
	healed := s.healed
	if healed.IsZero() || healed.After(end) {
		healed = end
	}
	window := &Window{
		Begin: begin.UTC(), End: end.UTC(),
		Before: r.part(begin, s.from), During: r.part(s.from, healed), After: r.part(healed, end),
		LongestWriteGapMs: r.History.Window(begin, end).LongestWriteGap.Milliseconds(),
		Linearizable:      r.Verdict.Linearizable,
	}
	if window.Linearizable != linearizable {
		// The verdict of the run is that of its end. Which window it begins in says which fault to look at.
		window.Linearizable = history.Linearizable(r.History.Until(end), windowTimeout)
	}
	digest, err := r.History.Digest(begin, end)
	if err != nil {
		digest = err.Error()
	}
	window.History = digest
	return window
}

// linearizable is the verdict of a history that one correct store can have made.
const linearizable = "Ok"

// part measures what happened from one time to another.
func (r *Result) part(begin, end time.Time) Part {
	counted := r.History.Window(begin, end)
	part := Part{Seconds: end.Sub(begin).Seconds(), Requests: counted.Requests, Failed: counted.Failed,
		LongestWriteGapMs: counted.LongestWriteGap.Milliseconds()}
	if details := r.Report.Probe.Details; details != nil {
		part.LoadFailed = failedRequests(details, begin, end)
	}
	return part
}

// since returns when the last of the strikes before was over that does not belong to the same moment; the beginning of
// the history if there was none.
func since(this *strike, strikes []*strike, begin time.Time) time.Time {
	if !this.opened.at.IsZero() {
		return this.opened.at
	}
	for _, s := range strikes {
		if s.injected.IsZero() || !s.injected.Before(this.injected) || simultaneous(this, s) {
			continue
		}
		over := s.injected
		if s.healed.After(over) && !s.healed.After(this.injected) {
			over = s.healed
		}
		if over.After(begin) {
			begin = over
		}
	}
	return begin
}
