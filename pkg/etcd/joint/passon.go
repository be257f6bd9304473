// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// How a cluster with one member moves (docs/concepts/single-member.md). Two voters need each other, and the time in
// which there are two is made short: the destination enters it when nothing else is left to do, and makes the three
// changes in a row.

// ReadyFunc says what a cluster with one voter waits for before there are two; nil if nothing is missing.
type ReadyFunc func(ctx context.Context) (*Progress, error)

// PassOn takes one look at a cluster of one member, and moves it to the member of the destination, which has joined as
// a learner, or is about to:
//
//  1. The learner is promoted when both members are healthy and answer soon. ready is called right before; what it
//     returns, unless it is nil, is waited for with one voter.
//  2. Leadership moves to the destination, under a hold of the front if there is one. From here on nothing is waited
//     for: both voters are needed for every write.
//  3. The front leads requests past the member of the source, and that is removed while it works. One that stopped
//     before would take the quorum with it.
//
// The sidecar of the learner may promote it at any time, and an agent may be killed between any two changes: each of
// them follows from the member list alone. A member that is removed stops by itself; its agent takes the pod away
// (RetireOnly), and if the pod has joined again before that, as a learner, it is removed once more.
//
// PassOn never undoes a change. If one of two voters is gone, it says so and changes nothing: both have all that was
// acknowledged, and a person decides which of them goes on.
func (j *Joint) PassOn(ctx context.Context, etcdRole string, ready ReadyFunc) (Progress, error) {
	for range changesInARow {
		seen, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil {
			return Progress{}, err
		}
		if hold != nil {
			return *hold, nil
		}
		change, member, err := seen.Members.PassOn()
		if err != nil {
			return waiting(steps.ReasonQuorumAtRisk, "%s cannot be passed on: %s", naming.EtcdName(etcdRole), err), nil
		}
		var made *Progress
		switch change {
		case quorum.ChangeJoin:
			return j.awaitSecond(ctx, etcdRole, seen)
		case quorum.ChangePromote:
			made, err = j.promoteSecond(ctx, etcdRole, seen, ready)
		case quorum.ChangeLead:
			err = j.leadFromDestination(ctx, etcdRole, seen)
		case quorum.ChangeRemove:
			made, err = j.removeFormer(ctx, etcdRole, seen, member)
		case quorum.ChangeNone:
			return Progress{Done: true, Message: "only the member of the destination is left: " + seen.Summary()}, nil
		}
		if err != nil || made != nil {
			return ptr.Deref(made, Progress{}), err
		}
	}
	return waiting(steps.ReasonReadyForSourceMemberRemoval, "%s is being passed on", naming.EtcdName(etcdRole)), nil
}

// changesInARow are the changes of one look: promote, lead, remove, remove a pod that has joined again, and the look
// that finds nothing left to do.
const changesInARow = 5

// awaitSecond waits for the member of the destination to join, and deletes its pod if it never does.
func (j *Joint) awaitSecond(ctx context.Context, etcdRole string, seen Observation) (Progress, error) {
	again, err := j.restartStuckPod(ctx, etcdRole, seen, naming.SingleMember)
	if err != nil || again != nil {
		return ptr.Deref(again, Progress{}), err
	}
	return waiting(steps.ReasonJoiningEtcdMembers, "the member of the destination has not joined: %s", seen.Summary()),
		nil
}

// promoteSecond makes a voter of the learner of the destination. It returns nil if that is done.
func (j *Joint) promoteSecond(
	ctx context.Context, etcdRole string, seen Observation, ready ReadyFunc,
) (*Progress, error) {
	learner := seen.Members.Learners()[0]
	j.asideSince(etcdRole, nil)
	if missing, err := j.awaitLearner(ctx, etcdRole, seen, learner); err != nil || missing != nil {
		return missing, err
	}
	promote := func(members quorum.Set) error { return members.PromoteSecond(learner.ID) }
	if err := promote(seen.Members); err != nil {
		return new(waiting(steps.ReasonQuorumAtRisk, "%s", err)), nil
	}
	if err := j.putOff(ctx, etcdRole, seen, promote); err != nil {
		return nil, fmt.Errorf("member %s is not promoted yet: %w", learner.Name, err)
	}
	if missing, err := ready(ctx); err != nil || missing != nil {
		return missing, err
	}
	return j.promote(ctx, etcdRole, seen, learner)
}

// leadFromDestination moves leadership away from the member that leaves. It does not wait for slow members, or for a
// defragmentation: with two voters, each moment is one in which the loss of either stops the cluster.
func (j *Joint) leadFromDestination(ctx context.Context, etcdRole string, seen Observation) error {
	leader, _ := seen.Members.Leader()
	target, ok := seen.Members.NextLeader(quorum.Destination)
	if !ok {
		return fmt.Errorf("leadership of %s does not move: the destination has no healthy voter: %s",
			naming.EtcdName(etcdRole), seen.Summary())
	}
	return j.transferLeadership(ctx, transfer{etcdRole: etcdRole, seen: seen, from: leader, to: target,
		urgent: "with two voters, the cluster needs both"})
}

const (
	// leadPastAttempts and leadPastPause bound the time for which the front is asked again to lead requests past the
	// member of the source, while there are two voters. A front learns within 200 ms that it may use a new voter.
	leadPastAttempts, leadPastPause = 8, 100 * time.Millisecond
	// leadPastTimeout bounds one of these questions: the front waits for the requests that are under way there.
	leadPastTimeout = time.Second
)

// leadPast makes the front lead nothing to the member of the source any more, which is about to be removed: an etcd
// that is removed cuts off the requests that are under way at it. If the front does not come to that soon, the member
// is removed nevertheless: a request is worth less than the end of the time with two voters.
func (j *Joint) leadPast(ctx context.Context, etcdRole string) {
	var err error
	for attempt := range leadPastAttempts {
		if attempt > 0 {
			j.pause(ctx, leadPastPause)
		}
		bounded, cancel := context.WithTimeout(ctx, leadPastTimeout)
		err = j.steerOnce(bounded, etcdRole, func(ctx context.Context, front Front) error {
			return front.Drain(ctx, naming.FrontOrdinalOfSource, drainTime)
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		j.Log.Info("Removing the member of the source although requests may be under way there", "etcd",
			naming.EtcdName(etcdRole), "reason", err.Error())
	}
}

// removeFormer removes the member of the source from a list in which the destination leads. It returns nil if that is
// done.
func (j *Joint) removeFormer(
	ctx context.Context, etcdRole string, seen Observation, former quorum.Member,
) (*Progress, error) {
	may := seen.Members.RemoveFormer
	if former.Learner {
		may = seen.Members.Remove
	}
	if err := may(former.ID); err != nil {
		return new(waiting(steps.ReasonQuorumAtRisk, "%s", err)), nil
	}
	if !former.Learner {
		j.leadPast(ctx, etcdRole)
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return nil, err
	}
	j.Log.Info("Removing the member of the source while it works", "etcd", naming.EtcdName(etcdRole), "member",
		former.String(), "members", seen.Members.String())
	switch err := cluster.Remove(ctx, former.ID); {
	case err == nil, errors.Is(err, etcdclient.ErrMemberNotFound):
		return nil, nil
	case errors.Is(err, etcdclient.ErrUnhealthy):
		// etcd wants both to have been connected for five seconds.
		return new(waiting(steps.ReasonQuorumAtRisk, "%s", err)), nil
	default:
		return nil, err
	}
}
