// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
)

// With an even number of voters, the stop of one that leaves uses up what the cluster can bear, until the member is
// removed some seconds later. If another one is lost for good in between, the quorum is lost as well, and the member
// cannot be removed any more. But it has its data and would be the missing vote: nothing but the agent has stopped it.

// holdWith returns the hold. If the quorum is lost, it lets a member of the departing side start again whose pod was
// stopped to leave, if its vote is what is missing. Who leaves when is decided again when the cluster has a leader.
//
// The list may be out of date, because no quorum stands behind it. If the member was removed after all, it can only
// become a learner again.
func (j *Joint) holdWith(ctx context.Context, etcdRole string, hold Progress, d departure) (Progress, error) {
	var lost *noQuorumError
	if _, err := j.Observe(ctx, etcdRole); !errors.As(err, &lost) {
		return hold, nil
	}
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return hold, nil
		}
		return Progress{}, err
	}
	replicas := ptr.Deref(statefulSet.Spec.Replicas, 1)
	stopped, missing := lost.seen.missingVote(d.side, int(replicas))
	if !missing {
		return hold, nil
	}
	j.Log.Info("Starting a member again that was stopped to leave, because the quorum is lost", "side", d.side, "etcd",
		naming.EtcdName(etcdRole), "member", stopped.String(), "members", lost.seen.Members.String())
	change := replicaChange{replicas, int32(stopped.Ordinal) + 1} // #nosec G115 -- One of three.
	if _, err := j.scale(ctx, etcdRole, change, d); err != nil {
		return Progress{}, err
	}
	hold.Message = fmt.Sprintf("member %s starts again: %s", stopped.Name, hold.Message)
	return hold, nil
}

// missingVote returns the voter of the side with the lowest ordinal that has no pod among so many replicas, and whether
// a quorum would answer with it and none does without. An election is not a lost quorum: those that vote in it answer.
func (o Observation) missingVote(side quorum.Side, replicas int) (quorum.Member, bool) {
	voters := o.Members.Voters()
	silent := voters.Filter(func(m quorum.Member) bool {
		_, answers := o.Statuses[m.ID]
		return !answers
	})
	if len(voters)-len(silent)+1 != quorum.Size(len(voters)) {
		return quorum.Member{}, false
	}
	stopped := silent.Filter(func(m quorum.Member) bool { return m.Ordinal >= replicas }).RemovalOrder(side)
	if len(stopped) == 0 {
		return quorum.Member{}, false
	}
	return stopped[len(stopped)-1], true
}
