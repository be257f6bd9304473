// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"fmt"
	"slices"
)

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

// Retire checks that a member leaves together with its whole side: its pod is stopped, and it is removed. It asks for
// what Remove asks, and for healthy voters of the other side, because soon there are no others. Those of its own side
// need not be healthy: they leave as well, and one that is lost for good never becomes healthy. The projection counts
// them as what they are. While as many voters leave as stay, no side has a quorum by itself. That is the weakest moment
// of all, and to end it is worth more than to wait for a member that restarts: then the projection decides alone.
func (s Set) Retire(id uint64) error {
	if err := s.Remove(id); err != nil {
		return err
	}
	member, _ := s.ByID(id)
	voters := s.Voters()
	if 2*len(voters.On(member.Side)) >= len(voters) {
		return nil
	}
	staying := voters.Filter(func(m Member) bool { return m.Side != member.Side })
	if down := staying.Unhealthy(); len(down) > 0 {
		return fmt.Errorf("member %s stays until the members that remain are healthy: %s", member, down)
	}
	return nil
}

// RetireLost checks that a voter that is down for good is removed before the last member of the other side has joined.
// etcd adds nobody beside a voter that is not connected (server, mayAddMember), so that member could not join. All
// other voters must be healthy. The removal then costs nothing: of three and two voters with one down, one more may
// fail, and of two and two that are healthy, one may.
func (s Set) RetireLost(id uint64) error {
	if err := s.Remove(id); err != nil {
		return err
	}
	lost, _ := s.ByID(id)
	if lost.Healthy {
		return fmt.Errorf("member %s is not lost: it answers", lost)
	}
	if down := s.Voters().Unhealthy(); len(down) > 1 {
		return fmt.Errorf("member %s stays until the others are healthy: %s", lost,
			down.Filter(func(m Member) bool { return m.ID != id }))
	}
	return nil
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
