// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum

import "fmt"

// A cluster with one voter moves by way of two: the source's voter, a learner of the destination, two voters, the
// destination's voter. Two voters need each other. So each of them has every write that was acknowledged, and neither
// may stop before the other one is the only voter. Promote and Remove count the member that changes as down, which is
// right wherever others are a quorum without it, and would refuse both changes here. What is asked for instead is that
// everybody is healthy, at this very moment.

// Change is what comes next when a single voter of the source passes its cluster on to one of the destination.
type Change string

const (
	// ChangeJoin waits for the member of the destination: it is not in the list yet.
	ChangeJoin Change = "join"
	// ChangePromote makes the second voter of the learner of the destination.
	ChangePromote Change = "promote"
	// ChangeLead moves leadership to the voter of the destination.
	ChangeLead Change = "lead"
	// ChangeRemove removes the member of the source, which works.
	ChangeRemove Change = "remove"
	// ChangeNone says that the voter of the destination is the only member.
	ChangeNone Change = "none"
)

// PassOn returns what comes next and with which member, or an error if the members are not those of such a cluster on
// its way. It does not say whether the change may be made: see PromoteSecond, RemoveFormer and Remove.
func (s Set) PassOn() (Change, Member, error) {
	var (
		voters, learners   = s.Voters(), s.Learners()
		former, successors = voters.On(Source), voters.On(Destination)
	)
	switch {
	case len(s.On(Foreign)) > 0 || len(s) > 2 || len(former) > 1 || len(successors) > 1 || len(voters) == 0:
		return "", Member{}, fmt.Errorf("one voter in each seed at most is expected, and one learner at most "+
			"beside a single voter, there are %s", s)
	case len(former) == 1 && len(successors) == 1:
		if former[0].Leader {
			return ChangeLead, successors[0], nil
		}
		return ChangeRemove, former[0], nil
	case len(former) == 1 && len(learners) == 0:
		return ChangeJoin, Member{}, nil
	case len(former) == 1 && learners[0].Side == Destination:
		return ChangePromote, learners[0], nil
	case len(successors) == 1 && len(learners) == 0:
		return ChangeNone, Member{}, nil
	case len(successors) == 1 && learners[0].Side == Source:
		// The member of the source has been removed, and its pod has joined again before it was taken away.
		return ChangeRemove, learners[0], nil
	}
	return "", Member{}, fmt.Errorf("the learner is on the side of the only voter: %s", s)
}

// PromoteSecond checks the promotion of a learner of the destination beside the only voter, which is one of the source.
// Both must be healthy: from the promotion on, nothing is served without either of them.
func (s Set) PromoteSecond(id uint64) error {
	change, learner, err := s.PassOn()
	if err != nil {
		return fmt.Errorf("member %x cannot be promoted: %w", id, err)
	}
	if change != ChangePromote || learner.ID != id {
		return fmt.Errorf("member %x cannot be promoted: it is not the learner of the destination beside a single "+
			"voter: %s", id, s)
	}
	return s.requireAll("promoting " + learner.String())
}

// RemoveFormer checks the removal of the source's member, one of two voters, while it works. The removal is written by
// both voters, so both must be healthy, and the other one leads and goes on as the only voter. The member must not be
// stopped before.
func (s Set) RemoveFormer(id uint64) error {
	change, member, err := s.PassOn()
	if err != nil {
		return fmt.Errorf("member %x cannot be removed: %w", id, err)
	}
	if change != ChangeRemove || member.ID != id || member.Learner {
		return fmt.Errorf("member %x cannot be removed: it is not the voter of the source beside one of the "+
			"destination that leads: %s", id, s)
	}
	if !s.LeadershipIsOn(Destination) {
		return fmt.Errorf("member %s must not be removed: nobody is known to lead", member)
	}
	return s.requireAll("removing " + member.String())
}

// requireAll returns a LostError unless every member is healthy.
func (s Set) requireAll(change string) error {
	if down := s.Unhealthy(); len(down) > 0 {
		return &LostError{Change: change, Voters: len(s), Healthy: len(s.Healthy()), Down: down}
	}
	return nil
}
