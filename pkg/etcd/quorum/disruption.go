// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum

// Disruptable returns how many pods of the side may be unavailable at a time, 0 or 1, for whoever evicts pods there
// without knowing of the other side. The disruption budgets of the two seeds know nothing of each other, and are
// written at different times. So both may be used to the full at the same time, and the projected cluster must have a
// quorum then: with what is down already, and with each learner as a voter that has failed right after its promotion.
//
// The budget of a seed itself counts pods that are not ready. Of the side's unhealthy members and learners, counted is
// how many it counts; the others are down without its knowledge.
//
// While no side has enough voters to decide alone, nothing may be disrupted: that is the weakest moment, and its end
// must not wait for a pod that moves. The same holds where nothing sound is known: without a quorum, without a leader,
// and with a member that belongs to neither side.
//
// If the cluster bears the loss of one voter only, it belongs to the side with more of them: the other ones are few
// because they come or go, and that takes minutes.
func (s Set) Disruptable(side Side, counted int) int {
	if _, led := s.Leader(); !led || !s.HasQuorum() || len(s.On(Foreign)) > 0 || len(s.On(side).Voters()) == 0 {
		return 0
	}
	own, others := s.On(side), s.Filter(func(m Member) bool { return m.Side != side })
	if len(others) > 0 && max(len(own), len(others)) < Size(len(s)) {
		return 0
	}
	spare := len(s) - Size(len(s))
	reserved := len(others.notSound())
	if spare >= 2 || len(others.Voters()) > len(own.Voters()) {
		reserved = max(reserved, min(1, len(others.Voters())))
	}
	hidden := max(0, len(own.notSound())-counted)
	return min(1, max(0, spare-reserved-hidden))
}

// notSound returns the members that count as down in a projection: unhealthy ones, and learners.
func (s Set) notSound() Set { return s.Filter(func(m Member) bool { return m.Learner || !m.Healthy }) }
