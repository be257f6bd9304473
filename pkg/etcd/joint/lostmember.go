// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"time"

	"github.com/gardener/gardener/pkg/utils/kubernetes/health"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// A voter of the source may be lost for good while the destination has two: its node is gone, and no other one takes
// its pod. etcd adds nobody beside a voter that is not connected (strict reconfiguration), so the last member of the
// destination could never join, and nobody would ever retire the lost one. It has to leave first. Of five voters four
// are left then, all healthy, and with the last member of the destination there are five again: there is never a moment
// with six. That the member may still run on a node that is cut off does no harm. Once removed it ends, and its sidecar
// can only add it as a learner again, which has no vote and becomes a voter when it has caught up: then nothing is
// lost.

// askAfter is how long a member of the source has to be down before the destination asks the source to retire it. The
// source judges by itself; see retireLost.
const askAfter = time.Minute

// SourceDown returns the members of the source that are no healthy voters of the cluster, and whether they have been
// that for so long that the source is to be asked for it. As long as there are any, the last member of the destination
// cannot join.
func (j *Joint) SourceDown(ctx context.Context, etcdRole string) (down quorum.Set, ask bool, err error) {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return nil, false, err
	}
	down = seen.Members.On(quorum.Source).Filter(func(m quorum.Member) bool { return m.Learner || !m.Healthy })
	since := spell{etcdRole, "a member of the source is down"}
	if len(down) == 0 {
		j.end(since)
		return nil, false, nil
	}
	return down, j.lasted(since) >= askAfter, nil
}

// retireLost takes one look at a cluster that the last member of the destination has not joined. It retires a voter of
// the source that has not answered for StuckAfter, if its pod is not ready either and all other voters are healthy, and
// removes a learner of the source that does not start. Otherwise it waits for the destination.
func (j *Joint) retireLost(
	ctx context.Context, etcdRole string, seen Observation, keep func(ctx context.Context) error,
) (Progress, error) {
	var (
		theirs = seen.Members.Voters().On(quorum.Destination)
		since  = spell{etcdRole, "a voter of the source is lost"}
		wait   = waiting(steps.ReasonWaitingForEtcdMember, "the destination has %d of %d voters", len(theirs),
			naming.MembersPerSeed)
	)
	if learners := seen.Members.Learners().On(quorum.Source); len(learners) > 0 && learners[0].Name == "" {
		return j.removeIfStuck(ctx, etcdRole, seen, learners[0])
	}
	down := seen.Members.Voters().On(quorum.Source).Unhealthy()
	if len(down) == 0 || len(theirs) < naming.MembersPerSeed-1 {
		j.end(since)
		return wait, nil
	}
	lost := down[0]
	if err := seen.Members.RetireLost(lost.ID); err != nil {
		j.end(since)
		return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
	}
	pod, err := j.getPod(ctx, naming.PodName(etcdRole, lost.Ordinal))
	if err != nil {
		return Progress{}, err
	}
	if pod != nil && pod.DeletionTimestamp == nil && health.IsPodReady(pod) {
		j.end(since)
		return waiting(steps.ReasonWaitingForEtcdMember, "member %s does not answer, but its pod is ready", lost), nil
	}
	if j.lasted(since) < j.StuckAfter {
		return waiting(steps.ReasonWaitingForEtcdMember,
			"member %s does not answer; it is retired if that lasts for %s", lost, j.StuckAfter), nil
	}
	d := departure{side: quorum.Source, reason: steps.ReasonReadyForSourceMemberRemoval, mayStop: mayRetireLost,
		before: keep}
	if lost.ID == seen.Members.RemovalOrder(quorum.Source)[0].ID {
		return j.takeAway(ctx, etcdRole, seen, d)
	}
	// Its StatefulSet gives up only the pod with the highest ordinal. So this one stays what it is, gone or a pod that
	// does not run, until the next one above it leaves (replicasAround).
	if err := keep(ctx); err != nil {
		return Progress{}, err
	}
	return j.remove(ctx, etcdRole, lost, d)
}

func mayRetireLost(seen Observation, victim quorum.Member) error {
	return seen.Members.RetireLost(victim.ID)
}
