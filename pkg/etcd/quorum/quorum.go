// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package quorum decides, without any I/O, whether a change of an etcd cluster's membership may be made and in which
// order the members of the source leave. It works on what was observed of the cluster, never on memory.
package quorum

import (
	"errors"
	"fmt"
)

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
