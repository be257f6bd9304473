// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/conflict"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// departure is how the members of one side leave.
type departure struct {
	side quorum.Side
	// reason is shown while it continues.
	reason steps.Reason
	// mayStop reports whether a member's pod may be stopped now.
	mayStop func(seen Observation, victim quorum.Member) error
	// before is called before a pod is stopped.
	before func(ctx context.Context) error
}

// takeAway makes one move: a pod is stopped, or the member of a stopped pod is removed.
func (j *Joint) takeAway(ctx context.Context, etcdRole string, seen Observation, d departure) (Progress, error) {
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	leaving := seen.Members.RemovalOrder(d.side)
	victim := leaving[0]
	pod := naming.PodName(etcdRole, victim.Ordinal)
	with, without := replicasAround(leaving)
	replicas := ptr.Deref(statefulSet.Spec.Replicas, 1)
	if replicas >= with {
		// Without the pause etcd-druid would put the pods back at once.
		if err := j.pauseDruid(ctx, etcdRole); err != nil {
			return Progress{}, err
		}
	}
	switch {
	case replicas > with:
		// Pods above the highest member are no members: removed before an interruption and not worth waiting for.
		return j.scale(ctx, etcdRole, replicaChange{replicas, with}, d)
	case replicas == with:
		if err := d.mayStop(seen, victim); err != nil {
			return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
		}
		if err := j.mayStopNow(ctx, etcdRole, seen, victim); err != nil {
			return Progress{}, err
		}
		if err := d.before(ctx); err != nil {
			return Progress{}, err
		}
		j.Log.Info("Stopping a member", "side", d.side, "etcd", naming.EtcdName(etcdRole), "member", victim.String(),
			"members", seen.Members.String())
		// The pod ends before its StatefulSet is told: the controller would end it in its own time, and a kubelet does
		// not hurry a container that it is stopping already. If the agent is interrupted in between, the member
		// restarts and stays.
		if _, err := j.endPod(ctx, pod); err != nil {
			return Progress{}, err
		}
		return j.scale(ctx, etcdRole, replicaChange{replicas, without}, d)
	}

	// A member that works although its StatefulSet gives its pod up has become one since, or the controller is slow.
	// The quorum may need it by now.
	if victim.Healthy {
		if err := d.mayStop(seen, victim); err != nil {
			return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
		}
	}
	// It repeats what an interruption may have kept from being done.
	there, err := j.endPod(ctx, pod)
	if err != nil {
		return Progress{}, err
	}
	if there != nil && !j.hasEnded(ctx, victim, there) {
		return waiting(d.reason, "pod %s of the %s is stopping", pod, d.side), nil
	}
	if d.side == quorum.Source && len(leaving) == 1 {
		// The next step begins when it has left, and expects nothing of the etcd to run in the source.
		if running, err := j.runningPod(ctx, etcdRole); err != nil || running != "" {
			return waiting(d.reason, "pod %s of the %s is stopping", running, d.side), err
		}
	}
	return j.remove(ctx, etcdRole, victim, d)
}

// replicasAround returns how many replicas the StatefulSet has with the first of the members, and without it. A member
// that is lost may have been removed although its pod had not the highest ordinal then (retireLost). That pod leaves
// with the next one above it: should its node come back, it would join once more.
func replicasAround(leaving quorum.Set) (with, without int32) {
	with = int32(leaving[0].Ordinal) + 1 // #nosec G115 -- One of three.
	if len(leaving) > 1 {
		without = int32(leaving[1].Ordinal) + 1 // #nosec G115 -- One of three.
	}
	return with, without
}

// leaveGrace is how long the pod of a member that leaves may take to stop. A kubelet gives no less than two seconds
// (Kubernetes, pkg/kubelet/kuberuntime, minimumGracePeriodInSeconds).
//
// An etcd that is told to stop closes its connections to clients at once and then waits for their requests to end, for
// 7 s with the usual timings (etcd, server/embed, Etcd.Close). The watches of the kube-apiserver never end. Meanwhile
// the member is one of the six voters, and that moment must be short. Other requests than watches end within the time
// given here, and a member that leaves has no data to save.
const leaveGrace = 2 * time.Second

// endPod makes the pod, which the StatefulSet no longer wants, end soon. It returns the pod as long as it is there and
// somebody will report it as gone (see stranded), and nil from then on.
func (j *Joint) endPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := j.getPod(ctx, name)
	if err != nil || pod == nil {
		return nil, err
	}
	grace := int64(leaveGrace.Seconds())
	if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > grace {
		return pod, j.deletePod(ctx, pod, client.GracePeriodSeconds(grace))
	}
	if j.stranded(pod) {
		j.Log.Info("Not waiting for a pod that should have ended and is not ready", "pod", pod.Name, "node",
			pod.Spec.NodeName, "endDue", pod.DeletionTimestamp.Time, "finalizers", pod.Finalizers)
		return nil, nil
	}
	return pod, nil
}

// remove removes a member that has ended, on a fresh view, and looks afterwards.
func (j *Joint) remove(ctx context.Context, etcdRole string, victim quorum.Member, d departure) (Progress, error) {
	seen, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	current, ok := seen.Members.ByID(victim.ID)
	if !ok {
		return waiting(d.reason, "%s", seen.Summary()), nil
	}
	if current.Healthy {
		return waiting(d.reason, "member %s still answers", current.Name), nil
	}
	if err := seen.Members.Remove(victim.ID); err != nil {
		return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	j.Log.Info("Removing a member", "side", d.side, "etcd", naming.EtcdName(etcdRole), "member", current.String(),
		"members", seen.Members.String())
	if err := cluster.Remove(ctx, victim.ID); err != nil && !errors.Is(err, etcdclient.ErrMemberNotFound) {
		if errors.Is(err, etcdclient.ErrUnhealthy) {
			return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
		}
		return Progress{}, err
	}
	after, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if _, still := after.Members.ByID(victim.ID); still {
		return Progress{}, fmt.Errorf("member %s is still in the member list after its removal", current)
	}
	j.Log.Info("Removed a member", "side", d.side, "etcd", naming.EtcdName(etcdRole), "member", current.String(),
		"members", after.Members.String())
	return Progress{Done: d.side == quorum.Source && len(after.Members.On(d.side)) == 0, Reason: d.reason,
		Message: after.Summary()}, nil
}

// replicaChange is a change of the number of a StatefulSet's replicas.
type replicaChange struct{ from, to int32 }

// scale changes the number of replicas. That the status changes meanwhile, as it does with the end of a pod, is no
// reason to decide again.
func (j *Joint) scale(ctx context.Context, etcdRole string, change replicaChange, d departure) (Progress, error) {
	name := naming.EtcdName(etcdRole)
	attempt := func() error {
		statefulSet, err := j.getStatefulSet(ctx, etcdRole)
		if err != nil {
			return err
		}
		if now := ptr.Deref(statefulSet.Spec.Replicas, 1); now != change.from {
			return fmt.Errorf("it had %d replicas and has %d now", change.from, now)
		}
		patch := client.MergeFromWithOptions(statefulSet.DeepCopy(), client.MergeFromWithOptimisticLock{})
		statefulSet.Spec.Replicas = &change.to
		return j.Client.Patch(ctx, statefulSet, patch)
	}
	if err := conflict.Retry(attempt); err != nil {
		return Progress{}, fmt.Errorf("failed to scale StatefulSet %s/%s to %d: %w", j.Namespace, name, change.to, err)
	}
	return waiting(d.reason, "StatefulSet %s of the %s is scaled to %d", name, d.side, change.to), nil
}
