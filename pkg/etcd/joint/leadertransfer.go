// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

// Raft drops the proposals that reach the former leader while leadership moves, and the clients that made them get an
// error: at once where the leader itself was asked, after etcd's own time-out where another member has passed them on.
// Nothing can bring them back, so what is left is to make the moment short and to choose it well. Its length is that of
// messages between the members, which varies with how busy relays, gateways and nodes are right then; and writes come
// in bursts.

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
	var (
		group sync.WaitGroup
		other error
	)
	group.Go(func() { _, other = cluster.Status(ctx, second) })
	status, err := cluster.Status(ctx, first)
	group.Wait()
	return status, errors.Join(err, other)
}
