// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package client is what livecpm needs of an etcd cluster whose members may run in two seeds: list, look at every
// member, change the membership. Each call has its own timeout. Package fake holds a stateful stand-in for tests.
package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultTimeout bounds a single call to a member.
const DefaultTimeout = 5 * time.Second

var (
	// ErrLearnerNotReady says that a learner cannot be promoted yet, because it has not caught up with the leader.
	ErrLearnerNotReady = errors.New("the learner has not caught up with the leader")
	// ErrMemberNotFound says that the cluster has no member with the given ID.
	ErrMemberNotFound = errors.New("no such member")
	// ErrNotLearner says that a member cannot be promoted, because it is a voter already.
	ErrNotLearner = errors.New("the member is no learner")
	// ErrUnhealthy says that etcd itself refused a change because too few members are connected.
	ErrUnhealthy = errors.New("the etcd cluster is not healthy enough for the change")
	// ErrNotLeader says that a member was asked to hand over leadership that it does not have.
	ErrNotLeader = errors.New("the member does not lead the cluster")
	// ErrBadTransferee says that leadership cannot move to a member: it is a learner or not in the member list.
	ErrBadTransferee = errors.New("leadership cannot move to that member")
)

// Member is an entry of the member list.
type Member struct {
	// ID is the member's identifier.
	ID uint64
	// Name is the member's name. It is empty until the member has started for the first time.
	Name string
	// PeerURLs are the addresses that the other members reach it at.
	PeerURLs []string
	// Learner reports that the member does not vote.
	Learner bool
}

// String returns the member's name, or its identifier if it has not started yet.
func (m Member) String() string {
	if m.Name == "" {
		return fmt.Sprintf("%x", m.ID)
	}
	return m.Name
}

// Membership is the member list of a cluster.
type Membership struct {
	// ClusterID identifies the cluster. It never changes in a cluster's life.
	ClusterID uint64
	// Members are the members in the order of the member list.
	Members []Member
}

// Status is what one member says about itself.
type Status struct {
	// ClusterID is the cluster that the member belongs to.
	ClusterID uint64
	// MemberID identifies the member that answered.
	MemberID uint64
	// LeaderID is the member that it follows; zero when it knows no leader.
	LeaderID uint64
	// Learner reports that the member sees itself as a learner.
	Learner bool
	// Version is the version of etcd that the member runs.
	Version string
	// Revision is the newest revision of its key-value store.
	Revision int64
	// RaftTerm, RaftIndex and RaftAppliedIndex tell how far its log goes.
	RaftTerm, RaftIndex, RaftAppliedIndex uint64
	// DBSize is the size of its database file in bytes. It is what counts against the quota.
	DBSize int64
	// DBSizeInUse is what of it holds data; a defragmentation shrinks the file to that.
	DBSizeInUse int64
	// Errors are the alarms of all members, and whether it knows no leader.
	Errors []string
	// Took is how long the answer took, or was waited for if there is an error. It includes the time for a connection,
	// if there was none, and not the time to locate the member.
	Took time.Duration
}

// Reader looks at an etcd cluster and cannot change it. Implementations are safe for concurrent use.
type Reader interface {
	// List returns the member list as a quorum has it.
	List(ctx context.Context) (Membership, error)
	// ListOf returns the member list as one voter knows it, which may be out of date and needs no quorum. It is good
	// for finding out what is wrong, and never for a change of the membership.
	ListOf(ctx context.Context, member Member) (Membership, error)
	// Status asks one member for its status.
	Status(ctx context.Context, member Member) (Status, error)
	// HashKV asks one member for the hash of its key-value store at a revision, and the revision down to which the
	// member has compacted. Hashes are comparable only where the latter is the same.
	HashKV(ctx context.Context, member Member, revision int64) (hash uint32, compacted int64, err error)
	// Health proves with a linearizable read that the cluster answers.
	Health(ctx context.Context) error
	// Alarms returns the alarms that are raised in the cluster.
	Alarms(ctx context.Context) ([]Alarm, error)
	// Defragmenting reports whether one member is being defragmented now. The error is ErrNoMetric if the member
	// publishes nothing about it. Any other error means that it is unknown.
	Defragmenting(ctx context.Context, member Member) (bool, error)
	// Close closes all connections.
	Close() error
}

// Writer changes the membership of an etcd cluster. Every change is refused without a quorum.
type Writer interface {
	// Promote makes a voter of a learner.
	Promote(ctx context.Context, id uint64) error
	// Remove removes a member. A member that is not in the list (any more) is ErrMemberNotFound.
	Remove(ctx context.Context, id uint64) error
	// UpdatePeerURLs replaces the peer URLs of a member in the list. The member itself does not notice, and it may be
	// down. A member that is not in the list is ErrMemberNotFound.
	UpdatePeerURLs(ctx context.Context, id uint64, peerURLs []string) error
	// MoveLeader transfers leadership from one member to another. The request goes to the leader itself.
	MoveLeader(ctx context.Context, leader Member, to uint64) error
}

// Cluster looks at an etcd cluster and changes it.
type Cluster interface {
	Reader
	Writer
}
