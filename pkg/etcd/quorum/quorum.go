// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package quorum decides, without any I/O, whether a change of an etcd cluster's membership may be made and in which
// order the members of the source leave. It works on an observation of the cluster: the world decides, not memory.
package quorum

import (
	"errors"
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

// Size returns how many of the given number of voters make a quorum.
func Size(voters int) int { return voters/2 + 1 }

// HasQuorum reports whether enough voters are healthy.
func (s Set) HasQuorum() bool {
	voters := s.Voters()
	return len(voters) > 0 && len(voters.Healthy()) >= Size(len(voters))
}

// Decides reports whether the healthy voters of the side are a quorum by themselves: they elect and commit without the
// other one.
func (s Set) Decides(side Side) bool {
	voters := s.Voters()
	return len(voters) > 0 && len(voters.On(side).Healthy()) >= Size(len(voters))
}

// LostError says that a change would leave the cluster without a quorum. It names the members that count as down.
type LostError struct {
	// Change is the change that must not be made.
	Change string
	// Voters and Healthy are the numbers after the change.
	Voters, Healthy int
	// Down are the voters that count as down after the change.
	Down Set
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("%s would lose the quorum: %d of %d voters healthy, %d needed; counted as down: %s",
		e.Change, e.Healthy, e.Voters, Size(e.Voters), e.Down)
}

// IsLost reports whether the error, or one that it wraps, is a LostError.
func IsLost(err error) bool {
	var lost *LostError
	return errors.As(err, &lost)
}

// require returns a LostError unless the projected members have a quorum.
func require(change string, projected Set) error {
	if projected.HasQuorum() {
		return nil
	}
	voters := projected.Voters()
	return &LostError{Change: change, Voters: len(voters), Healthy: len(voters.Healthy()), Down: voters.Unhealthy()}
}

// AddLearner checks the addition of a learner: it casts no vote, so it asks only for a cluster that has a quorum now
// (etcd could not record the change otherwise) and that has no other learner (etcd accepts one at a time).
func (s Set) AddLearner() error {
	if learners := s.Learners(); len(learners) > 0 {
		return fmt.Errorf("a learner cannot be added while there is another one: %s", learners)
	}
	return require("adding a learner", s)
}

// Promote checks the promotion of a learner. The new voter counts as unhealthy, whatever it reports: it has proved
// nothing yet.
func (s Set) Promote(id uint64) error {
	learner, ok := s.ByID(id)
	if !ok {
		return fmt.Errorf("member %x cannot be promoted: it is not in the member list", id)
	}
	if !learner.Learner {
		return fmt.Errorf("member %s cannot be promoted: it is a voter already", learner)
	}
	if err := require("promoting "+learner.String(), s); err != nil {
		return err
	}
	projected := slices.Clone(s)
	for i := range projected {
		if projected[i].ID == id {
			projected[i].Learner, projected[i].Healthy = false, false
		}
	}
	return require("promoting "+learner.String(), projected)
}

// Stop checks that a member's pod may be stopped: until it is removed, the member still counts for the quorum.
func (s Set) Stop(id uint64) error {
	member, ok := s.ByID(id)
	if !ok {
		return fmt.Errorf("member %x cannot be stopped: it is not in the member list", id)
	}
	return require("stopping "+member.String(), s.down(id))
}

// Remove checks the removal of a member, including the moment before it in which the member is down and still counts.
// It refuses to remove the leader and the last voter.
func (s Set) Remove(id uint64) error {
	member, ok := s.ByID(id)
	if !ok {
		return fmt.Errorf("member %x cannot be removed: it is not in the member list", id)
	}
	if member.Leader {
		return fmt.Errorf("member %s must not be removed: it leads the cluster", member)
	}
	if !member.Learner && len(s.Voters()) == 1 {
		return fmt.Errorf("member %s must not be removed: it is the last voter", member)
	}
	change := "removing " + member.String()
	if err := require(change, s.down(id)); err != nil {
		return err
	}
	return require(change, s.Filter(func(m Member) bool { return m.ID != id }))
}

func (s Set) down(id uint64) Set {
	out := slices.Clone(s)
	for i := range out {
		if out[i].ID == id {
			out[i].Healthy, out[i].Leader = false, false
		}
	}
	return out
}

// RemovalOrder returns the members of the side in the order in which they leave: highest ordinal first, because that is
// the order in which a StatefulSet gives up its pods. A leader among them has to hand over leadership before its turn
// comes.
func (s Set) RemovalOrder(side Side) Set {
	out := s.On(side)
	slices.SortFunc(out, func(a, b Member) int { return b.Ordinal - a.Ordinal })
	return out
}

// NextLeader returns the member of the side that leadership should move to: a healthy voter, the one with the lowest
// ordinal. A rolling restart reaches the lowest ordinal last, so leadership moves once during it instead of with every
// member. Each move counts: etcd drops proposals while it hands over leadership.
func (s Set) NextLeader(side Side) (Member, bool) {
	for _, m := range slices.Backward(s.RemovalOrder(side)) {
		if !m.Learner && m.Healthy {
			return m, true
		}
	}
	return Member{}, false
}
