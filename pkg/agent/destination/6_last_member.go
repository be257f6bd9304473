// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// lastMemberOrder is the order in which the last members of the clusters join: one begins when the other's is a voter
// and the first member of the source has left that cluster. A member that starts uses much of the processors of its
// node, and a leader of the other cluster may run beside it: when both started at the same time, leaders lost their
// leadership because they got no processor. And what is looked at before a member joins takes time, in which the other
// cluster would have six voters. Events come first, because a shoot can do without them if the first of the two meets a
// fault.
var lastMemberOrder = []string{v1beta1constants.ETCDRoleEvents, v1beta1constants.ETCDRoleMain}

// hold is why a last member does not join yet; empty if it may.
type hold struct {
	reason  steps.Reason
	message string
}

// putOff is a hold that takes a look at every member, and when it was found.
type putOff struct {
	hold

	at time.Time
}

// joinLastMember asks etcd-druid for the last member of every cluster whose turn it is. It returns what has to happen
// before, or nothing.
func (r *retirement) joinLastMember(ctx context.Context) (hold, error) {
	first, second := lastMemberOrder[0], lastMemberOrder[1]
	if held, err := r.askForLastMember(ctx, first); err != nil || held.message != "" || !r.joined[first] {
		return held, err
	}
	if held := r.sourceIsWhole(ctx, first, second); held.message != "" {
		return held, nil
	}
	return r.askForLastMember(ctx, second)
}

// sourceIsWhole looks at whether all members of the source are still in the first cluster, which has six voters then.
// The second one waits for the first of them to leave, unless etcd-druid has been asked for its last member already.
func (r *retirement) sourceIsWhole(ctx context.Context, first, second string) hold {
	if r.asked[second] || r.joined[second] {
		return hold{}
	}
	const why = "the last member of %s joins when a member of the source has left %s"
	seen, err := r.etcds.Observe(ctx, first)
	if err != nil {
		return hold{steps.ReasonReadyForSourceMemberRemoval, fmt.Sprintf(why+", which could not be looked at: %s",
			naming.EtcdName(second), naming.EtcdName(first), err)}
	}
	if len(seen.Members.On(quorum.Source)) < naming.MembersPerSeed {
		return hold{}
	}
	return hold{steps.ReasonReadyForSourceMemberRemoval,
		fmt.Sprintf(why, naming.EtcdName(second), naming.EtcdName(first))}
}

// askForLastMember asks for the last member of a cluster, unless that has happened already or something holds it.
func (r *retirement) askForLastMember(ctx context.Context, etcdRole string) (hold, error) {
	if r.asked[etcdRole] {
		return hold{}, nil
	}
	etcd, err := r.readEtcd(ctx, r.migration, etcdRole)
	if err != nil {
		return hold{}, err
	}
	if etcd.Spec.Replicas < naming.MembersPerSeed {
		if held := r.holdsLastMember(ctx, etcdRole); held.message != "" {
			return held, nil
		}
		if err := r.scaleEtcd(ctx, etcd, naming.MembersPerSeed); err != nil {
			return hold{}, err
		}
	}
	r.asked[etcdRole] = true
	return hold{}, nil
}

// holdsLastMember looks at what the last member of a cluster has to wait for, right before it is asked for: for a
// member of the source that is down, for a sign of life of the source if the cluster gets six voters (sourceSilence),
// for a defragmentation, and for clients that wait too long.
func (r *retirement) holdsLastMember(ctx context.Context, etcdRole string) hold {
	if held := r.memberDown(ctx, etcdRole); held.message != "" {
		return held
	}
	if silence := r.sourceSilence(ctx); silence != "" && r.becomesSix(ctx, etcdRole) {
		return hold{steps.ReasonSourceSilent,
			fmt.Sprintf("the last member of %s joins after a sign of life of the source: %s",
				naming.EtcdName(etcdRole), silence)}
	}
	if held := r.defragments(ctx, etcdRole); held.message != "" {
		return held
	}
	return r.clientsWait(ctx, etcdRole)
}

// clientsWait looks at how long clients wait before the second of the clusters gets its last member. The first one has
// just got its own, which starts and moves leadership, and before it clients have been looked at (beforeLastMembers).
func (r *retirement) clientsWait(ctx context.Context, etcdRole string) hold {
	if len(r.asked) == 0 {
		return hold{}
	}
	err := r.etcds.ClientsWait(ctx)
	if err == nil {
		return hold{}
	}
	reason, _ := migration.PutOff(err)
	return hold{reason, fmt.Sprintf("the last member of %s does not join yet: %s", naming.EtcdName(etcdRole), err)}
}

// memberDown looks for members of the source that are no healthy voters: etcd would not let the last member of the
// destination join beside them. A member that stays away is lost, and the source is asked to retire it before the last
// member joins (joint.RetireNext).
func (r *retirement) memberDown(ctx context.Context, etcdRole string) hold {
	down, ask, err := r.etcds.SourceDown(ctx, etcdRole)
	if err != nil {
		return hold{steps.ReasonWaitingForSourceEtcd,
			fmt.Sprintf("the last member of %s joins when the members of the source are known: %s",
				naming.EtcdName(etcdRole), err)}
	}
	if len(down) == 0 {
		return hold{}
	}
	if ask {
		r.reason = steps.ReasonReadyForSourceMemberRemoval
	}
	return hold{steps.ReasonWaitingForSourceEtcd,
		fmt.Sprintf("the last member of %s joins when these are healthy, or when the source has retired them: %s",
			naming.EtcdName(etcdRole), down)}
}

// defragments looks for a defragmentation in the cluster, and not more often than every PollInterval: every member is
// asked.
func (r *retirement) defragments(ctx context.Context, etcdRole string) hold {
	now := r.migration.Clock.Now()
	if last, known := r.putOff[etcdRole]; known && now.Sub(last.at) < r.Timings.PollInterval {
		return last.hold
	}
	delete(r.putOff, etcdRole)
	err := r.etcds.CheckDefragmentationOf(ctx, etcdRole)
	if err == nil {
		return hold{}
	}
	reason, _ := migration.PutOff(err)
	held := hold{reason, fmt.Sprintf("the last member does not join yet: %s", err)}
	r.putOff[etcdRole] = putOff{held, now}
	return held
}

// becomesSix reports whether a cluster would get its sixth voter with the last member of the destination. It would not
// if members of the source are gone, as after a recovery by hand, or if it has that member.
func (r *retirement) becomesSix(ctx context.Context, etcdRole string) bool {
	seen, err := r.etcds.Observe(ctx, etcdRole)
	const all = naming.MembersPerSeed
	return err != nil || len(seen.Members.On(quorum.Source)) >= all && !allVote(seen.Members, all)
}
