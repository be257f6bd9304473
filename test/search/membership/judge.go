// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// holding says for both etcds whether what a majority has acknowledged can be served, now or when those are back that
// can come back.
type holding [2]bool

// holdsData looks at the volumes: a quorum of voters has its data, and one of them has all that was acknowledged.
func (w *World) holdsData() holding {
	var out holding
	for e := range etcd(2) {
		all, intact, newest := 0, 0, false
		for _, m := range w.clusters[e].Members() {
			if m.Learner {
				continue
			}
			all++
			if p, ok := placeOf(m.Member); ok && w.at(p).volume == m.ID && !w.at(p).lost {
				intact++
				newest = newest || m.Behind == 0
			}
		}
		out[e] = newest && intact >= quorum.Size(all)
	}
	return out
}

// judge looks for what must not be in the state after a move.
func (w *World) judge(m move, before holding) {
	now := w.holdsData()
	for e := range etcd(2) {
		if w.clusters[e].Lost() > 0 {
			w.violates("%s has elected a leader that does not have what a majority has acknowledged", e)
		}
		if now[e] {
			continue
		}
		if before[e] && !m.Fault {
			w.violates("%s cannot serve any more what a majority has acknowledged, and no loss is the reason", e)
		}
		if w.used.losses() <= 1 {
			w.violates("%s cannot serve any more what a majority has acknowledged, after a single loss", e)
		}
	}
}

// checkScale judges what an agent asks of a StatefulSet: the pods that it gives up stop.
func (w *World) checkScale(s side, wanted *appsv1.StatefulSet) {
	for e := range etcd(2) {
		if e.String() != wanted.Name {
			continue
		}
		for ordinal := int(*wanted.Spec.Replicas); ordinal < members; ordinal++ {
			if p := (place{e, s, ordinal}); w.at(p).exists {
				w.checkStop(p, "its StatefulSet gives it up")
			}
		}
	}
}
