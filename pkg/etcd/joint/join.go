// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Bootstrap returns what the destination's Etcd needs to know of the source's cluster to join it. It reads the member
// list through the relay: the answer also proves that the relay works.
func (j *Joint) Bootstrap(
	ctx context.Context, etcdRole string,
) (*druidcorev1alpha1.BootstrapWithExistingCluster, error) {
	seen, err := j.sourceOnly(ctx, etcdRole)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be joined: %w", naming.EtcdName(etcdRole), err)
	}
	if other := j.otherURLs(etcdRole, seen); other != "" && j.Members == naming.SingleMember {
		// Three members find each other by their URLs. One that is restored from a backup is in the list as localhost,
		// until its sidecar has changed that (etcd-backup-restore v0.44.1, pkg/member, doUpdateMemberPeerAddress).
		return nil, fmt.Errorf("%s cannot be joined: %s; its sidecar corrects that when the pod restarts",
			naming.EtcdName(etcdRole), other)
	}
	bootstrap := &druidcorev1alpha1.BootstrapWithExistingCluster{
		ClientEndpoints: []string{naming.SourceClientEndpoint(j.Namespace, etcdRole)},
	}
	for _, member := range seen.Raw {
		bootstrap.Members = append(bootstrap.Members, druidcorev1alpha1.BootstrapExistingMember{Name: member.Name,
			PeerURLs: slices.Sorted(slices.Values(member.PeerURLs))})
	}
	slices.SortFunc(bootstrap.Members, func(a, b druidcorev1alpha1.BootstrapExistingMember) int {
		return strings.Compare(a.Name, b.Name)
	})
	return bootstrap, nil
}

// Join waits until the given number of the destination's members are voters in both etcd clusters, and helps them: see
// Advance.
func (j *Joint) Join(ctx context.Context, members int, report ReportFunc) error {
	return j.each(ctx, report, func(ctx context.Context, etcdRole string) (Progress, error) {
		return j.Advance(ctx, etcdRole, members)
	})
}

// Advance takes one look at a cluster that members of the destination join, and helps them. The sidecar of a new member
// adds it as a learner and promotes it on a timer. Advance promotes it as soon as etcd lets it, and removes a learner
// that never starts, because it keeps others from being added. It deletes pods that never become members; see
// restartStuckPod. While the last member joins, it holds the restart of the others until OnlyDestinationLeft is true.
func (j *Joint) Advance(ctx context.Context, etcdRole string, members int) (Progress, error) {
	if members == naming.MembersPerSeed && j.Role == steps.Destination {
		if err := j.holdRollout(ctx, etcdRole); err != nil {
			return Progress{}, err
		}
	}
	for {
		seen, hold, err := j.observeForChange(ctx, etcdRole)
		learners := seen.Members.Learners()
		if err != nil || hold != nil || len(learners) > 0 {
			// No further member can be added now, so the time of all pods begins again.
			j.asideSince(etcdRole, nil)
		}
		if err != nil {
			return Progress{}, err
		}
		if hold != nil {
			return *hold, nil
		}
		if len(learners) == 0 {
			progress := joined(seen, members)
			if progress.Done || j.Role != steps.Destination {
				return progress, nil
			}
			again, err := j.restartStuckPod(ctx, etcdRole, seen, members)
			if err != nil || again != nil {
				return ptr.Deref(again, Progress{}), err
			}
			return progress, nil
		}
		if allJoined(seen) {
			// The learner is one of the source. Nobody has to be added any more, so it keeps nobody waiting.
			return joined(seen, members), nil
		}
		if len(learners.On(quorum.Source)) > 0 {
			return waiting(steps.ReasonWaitingForSourceEtcd, "a member of the source is joining: %s", seen.Summary()),
				nil
		}
		promoted, progress, err := j.helpLearner(ctx, etcdRole, seen, learners[0])
		if err != nil || !promoted {
			return progress, err
		}
	}
}

// allJoined reports whether all members that the destination will have are voters.
func allJoined(seen Observation) bool {
	return len(seen.Members.Voters().On(quorum.Destination)) == naming.MembersPerSeed
}

// joined judges an observation in which no member of the destination is a learner.
func joined(seen Observation, members int) Progress {
	var (
		voters    = seen.Members.Voters()
		unhealthy = voters.Unhealthy()
		done      = Progress{Done: true, Message: seen.Summary()}
	)
	if have := len(voters.On(quorum.Destination)); have < members {
		return waiting(steps.ReasonJoiningEtcdMembers, "%d of %d members of the destination have joined: %s", have,
			members, seen.Summary())
	}
	if len(unhealthy) == 0 {
		return done
	}
	// When the last member has joined, the first one of the source leaves without delay, even while another member of
	// the destination restarts with its new configuration, as long as the quorum allows it.
	if leaving := seen.Members.RemovalOrder(quorum.Source); members == naming.MembersPerSeed && len(leaving) > 0 &&
		seen.Members.Stop(leaving[0].ID) == nil {
		return done
	}
	return waiting(steps.ReasonWaitingForEtcdMember, "not all members are healthy: %s", seen.Summary())
}
