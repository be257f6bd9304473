// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/stranded"
)

// Withdraw takes the destination's members out of both clusters again, one at a time in each, because the migration is
// aborted. When it returns nil, no pod of the destination's Etcds runs, none of its members is left, and etcd-druid
// will not start any. Etcds that do not exist have nothing to withdraw.
func (j *Joint) Withdraw(ctx context.Context, report ReportFunc) error {
	return j.each(ctx, report, j.WithdrawNext)
}

// WithdrawNext takes one look at a cluster and makes the next move towards one without members of the destination. The
// order is that of RetireNext: leadership, the pod, the member. It asks for healthy members only as far as the quorum
// needs them: unhealthy members may be why the migration is aborted.
func (j *Joint) WithdrawNext(ctx context.Context, etcdRole string) (Progress, error) {
	if err := j.pauseDruid(ctx, etcdRole); err != nil {
		if apierrors.IsNotFound(err) {
			return Progress{Done: true, Message: "no member has joined"}, nil
		}
		return Progress{}, err
	}

	seen, hold, err := j.observeForChange(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	d := departure{side: quorum.Destination, reason: steps.ReasonAborting, mayStop: mayWithdraw,
		before: func(context.Context) error { return nil }}
	if hold != nil {
		return j.holdWith(ctx, etcdRole, *hold, d)
	}
	if len(seen.Members.On(quorum.Destination)) == 0 {
		return j.stopLeftPods(ctx, etcdRole, seen, d)
	}

	// Once a member of the source has been removed there is no way back, whatever the Shoot says by now. One that joins
	// again after a loss of its data is missing for a moment. That moment would last if the member that was stopped
	// last stayed in the list: etcd adds nobody beside a voter that is not connected, and no second learner.
	if left := len(seen.Members.On(quorum.Source)); left < j.Members {
		stopped, err := j.hasStopped(ctx, etcdRole, seen.Members.RemovalOrder(quorum.Destination)[0])
		if err != nil {
			return Progress{}, err
		}
		if stopped {
			return j.takeAway(ctx, etcdRole, seen, d)
		}
		return waiting(steps.ReasonQuorumAtRisk,
			"the source has %d of %d members, and without the others it cannot be "+
				"what it was: %s", left, j.Members, seen.Summary()), nil
	}

	moved, err := j.moveLeadershipTo(ctx, etcdRole, seen, quorum.Source)
	if err != nil {
		return Progress{}, err
	}
	if moved {
		return waiting(d.reason, "leadership moves back to the source"), nil
	}
	return j.takeAway(ctx, etcdRole, seen, d)
}

// hasStopped reports whether the member does not answer because its pod was taken away before: its StatefulSet does not
// want it any more.
func (j *Joint) hasStopped(ctx context.Context, etcdRole string, member quorum.Member) (bool, error) {
	if member.Healthy {
		return false, nil
	}
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return int(ptr.Deref(statefulSet.Spec.Replicas, 1)) <= member.Ordinal, nil
}

func mayWithdraw(seen Observation, victim quorum.Member) error { return seen.Members.Remove(victim.ID) }

// stopLeftPods stops the pods that are no members. One of them may be about to become one. Therefore the cluster is
// free of the destination only if that is still so when no pod is left.
//
// A pod on a lost node never ends, and is not waited for (stranded). Should its sidecar run on and reach the cluster
// once more, it adds a learner, which has no vote. The source removes what it finds of the destination in its lists
// (RemoveDestination), and then both seeds remove the way between them, without which nobody there reaches the cluster.
func (j *Joint) stopLeftPods(ctx context.Context, etcdRole string, seen Observation, d departure) (Progress, error) {
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return Progress{}, err
	case ptr.Deref(statefulSet.Spec.Replicas, 1) > 0:
		return j.scale(ctx, etcdRole, replicaChange{ptr.Deref(statefulSet.Spec.Replicas, 1), 0}, d)
	}

	for ordinal := range naming.MembersPerSeed {
		pod, err := j.getPod(ctx, naming.PodName(etcdRole, ordinal))
		if err != nil {
			return Progress{}, err
		}
		if pod == nil {
			continue
		}
		if !j.stranded(pod) {
			return waiting(d.reason, "pod %s of the %s is stopping", pod.Name, d.side), nil
		}
		j.Log.Info("Not waiting for a pod that is no member any more", "pod", stranded.Describe(pod))
	}
	after, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if left := after.Members.On(quorum.Destination); len(left) > 0 {
		return waiting(d.reason, "a member has joined meanwhile: %s", left), nil
	}
	return Progress{Done: true, Message: "no member of the destination is left: " + seen.Summary()}, nil
}

// RemoveDestination removes members of the destination that are still in the member lists although the destination has
// withdrawn: nothing of them runs any more. The source calls it before it closes the way to the destination, and it
// then checks that the clusters are those of before the migration.
func (j *Joint) RemoveDestination(ctx context.Context) error {
	for _, etcdRole := range naming.EtcdRoles {
		if err := j.removeLeft(ctx, etcdRole, quorum.Destination,
			"although the destination has withdrawn"); err != nil {
			return err
		}
	}
	return j.CheckSource(ctx)
}

// removeLeft removes the members of one side from the list of one cluster. None of them may be at work; the last
// argument says, after "still answers", what is wrong if one is.
func (j *Joint) removeLeft(ctx context.Context, etcdRole string, side quorum.Side, nevertheless string) error {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return err
	}
	for _, left := range seen.Members.RemovalOrder(side) {
		current, ok := seen.Members.ByID(left.ID)
		if !ok {
			continue
		}
		if current.Healthy {
			return errStillAnswers(current, etcdRole, nevertheless)
		}
		if err := seen.Members.Remove(current.ID); err != nil {
			return fmt.Errorf("%s: %w", naming.EtcdName(etcdRole), err)
		}
		cluster, err := j.cluster(ctx, etcdRole)
		if err != nil {
			return err
		}
		j.Log.Info("Removing a member that its seed has left behind", "etcd", naming.EtcdName(etcdRole),
			"side", side, "member", current.String(), "members", seen.Members.String())
		if err := cluster.Remove(ctx, current.ID); err != nil && !errors.Is(err, etcdclient.ErrMemberNotFound) {
			return err
		}
		if seen, err = j.Observe(ctx, etcdRole); err != nil {
			return err
		}
	}
	if left := seen.Members.On(side); len(left) > 0 {
		return fmt.Errorf("%s has members of the %s after their removal: %s", naming.EtcdName(etcdRole), side, left)
	}
	return nil
}
