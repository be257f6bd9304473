// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strconv"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Key implements search.World. It leaves out identifiers and times: of a time it says whether it is longer ago than any
// patience.
func (w *World) Key() string {
	out := make([]byte, 0, 2048)
	out = append(out, byte(w.phase))
	out = appendBools(out, w.asked, w.entered, w.joined[0], w.joined[1], w.requested[0], w.requested[1], w.withdrawn[0],
		w.withdrawn[1], w.cut)
	u := w.used
	for _, times := range []int{u.volumes, u.nodes, u.crashes, u.elections, u.cuts, u.restarts, u.writes} {
		out = strconv.AppendInt(append(out, ' '), int64(times), 10)
	}
	for e := range etcd(2) {
		out = append(append(out, '\n'), w.writtenOf(e)...)
	}
	for s := range side(2) {
		out = append(append(out, '\n'), w.writeMemory(s)...)
	}
	return string(out)
}

func appendBools(out []byte, facts ...bool) []byte {
	for _, fact := range facts {
		if fact {
			out = append(out, '1')
		} else {
			out = append(out, '0')
		}
	}
	return out
}

// parts are what the part of a key depends on that is about one etcd.
type parts struct {
	cluster, objects, epochs int
	places                   [2][members]memberAt
}

// part is that part, as long as nothing has changed.
type part struct {
	of   parts
	text string
}

func (w *World) partsOf(e etcd) parts {
	return parts{w.clusters[e].Version(), w.changes[e], w.clock.epochs, w.places[e]}
}

// writtenOf describes one etcd in both seeds.
func (w *World) writtenOf(e etcd) string {
	if of := w.partsOf(e); w.written[e].text == "" || w.written[e].of != of {
		w.written[e] = part{of, w.writeEtcd(e)}
	}
	return w.written[e].text
}

func (w *World) writeEtcd(e etcd) string {
	out := []byte(w.clusters[e].Fingerprint())
	for s := range side(2) {
		druid, statefulSet := w.etcdAt(s, e), w.statefulSet(s, e)
		partition := int32(0)
		if update := statefulSet.Spec.UpdateStrategy.RollingUpdate; update != nil {
			partition = ptr.Deref(update.Partition, 0)
		}
		for _, number := range []int32{druid.Spec.Replicas, *statefulSet.Spec.Replicas, partition} {
			out = strconv.AppendInt(append(out, ' '), int64(number), 10)
		}
		out = append(append(out, ' '), statefulSet.Spec.Template.Labels[templateLabel]...)
		out = appendBools(out,
			metav1.HasAnnotation(druid.ObjectMeta, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation),
			metav1.HasAnnotation(druid.ObjectMeta, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation),
			druidcorev1alpha1.HasReconcileOperationAnnotation(druid.ObjectMeta))
		for ordinal := range members {
			out = w.appendPlace(out, place{e, s, ordinal})
		}
	}
	return string(out)
}

func (w *World) appendPlace(out []byte, p place) []byte {
	m := w.at(p)
	volume := byte('-')
	if m.volume != 0 {
		volume = 'o'
		if listed, ok := w.memberAt(p); ok && listed.ID == m.volume {
			volume = 'd'
		}
		if m.volume == bogus {
			volume = 'b'
		}
	}
	overdue := m.exists && m.deleting && w.clock.old(m.due)
	out = appendBools(append(out, ' '), m.exists, m.deleting, m.newest, m.lost, m.lease, overdue,
		m.deleting && m.grace < defaultGrace)
	return append(out, "spra"[m.process], volume)
}

// writeMemory describes what an agent remembers.
func (w *World) writeMemory(s side) string {
	m := w.memory[s]
	if len(m.Spells)+len(m.Unstarted)+len(m.Aside) == 0 {
		return ""
	}
	var texts []string
	for text, since := range m.Spells {
		texts = append(texts, fmt.Sprint(text, w.clock.old(since)))
	}
	for e := range etcd(2) {
		for _, member := range w.clusters[e].Members() {
			if since, known := m.Unstarted[member.ID]; known && member.Name == "" {
				texts = append(texts, fmt.Sprint(member.PeerURLs, w.clock.old(since)))
			}
		}
		for s := range side(2) {
			for ordinal := range members {
				p := place{e, s, ordinal}
				if since, known := m.Aside[e.role()][w.at(p).uid]; known && w.at(p).exists {
					texts = append(texts, fmt.Sprint("aside ", e, p, w.clock.old(since)))
				}
			}
		}
	}
	return sorted(texts)
}

// dependencies are the state of etcd-events, and what its moves depend on.
type dependencies struct {
	phase                        phase
	asked, entered, cut          bool
	joined, requested, withdrawn [2]bool
	events                       parts
	// ofSource is how many members the source has in etcd-main, led by which side that is led, and quorate whether its
	// members answer.
	ofSource, led int
	others        string
}

func (w *World) dependencies() dependencies {
	out := dependencies{phase: w.phase, asked: w.asked, entered: w.entered, cut: w.cut, joined: w.joined,
		requested: w.requested, withdrawn: w.withdrawn, events: w.partsOf(etcdEvents), led: -1}
	states := make([]byte, 0, 2*members)
	for _, m := range w.clusters[etcdMain].Members() {
		p, _ := placeOf(m.Member)
		if p.side == source {
			out.ofSource++
		}
		if m.Leader {
			out.led = int(p.side)
		}
		state := byte('a') + byte(p.side)
		if m.Learner {
			state += 2
		}
		if m.Connected {
			state += 4
		}
		states = append(states, state)
	}
	out.others = string(states)
	return out
}
