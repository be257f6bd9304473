// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is what a Joint remembers of the clusters. It is for whoever explores what two agents do in every order
// (test/search/membership): to go back to a state, the agents have to remember what they did then. What fronts were
// asked for, and which clusters were too slow a moment ago, is no part of it: an agent that does not know asks again.
type Memory struct {
	// Unstarted holds when a learner without a name was seen first, by its ID.
	Unstarted map[uint64]time.Time
	// Aside holds since when a pod has run without being a member, by role of the etcd and UID.
	Aside map[string]map[types.UID]time.Time
	// Steady holds since when a restarted member has been as it should be, by the UID of its pod.
	Steady map[types.UID]time.Time
	// Spells hold since when something has been so, as "role: what".
	Spells map[string]time.Time
}

// Memory returns a copy of what the Joint remembers.
func (j *Joint) Memory() Memory {
	j.lock.Lock()
	defer j.lock.Unlock()
	out := Memory{Unstarted: maps.Clone(j.unstarted), Aside: map[string]map[types.UID]time.Time{},
		Steady: maps.Clone(j.steady), Spells: map[string]time.Time{}}
	for etcdRole, pods := range j.aside {
		out.Aside[etcdRole] = maps.Clone(pods)
	}
	for s, since := range j.spells {
		out.Spells[s.etcdRole+": "+s.what] = since
	}
	return out
}

// Recall lets the Joint remember that, and nothing else. It keeps no part of the argument.
func (j *Joint) Recall(m Memory) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.unstarted, j.steady = map[uint64]time.Time{}, map[types.UID]time.Time{}
	maps.Copy(j.unstarted, m.Unstarted)
	maps.Copy(j.steady, m.Steady)
	j.aside, j.spells = map[string]map[types.UID]time.Time{}, map[spell]time.Time{}
	for etcdRole, pods := range m.Aside {
		j.aside[etcdRole] = maps.Clone(pods)
	}
	for text, since := range m.Spells {
		etcdRole, what, _ := strings.Cut(text, ": ")
		j.spells[spell{etcdRole, what}] = since
	}
}
