// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// passMembersOn moves etcds with one member each (docs/concepts/single-member.md). The destination's member joins each
// of them as a learner. When both have the data, and the source is at work, each is passed on: promotion, leadership
// and removal in one look (joint.PassOn). The source takes the pods away that were removed, beside this step or in its
// next one.
//
// Nothing holds from when a member was asked for: its sidecar promotes it by itself half a minute after it has caught
// up, and two voters need each other.
func (d *destination) passMembersOn(
	ctx context.Context, m *migration.Migration, open openClients,
) (steps.Outcome, error) {
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	const done = "Both etcds consist of the one member of the destination"
	moving, err := d.membersMove(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	r := d.newRetirement(m, etcds, steps.ReasonJoiningLastEtcdMember)
	if moving {
		// The source acts on the reason, and nobody takes it back from it.
		r.reason = steps.ReasonReadyForSourceMemberRemoval
		return r.wait(ctx, r.lookToPassOn, done)
	}
	if left, _, err := etcds.OnlyDestinationLeft(ctx); err != nil {
		return steps.Outcome{}, err
	} else if left {
		return steps.Done(done), nil
	}
	if outcome, err := d.beforeLastMembers(ctx, m, etcds, open); err != nil || outcome != nil {
		return ptr.Deref(outcome, steps.Outcome{}), err
	}
	return r.wait(ctx, r.lookToPassOn, done)
}

// lookToPassOn reads both clusters once, and makes what changes are due.
func (r *retirement) lookToPassOn(ctx context.Context) (sight, error) {
	silence := r.sourceSilence(ctx)
	held, err := r.askForOnlyMembers(ctx, silence)
	if err != nil {
		return sight{}, err
	}
	seen := r.advanceBoth(ctx, func(ctx context.Context, etcdRole string) (joint.Progress, error) {
		return r.etcds.PassOn(ctx, etcdRole, r.readyToPass(etcdRole, silence))
	})
	return r.complete(ctx, seen, held), nil
}

// askForOnlyMembers asks etcd-druid for the member of every cluster, unless that has happened already or something
// holds it: the source must have given a sign of life, and no member may be about to copy its database. From when both
// were asked for, the source is asked for its part.
func (r *retirement) askForOnlyMembers(ctx context.Context, silence string) (hold, error) {
	for _, etcdRole := range lastMemberOrder {
		if r.asked[etcdRole] {
			continue
		}
		etcd, err := r.readEtcd(ctx, r.migration, etcdRole)
		if err != nil {
			return hold{}, err
		}
		if etcd.Spec.Replicas < naming.SingleMember {
			if silence != "" {
				return hold{steps.ReasonSourceSilent, fmt.Sprintf("the member of %s joins after a sign of life of the "+
					"source: %s", naming.EtcdName(etcdRole), silence)}, nil
			}
			if held := r.defragments(ctx, etcdRole); held.message != "" {
				return held, nil
			}
			if err := r.scaleEtcd(ctx, etcd, naming.SingleMember); err != nil {
				return hold{}, err
			}
		}
		r.asked[etcdRole] = true
	}
	r.reason = steps.ReasonReadyForSourceMemberRemoval
	return hold{}, nil
}

// connectedFor is how long etcd wants all voters to have been connected before it removes one (etcd, server/etcdserver,
// HealthInterval), and what passes until an answer shows that they are.
const connectedFor = 5*time.Second + 500*time.Millisecond

// readyToPass returns what a cluster with one voter waits for before there are two: a sign of life of the source, which
// has to take the pod away afterwards, the learner of the other cluster, and that etcd would remove the source's member
// at once. The source's kube-apiserver has no etcd from the first removal until both pods are gone, so both are removed
// at about the same time.
func (r *retirement) readyToPass(etcdRole, silence string) joint.ReadyFunc {
	other, since := naming.OtherEtcdRole(etcdRole), r.answersSince[etcdRole]
	return func(ctx context.Context) (*joint.Progress, error) {
		now := r.migration.Clock.Now()
		if since.IsZero() {
			*since = now
		}
		if silence != "" {
			return &joint.Progress{Reason: steps.ReasonSourceSilent, Message: "the member of the destination becomes " +
				"a voter after a sign of life of the source: " + silence}, nil
		}
		seen, err := r.etcds.Observe(ctx, other)
		if err != nil {
			// The other one has its own progress to show; an error here would hide it.
			return &joint.Progress{Reason: steps.ReasonWaitingForEtcdMember, Message: fmt.Sprintf("the member of the "+
				"destination becomes a voter when %s can be looked at: %s", naming.EtcdName(other), err)}, nil
		}
		change, member, err := seen.Members.PassOn()
		switch {
		case err != nil:
			return &joint.Progress{Reason: steps.ReasonQuorumAtRisk,
				Message: fmt.Sprintf("%s cannot be passed on: %s", naming.EtcdName(other), err)}, nil
		case change == quorum.ChangeJoin || change == quorum.ChangePromote && !member.Healthy:
			return &joint.Progress{Reason: steps.ReasonWaitingForEtcdMember, Message: fmt.Sprintf("the member of the "+
				"destination becomes a voter when that of %s answers as well", naming.EtcdName(other))}, nil
		case now.Sub(*since) < connectedFor:
			return &joint.Progress{Reason: steps.ReasonWaitingForEtcdMember, Message: "the member of the destination " +
				"becomes a voter when it has been connected for five seconds: etcd would not remove that of the " +
				"source before"}, nil
		}
		return nil, nil
	}
}
