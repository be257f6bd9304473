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

// The restart of an only member with the ordinary specification. Nobody serves meanwhile, so there is nothing to lead
// elsewhere: no leadership, and no requests, which the front keeps back until the member is there again, or gives up.
// This is the one gap of a live migration with one member. What is left to do is to make it short:
//   - the member list gets both peer URLs before, so that the sidecar does not stop etcd for a second time;
//   - the pod gets leaveGrace to end. etcd would wait for watches for 7 s otherwise, and the next one begins only when
//     it is gone. What was acknowledged is on the disk before it is acknowledged.

// prepareOnly makes a cluster with one member ready for its restart. It returns an error unless the member is alone and
// healthy, answers soon, and is not being defragmented.
func (j *Joint) prepareOnly(ctx context.Context, etcdRole string) error {
	seen, err := j.observeHealthy(ctx, etcdRole)
	if err != nil {
		return err
	}
	if missing := j.destinationOnly(seen); missing != "" {
		return fmt.Errorf("the only member of the destination does not restart before it is alone and healthy: %s",
			missing)
	}
	member, ok := memberOf(seen, 0)
	if !ok {
		return fmt.Errorf("the destination has no member with the ordinal 0: %s", seen.Members)
	}
	if err := j.putOff(ctx, etcdRole, seen, mayPause); err != nil {
		return fmt.Errorf("member %s does not restart yet: %w", member.Name, err)
	}
	return j.widenPeerURLs(ctx, etcdRole, member)
}

// mayPause is the projection of a restart during which nobody serves: it only has to begin well.
func mayPause(prompt quorum.Set) error {
	if !prompt.HasQuorum() {
		return fmt.Errorf("the only member does not answer: %s", prompt)
	}
	return nil
}

// rollOnly takes one look at a cluster whose only member restarts with the ordinary specification, which etcd-druid has
// applied, and makes the next move. While the pod is away nobody is asked: the answer would be that the quorum is lost.
func (j *Joint) rollOnly(ctx context.Context, r rollout) (Progress, error) {
	if r.replicas != naming.SingleMember {
		return waiting(steps.ReasonQuorumAtRisk, "StatefulSet %s has %d replicas, and not the one of its only member",
			r.statefulSet.Name, r.replicas), nil
	}
	pod := r.pods[0]
	if !r.restarted(0) {
		return j.replaceOnly(ctx, r)
	}
	if !isReady(pod) {
		return waiting(steps.ReasonRollingEtcd, "the only member restarts: pod %s is not ready", pod.Name), nil
	}
	seen, hold, err := j.observeForChange(ctx, r.etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if hold != nil {
		return *hold, nil
	}
	if narrowed, err := j.narrowPeerURLs(ctx, r, seen, 0); err != nil || narrowed {
		return waiting(steps.ReasonRollingEtcd, "the only member has restarted and keeps its ordinary peer URL"), err
	}
	if missing := j.done(r, seen, 0); missing != "" {
		return waiting(steps.ReasonRollingEtcd, "the only member restarts: %s", missing), nil
	}
	return j.finishRollout(ctx, r)
}

// replaceOnly sees to it that the pod with the former specification ends soon.
func (j *Joint) replaceOnly(ctx context.Context, r rollout) (Progress, error) {
	if r.partition() > 0 {
		if err := j.setPartition(ctx, r, 0); err != nil {
			return Progress{}, err
		}
	}
	pod := r.pods[0]
	if pod == nil {
		return waiting(steps.ReasonRollingEtcd, "the only member restarts: its pod is being made"), nil
	}
	if _, err := j.endPod(ctx, pod.Name); err != nil {
		return Progress{}, err
	}
	return waiting(steps.ReasonRollingEtcd, "the only member restarts: pod %s ends", pod.Name), nil
}
