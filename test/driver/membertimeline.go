// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Member is one member of an etcd cluster.
type Member = recording.Member

// MembersAt is a member list that differs from the one before.
type MembersAt = recording.Members

// MemberTimeline is how the membership of one etcd cluster changed.
type MemberTimeline struct {
	mu      sync.Mutex
	changes []MembersAt
	looked  time.Time // when the last look began
}

// EtcdReport is what happened to one etcd cluster.
type EtcdReport = recording.Etcd

// Observe takes the member list that a look has shown.
func (t *MemberTimeline) Observe(look recording.Look, clusterID uint64, members []Member) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	voters := 0
	for _, member := range members {
		if !member.Learner {
			voters++
		}
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	since := t.looked
	t.looked = look.Began
	if n := len(t.changes); n > 0 {
		last := t.changes[n-1]
		if last.ClusterID == clusterID && slices.Equal(last.Members, members) {
			return
		}
	}
	t.changes = append(t.changes, MembersAt{Time: look.Ended, Since: since, ClusterID: clusterID, Voters: voters,
		Members: members})
}

// Changes returns all member lists that were seen.
func (t *MemberTimeline) Changes() []MembersAt {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.changes)
}

// Report returns what has happened so far.
func (t *MemberTimeline) Report() EtcdReport {
	changes := t.Changes()
	report := EtcdReport{Voters: []int{}, ClusterIDUnchanged: len(changes) > 0}
	var (
		window time.Duration
		since  time.Time
	)
	for _, change := range changes {
		if n := len(report.Voters); n == 0 || report.Voters[n-1] != change.Voters {
			report.Voters = append(report.Voters, change.Voters)
		}
		if change.ClusterID != changes[0].ClusterID {
			report.ClusterIDUnchanged = false
		}
		switch {
		case change.Voters >= 6 && since.IsZero():
			since = change.Time
		case change.Voters < 6 && !since.IsZero():
			window += change.Time.Sub(since)
			since = time.Time{}
		}
	}
	report.SixMemberWindowSeconds = Seconds(window)
	return report
}

// BySeed counts the present voters and learners by the seed that prefixes their names. Those whose names have no prefix
// count for the first seed: that is where the landscape creates its shoot, with Etcds older than the prefix if it is
// asked to.
func (t *MemberTimeline) BySeed(seeds ...string) map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]string{}
	if len(t.changes) == 0 || len(seeds) == 0 {
		return out
	}
	for _, seed := range seeds {
		out[seed] = ""
	}
	for _, member := range t.changes[len(t.changes)-1].Members {
		mark := "●"
		if member.Learner {
			mark = "○"
		}
		i := slices.IndexFunc(seeds, func(seed string) bool { return strings.HasPrefix(member.Name, seed+"-") })
		switch {
		case i >= 0:
			out[seeds[i]] += mark
		case strings.HasPrefix(member.Name, "etcd-"):
			out[seeds[0]] += mark
		}
	}
	return out
}
