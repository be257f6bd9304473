// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/ptr"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// helpLearner promotes a learner, or removes it if it is stuck. It returns true if the learner was promoted.
func (j *Joint) helpLearner(
	ctx context.Context, etcdRole string, seen Observation, learner quorum.Member,
) (bool, Progress, error) {
	if missing, err := j.awaitLearner(ctx, etcdRole, seen, learner); err != nil || missing != nil {
		return false, ptr.Deref(missing, Progress{}), err
	}
	if err := seen.Members.Promote(learner.ID); err != nil {
		return false, waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
	}
	missing, err := j.promote(ctx, etcdRole, seen, learner)
	return err == nil && missing == nil, ptr.Deref(missing, Progress{}), err
}

// awaitLearner returns what is missing before a learner can be promoted, or nil if it answers. It removes one that is
// stuck.
func (j *Joint) awaitLearner(
	ctx context.Context, etcdRole string, seen Observation, learner quorum.Member,
) (*Progress, error) {
	if learner.Name == "" {
		progress, err := j.removeIfStuck(ctx, etcdRole, seen, learner)
		return &progress, err
	}
	if !learner.Healthy {
		// etcd lets a learner become a voter as soon as it has the data, which may be before it answers. As a voter
		// that does not answer it would hold up every look at the cluster, and that is when there are six, or two that
		// need each other.
		return new(waiting(steps.ReasonWaitingForEtcdMember, "member %s does not answer yet", learner.Name)), nil
	}
	return nil, nil
}

// promote asks for the promotion of a learner that may become a voter. It returns what is missing, or nil if it is one.
func (j *Joint) promote(
	ctx context.Context, etcdRole string, seen Observation, learner quorum.Member,
) (*Progress, error) {
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return nil, err
	}
	switch err := cluster.Promote(ctx, learner.ID); {
	case err == nil:
		j.Log.Info("Promoted a learner that has caught up", "etcd", naming.EtcdName(etcdRole), "member",
			learner.String(), "members", seen.Members.String())
		return nil, nil
	case errors.Is(err, etcdclient.ErrNotLearner):
		return nil, nil
	case errors.Is(err, etcdclient.ErrLearnerNotReady), errors.Is(err, etcdclient.ErrMemberNotFound):
		return new(waiting(steps.ReasonWaitingForEtcdMember, "member %s is catching up", learner.Name)), nil
	default:
		return nil, err
	}
}

// removeIfStuck removes a learner that has not started within StuckAfter, and deletes its pod. In the new pod the
// sidecar wipes the data directory and adds the member again.
func (j *Joint) removeIfStuck(
	ctx context.Context, etcdRole string, seen Observation, learner quorum.Member,
) (Progress, error) {
	pod := naming.PodName(etcdRole, learner.Ordinal)
	since := j.firstSeen(learner.ID)
	if age := j.Clock.Since(since); age < j.StuckAfter {
		return waiting(steps.ReasonJoiningEtcdMembers, "the member of pod %s was added and has not started yet",
			pod), nil
	}
	// The pod as it is before the removal. One that follows it under the same name may already join again.
	stuck, err := j.getPod(ctx, pod)
	if err != nil {
		return Progress{}, err
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	j.Log.Info("Removing a learner that did not start", "etcd", naming.EtcdName(etcdRole), "member", learner.String(),
		"members", seen.Members.String(), "firstSeen", since)
	if err := cluster.Remove(ctx, learner.ID); err != nil && !errors.Is(err, etcdclient.ErrMemberNotFound) {
		return Progress{}, err
	}
	if stuck != nil {
		if err := j.deletePod(ctx, stuck); err != nil {
			return Progress{}, err
		}
	}
	return waiting(steps.ReasonJoiningEtcdMembers,
		"the member of pod %s did not start within %s and was removed; it joins again", pod, j.StuckAfter), nil
}

// firstSeen returns when the learner without a name was seen first.
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
