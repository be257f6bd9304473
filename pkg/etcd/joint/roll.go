// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"time"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The last step restarts the destination's members one after the other, because they get their ordinary peer port. A
// member that stops cuts off the requests that are under way at it, and a leader that is stopped hands its leadership
// over at the instant at which the StatefulSet happens to get to its pod. So the StatefulSet gets to a pod only when
// nothing is led to its member any more, when it does not lead, and when all others are healthy.

const (
	// lastOrdinal is the first one to restart.
	lastOrdinal = naming.MembersPerSeed - 1
	// defaultSteadyTime is how long a restarted member must have been as it should be. If its sidecar had to change the
	// peer URL, which is the last of what is looked at, it stops etcd once more right after that.
	defaultSteadyTime = 3 * time.Second
	// nearIndex is by how many entries of the log a restarted member may be behind the leader: clients write meanwhile.
	nearIndex = 100
)

// PrepareRoll makes both clusters ready for the restart that the ordinary specification brings: leadership moves to the
// member with the lowest ordinal, which restarts last, and the front leads nothing to the one with the highest ordinal
// any more, which restarts at once. A cluster whose Etcd has its ordinary specification already is only kept where it
// is: its restart may have begun.
func (j *Joint) PrepareRoll(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		if err := j.prepareRoll(ctx, etcdRole); err != nil {
			return fmt.Errorf("failed to prepare the restart of %s: %w", naming.EtcdName(etcdRole), err)
		}
		return nil
	})
}

func (j *Joint) prepareRoll(ctx context.Context, etcdRole string) error {
	r, err := j.lookAtRollout(ctx, etcdRole)
	if err != nil {
		return err
	}
	if r.plain() {
		return j.keepRollout(ctx, r)
	}
	// The specification has to get through to the StatefulSet.
	if err := j.release(ctx, r.etcd); err != nil {
		return err
	}
	if err := j.shutBudget(ctx, etcdRole); err != nil {
		return err
	}
	if j.Members == naming.SingleMember {
		return j.prepareOnly(ctx, etcdRole)
	}

	seen, err := j.observeHealthy(ctx, etcdRole)
	if err != nil {
		return err
	}
	if err := mayRestart(seen, lastOrdinal); err != nil {
		return err
	}
	// It restarts as soon as the specification is there.
	restarts, _ := memberOf(seen, lastOrdinal)
	if err := j.mayStopNow(ctx, etcdRole, seen, restarts); err != nil {
		return err
	}
	leader, _ := seen.Members.Leader()
	last, ok := seen.Members.NextLeader(quorum.Destination)
	if ok && last.ID != leader.ID {
		move := transfer{etcdRole: etcdRole, seen: seen, from: leader, to: last}
		if err := j.transferLeadership(ctx, move); err != nil {
			return err
		}
	}
	if err := j.widenPeerURLs(ctx, etcdRole, restarts); err != nil {
		return err
	}
	return j.drain(ctx, ledTo{etcdRole, lastOrdinal})
}

// observeHealthy looks at a cluster. What speaks against touching it is an error.
func (j *Joint) observeHealthy(ctx context.Context, etcdRole string) (Observation, error) {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Observation{}, err
	}
	if _, problem := seen.problem(); problem != "" {
		return Observation{}, fmt.Errorf("%s cannot be worked on: %s", naming.EtcdName(etcdRole), problem)
	}
	return seen, nil
}

// mayRestart projects the quorum without the member of the destination with the ordinal, for as long as it restarts. Of
// three voters no other one may be down.
func mayRestart(seen Observation, ordinal int) error {
	member, ok := memberOf(seen, ordinal)
	if !ok {
		return fmt.Errorf("the destination has no member with the ordinal %d: %s", ordinal, seen.Members)
	}
	return seen.Members.Stop(member.ID)
}

// memberOf returns the member of the destination with the ordinal.
func memberOf(seen Observation, ordinal int) (quorum.Member, bool) {
	for _, m := range seen.Members.On(quorum.Destination) {
		if m.Ordinal == ordinal {
			return m, true
		}
	}
	return quorum.Member{}, false
}

// AccompanyRoll leads both clusters through their restart, and returns when all members have restarted and both Etcds
// belong to etcd-druid again. What fails is retried, and what is waited for is logged. Only what slows it down for an
// unknown time is reported, and that it does not any more: other work is done at the same time and reports as well.
func (j *Joint) AccompanyRoll(ctx context.Context, report ReportFunc) error {
	var putOff bool
	return j.each(ctx, func(ctx context.Context, reason steps.Reason, message string) error {
		j.Log.Info("Restarting the members one by one", "reason", reason, "waiting", message)
		before := putOff
		putOff = reason == steps.ReasonSeedOverloaded || reason == steps.ReasonEtcdDefragmenting
		if report == nil || !putOff && !before {
			return nil
		}
		return report(ctx, reason, message)
	}, j.RollNext)
}

// RollNext takes one look at a cluster whose Etcd got its ordinary specification, and makes the next move towards one
// whose members have all restarted with it:
//
//  1. when etcd-druid has applied the specification, the StatefulSet restarts the highest ordinal at once. It is kept
//     from going further (keepRollout);
//  2. when a member has restarted, the front leads requests to it again;
//  3. when all other members are healthy, leadership moves away from the next one, if it has it, to one that is done;
//     the member list gets both of its peer URLs; the front leads nothing to it any more; then the StatefulSet may
//     restart it;
//  4. when it is back, the member list gets its ordinary peer URL only (see widenPeerURLs);
//  5. when all are done, the StatefulSet and the Etcd become ordinary ones.
//
// A member that has just come back with its new specification is not done. If the member list did not have its ordinary
// peer URL, its sidecar tells the cluster, and etcd restarts once more, still with the new pod; see done.
//
// Nothing rests on what was done before: the partition of the StatefulSet and the pods tell how far it is.
func (j *Joint) RollNext(ctx context.Context, etcdRole string) (Progress, error) {
	r, err := j.lookAtRollout(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if err := j.keepRollout(ctx, r); err != nil {
		return Progress{}, err
	}
	if r.plain() && !r.allRestarted() {
		if err := j.shutBudget(ctx, etcdRole); err != nil {
			return Progress{}, err
		}
	}
	if missing := r.notApplied(); missing != "" {
		if j.Members > naming.SingleMember && r.startsFrom(lastOrdinal) {
			if err := j.drain(ctx, ledTo{etcdRole, lastOrdinal}); err != nil {
				return Progress{}, err
			}
		}
		return waiting(steps.ReasonRollingEtcd, "etcd-druid has not applied the specification yet: %s", missing), nil
	}
	if j.Members == naming.SingleMember {
		return j.rollOnly(ctx, r)
	}
	seen, hold, err := j.observeForChange(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if hold != nil {
		return *hold, nil
	}
	j.keepRolledCluster(ctx, etcdRole, seen)

	var first *Progress
	for ordinal := r.replicas - 1; ordinal >= 0; ordinal-- {
		missing := j.done(r, seen, ordinal)
		switch {
		case missing == "":
			if err := j.restore(ctx, ledTo{etcdRole, ordinal}); err != nil {
				return Progress{}, err
			}
			continue
		case r.reached(ordinal):
			p, err := j.attend(ctx, r, seen, ordinal)
			if err != nil {
				return Progress{}, err
			}
			if p == nil {
				p = new(waiting(steps.ReasonRollingEtcd, "member %d restarts: %s", ordinal, missing))
			}
			if first == nil {
				first = p
			}
		case first == nil:
			return j.letRestart(ctx, r, seen, ordinal)
		}
	}
	if first != nil {
		return *first, nil
	}
	return j.finishRollout(ctx, r)
}

// done tells what is missing until the member counts as restarted; empty if nothing is. It is ready again, it is a
// healthy voter with about the leader's log, and it is known by its ordinary peer URL only: all that for SteadyTime,
// since etcd may restart once more after the last of it.
func (j *Joint) done(r rollout, seen Observation, ordinal int) string {
	pod := r.pods[ordinal]
	if !r.restarted(ordinal) {
		return "its pod has not been replaced"
	}
	missing := j.unfinished(r, seen, ordinal)
	j.lock.Lock()
	defer j.lock.Unlock()
	if missing != "" {
		delete(j.steady, pod.UID)
		return missing
	}
	since, known := j.steady[pod.UID]
	if !known {
		since = j.Clock.Now()
		j.steady[pod.UID] = since
	}
	if j.Clock.Since(since) < j.SteadyTime {
		return fmt.Sprintf("it has not been as it should be for %s", j.SteadyTime)
	}
	return ""
}

// unfinished tells what is missing of a member right now whose pod has been replaced.
func (j *Joint) unfinished(r rollout, seen Observation, ordinal int) string {
	if !isReady(r.pods[ordinal]) {
		return "its pod is not ready"
	}
	member, ok := memberOf(seen, ordinal)
	switch {
	case !ok:
		return "it is not in the member list"
	case member.Learner:
		return "it is a learner"
	case !member.Healthy:
		return seen.Problems[member.ID]
	}
	if urls := seen.Raw[member.ID].PeerURLs; !sameURLs(urls, j.plainURLs(r.etcdRole, ordinal)) {
		return fmt.Sprintf("it has the peer URLs %v", urls)
	}
	leader, _ := seen.Members.Leader()
	if own, leads := seen.Statuses[member.ID], seen.Statuses[leader.ID]; !caughtUp(own, leads) {
		return fmt.Sprintf("it has applied entry %d, the leader has committed %d", own.RaftAppliedIndex,
			leads.RaftIndex)
	}
	return ""
}

// caughtUp reports whether the member has applied about as much as the leader has committed.
func caughtUp(member, leader etcdclient.Status) bool {
	return member.RaftAppliedIndex+nearIndex >= leader.RaftIndex
}

// plainURLs are the peer URLs of a member with the ordinary specification, which the source's members have as well.
func (j *Joint) plainURLs(etcdRole string, ordinal int) []string {
	return []string{j.peerURL(steps.Source, etcdRole, ordinal)}
}

// attend looks after a member that the StatefulSet may stop at any time or that restarts. It is not to be led to, and
// if it leads nevertheless, leadership moves away from it. It returns what was done, or nil if it had only to wait.
func (j *Joint) attend(ctx context.Context, r rollout, seen Observation, ordinal int) (*Progress, error) {
	if narrowed, err := j.narrowPeerURLs(ctx, r, seen, ordinal); err != nil || narrowed {
		return new(waiting(steps.ReasonRollingEtcd, "member %d has restarted and keeps its ordinary peer URL",
			ordinal)), err
	}
	var (
		led          = ledTo{r.etcdRole, ordinal}
		state, known = j.ledState(led)
		back         = r.restarted(ordinal)
		fine         = back && j.unfinished(r, seen, ordinal) == ""
	)
	switch {
	case fine && !known:
		// An agent that has restarted sees a member that may have been done for long.
	case back && known && !state.drained:
		// It was done before. That it does not answer now is no restart.
	default:
		if err := j.drain(ctx, led); err != nil {
			return nil, err
		}
	}
	if member, ok := memberOf(seen, ordinal); ok && member.Leader && !fine {
		return j.relieve(ctx, r, transfer{seen: seen, from: member, urgent: "the StatefulSet may stop the leader"})
	}
	return nil, nil
}

// relieve moves leadership away from a member that is about to stop: to the one that has restarted first, and if there
// is none, to the one that restarts last. It returns nil if no other one can lead.
func (j *Joint) relieve(ctx context.Context, r rollout, move transfer) (*Progress, error) {
	seen, leader := move.seen, move.from
	others := seen.Members.Voters().Healthy().Filter(func(m quorum.Member) bool { return m.ID != leader.ID })
	finished := others.Filter(func(m quorum.Member) bool {
		return m.Side == quorum.Destination && r.restarted(m.Ordinal) && j.unfinished(r, seen, m.Ordinal) == ""
	}).RemovalOrder(quorum.Destination)
	target, ok := others.NextLeader(quorum.Destination)
	if len(finished) > 0 {
		target, ok = finished[0], true
	}
	if !ok {
		return nil, nil
	}
	move.etcdRole, move.to = r.etcdRole, target
	if err := j.transferLeadership(ctx, move); err != nil {
		return nil, err
	}
	return new(waiting(steps.ReasonRollingEtcd, "leadership moves from %s to %s", leader.Name, target.Name)), nil
}

// letRestart makes one move towards the restart of the next member: leadership leaves it, then requests do, and then
// the StatefulSet is told that it may replace the pod.
func (j *Joint) letRestart(ctx context.Context, r rollout, seen Observation, ordinal int) (Progress, error) {
	if err := mayRestart(seen, ordinal); err != nil {
		return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
	}
	next, _ := memberOf(seen, ordinal)
	if next.Leader {
		moves, err := j.relieve(ctx, r, transfer{seen: seen, from: next})
		if err != nil {
			return Progress{}, err
		}
		if moves == nil {
			return waiting(steps.ReasonQuorumAtRisk, "no member can take leadership from %s: %s", next.Name,
				seen.Summary()), nil
		}
		return *moves, nil
	}
	if err := j.mayStopNow(ctx, r.etcdRole, seen, next); err != nil {
		return Progress{}, err
	}

	if err := j.widenPeerURLs(ctx, r.etcdRole, next); err != nil {
		return Progress{}, err
	}

	member := ledTo{r.etcdRole, ordinal}
	if err := j.drain(ctx, member); err != nil {
		return Progress{}, err
	}
	// Its requests may have taken their time to end.
	seen, err := j.observeHealthy(ctx, r.etcdRole)
	if err == nil {
		err = mayRestart(seen, ordinal)
	}
	if current, _ := memberOf(seen, ordinal); err == nil && current.Leader {
		err = fmt.Errorf("member %s leads", current)
	}
	if err != nil {
		return waiting(steps.ReasonQuorumAtRisk, "%s", err), j.restore(ctx, member)
	}
	j.Log.Info("Letting a member restart", "etcd", naming.EtcdName(r.etcdRole), "ordinal", ordinal, "members",
		seen.Members.String())
	if err := j.setPartition(ctx, r, ordinal); err != nil {
		return Progress{}, err
	}
	return waiting(steps.ReasonRollingEtcd, "member %d may restart", ordinal), nil
}
