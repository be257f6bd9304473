// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Until returns what was known of the history at a moment. What was asked before and answered later is open: nobody
// knew then whether a write had been carried out. Watches had not seen everything.
func (h *History) Until(moment time.Time) *History {
	end := h.Since(moment)
	known := &History{Begin: h.Begin}
	for _, o := range h.Operations {
		if o.Call >= end {
			continue
		}
		if o.Return >= end {
			o.Outcome, o.Found, o.Revision = Unknown, "", 0
			if !o.Kind.Writes() {
				o.Outcome = Failed
			}
		}
		known.Operations = append(known.Operations, o)
	}
	for _, stream := range h.Streams {
		part := *stream
		part.Complete = false
		part.Events = between(stream.Events, 0, end)
		known.Streams = append(known.Streams, &part)
	}
	return known
}

// between returns the events from one time of the history to another.
func between(events []Event, begin, end time.Duration) []Event {
	var part []Event
	for _, event := range events {
		if event.At >= begin && event.At < end {
			part = append(part, event)
		}
	}
	return part
}

// Digest returns the SHA-256 of what clients were told from one moment to another: the operations that ended in that
// time, and the events that each watch delivered in it. Two results with the same digest rest on the same history.
func (h *History) Digest(from, to time.Time) (string, error) {
	begin, end := h.Since(from), h.Since(to)
	part := &History{Begin: h.Begin}
	for _, o := range h.Operations {
		if o.Return >= begin && o.Return < end {
			part.Operations = append(part.Operations, o)
		}
	}
	for _, stream := range h.Streams {
		part.Streams = append(part.Streams, &Stream{Name: stream.Name, Events: between(stream.Events, begin, end)})
	}
	encoded, err := json.Marshal(part)
	if err != nil {
		return "", fmt.Errorf("failed to encode a part of the history: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}
