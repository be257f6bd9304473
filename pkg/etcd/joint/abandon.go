// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// CheckAbandon takes one look at both clusters and says why the source cannot do without the destination's members yet;
// nil if it can. In both of them the source's healthy voters have to be a quorum by themselves: the way to the other
// members is closed before these are removed, and they count until then. It also moves leadership back to the source,
// as long as there is a way to do that.
//
// That the destination's members answer is no obstacle. Only the agent of their seed may be lost.
func (j *Joint) CheckAbandon(ctx context.Context) (*Progress, error) {
	for _, etcdRole := range naming.EtcdRoles {
		seen, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil {
			return nil, err
		}
		switch {
		case hold != nil:
			hold.Message = naming.EtcdName(etcdRole) + ": " + hold.Message
			return hold, nil
		case !seen.Members.Decides(quorum.Source):
			hold := waiting(steps.ReasonQuorumAtRisk, "%s: the healthy voters of the source are no quorum without the "+
				"destination: %s", naming.EtcdName(etcdRole), seen.Summary())
			return &hold, nil
		}
		if len(seen.Members.On(quorum.Destination)) == 0 {
			continue
		}
		moved, err := j.moveLeadershipTo(ctx, etcdRole, seen, quorum.Source)
		if err != nil {
			return nil, err
		}
		if moved {
			hold := waiting(steps.ReasonAborting, "%s: leadership moves back to the source", naming.EtcdName(etcdRole))
			return &hold, nil
		}
	}
	return nil, nil
}

// RemoveAbandoned removes the destination's members from the member lists, one at a time and each with a projection of
// the quorum on a fresh list. The way to them has to be closed: a member that is removed while it can reach the others
// starts again and joins once more. One that still answers is an error.
func (j *Joint) RemoveAbandoned(ctx context.Context) error {
	for _, etcdRole := range naming.EtcdRoles {
		if err := j.removeLeft(ctx, etcdRole, quorum.Destination, "until the way to it is closed"); err != nil {
			return err
		}
	}
	return nil
}

// CheckAbandonSource takes one look at both clusters and says why the destination cannot do without the source's
// members yet; nil if it can. In both of them all members of the destination have to be healthy voters, and a quorum by
// themselves: soon there are no others. That members of the source answer is no obstacle; RemoveAbandonedSource refuses
// to remove those.
func (j *Joint) CheckAbandonSource(ctx context.Context) (*Progress, error) {
	for _, etcdRole := range naming.EtcdRoles {
		seen, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil {
			return nil, err
		}
		whole := len(seen.Members.Voters().On(quorum.Destination).Healthy()) == j.Members
		switch {
		case hold != nil:
			hold.Message = naming.EtcdName(etcdRole) + ": " + hold.Message
			return hold, nil
		case !whole || !seen.Members.Decides(quorum.Destination):
			hold := waiting(steps.ReasonQuorumAtRisk, "%s: the destination is not whole by itself, it needs %d "+
				"healthy voters that are a quorum: %s", naming.EtcdName(etcdRole), j.Members,
				seen.Summary())
			return &hold, nil
		}
		if len(seen.Members.On(quorum.Source)) == 0 {
			continue
		}
		missing, err := j.TakeLeadership(ctx, etcdRole)
		if err != nil {
			return nil, err
		}
		if missing != "" {
			hold := waiting(steps.ReasonReadyForSourceMemberRemoval, "%s: %s", naming.EtcdName(etcdRole), missing)
			return &hold, nil
		}
	}
	return nil, nil
}

// RemoveAbandonedSource removes the source's members from the member lists, one at a time and each with a projection of
// the quorum on a fresh list. The way to them has to be closed, as in RemoveAbandoned.
func (j *Joint) RemoveAbandonedSource(ctx context.Context) error {
	for _, etcdRole := range naming.EtcdRoles {
		if err := j.removeLeft(ctx, etcdRole, quorum.Source, "until the way to it is closed"); err != nil {
			return err
		}
	}
	return nil
}

// errStillAnswers says that a member cannot be removed because it is at work.
func errStillAnswers(member quorum.Member, etcdRole, nevertheless string) error {
	return fmt.Errorf("member %s of %s still answers %s", member, naming.EtcdName(etcdRole), nevertheless)
}
