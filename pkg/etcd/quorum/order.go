// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"slices"
)

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
