// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"github.com/livecpm/livecpm/test/search"
)

// move is something that may happen now.
type move struct {
	search.Action

	// optional says that etcd-events does not make the move by itself, although it is no fault.
	optional bool
	// do lets it happen in a world that is in the same state.
	do func(w *World)
}

func happens(name string, do func(w *World)) move {
	return move{Action: search.Action{Name: name}, do: do}
}

func fault(name string, do func(w *World)) move {
	return move{Action: search.Action{Name: name, Fault: true}, do: do}
}

// moves returns all that may happen.
func (w *World) moves() []move {
	if w.phase == done || w.phase == back {
		return nil
	}
	if w.known == nil {
		w.known = w.findMoves()
	}
	return w.known
}

// usual is room for as many moves as there are in most states.
const usual = 64

func (w *World) findMoves() []move {
	out := w.movesOf(make([]move, 0, usual), etcdMain)
	if w.model.Both {
		out = w.movesOf(out, etcdEvents)
	}
	return w.movesOfAll(out)
}

// movesOf adds what may happen in one of the etcds. So do the methods that it calls.
func (w *World) movesOf(out []move, e etcd) []move {
	out = w.agentMoves(out, e)
	for s := range side(2) {
		out = w.seedMoves(out, s, e)
		for ordinal := range members {
			p := place{e, s, ordinal}
			out = w.podMoves(out, p)
			out = w.memberMoves(out, p)
		}
	}
	return w.clusterMoves(out, e)
}

// timePasses is the event after which all patience is over.
const timePasses = "time passes"

// movesOfAll adds what may happen to more than one etcd.
func (w *World) movesOfAll(out []move) []move {
	switch w.phase {
	case five:
		out = append(out, happens("step 6 begins", func(w *World) {
			w.phase = moving
			w.forget(destination)
		}))
	case withdrawn:
		out = append(out, happens("the agent of the source ends the abort", (*World).endAbort))
	}
	if w.model.Abort && (w.phase == joining || w.phase == five) {
		out = append(out, fault("a person aborts the migration", func(w *World) {
			w.phase = aborting
			w.forget(destination)
		}))
	}
	if w.timeMatters() {
		out = append(out, happens(timePasses, func(w *World) { w.clock.epochs++ }))
	}
	if w.used.restarts < w.model.Restarts {
		for s := range side(2) {
			if w.remembers(s) {
				out = append(out, fault("the agent of the "+s.String()+" restarts", func(w *World) {
					w.used.restarts++
					w.forget(s)
				}))
			}
		}
	}
	switch {
	case w.cut:
		out = append(out, fault("the seeds are connected again", func(w *World) { w.setCut(false) }))
	case w.used.cuts < w.model.Cuts:
		out = append(out, fault("the seeds are cut from each other", func(w *World) {
			w.used.cuts++
			w.setCut(true)
		}))
	}
	return out
}

func (w *World) setCut(cut bool) {
	w.cut = cut
	for e := range etcd(2) {
		w.own(e).SetCut(cut)
	}
}

// clusterMoves adds what happens in a cluster without anybody in the seeds.
func (w *World) clusterMoves(out []move, e etcd) []move {
	var (
		list   = w.clusters[e].Members()
		led    bool
		absent bool
	)
	for _, m := range list {
		led = led || m.Leader
		absent = absent || !m.Learner && !m.Connected
	}
	for _, m := range list {
		if m.Leader || !w.clusters[e].Electable(m.ID) {
			continue
		}
		elect := func(w *World) { _ = w.own(e).Elect(m.ID) }
		name := e.String() + ": " + m.Name + " is elected"
		switch {
		case !led:
			out = append(out, happens(name, elect))
			if !w.model.Both && e == etcdEvents {
				return out
			}
		case w.used.elections < w.model.Elections:
			out = append(out, fault(name, func(w *World) {
				w.used.elections++
				elect(w)
			}))
		}
	}
	if led && absent && w.used.writes < w.model.Writes {
		out = append(out, fault("a client writes to "+e.String(), func(w *World) {
			w.used.writes++
			_ = w.own(e).Write()
		}))
	}
	return out
}
