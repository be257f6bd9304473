// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// sighting is the first moment at which somebody has seen a write.
type sighting struct {
	at       time.Duration
	revision uint64
}

type sightings map[string]sighting

func (s sightings) note(value string, at time.Duration, revision uint64) {
	if value == "" {
		return
	}
	known, ok := s[value]
	if !ok || at < known.at {
		known.at = at
	}
	if known.revision == 0 {
		known.revision = revision
	}
	s[value] = known
}

// resolve finds out from what others have seen what became of the writes whose outcome their clients do not know. What
// remains unknown stays open; each such operation doubles what the search has to look at, so as few as possible should.
//
//   - A write that somebody has seen was carried out, and before it was seen.
//   - A write that nobody has seen was not carried out, provided that some watch holds all there was to see.
//
// A delete has no value of its own. It is the one that was seen if no other delete can have been.
func resolve(h *History) []Operation {
	var (
		written  = sightings{}
		deleted  = sightings{}
		deleters = map[string]int{}
		complete = false
	)
	for _, stream := range h.Streams {
		complete = complete || stream.whole()
		for _, event := range stream.Events {
			if event.Type == Deleted {
				deleted.note(event.Value, event.At, event.Revision)
				continue
			}
			written.note(event.Value, event.At, event.Revision)
		}
	}
	for _, o := range h.Operations {
		switch {
		case o.Kind == Read && o.Outcome == Done:
			written.note(o.Found, o.Return, o.Revision)
		case o.Kind == Delete && (o.Outcome == Done || o.Outcome == Unknown):
			deleters[o.Expect]++
		}
	}

	resolved := make([]Operation, 0, len(h.Operations))
	for _, o := range h.Operations {
		if o.Outcome == Unknown {
			name, seen := o.Value, written
			if o.Kind == Delete {
				name, seen = o.Expect, deleted
			}
			found, ok := seen[name]
			switch {
			case !ok && complete:
				continue
			case ok && (o.Kind != Delete || deleters[name] == 1):
				o.Outcome, o.Return, o.Revision = Done, max(found.at, o.Call), found.revision
			}
		}
		resolved = append(resolved, o)
	}
	return resolved
}
