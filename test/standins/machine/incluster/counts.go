// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package incluster

import (
	"sync"
	"time"
)

// maxErrors is how many errors are kept. The first ones tell what began.
const maxErrors = 10

// Counts is what one client has seen since it had its first answers. A client that starts again counts again, with
// another Started: who reads counts must add up what the same node had under another one, and ask why there are two.
type Counts struct {
	// Node and Pod (its UID) tell whose counts they are.
	Node string `json:"node"`
	Pod  string `json:"pod"`
	// Started is when counting began.
	Started time.Time `json:"started"`
	// Reads and Writes are how many were sent and have an end, whichever.
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
	// Failed is how many of them failed.
	Failed int `json:"failed"`
	// CutByProxy is how many of the failed ones had a connection that broke because it led to an apiserver-proxy of the
	// same node whose pod ended, as it does whenever Gardener rolls it.
	CutByProxy int `json:"cutByProxy"`
	// Stale is how many of the failed ones read less than had been acknowledged.
	Stale int `json:"stale,omitempty"`
	// FirstFailed and LastFailed are when the first and the last of those that failed and were not cut ended.
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	LastFailed  time.Time `json:"lastFailed,omitzero"`
	// LongestGapMs is the longest time between two answers.
	LongestGapMs int64 `json:"longestGapMs"`
	// Errors are the first errors, with time and kind of request.
	Errors []string `json:"errors,omitempty"`
}

// Requests is how many requests there were.
func (c Counts) Requests() int { return c.Reads + c.Writes }

// counter counts for several goroutines.
type counter struct {
	mu     sync.Mutex
	counts Counts
	last   time.Time
}

func (c *counter) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Started, c.last = now, now
}

// kind is a kind of request.
type kind string

const (
	read  kind = "read"
	write kind = "write"
)

// ended is a request that has ended.
type ended struct {
	kind kind
	at   time.Time
	// failure is empty if it succeeded.
	failure string
	// cut reports that an apiserver-proxy of the same node closed its connections meanwhile because its pod ended.
	cut bool
	// stale reports that it read less than had been acknowledged.
	stale bool
}

// add counts a request.
func (c *counter) add(request ended) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if request.kind == write {
		c.counts.Writes++
	} else {
		c.counts.Reads++
	}
	if request.failure == "" {
		c.counts.LongestGapMs = max(c.counts.LongestGapMs, request.at.Sub(c.last).Milliseconds())
		c.last = request.at
		return
	}
	c.counts.Failed++
	if request.stale {
		c.counts.Stale++
	}
	if request.cut {
		c.counts.CutByProxy++
	} else {
		if c.counts.FirstFailed.IsZero() {
			c.counts.FirstFailed = request.at
		}
		c.counts.LastFailed = request.at
	}
	if len(c.counts.Errors) < maxErrors {
		c.counts.Errors = append(c.counts.Errors, request.failure)
	}
}

// read returns the counts of now. A gap that has not ended counts.
func (c *counter) read(now time.Time) (Counts, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts.Started.IsZero() {
		return Counts{}, false
	}
	out := c.counts
	out.Errors = append([]string(nil), c.counts.Errors...)
	out.LongestGapMs = max(out.LongestGapMs, now.Sub(c.last).Milliseconds())
	return out, true
}
