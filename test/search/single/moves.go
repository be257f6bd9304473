// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package single

import (
	"context"
	"errors"
	"fmt"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/client/fake"
	"github.com/livecpm/livecpm/test/search"
)

// move is something that may happen now.
type move struct {
	search.Action

	do func(w *World)
}

// killsAfter are the writes of a move after which an agent may be killed.
const killsAfter = 4

// moves returns all that may happen.
func (w *World) moves() []move {
	if w.Goal() != "" {
		return nil
	}
	var out []move
	happens := func(name string, do func(w *World)) { out = append(out, move{search.Action{Name: name}, do}) }
	fault := func(name string, do func(w *World)) {
		out = append(out, move{search.Action{Name: name, Fault: true}, do})
	}
	for s := range side(2) {
		name := "the agent of the " + s.String()
		happens(name+" moves", func(w *World) { w.agent(s) })
		for writes := range killsAfter {
			if w.used.Kills < w.model.Kills {
				fault(fmt.Sprintf("%s moves, and is killed after %d writes", name, writes+1), func(w *World) {
					w.killAfter = writes + 1
					w.agent(s)
					if w.killed {
						w.used.Kills++
					}
				})
			}
		}
		w.podMoves(s, happens)
		w.memberMoves(s, happens, fault)
	}
	w.clusterMoves(happens, fault)
	return out
}

type adds func(name string, do func(w *World))

// podMoves are those of the StatefulSet and the kubelet.
func (w *World) podMoves(s side, happens adds) {
	m := &w.members[s]
	switch {
	case m.wanted > 0 && !m.exists:
		happens(s.String()+": the StatefulSet makes the pod", func(w *World) { w.members[s].exists = true })
	case m.wanted == 0 && m.exists && !m.deleting:
		happens(s.String()+": the StatefulSet gives the pod up", func(w *World) { w.members[s].deleting = true })
	}
	if m.deleting {
		happens(s.String()+": the kubelet ends the pod", func(w *World) {
			w.stop(s)
			w.members[s].exists, w.members[s].deleting = false, false
		})
	}
}

func (w *World) stop(s side) {
	m := &w.members[s]
	if m.running {
		w.cluster.SetUp(s.member(), false)
	}
	m.running, m.prepared = false, false
}

// memberMoves are those of a pod's containers, and what may become of them.
func (w *World) memberMoves(s side, happens, fault adds) {
	m := w.members[s]
	if m.exists && !m.deleting && !w.forked {
		switch {
		case m.prepared:
			happens(s.String()+": etcd starts", func(w *World) { w.begin(s) })
		case !m.running:
			happens(s.String()+": the sidecar prepares the member", func(w *World) { w.prepare(s) })
		}
	}
	if listed, ok := w.listed(s); ok && m.running && listed.Learner && listed.Connected {
		if !listed.Synced {
			happens(s.String()+": the member catches up", func(w *World) { w.cluster.CatchUp(listed.ID) })
		} else {
			// Nobody can keep the sidecar from it, and nobody may rely on it.
			fault(s.String()+": the sidecar promotes the member", func(w *World) {
				_ = w.cluster.From(s.String()).Promote(context.Background(), listed.ID)
			})
		}
	}
	if m.running && w.used.Crashes < w.model.Crashes {
		fault(s.String()+": etcd crashes", func(w *World) {
			w.used.Crashes++
			w.stop(s)
		})
	}
	if _, listed := w.listed(s); listed && m.volume != 0 && w.used.Volumes < w.model.Volumes {
		fault(s.String()+": the volume is lost", func(w *World) {
			w.used.Volumes++
			w.stop(s)
			w.members[s].volume = 0
		})
	}
}

// clusterMoves are those of the cluster, and of what is between the seeds.
func (w *World) clusterMoves(happens, fault adds) {
	led := w.cluster.Leader() != ""
	for _, m := range w.cluster.Members() {
		if m.Leader || !w.cluster.Electable(m.ID) {
			continue
		}
		if !led {
			happens(m.Name+" is elected", func(w *World) { _ = w.cluster.Elect(m.ID) })
		} else if w.used.Elections < w.model.Elections {
			fault(m.Name+" is elected", func(w *World) {
				w.used.Elections++
				_ = w.cluster.Elect(m.ID)
			})
		}
	}
	if w.cut {
		happens("the seeds are connected again", func(w *World) { w.cut = false; w.cluster.SetCut(false) })
	} else if w.used.Cuts < w.model.Cuts {
		fault("the seeds are cut from each other", func(w *World) {
			w.used.Cuts++
			w.cut = true
			w.cluster.SetCut(true)
		})
	}
}

// adder is a cluster that members can be added to.
type adder interface {
	etcdclient.Cluster
	AddLearner(peerURLs ...string) (uint64, error)
}

// asks returns the cluster that the sidecar of the side reaches, and its list; nil if nobody answers. The source's has
// its own client service only.
func (w *World) asksList(s side) (adder, *etcdclient.Membership) {
	if s == source && !w.led {
		// The service has no ready pod: its own etcd is about to start.
		return nil, nil
	}
	cluster, ok := w.cluster.From(s.String()).(adder)
	if !ok {
		panic("the fake cluster adds no members")
	}
	if s == source && w.cut {
		return cluster, nil
	}
	list, err := cluster.List(context.Background())
	if err != nil {
		return cluster, nil
	}
	return cluster, &list
}

// prepare is what the sidecar does before etcd starts (pkg/initializer/initializer.go, Initialize).
func (w *World) prepare(s side) {
	m := &w.members[s]
	if s == source && w.model.Broken.OneName {
		if m.volume == 0 {
			w.forked = true
			return
		}
		w.run(s)
		return
	}
	cluster, list := w.asksList(s)
	if list == nil {
		if m.lease && m.volume != 0 {
			w.run(s)
		}
		// Otherwise it tries again: it restores nothing into a cluster of several.
		return
	}
	for _, listed := range list.Members {
		if listed.Name != s.member() {
			continue
		}
		if listed.ID == m.volume {
			w.run(s)
			return
		}
		if cluster.Remove(context.Background(), listed.ID) != nil {
			return
		}
	}
	m.volume = 0
	if _, err := cluster.AddLearner(s.peerURL()); err == nil || errors.Is(err, fake.ErrPeerURLExists) {
		m.prepared = true
	}
}

// run lets an etcd with data run. One that was removed ends at once.
func (w *World) run(s side) {
	m := &w.members[s]
	if listed, ok := w.listed(s); !ok || listed.ID != m.volume {
		return
	}
	m.running, m.lease = true, true
	w.cluster.SetUp(s.member(), true)
}

// begin lets the etcd of a learner start.
func (w *World) begin(s side) {
	m := &w.members[s]
	_, list := w.asksList(s)
	if list == nil {
		m.prepared = false
		return
	}
	m.prepared = false
	initial := s.entry()
	for _, listed := range list.Members {
		if other := sideOf(listed); other != s {
			initial += "," + other.entry()
		}
	}
	for _, listed := range list.Members {
		if listed.Name == "" && sideOf(listed) == s && w.cluster.Join(listed.ID, s.member(), initial) == nil {
			m.running, m.lease, m.volume = true, true, listed.ID
		}
	}
}
