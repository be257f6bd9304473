// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"

	"github.com/livecpm/livecpm/pkg/etcd/joint"
)

// Model is what may happen in a world. Each number is how often it may happen in one schedule.
type Model struct {
	// Losses are losses of both of the following kinds, Volumes those of a member's volume, and Nodes those of its node
	// with the volume. A node is not replaced: somebody would have to do that.
	Losses, Volumes, Nodes int
	// Crashes are ends of a member's process that keep its data.
	Crashes int
	// Elections are changes of the leader that nobody has asked for, while there is one. If there is none, any member
	// that a quorum votes for may win, as often as that happens.
	Elections int
	// Cuts are interruptions of all connections between the seeds.
	Cuts int
	// Restarts are restarts of an agent, between two of its moves or after any write of a move.
	Restarts int
	// Writes are writes of clients that commit while a voter cannot take part.
	Writes int
	// Abort says that a person may abort the migration as long as that is possible.
	Abort bool
	// Both says that the moves of both etcds are in every order. Otherwise etcd-events makes its moves as soon as it
	// can and meets no fault.
	Both bool
	// Decisions are what the agents do. The zero value is the real code.
	Decisions Decisions
	// Broken is how this world is not as it should be.
	Broken Broken
}

// Decisions are the decisions that the agents make again and again. A nil one is the method of joint.Joint with that
// name. A test breaks one of them to see that the search finds that.
type Decisions struct {
	// Advance helps members of the destination to join.
	Advance func(ctx context.Context, j *joint.Joint, etcdRole string, members int) (joint.Progress, error)
	// RetireNext takes the members of the source out.
	RetireNext func(ctx context.Context, j *joint.Joint, etcdRole string) (joint.Progress, error)
	// WithdrawNext takes the members of the destination out.
	WithdrawNext func(ctx context.Context, j *joint.Joint, etcdRole string) (joint.Progress, error)
}

// Broken is how a world is not as it should be, to see that the search finds that.
type Broken struct {
	// Blind lets agents see every member as healthy. That is what a projection of the quorum would be that is skipped.
	Blind bool
	// Narrow leaves the members of the destination out of the configuration of the source's.
	Narrow bool
}

func keepNothing(context.Context) error { return nil }

func (d Decisions) advance(ctx context.Context, j *joint.Joint, etcdRole string, members int) (joint.Progress, error) {
	if d.Advance != nil {
		return d.Advance(ctx, j, etcdRole, members)
	}
	return j.Advance(ctx, etcdRole, members)
}

func (d Decisions) retireNext(ctx context.Context, j *joint.Joint, etcdRole string) (joint.Progress, error) {
	if d.RetireNext != nil {
		return d.RetireNext(ctx, j, etcdRole)
	}
	return j.RetireNext(ctx, etcdRole, keepNothing)
}

func (d Decisions) withdrawNext(ctx context.Context, j *joint.Joint, etcdRole string) (joint.Progress, error) {
	if d.WithdrawNext != nil {
		return d.WithdrawNext(ctx, j, etcdRole)
	}
	return j.WithdrawNext(ctx, etcdRole)
}
