// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// PrepareRetirement stops etcd-druid from putting back the pods of the source that Retire takes away. Nothing restarts
// from it. Done before the destination's last member joins, it keeps the time with six members short.
func (j *Joint) PrepareRetirement(ctx context.Context) error {
	for _, etcdRole := range naming.EtcdRoles {
		if err := j.pauseDruid(ctx, etcdRole); err != nil {
			return err
		}
	}
	return nil
}

func (j *Joint) pauseDruid(ctx context.Context, etcdRole string) error {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return err
	}
	return j.annotate(ctx, etcd, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation,
		druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)
}

// Retire takes the source's members out of both clusters, one at a time in each. A cluster begins as soon as all of the
// destination's members are voters in it. keepClientService is called before the first pod goes.
func (j *Joint) Retire(
	ctx context.Context, keepClientService func(ctx context.Context) error, report ReportFunc,
) error {
	if err := j.PrepareRetirement(ctx); err != nil {
		return err
	}
	var (
		lock sync.Mutex
		kept bool
	)
	keep := func(ctx context.Context) error {
		lock.Lock()
		defer lock.Unlock()
		if kept {
			return nil
		}
		if err := keepClientService(ctx); err != nil {
			return fmt.Errorf("failed to keep the client services of etcd alive: %w", err)
		}
		kept = true
		return nil
	}
	return j.each(ctx, report, func(ctx context.Context, etcdRole string) (Progress, error) {
		return j.RetireNext(ctx, etcdRole, keep)
	})
}

// RetireNext takes one look at a cluster and makes the next move towards one without members of the source:
//
//  1. the StatefulSet gives up its pod with the highest ordinal;
//  2. when its etcd has ended (hasEnded), the member is removed. Not earlier: a removed member that restarts would wipe
//     its data and join again;
//  3. with the first member gone, the destination's members form a quorum, and the destination moves leadership to one
//     of them (TakeLeadership). When it has it, the two others go in the same way.
//
// A cluster waits before 3, and again after it, until the other one has come as far. So the time with six members is
// not made longer by what happens in the other cluster, and nothing happens while leadership moves. The wait for the
// destination has no limit of its own: with five voters, three of which are in one seed, nothing is in danger.
//
// If leadership moved to the destination earlier, the new leader would need the vote of a member in the other seed, and
// raft takes no writes until the vote is there: the moment would be three times as long. Leadership moves earlier only
// if the member that has to go leads, and then within the source; the destination does that as well, if it is there.
//
// Members of the source that are lost for good do not stop this. They are not waited for, and the quorum is projected
// without them. One that keeps the last member of the destination from joining leaves before that (retireLost).
//
// Every move is preceded by a fresh member list and a projection of the quorum. If the quorum is lost all the same, a
// member that was stopped and not removed yet starts again (holdWith).
func (j *Joint) RetireNext(
	ctx context.Context, etcdRole string, keep func(ctx context.Context) error,
) (Progress, error) {
	seen, hold, err := j.observeForChange(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	retiring := departure{side: quorum.Source, reason: steps.ReasonReadyForSourceMemberRemoval, mayStop: mayRetire,
		before: keep}
	if hold != nil {
		return j.holdWith(ctx, etcdRole, *hold, retiring)
	}
	// A learner of the source has lost its data and joins again. It leaves like the others, and has no vote.
	if learners := seen.Members.Learners().On(quorum.Destination); len(learners) > 0 {
		return waiting(steps.ReasonWaitingForEtcdMember, "a member is still joining: %s", learners), nil
	}
	leaving := seen.Members.RemovalOrder(quorum.Source)
	if len(leaving) == 0 {
		// An operator may have removed them after a loss of the quorum. The source's kube-apiserver needs the relay in
		// that case, too.
		if err := keep(ctx); err != nil {
			return Progress{}, err
		}
		return Progress{Done: true, Message: "no member of the source is left: " + seen.Summary()}, nil
	}
	if !allJoined(seen) {
		return j.retireLost(ctx, etcdRole, seen, keep)
	}

	// The first member leaves without regard to the other cluster: the time with six members must be short.
	if len(leaving) < naming.MembersPerSeed {
		if behind, err := j.otherIsBehind(ctx, etcdRole, seen); err != nil || behind != "" {
			return waiting(steps.ReasonReadyForSourceMemberRemoval, "%s", behind), err
		}
		if seen.Members.Decides(quorum.Destination) && !seen.Members.LeadershipIsOn(quorum.Destination) {
			return waiting(steps.ReasonReadyForSourceMemberRemoval,
				"waiting until the agent of the destination has moved leadership there: %s", seen.Summary()), nil
		}
	} else if message, err := j.freeFirst(ctx, etcdRole, seen); err != nil || message != "" {
		return waiting(steps.ReasonReadyForSourceMemberRemoval, "%s", message), err
	}
	return j.takeAway(ctx, etcdRole, seen, retiring)
}

// spareTime is how long the source waits with six voters until the destination has moved leadership from the member
// that has to leave. The destination looks twice per second and needs less than two seconds. Then the source does it
// itself: a longer time with six voters is a worse risk than a write that is lost.
const spareTime = 5 * time.Second

// freeFirst sees to it that the member of the source that leaves first does not lead, and says what is done about it;
// empty if it does not lead.
func (j *Joint) freeFirst(ctx context.Context, etcdRole string, seen Observation) (string, error) {
	var (
		first = seen.Members.RemovalOrder(quorum.Source)[0]
		leads = spell{etcdRole, "the first member to leave leads"}
	)
	if !first.Leader {
		j.end(leads)
		return "", nil
	}
	if j.lasted(leads) < spareTime {
		return fmt.Sprintf("waiting until the agent of the destination has moved leadership from %s, "+
			"which leaves first", first.Name), nil
	}
	return j.sendLeadershipAway(ctx, etcdRole, seen)
}

// sendLeadershipAway moves leadership from the member that leaves first while there are six voters, and says where to:
// to another one of the source, or to the destination if there is none. SpareFirstToLeave has moved it before; that the
// member leads again is the result of an election.
func (j *Joint) sendLeadershipAway(ctx context.Context, etcdRole string, seen Observation) (string, error) {
	spared, err := j.spareFirst(ctx, etcdRole, seen)
	if err != nil {
		return "", err
	}
	if spared {
		return "leadership moves to another member of the source", nil
	}
	_, err = j.moveLeadershipTo(ctx, etcdRole, seen, quorum.Destination)
	return "leadership moves to the destination", err
}

// TakeLeadership takes one look at a cluster whose members the source retires, and moves leadership to a member of the
// destination when its turn has come: the first member of the source has left this cluster and the other one, and the
// destination's voters are a quorum by themselves. The source waits for that. It returns what has to happen before, or
// nothing if leadership has moved or if it is too early to say.
//
// With six voters it only moves leadership away from the member that has to leave first, for which the source waits a
// moment (spareTime).
//
// It is the destination that does this, because its front can hold the requests of its clients meanwhile.
func (j *Joint) TakeLeadership(ctx context.Context, etcdRole string) (string, error) {
	seen, hold, err := j.observeForChange(ctx, etcdRole)
	if err != nil || hold != nil {
		return "", err
	}
	leaving := seen.Members.RemovalOrder(quorum.Source)
	if len(leaving) == 0 || len(seen.Members.Learners().On(quorum.Destination)) > 0 ||
		seen.Members.LeadershipIsOn(quorum.Destination) {
		return "", nil
	}
	if len(leaving) == naming.MembersPerSeed {
		if !leaving[0].Leader || len(seen.Members.On(quorum.Destination)) < naming.MembersPerSeed {
			return "", nil
		}
		return j.sendLeadershipAway(ctx, etcdRole, seen)
	}
	if !seen.Members.Decides(quorum.Destination) {
		return "leadership does not move before the members of the destination are healthy: " + seen.Summary(), nil
	}
	if behind, err := j.otherIsBehind(ctx, etcdRole, seen); err != nil || behind != "" {
		return behind, err
	}
	if err := j.ClientsWait(ctx); err != nil {
		return "", fmt.Errorf("leadership of %s does not move: %w", naming.EtcdName(etcdRole), err)
	}
	_, err = j.moveLeadershipTo(ctx, etcdRole, seen, quorum.Destination)
	return "", err
}

// ClientsWait returns an error as long as clients wait too long, and nil if nobody is to ask (see Config.Clients).
func (j *Joint) ClientsWait(ctx context.Context) error {
	if j.Clients == nil {
		return nil
	}
	return j.Clients(ctx)
}

// otherIsBehind tells what the other cluster has to do before this one, in which the first member of the source has
// gone, may continue; empty if nothing. If that one is past the point, its state does not matter.
func (j *Joint) otherIsBehind(ctx context.Context, etcdRole string, seen Observation) (string, error) {
	other := naming.OtherEtcdRole(etcdRole)
	theirs, hold, err := j.observeForChange(ctx, other)
	if err != nil {
		return "", fmt.Errorf("failed to look at %s: %w", naming.EtcdName(other), err)
	}
	left := len(theirs.Members.On(quorum.Source))
	switch {
	case len(theirs.Members) > 0 && left < naming.MembersPerSeed-1:
		return "", nil
	case hold != nil:
		return fmt.Sprintf("waiting for %s: %s", naming.EtcdName(other), hold.Message), nil
	case left == naming.MembersPerSeed:
		return fmt.Sprintf("waiting until the first member of the source has left %s as well",
			naming.EtcdName(other)), nil
	case seen.Members.LeadershipIsOn(quorum.Destination) && !theirs.Members.LeadershipIsOn(quorum.Destination):
		return fmt.Sprintf("waiting until the destination has leadership of %s as well", naming.EtcdName(other)), nil
	}
	return "", nil
}

// mayRetire projects the quorum without the member; see quorum.Set.Retire.
func mayRetire(seen Observation, victim quorum.Member) error {
	if err := seen.Members.Retire(victim.ID); err != nil {
		return fmt.Errorf("%w (%s)", err, seen.Summary())
	}
	return nil
}
