// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// transfer is a move of leadership within one cluster.
type transfer struct {
	etcdRole string
	// seen is what the decision is based on.
	seen Observation
	// from leads, and to shall lead.
	from, to quorum.Member
}

// SpareFirstToLeave transfers leadership of both clusters away from the member of the source that leaves first, to the
// one that leaves last. Then the moment with six voters does not have to wait for it. Until the sixth one, the voters
// of the source are a quorum by themselves, so leadership stays in the source.
func (j *Joint) SpareFirstToLeave(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		seen, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil || hold != nil {
			return err
		}
		_, err = j.spareFirst(ctx, etcdRole, seen)
		return err
	})
}

// spareFirst transfers leadership from the member of the source that leaves first, if it has it, to another one of the
// source. It returns false if it has not, or if the source has no other member that can lead.
func (j *Joint) spareFirst(ctx context.Context, etcdRole string, seen Observation) (bool, error) {
	leaving := seen.Members.RemovalOrder(quorum.Source)
	if len(leaving) == 0 || !leaving[0].Leader {
		return false, nil
	}
	target, ok := seen.Members.NextLeader(quorum.Source)
	if !ok || target.ID == leaving[0].ID {
		return false, nil
	}
	err := j.transferLeadership(ctx, transfer{etcdRole: etcdRole, seen: seen, from: leaving[0], to: target})
	return err == nil, err
}

// moveLeadershipTo transfers leadership to a member of the side. It returns false if a member of the side has it.
func (j *Joint) moveLeadershipTo(
	ctx context.Context, etcdRole string, seen Observation, side quorum.Side,
) (bool, error) {
	leader, ok := seen.Members.Leader()
	if !ok {
		return false, fmt.Errorf("failed to transfer leadership of %s: no leader is known", naming.EtcdName(etcdRole))
	}
	if leader.Side == side {
		return false, nil
	}
	target, ok := seen.Members.NextLeader(side)
	if !ok {
		return false, fmt.Errorf("failed to transfer leadership of %s: the %s has no healthy voter",
			naming.EtcdName(etcdRole), side)
	}
	err := j.transferLeadership(ctx, transfer{etcdRole: etcdRole, seen: seen, from: leader, to: target})
	return err == nil, err
}

// transferLeadership transfers leadership from one member to another: while the cluster's front holds the requests of
// its clients, if there is one that does, and otherwise at a moment that it only chooses well. Both clusters may wait
// for their moments at the same time, but their leaderships never move at the same time: a request of a client may need
// both, and members of both are on the same nodes.
func (j *Joint) transferLeadership(ctx context.Context, t transfer) error {
	if held, err := j.transferHeld(ctx, t); held || err != nil {
		return err
	}
	cluster, err := j.cluster(ctx, t.etcdRole)
	if err != nil {
		return err
	}
	if err := j.awaitTurn(ctx, cluster, t); err != nil {
		return err
	}
	defer j.moving.Unlock()
	from, to := t.ends()
	j.Log.Info("Transferring leadership", "etcd", naming.EtcdName(t.etcdRole), "from", from.Name, "to", to.Name)
	if err := cluster.MoveLeader(ctx, from, to.ID); err != nil && !errors.Is(err, etcdclient.ErrNotLeader) {
		return err
	}
	return nil
}

// ends returns the entries in the member list of the one that leads and of the one that shall lead.
func (t transfer) ends() (from, to etcdclient.Member) {
	return t.seen.Raw[t.from.ID], t.seen.Raw[t.to.ID]
}

// awaitTurn returns at a good moment to transfer leadership, with the lock that keeps that of the other cluster from
// moving. If the other one moves just then, the moment is not quiet any more, and another one is chosen.
func (j *Joint) awaitTurn(ctx context.Context, cluster etcdclient.Reader, t transfer) error {
	from, to := t.ends()
	j.awaitQuiet(ctx, cluster, from, to)
	for !j.moving.TryLock() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to transfer leadership of %s: %w", naming.EtcdName(t.etcdRole), ctx.Err())
		case <-j.Clock.After(quietPause):
		}
		j.awaitQuiet(ctx, cluster, from, to)
	}
	// Leadership of the other cluster may have moved for so long that this one's time is over.
	if err := ctx.Err(); err != nil {
		j.moving.Unlock()
		return fmt.Errorf("failed to transfer leadership of %s: %w", naming.EtcdName(t.etcdRole), err)
	}
	return nil
}

// The choice of the moment. Raft drops the proposals that reach the former leader while leadership moves, and the
// clients that made them get an error: at once where the leader itself was asked, after etcd's own time-out where
// another member has passed them on. Nothing can bring them back. A front keeps the requests of the destination's
// clients back meanwhile, but those of the source go past it. So the moment has to be short and well chosen with a
// front, too. Its length is that of messages between the members, which varies with how busy relays, gateways and
// nodes are right then; and writes come in bursts.

const (
	// quietSamples is how many answers of the members it takes to know how fast they can be.
	quietSamples = 40
	// quietPause is the pause between two questions.
	quietPause = 3 * time.Millisecond
	// quietFactor is how much slower than the fastest answer the last ones may be at any time.
	quietFactor = 2
	// quietRelax is the time after which less is asked of the moment, and again after another one.
	quietRelax = 5 * time.Second
	// quietShare is the part of the answers, in percent, that counts as fast, once more with every quietRelax and up to
	// quietShareLimit. On a busy machine the fastest answer says little about those that can be had at all.
	quietShare, quietShareLimit = 10, 70
	// quietRun is how many answers in a row have to be so fast, one less with every quietRelax. One alone says little
	// about the next messages: on a busy machine it has just slipped through.
	quietRun = 8
	// defaultQuietTimeout is how long to wait for a good moment. After that it only must not be a bad one.
	defaultQuietTimeout = 30 * time.Second
)

// calm judges from the answers whether this is a good moment to transfer leadership.
type calm struct {
	// answers is how long they have taken, in order of their length.
	answers []time.Duration
	index   uint64
	// same is how many answers in a row had that index, and fast how many were fast enough.
	same, fast int
}

// sample takes one answer into account. It returns true if answers have been as fast as they get for a while, and a
// write has just been committed and no other one since: the next one is then the farthest away. Without any writes for
// a while every moment is as good as the other. waited is how long a good moment has been waited for; when that is
// longer than the timeout, any that is not a bad one will do.
func (c *calm) sample(took, waited, timeout time.Duration, status etcdclient.Status) bool {
	at, _ := slices.BinarySearch(c.answers, took)
	c.answers = slices.Insert(c.answers, at, took)

	if c.same++; status.RaftIndex != c.index {
		c.index, c.same = status.RaftIndex, 1
	}
	relaxed := int(waited / quietRelax)
	share := c.answers[len(c.answers)*min(quietShare*(1+relaxed), quietShareLimit)/100]
	if c.fast++; took > max(quietFactor*c.fastest(), share) {
		c.fast = 0
	}
	if waited > timeout {
		return c.fast > 0 || waited > 2*timeout
	}
	settled := status.RaftAppliedIndex == status.RaftIndex && (c.same == 2 || c.same >= quietSamples)
	return len(c.answers) >= quietSamples && settled && c.fast >= max(quietRun-relaxed, 1)
}

func (c *calm) fastest() time.Duration { return c.answers[0] }

// awaitQuiet waits for a good moment to transfer leadership from one member to another, for a limited time. Both are
// asked at the same time, and the slower answer counts: each has to act at once when it comes to it. An error ends the
// wait, since the move will meet it again.
func (j *Joint) awaitQuiet(ctx context.Context, cluster etcdclient.Reader, leader, target etcdclient.Member) {
	var (
		c     calm
		begin = j.Clock.Now()
	)
	for {
		asked := j.Clock.Now()
		status, err := statusOfFirst(ctx, cluster, leader, target)
		if err != nil {
			return
		}
		took, waited := j.Clock.Since(asked), j.Clock.Since(begin)
		if c.sample(took, waited, j.QuietTimeout, status) {
			j.Log.Info("Chose the moment to transfer leadership", "waited", waited.String(), "answer", took.String(),
				"fastestAnswer", c.fastest().String(), "answers", len(c.answers))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-j.Clock.After(quietPause):
		}
	}
}

// statusOfFirst returns the status of the first member when both have answered.
func statusOfFirst(
	ctx context.Context, cluster etcdclient.Reader, first, second etcdclient.Member,
) (etcdclient.Status, error) {
	status, _, err := statusOfBoth(ctx, cluster, first, second)
	return status, err
}

// statusOfBoth asks both members at the same time.
func statusOfBoth(
	ctx context.Context, cluster etcdclient.Reader, first, second etcdclient.Member,
) (ofFirst, ofSecond etcdclient.Status, err error) {
	var (
		group sync.WaitGroup
		other error
	)
	group.Go(func() { ofSecond, other = cluster.Status(ctx, second) })
	ofFirst, err = cluster.Status(ctx, first)
	group.Wait()
	return ofFirst, ofSecond, errors.Join(err, other)
}
