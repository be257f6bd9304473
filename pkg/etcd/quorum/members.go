// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"fmt"
	"slices"
	"strings"
)

// Side tells which seed a member runs in.
type Side string

const (
	// Source is the side that the members leave.
	Source Side = "source"
	// Destination is the side that the members join.
	Destination Side = "destination"
	// Foreign marks a member that belongs to neither side.
	Foreign Side = "foreign"
)

// Member is what is known about one member of the cluster at one moment.
type Member struct {
	// ID is etcd's identifier of the member.
	ID uint64
	// Name is the member's name; empty as long as it has not started.
	Name string
	// Side is the seed that the member belongs to.
	Side Side
	// Ordinal is the index of the member's pod in its StatefulSet.
	Ordinal int
	// Learner reports that the member has no vote.
	Learner bool
	// Healthy reports that the member answered, knows the leader and reports no alarm. A member that could not be asked
	// is not healthy.
	Healthy bool
	// Leader reports that the member leads the cluster.
	Leader bool
}

// String returns a short form for logs and messages.
func (m Member) String() string {
	name := m.Name
	if name == "" {
		name = "unstarted member"
	}
	attributes := []string{fmt.Sprintf("%x", m.ID)}
	if m.Learner {
		attributes = append(attributes, "learner")
	}
	if m.Leader {
		attributes = append(attributes, "leader")
	}
	if !m.Healthy {
		attributes = append(attributes, "unhealthy")
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(attributes, ", "))
}

// Set is the membership of one etcd cluster at one moment.
type Set []Member

// String lists the members, sorted by side and ordinal.
func (s Set) String() string {
	sorted := slices.Clone(s)
	slices.SortFunc(sorted, func(a, b Member) int {
		if c := strings.Compare(string(b.Side), string(a.Side)); c != 0 {
			return c
		}
		return a.Ordinal - b.Ordinal
	})
	out := make([]string, 0, len(s))
	for _, m := range sorted {
		out = append(out, m.String())
	}
	return strings.Join(out, ", ")
}

// Filter returns the members for which keep returns true.
func (s Set) Filter(keep func(Member) bool) Set {
	var out Set
	for _, m := range s {
		if keep(m) {
			if out == nil {
				out = make(Set, 0, len(s))
			}
			out = append(out, m)
		}
	}
	return out
}

// Voters returns the members that vote.
func (s Set) Voters() Set { return s.Filter(func(m Member) bool { return !m.Learner }) }

// Learners returns the members that do not vote yet.
func (s Set) Learners() Set { return s.Filter(func(m Member) bool { return m.Learner }) }

// On returns the members of one side.
func (s Set) On(side Side) Set { return s.Filter(func(m Member) bool { return m.Side == side }) }

// Healthy returns the members that are healthy.
func (s Set) Healthy() Set { return s.Filter(func(m Member) bool { return m.Healthy }) }

// Unhealthy returns the members that are not healthy.
func (s Set) Unhealthy() Set { return s.Filter(func(m Member) bool { return !m.Healthy }) }

// Leader returns the leader, and false when none is known.
func (s Set) Leader() (Member, bool) {
	for _, m := range s {
		if m.Leader {
			return m, true
		}
	}
	return Member{}, false
}

// LeadershipIsOn reports whether the leader is known and on the side.
func (s Set) LeadershipIsOn(side Side) bool {
	leader, ok := s.Leader()
	return ok && leader.Side == side
}

// ByID returns the member with the ID, and false when there is none.
func (s Set) ByID(id uint64) (Member, bool) {
	for _, m := range s {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}
