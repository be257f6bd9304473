// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"time"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// holdTime bounds the time for which a front holds requests while leadership moves. Clients of etcd wait longer
	// than that.
	holdTime = 1500 * time.Millisecond
	// holdRest is what is left of it at least when the front says that it holds them: it does not wait for the requests
	// under way for longer than the rest allows.
	holdRest = holdTime / 4
	// confirmTime is how long the members may take to agree on the new leader. By then the hold may have ended.
	confirmTime = time.Second
	// confirmPause is the pause between two questions under a hold, where every one of them makes it longer.
	confirmPause = 5 * time.Millisecond
	// holdPause is the pause between two holds. In it, the requests that the first one kept back get their answers.
	holdPause = 4 * time.Second
	// nearIndex is by how many entries of the log a member may be behind the leader and count as caught up. Under a
	// hold hardly anybody writes, and raft sends the rest before it moves leadership.
	nearIndex = 100
)

// notHeldError says that a front could not hold the requests of its clients.
type notHeldError struct{ cause error }

// Error returns the cause.
func (e *notHeldError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *notHeldError) Unwrap() error { return e.cause }

// transferHeld transfers leadership while the cluster's front holds the requests of its clients. It returns false if
// the cluster has no front, or if the front could not hold them for FrontPatience. The former is how it is in the
// source; the latter costs some requests, while leadership that does not move would stop the migration.
func (j *Joint) transferHeld(ctx context.Context, t transfer) (bool, error) {
	var (
		log   = j.Log.WithValues("etcd", naming.EtcdName(t.etcdRole))
		begin = j.Clock.Now()
	)
	for {
		front, err := j.openFront(ctx, t.etcdRole)
		if err == nil && front == nil {
			return false, nil
		}
		if err == nil {
			err = j.transferUnder(ctx, front, t)
			_ = front.Close()
		}
		var notHeld *notHeldError
		if err == nil || !errors.As(err, &notHeld) {
			return true, err
		}
		if waited := j.Clock.Since(begin); waited >= j.FrontPatience {
			log.Info("The front cannot hold the requests, transferring leadership without", "waited", waited.String(),
				"reason", err.Error())
			return false, nil
		}
		log.Info("The front cannot hold the requests, trying again", "reason", err.Error())
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("failed to transfer leadership of %s: %w: %w", naming.EtcdName(t.etcdRole),
				ctx.Err(), err)
		case <-j.Clock.After(holdPause):
		}
	}
}

// openFront returns the front of the cluster, or nil if it has none. Its error is a notHeldError.
func (j *Joint) openFront(ctx context.Context, etcdRole string) (Front, error) {
	if j.Front == nil {
		return nil, nil
	}
	front, err := j.Front(ctx, etcdRole)
	if err != nil {
		return nil, &notHeldError{
			cause: fmt.Errorf("failed to reach the front of %s: %w", naming.EtcdName(etcdRole), err),
		}
	}
	return front, nil
}

// transferUnder transfers leadership once, under a hold. What the decision is based on is looked at again before it,
// since a hold may have been waited for, and what it must not be without is looked at again under it.
func (j *Joint) transferUnder(ctx context.Context, front Front, t transfer) error {
	name := naming.EtcdName(t.etcdRole)
	cluster, err := j.cluster(ctx, t.etcdRole)
	if err != nil {
		return err
	}
	if t.seen, err = j.stillRight(ctx, t); err != nil {
		return err
	}
	if err := j.awaitTurn(ctx, cluster, t); err != nil {
		return err
	}
	defer j.moving.Unlock()

	from, to := t.ends()
	asked := j.Clock.Now()
	release, err := j.hold(ctx, front)
	if err != nil {
		return &notHeldError{cause: fmt.Errorf("failed to hold the requests to %s: %w", name, err)}
	}
	defer release()
	// The front has begun to hold them after it was asked.
	held, cancel := context.WithTimeout(ctx, max(holdTime-j.Clock.Since(asked), holdRest))
	defer cancel()
	if err := j.awaitCaughtUp(held, cluster, from, to); err != nil {
		return fmt.Errorf("leadership of %s does not move: %w", name, err)
	}
	j.Log.Info("Transferring leadership under a hold", "etcd", name, "from", from.Name, "to", to.Name,
		"members", t.seen.Members.String(), "waited", j.Clock.Since(asked).String())
	moveErr := cluster.MoveLeader(held, from, to.ID)
	if err := j.confirmLeader(ctx, cluster, from, to); err != nil {
		return fmt.Errorf("failed to transfer leadership of %s: %w", name, errors.Join(moveErr, err))
	}
	release()
	j.Log.Info("Transferred leadership under a hold", "etcd", name, "to", to.Name,
		"took", j.Clock.Since(asked).String())
	return nil
}

// hold asks the front to hold requests. Reaching it is not a part of that time, and bounded as well.
func (j *Joint) hold(ctx context.Context, front Front) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, steerTimeout)
	defer cancel()
	return front.Hold(ctx, holdTime)
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

// awaitCaughtUp waits until the member that leads is still the leader for both, and the other one has its log, which it
// has at once but for a busy machine.
func (j *Joint) awaitCaughtUp(ctx context.Context, cluster etcdclient.Reader, from, to etcdclient.Member) error {
	begin := j.Clock.Now()
	for {
		leads, follows, err := statusOfBoth(ctx, cluster, from, to)
		switch {
		case err != nil:
			return err
		case leads.LeaderID != from.ID || follows.LeaderID != from.ID:
			return fmt.Errorf("member %s does not lead any more", from)
		case caughtUp(follows, leads):
			return nil
		case ctx.Err() != nil || j.Clock.Since(begin) > holdTime:
			return fmt.Errorf("member %s has not caught up: it has applied entry %d, the leader has committed %d", to,
				follows.RaftAppliedIndex, leads.RaftIndex)
		}
		select {
		case <-ctx.Done():
		case <-j.Clock.After(confirmPause):
		}
	}
}

// caughtUp reports whether the member has applied about as much as the leader has committed.
func caughtUp(member, leader etcdclient.Status) bool {
	return member.RaftAppliedIndex+nearIndex >= leader.RaftIndex
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
		select {
		case <-ctx.Done():
		case <-j.Clock.After(confirmPause):
		}
	}
}
