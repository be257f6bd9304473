// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// CheckSource returns an error unless both etcd clusters consist of exactly the source's members, all of them healthy.
func (j *Joint) CheckSource(ctx context.Context) error {
	var errs []error
	for _, etcdRole := range naming.EtcdRoles {
		if _, err := j.sourceOnly(ctx, etcdRole); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", naming.EtcdName(etcdRole), err))
		}
	}
	return errors.Join(errs...)
}

// Bootstrap returns what the destination's Etcd needs to know of the source's cluster to join it. It reads the member
// list through the relay: the answer also proves that the relay works.
func (j *Joint) Bootstrap(
	ctx context.Context, etcdRole string,
) (*druidcorev1alpha1.BootstrapWithExistingCluster, error) {
	world, err := j.sourceOnly(ctx, etcdRole)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be joined: %w", naming.EtcdName(etcdRole), err)
	}
	bootstrap := &druidcorev1alpha1.BootstrapWithExistingCluster{
		ClientEndpoints: []string{naming.SourceClientEndpoint(j.Namespace, etcdRole)},
	}
	for _, member := range world.Raw {
		bootstrap.Members = append(bootstrap.Members, druidcorev1alpha1.BootstrapExistingMember{Name: member.Name,
			PeerURLs: slices.Sorted(slices.Values(member.PeerURLs))})
	}
	slices.SortFunc(bootstrap.Members, func(a, b druidcorev1alpha1.BootstrapExistingMember) int {
		return strings.Compare(a.Name, b.Name)
	})
	return bootstrap, nil
}

func (j *Joint) sourceOnly(ctx context.Context, etcdRole string) (World, error) {
	world, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return World{}, err
	}
	if _, problem := world.problem(); problem != "" {
		return World{}, errors.New(problem)
	}
	if len(world.Members) != naming.MembersPerSeed ||
		len(world.Members.Voters().On(quorum.Source).Healthy()) != naming.MembersPerSeed {
		return World{}, fmt.Errorf("%d healthy voters of the source are expected, there are %s", naming.MembersPerSeed,
			world.Summary())
	}
	return world, nil
}

// Join waits until the given number of the destination's members are voters in both etcd clusters, and helps them: see
// Advance.
func (j *Joint) Join(ctx context.Context, members int, report ReportFunc) error {
	return j.each(ctx, report, func(ctx context.Context, etcdRole string) (Progress, error) {
		return j.Advance(ctx, etcdRole, members)
	})
}

// Advance takes one look at a cluster that members of the destination join, and helps them along. The sidecar of a new
// member adds it as a learner and promotes it on a timer; Advance promotes it as soon as etcd lets it, and removes a
// learner that never starts, because it keeps others from being added. Pods that stand aside begin again; see
// startAnew. While the last member joins it holds the restart of the others until OnlyDestinationLeft is true.
func (j *Joint) Advance(ctx context.Context, etcdRole string, members int) (Progress, error) {
	if members == naming.MembersPerSeed && j.Role == steps.Destination {
		if err := j.holdRollout(ctx, etcdRole); err != nil {
			return Progress{}, err
		}
	}
	for {
		world, hold, err := j.observeForChange(ctx, etcdRole)
		learners := world.Members.Learners()
		if err != nil || hold != nil || len(learners) > 0 {
			// No further member can be added now, so all pods get their whole time again.
			j.asideSince(etcdRole, nil)
		}
		if err != nil {
			return Progress{}, err
		}
		if hold != nil {
			return *hold, nil
		}
		if len(learners) == 0 {
			progress := joined(world, members)
			if progress.Done || j.Role != steps.Destination {
				return progress, nil
			}
			again, err := j.startAnew(ctx, etcdRole, world, members)
			if err != nil || again != nil {
				return ptr.Deref(again, Progress{}), err
			}
			return progress, nil
		}
		if len(learners.On(quorum.Source)) > 0 {
			return waiting(steps.ReasonWaitingForSourceEtcd, "a member of the source is joining: %s", world.Summary()),
				nil
		}
		promoted, progress, err := j.help(ctx, etcdRole, world, learners[0])
		if err != nil || !promoted {
			return progress, err
		}
	}
}

// joined judges a world without learners.
func joined(world World, members int) Progress {
	var (
		voters    = world.Members.Voters()
		unhealthy = voters.Unhealthy()
		done      = Progress{Done: true, Message: world.Summary()}
	)
	if have := len(voters.On(quorum.Destination)); have < members {
		return waiting(steps.ReasonJoiningEtcdMembers, "%d of %d members of the destination have joined: %s", have,
			members, world.Summary())
	}
	if len(unhealthy) == 0 {
		return done
	}
	// When the last member has joined, the first one of the source leaves without delay, even while another member of
	// the destination restarts with its new configuration, as long as the quorum allows it.
	if leaving := world.Members.RemovalOrder(quorum.Source); members == naming.MembersPerSeed && len(leaving) > 0 &&
		world.Members.Stop(leaving[0].ID) == nil {
		return done
	}
	return waiting(steps.ReasonWaitingForEtcdMember, "not all members are healthy: %s", world.Summary())
}

// help promotes a learner, or removes it if it is stuck. It returns true if the learner was promoted.
func (j *Joint) help(ctx context.Context, etcdRole string, world World, learner quorum.Member) (bool, Progress, error) {
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return false, Progress{}, err
	}
	log := j.Log.WithValues("etcd", naming.EtcdName(etcdRole), "member", learner.String(), "members",
		world.Members.String())
	pod := naming.PodName(etcdRole, learner.Ordinal)

	if learner.Name == "" {
		since := j.firstSeen(learner.ID)
		if age := j.Clock.Since(since); age < j.StuckAfter {
			return false, waiting(steps.ReasonJoiningEtcdMembers,
				"the member of pod %s was added and has not started yet", pod), nil
		}
		// The pod as it is before the removal. One that follows it under the same name may already join again.
		stuck, err := j.getPod(ctx, pod)
		if err != nil {
			return false, Progress{}, err
		}
		log.Info("Removing a learner that did not start", "firstSeen", since)
		if err := cluster.Remove(ctx, learner.ID); err != nil && !errors.Is(err, etcdclient.ErrMemberNotFound) {
			return false, Progress{}, err
		}
		// A new pod makes the sidecar wipe the data directory and add the member again.
		if stuck != nil {
			if err := j.deletePod(ctx, stuck); err != nil {
				return false, Progress{}, err
			}
		}
		return false, waiting(steps.ReasonJoiningEtcdMembers,
			"the member of pod %s did not start within %s and was removed; it joins again", pod, j.StuckAfter), nil
	}

	if !learner.Healthy {
		// etcd lets a learner become a voter as soon as it has the data, which may be before it answers. As a voter
		// that does not answer it would hold up every look at the cluster, and that is when there are six.
		return false, waiting(steps.ReasonWaitingForEtcdMember, "member %s does not answer yet", learner.Name), nil
	}
	if err := world.Members.Promote(learner.ID); err != nil {
		return false, waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
	}
	switch err := cluster.Promote(ctx, learner.ID); {
	case err == nil:
		log.Info("Promoted a learner that has caught up")
		return true, Progress{}, nil
	case errors.Is(err, etcdclient.ErrNotLearner):
		return true, Progress{}, nil
	case errors.Is(err, etcdclient.ErrLearnerNotReady), errors.Is(err, etcdclient.ErrMemberNotFound):
		return false, waiting(steps.ReasonWaitingForEtcdMember, "member %s is catching up", learner.Name), nil
	default:
		return false, Progress{}, err
	}
}

func (j *Joint) firstSeen(id uint64) time.Time {
	j.lock.Lock()
	defer j.lock.Unlock()
	since, ok := j.unstarted[id]
	if !ok {
		since = j.Clock.Now()
		j.unstarted[id] = since
	}
	return since
}

// OnlyDestinationLeft reports whether both clusters consist of the destination's members only, all of them healthy
// voters, and says what is missing otherwise. When it is so, the destination's Etcds belong to etcd-druid again; see
// ReleaseRollout.
func (j *Joint) OnlyDestinationLeft(ctx context.Context) (bool, string, error) {
	left, missing, err := j.both(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		world, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if hold != nil {
			return hold.Message, nil
		}
		return destinationOnly(world), nil
	})
	if err != nil || !left || j.Role != steps.Destination {
		return left, missing, err
	}
	if err := j.ReleaseRollout(ctx); err != nil {
		return false, "", err
	}
	return true, "", nil
}

func destinationOnly(world World) string {
	if _, problem := world.problem(); problem != "" {
		return problem
	}
	if len(world.Members) != naming.MembersPerSeed ||
		len(world.Members.Voters().On(quorum.Destination).Healthy()) != naming.MembersPerSeed {
		return world.Summary()
	}
	return ""
}

// CheckPlain reports whether the destination's Etcds have their ordinary specification and have settled with it, and
// says what is missing otherwise.
func (j *Joint) CheckPlain(ctx context.Context) (bool, string, error) {
	return j.both(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		etcd, err := j.getEtcd(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if etcd.Spec.Etcd.BootstrapWithExistingCluster != nil {
			return "it still has the bootstrap of the joint cluster", nil
		}
		if port := ptr.Deref(etcd.Spec.Etcd.ServerPort, naming.PortPeerSource); port != naming.PortPeerSource {
			return fmt.Sprintf("its peer port is %d, not %d", port, naming.PortPeerSource), nil
		}
		if missing := unsettled(etcd); missing != "" {
			return missing, nil
		}
		world, err := j.Observe(ctx, etcdRole)
		if err != nil {
			return "", err
		}
		if missing := destinationOnly(world); missing != "" {
			return missing, nil
		}
		for id, member := range world.Raw {
			known, _ := world.Members.ByID(id)
			if expected := naming.PeerURL(steps.Source, j.Namespace, etcdRole, known.Ordinal); !slices.Equal(
				member.PeerURLs, []string{expected}) {
				return fmt.Sprintf("member %s has the peer URLs %v, not %s", member, member.PeerURLs, expected), nil
			}
		}
		return "", nil
	})
}

// unsettled says why the Etcd does not count as reconciled and ready; empty if it does.
func unsettled(etcd *druidcorev1alpha1.Etcd) string {
	if err := gardeneretcd.CheckEtcdObject(etcd); err != nil {
		return err.Error()
	}
	return ""
}

func (j *Joint) both(
	ctx context.Context, check func(ctx context.Context, etcdRole string) (string, error),
) (bool, string, error) {
	messages, errs := LookAtBoth(ctx, func(ctx context.Context, etcdRole string) (string, error) {
		message, err := check(ctx, etcdRole)
		if err != nil {
			return "", fmt.Errorf("failed to check %s: %w", naming.EtcdName(etcdRole), err)
		}
		if message == "" {
			return "", nil
		}
		return naming.EtcdName(etcdRole) + ": " + message, nil
	})
	if err := errors.Join(errs...); err != nil {
		return false, "", err
	}
	missing := slices.DeleteFunc(messages, func(message string) bool { return message == "" })
	return len(missing) == 0, strings.Join(missing, "; "), nil
}

// SpareFirstToLeave transfers leadership of both clusters away from the member of the source that leaves first, to the
// one that leaves last. Then the moment with six voters does not have to wait for it. Until the sixth one, the voters
// of the source are a quorum by themselves, so it is a move within the source.
func (j *Joint) SpareFirstToLeave(ctx context.Context) error {
	return sideBySide(ctx, func(ctx context.Context, etcdRole string) error {
		world, hold, err := j.observeForChange(ctx, etcdRole)
		if err != nil || hold != nil {
			return err
		}
		leaving := world.Members.RemovalOrder(quorum.Source)
		if len(leaving) == 0 || !leaving[0].Leader {
			return nil
		}
		target, ok := world.Members.NextLeader(quorum.Source)
		if !ok || target.ID == leaving[0].ID {
			return nil
		}
		return j.moveLeadTo(ctx, etcdRole, world, leaving[0], target)
	})
}

// LookAtBoth looks at both clusters at once and returns what was found, and what went wrong, in the order of
// naming.EtcdRoles.
// A look waits for members that do not answer, and while members change there often is one: it must not hold up the
// look at the other cluster.
func LookAtBoth[T any](ctx context.Context, look func(ctx context.Context, etcdRole string) (T, error)) ([]T, []error) {
	var (
		group sync.WaitGroup
		found = make([]T, len(naming.EtcdRoles))
		errs  = make([]error, len(naming.EtcdRoles))
	)
	for i, etcdRole := range naming.EtcdRoles {
		group.Go(func() { found[i], errs[i] = look(ctx, etcdRole) })
	}
	group.Wait()
	return found, errs
}

// sideBySide does the same for both clusters at once. What fails for one of them does not end it for the other.
func sideBySide(ctx context.Context, do func(ctx context.Context, etcdRole string) error) error {
	_, errs := LookAtBoth(
		ctx, func(ctx context.Context, etcdRole string) (struct{}, error) { return struct{}{}, do(ctx, etcdRole) })
	return errors.Join(errs...)
}

// moveLeader returns true if leadership was moved, and false if it had been there before.
func (j *Joint) moveLeader(ctx context.Context, etcdRole string, world World, side quorum.Side) (bool, error) {
	leader, ok := world.Members.Leader()
	if !ok {
		return false, fmt.Errorf("failed to transfer leadership of %s: no leader is known", naming.EtcdName(etcdRole))
	}
	if leader.Side == side {
		return false, nil
	}
	target, ok := world.Members.NextLeader(side)
	if !ok {
		return false, fmt.Errorf("failed to transfer leadership of %s: the %s has no healthy voter",
			naming.EtcdName(etcdRole), side)
	}
	if err := j.moveLeadTo(ctx, etcdRole, world, leader, target); err != nil {
		return false, err
	}
	return true, nil
}

// moveLeadTo transfers leadership from one member to another at a moment that it chooses. Both clusters may wait for
// theirs at the same time, but leadership of the two does not move in the same one: a client's request may need both,
// and members of both are on the same nodes. When leadership of the other one is just moving, the moment is not a quiet
// one any more, and another one is chosen.
func (j *Joint) moveLeadTo(ctx context.Context, etcdRole string, world World, leader, target quorum.Member) error {
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return err
	}
	j.awaitQuiet(ctx, cluster, world.Raw[leader.ID], world.Raw[target.ID])
	for !j.moving.TryLock() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to transfer leadership of %s: %w", naming.EtcdName(etcdRole), ctx.Err())
		case <-j.Clock.After(quietPause):
		}
		j.awaitQuiet(ctx, cluster, world.Raw[leader.ID], world.Raw[target.ID])
	}
	defer j.moving.Unlock()
	// Leadership of the other one may have moved for so long that this one's time is over.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("failed to transfer leadership of %s: %w", naming.EtcdName(etcdRole), err)
	}
	j.Log.Info("Transferring leadership", "etcd", naming.EtcdName(etcdRole), "from", leader.Name, "to", target.Name)
	if err := cluster.MoveLeader(ctx, world.Raw[leader.ID], target.ID); err != nil &&
		!errors.Is(err, etcdclient.ErrNotLeader) {
		return err
	}
	return nil
}
