// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// urgent says why the transfer must not wait for members to answer soon; empty if it may.
	urgent string
}

// SpareFirstToLeave transfers leadership of both clusters away from the member of the source that leaves first, to the
// one that leaves last. Then the moment with six voters does not have to wait for it. Until the sixth one, the voters
// of the source are a quorum by themselves, so leadership stays in the source.
//
// In step 6 the front holds the clients of the destination meanwhile, and the source's have left it, but for those that
// its gateway could not tell to leave. In step 4 (force-shrink-etcd) there is no front yet, and all clients are in the
// source.
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
// its clients, if there is one that does, and otherwise without. Leaderships of both clusters never move at the same
// time: a request of a client may need both, and members of both are on the same nodes.
func (j *Joint) transferLeadership(ctx context.Context, t transfer) error {
	if held, err := j.transferHeld(ctx, t); held || err != nil {
		return err
	}
	return j.inTurn(ctx, t, func(ctx context.Context, cluster etcdclient.Cluster, t transfer) error {
		j.awaitIdle(ctx, cluster, t)
		return j.move(ctx, cluster, t, catchUpTime)
	})
}

// ends returns the entries in the member list of the one that leads and of the one that shall lead.
func (t transfer) ends() (from, to etcdclient.Member) {
	return t.seen.Raw[t.from.ID], t.seen.Raw[t.to.ID]
}

// inTurn calls the function while leadership of the other cluster does not move. What the decision is based on is
// looked at again before: it may have been waited for. Members are looked up once, in that look.
func (j *Joint) inTurn(
	ctx context.Context, t transfer, move func(context.Context, etcdclient.Cluster, transfer) error,
) error {
	cluster, err := j.cluster(ctx, t.etcdRole)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case j.moving <- struct{}{}:
		defer func() { <-j.moving }()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("failed to transfer leadership of %s: %w", naming.EtcdName(t.etcdRole), err)
	}
	ctx = withLookups(ctx)
	if t.seen, err = j.stillRight(ctx, t); err != nil {
		return err
	}
	if err := j.awaitsPrompt(ctx, t); err != nil {
		return fmt.Errorf("leadership of %s does not move: %w", naming.EtcdName(t.etcdRole), err)
	}
	return move(ctx, cluster, t)
}

// awaitsPrompt returns an error as long as the transfer has to wait until both ends and a majority answer soon.
func (j *Joint) awaitsPrompt(ctx context.Context, t transfer) error {
	err := j.putOff(ctx, t.etcdRole, t.seen, func(prompt quorum.Set) error {
		if to, _ := prompt.ByID(t.to.ID); !to.Healthy || !prompt.HasQuorum() {
			return fmt.Errorf("too few voters answer: %s", prompt)
		}
		return nil
	})
	if err != nil && t.urgent != "" {
		j.Log.Info("Transferring leadership although some requests may fail", "etcd", naming.EtcdName(t.etcdRole),
			"urgent", t.urgent, "reason", err.Error())
		return nil
	}
	return err
}

// stillRight looks at the cluster again and returns what it has seen, or an error if the transfer must not be made any
// more.
func (j *Joint) stillRight(ctx context.Context, t transfer) (Observation, error) {
	name := naming.EtcdName(t.etcdRole)
	seen, err := j.Observe(ctx, t.etcdRole)
	if err != nil {
		return Observation{}, err
	}
	if _, problem := seen.problem(); problem != "" {
		return Observation{}, fmt.Errorf("leadership of %s does not move: %s", name, problem)
	}
	if from, ok := seen.Members.ByID(t.from.ID); !ok || !from.Leader {
		return Observation{}, fmt.Errorf("leadership of %s has moved meanwhile: %s", name, seen.Members)
	}
	if to, ok := seen.Members.ByID(t.to.ID); !ok || to.Learner || !to.Healthy {
		return Observation{}, fmt.Errorf("leadership of %s does not move: %s is no healthy voter any more", name, t.to)
	}
	return seen, nil
}

const (
	// catchUpTime is how long the one that shall lead may take to catch up where nobody is held back meanwhile.
	catchUpTime = etcdclient.DefaultTimeout
	// confirmTime is how long the members may take to agree on the new leader. By then a hold may have ended.
	confirmTime = time.Second
	// lookPause is the pause between two looks at both members. Under a hold every one of them makes it longer.
	lookPause = 5 * time.Millisecond
	// idleTime bounds the wait for a moment in which nobody writes.
	idleTime = 2 * time.Second
)

// awaitIdle waits for a moment in which nobody writes. It is for moves that no front accompanies: of an abort, of
// force-shrink-etcd, and of the source with six voters. Their clients are at the source's kube-apiserver, which
// comes to the members directly, so nothing can hold their requests back. Raft drops what is proposed while
// leadership moves, and etcd reports that as an error or, if another member has passed it on, a time-out. The move
// is over in milliseconds or, over a distance, in two round trips, and writes come in bursts. So it begins when
// nothing was committed between two looks and the next leader has applied all, which guarantees nothing. An error
// ends the wait, since the move meets it again.
func (j *Joint) awaitIdle(ctx context.Context, cluster etcdclient.Reader, t transfer) {
	var (
		from, to = t.ends()
		begin    = j.Clock.Now()
		before   etcdclient.Status
	)
	for ctx.Err() == nil && j.Clock.Since(begin) < idleTime {
		leads, follows, err := statusOfBoth(ctx, cluster, from, to)
		if err != nil || before.MemberID == leads.MemberID && before.RaftIndex == leads.RaftIndex &&
			follows.RaftAppliedIndex == leads.RaftIndex {
			return
		}
		before = leads
		j.pause(ctx, lookPause)
	}
}

// move moves leadership as soon as the next leader has the log of the one that leads, and returns when both say who
// leads. Up to the move it takes no longer than the given time.
func (j *Joint) move(ctx context.Context, cluster etcdclient.Cluster, t transfer, atMost time.Duration) error {
	var (
		name     = naming.EtcdName(t.etcdRole)
		from, to = t.ends()
		begin    = j.Clock.Now()
	)
	bounded, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	if err := j.awaitCaughtUp(bounded, cluster, t, atMost); err != nil {
		return fmt.Errorf("leadership of %s does not move: %w", name, err)
	}
	j.Log.Info("Transferring leadership", "etcd", name, "from", from.Name, "to", to.Name, "members",
		t.seen.Members.String(), "waited", j.Clock.Since(begin).String())
	moveErr := cluster.MoveLeader(bounded, from, to.ID)
	if err := j.confirmLeader(ctx, cluster, from, to); err != nil {
		return fmt.Errorf("failed to transfer leadership of %s: %w", name, errors.Join(moveErr, err))
	}
	return nil
}

// awaitCaughtUp waits until the member that leads is still the leader for both, and the other one has its log: it has
// applied what the leader had committed a look before, which is a round trip. Where nobody writes it has all at once,
// and raft sends the rest before it moves leadership.
func (j *Joint) awaitCaughtUp(
	ctx context.Context, cluster etcdclient.Reader, t transfer, atMost time.Duration,
) error {
	var (
		from, to         = t.ends()
		begin            = j.Clock.Now()
		committed uint64 = math.MaxUint64
	)
	for {
		asked := j.Clock.Now()
		leads, follows, err := statusOfBoth(ctx, cluster, from, to)
		committed = min(committed, leads.RaftIndex)
		switch {
		case err != nil:
			return err
		case leads.LeaderID != from.ID || follows.LeaderID != from.ID:
			return fmt.Errorf("member %s does not lead any more", from)
		case follows.RaftAppliedIndex >= committed:
			return nil
		case ctx.Err() != nil || j.Clock.Since(begin) > atMost:
			return fmt.Errorf("member %s has not caught up: it has applied entry %d, the leader has committed %d", to,
				follows.RaftAppliedIndex, leads.RaftIndex)
		}
		committed = leads.RaftIndex
		j.pause(ctx, max(lookPause, j.Clock.Since(asked)))
	}
}

// confirmLeader waits until both members say that the second one leads. In the end it is enough that this one says so:
// a majority has elected it then.
func (j *Joint) confirmLeader(ctx context.Context, cluster etcdclient.Reader, from, to etcdclient.Member) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	begin := j.Clock.Now()
	for {
		ofFrom, ofTo, err := statusOfBoth(ctx, cluster, from, to)
		agree := err == nil && ofFrom.LeaderID == to.ID && ofTo.LeaderID == to.ID
		late := ctx.Err() != nil || j.Clock.Since(begin) > confirmTime
		switch {
		case agree || late && ofTo.LeaderID == to.ID:
			return nil
		case late && err != nil:
			return fmt.Errorf("it is not known whether %s leads: %w", to, err)
		case late:
			return fmt.Errorf("member %s does not lead: %s follows %x, %s follows %x", to, from, ofFrom.LeaderID, to,
				ofTo.LeaderID)
		}
		j.pause(ctx, lookPause)
	}
}

// pause waits, unless the context ends before.
func (j *Joint) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-j.Clock.After(d):
	}
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
