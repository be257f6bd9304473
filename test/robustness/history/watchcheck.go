// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"slices"
)

// attempts are the writes that may have made an event.
type attempts struct {
	// writes are creates and updates by the value they write; deletes holds the values of which a delete was attempted.
	writes  map[string]Operation
	deletes map[string]bool
}

func attemptsOf(h *History) attempts {
	a := attempts{writes: map[string]Operation{}, deletes: map[string]bool{}}
	for _, o := range h.Operations {
		switch {
		case o.Outcome != Done && o.Outcome != Unknown:
		case o.Kind == Create || o.Kind == Update:
			a.writes[o.Value] = o
		case o.Kind == Delete:
			a.deletes[o.Expect] = true
		}
	}
	return a
}

// explains reports whether one of the attempts can have made the event.
func (a attempts) explains(event Event) bool {
	write, ok := a.writes[event.Value]
	if !ok || write.Key != event.Key {
		return false
	}
	switch event.Type {
	case Added:
		return write.Kind == Create && (write.Revision == 0 || write.Revision == event.Revision)
	case Modified:
		return write.Kind == Update && (write.Revision == 0 || write.Revision == event.Revision)
	case Deleted:
		return a.deletes[event.Value]
	}
	return false
}

// checkStreams looks at each stream by itself and at all of them together: the revisions must increase, every event
// must fit the one before it and be explained by a write, and no two streams may tell different stories of a revision.
// It returns the events of all streams by revision.
func checkStreams(h *History, found *problems) map[uint64]Event {
	var (
		all     = attemptsOf(h)
		events  = map[uint64]Event{}
		covered = false
	)
	for _, stream := range h.Streams {
		if !stream.Complete {
			found.add("end", "watch %s was not checked to its end: it did not see the last write", stream.Name)
		}
		covered = covered || stream.whole()
		checkStream(stream, all, found)
		for _, event := range stream.Events {
			other, ok := events[event.Revision]
			if ok && (other.Type != event.Type || other.Key != event.Key || other.Value != event.Value) {
				found.add("story", "watch %s has %s %s=%s at revision %d, another one %s %s=%s",
					stream.Name, event.Type, event.Key, event.Value, event.Revision, other.Type, other.Key, other.Value)
			}
			if !ok || event.At < other.At {
				events[event.Revision] = event
			}
		}
	}
	if len(h.Streams) > 0 && !covered {
		found.add("end", "no watch holds the whole history: each was told at least once that its revisions "+
			"are gone (410)")
	}
	return events
}

func checkStream(stream *Stream, all attempts, found *problems) {
	var (
		last    = stream.Start
		objects = map[string]string{}
		gaps    = stream.Gaps
	)
	for _, event := range stream.Events {
		if event.Revision <= last {
			found.add("order", "watch %s delivered revision %d (%s %s=%s) after revision %d", stream.Name,
				event.Revision, event.Type, event.Key, event.Value, last)
		}
		last = max(last, event.Revision)
		for len(gaps) > 0 && event.Revision > gaps[0].After {
			// What happened in a gap is not known.
			gaps, objects = gaps[1:], nil
		}
		if !all.explains(event) {
			found.add("explanation", "watch %s delivered %s %s=%s at revision %d, which no write explains", stream.Name,
				event.Type, event.Key, event.Value, event.Revision)
		}

		if objects == nil {
			continue
		}
		value := objects[event.Key]
		switch {
		case event.Type == Added && value != "":
			found.add("sequence", "watch %s delivered the creation of %s at revision %d while it existed (%s)",
				stream.Name, event.Key, event.Revision, value)
		case event.Type == Modified && value == "":
			found.add("sequence", "watch %s delivered a change of %s at revision %d while it did not exist",
				stream.Name, event.Key, event.Revision)
		case event.Type == Modified && all.writes[event.Value].Expect != value:
			found.add("sequence",
				"watch %s delivered a change of %s at revision %d from %s to %s, which was written over %s",
				stream.Name, event.Key, event.Revision, value, event.Value, all.writes[event.Value].Expect)
		case event.Type == Deleted && event.Value != value:
			found.add("sequence", "watch %s delivered the deletion of %s=%s at revision %d while it was %s",
				stream.Name, event.Key, event.Value, event.Revision, orAbsent(value))
		}
		if objects[event.Key] = event.Value; event.Type == Deleted {
			delete(objects, event.Key)
		}
	}
}

// checkDelivery makes sure that every acknowledged write was delivered by every watch that has to hold it. A write that
// none of them delivered is lost.
func checkDelivery(h *History, found *problems) (lost []Operation) {
	type index struct {
		revisions map[uint64]bool
		// deletions counts the deletions of each value; an event stands for one acknowledged delete only.
		deletions map[string]int
	}
	indexes := make([]index, 0, len(h.Streams))
	for _, stream := range h.Streams {
		i := index{revisions: map[uint64]bool{}, deletions: map[string]int{}}
		for _, event := range stream.Events {
			i.revisions[event.Revision] = true
			if event.Type == Deleted {
				i.deletions[event.Value]++
			}
		}
		indexes = append(indexes, i)
	}

	for _, o := range h.Operations {
		if !o.Acknowledged() {
			continue
		}
		var holders, missing int
		for i, stream := range h.Streams {
			// The answer to a delete does not tell its revision.
			must, has := stream.covers(o.Revision), indexes[i].revisions[o.Revision]
			if o.Kind == Delete {
				must, has = stream.whole(), indexes[i].deletions[o.Expect] > 0
				indexes[i].deletions[o.Expect]--
			}
			switch {
			case has:
				holders++
			case must:
				missing++
				found.add("gap", "watch %s delivered no event of the acknowledged %s", stream.Name, describe(o))
			}
		}
		if holders == 0 && missing > 0 {
			lost = append(lost, o)
			found.add("lost", "the acknowledged %s is lost: no watch has seen it", describe(o))
		}
	}
	return lost
}

// checkReads makes sure that no read returned what a watch had already told to be past: a read with quorum is at least
// as new as everything that anybody was told before it was sent.
func checkReads(h *History, events map[uint64]Event, found *problems) {
	byKey := map[string][]Event{}
	for _, event := range events {
		byKey[event.Key] = append(byKey[event.Key], event)
	}
	for _, list := range byKey {
		slices.SortFunc(list, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
	}

	for _, o := range h.Operations {
		if o.Kind != Read || o.Outcome != Done {
			continue
		}
		// known is the newest event that was delivered before the read was sent, gone whether the object was deleted
		// since.
		var (
			known Event
			gone  bool
		)
		for _, event := range byKey[o.Key] {
			if event.At < o.Call {
				known, gone = event, false
			}
			if event.Type == Deleted {
				gone = true
			}
		}
		switch {
		case known.Revision == 0:
		case o.Found != "" && o.Revision < known.Revision:
			found.add("stale", "client %d read %s=%s at revision %d after a watch had delivered revision %d", o.Client,
				o.Key, o.Found, o.Revision, known.Revision)
		case o.Found == "" && !gone:
			found.add("stale", "client %d found %s absent after a watch had delivered it at revision %d, and no "+
				"deletion followed", o.Client, o.Key, known.Revision)
		}
	}
}
