// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// PrepareRetirement stops etcd-druid from putting back the pods of the source that Retire takes away. Nothing restarts
// from it. Done before the destination's last member joins, it keeps the time with six members short.
func (j *Joint) PrepareRetirement(ctx context.Context) error {
	for _, etcdRole := range naming.EtcdRoles {
		if err := j.pauseDruid(ctx, etcdRole); err != nil {
			return err
		}
	}
	return nil
}

func (j *Joint) pauseDruid(ctx context.Context, etcdRole string) error {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return err
	}
	return j.annotate(ctx, etcd, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation,
		druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)
}

// Retire takes the source's members out of both clusters, one at a time in each. A cluster begins as soon as all of the
// destination's members are voters in it. keepClientService is called before the first pod goes.
func (j *Joint) Retire(
	ctx context.Context, keepClientService func(ctx context.Context) error, report ReportFunc,
) error {
	if err := j.PrepareRetirement(ctx); err != nil {
		return err
	}
	var (
		lock sync.Mutex
		kept bool
	)
	keep := func(ctx context.Context) error {
		lock.Lock()
		defer lock.Unlock()
		if kept {
			return nil
		}
		if err := keepClientService(ctx); err != nil {
			return fmt.Errorf("failed to keep the client services of etcd alive: %w", err)
		}
		kept = true
		return nil
	}
	return j.each(ctx, report, func(ctx context.Context, etcdRole string) (Progress, error) {
		return j.RetireNext(ctx, etcdRole, keep)
	})
}

// RetireNext takes one look at a cluster and makes the next move towards one without members of the source:
//
//  1. the StatefulSet gives up its pod with the highest ordinal;
//  2. when the pod is gone, its member is removed. Not earlier: a removed member that restarts would wipe its data and
//     join again;
//  3. with the first member gone, the destination's members form a quorum, and leadership moves to one of them. Then
//     the two others go in the same way.
//
// A cluster waits before 3, and again after it, until the other one has come as far. So the time with six members is
// not made longer by what happens in the other cluster, and nothing happens while leadership moves.
//
// A lead that moves earlier needs the vote of a member at the other end, and raft takes no writes until it is there:
// the moment is three times as long as it is with the votes of the destination alone. It moves before all the same if
// the member that has to go has it.
//
// Every move is preceded by a fresh member list and a projection of the quorum.
func (j *Joint) RetireNext(
	ctx context.Context, etcdRole string, keep func(ctx context.Context) error,
) (Progress, error) {
	world, hold, err := j.observeForChange(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	if hold != nil {
		return *hold, nil
	}
	if learners := world.Members.Learners(); len(learners) > 0 {
		return waiting(steps.ReasonWaitingForEtcdMember, "a member is still joining: %s", learners), nil
	}
	leaving := world.Members.RemovalOrder(quorum.Source)
	if len(leaving) == 0 {
		// They may have gone by hand, after a loss of the quorum: the source's kube-apiserver needs the relay all the
		// same.
		if err := keep(ctx); err != nil {
			return Progress{}, err
		}
		return Progress{Done: true, Message: "no member of the source is left: " + world.Summary()}, nil
	}
	if have := len(world.Members.Voters().On(quorum.Destination)); have < naming.MembersPerSeed {
		return waiting(steps.ReasonWaitingForEtcdMember, "the destination has %d of %d voters", have,
			naming.MembersPerSeed), nil
	}

	// The first member leaves without regard to the other cluster: the time with six members is to be short.
	if len(leaving) < naming.MembersPerSeed {
		if behind, err := j.otherIsBehind(ctx, etcdRole, world); err != nil || behind != "" {
			return waiting(steps.ReasonReadyForSourceMemberRemoval, "%s", behind), err
		}
	}
	if leaving[0].Leader || world.Members.Decides(quorum.Destination) {
		moved, err := j.moveLeader(ctx, etcdRole, world, quorum.Destination)
		if err != nil {
			return Progress{}, err
		}
		if moved {
			return waiting(steps.ReasonReadyForSourceMemberRemoval, "leadership moves to the destination"), nil
		}
	}
	return j.takeAway(ctx, etcdRole, world, departure{
		side: quorum.Source, reason: steps.ReasonReadyForSourceMemberRemoval, mayStop: mayRetire, before: keep,
	})
}

// otherIsBehind tells what the other cluster has to do before this one, in which the first member of the source has
// gone, may continue; empty if nothing. If that one is past the point, it is no matter how it fares.
func (j *Joint) otherIsBehind(ctx context.Context, etcdRole string, world World) (string, error) {
	other := v1beta1constants.ETCDRoleMain
	if etcdRole == other {
		other = v1beta1constants.ETCDRoleEvents
	}
	seen, hold, err := j.observeForChange(ctx, other)
	if err != nil {
		return "", fmt.Errorf("failed to look at %s: %w", naming.EtcdName(other), err)
	}
	left := len(seen.Members.On(quorum.Source))
	switch {
	case len(seen.Members) > 0 && left < naming.MembersPerSeed-1:
		return "", nil
	case hold != nil:
		return fmt.Sprintf("waiting for %s: %s", naming.EtcdName(other), hold.Message), nil
	case left == naming.MembersPerSeed:
		return fmt.Sprintf("waiting until the first member of the source has left %s as well",
			naming.EtcdName(other)), nil
	case world.Members.LeadIsOn(quorum.Destination) && !seen.Members.LeadIsOn(quorum.Destination):
		return fmt.Sprintf("waiting until the destination has leadership of %s as well", naming.EtcdName(other)), nil
	}
	return "", nil
}

// departure is how the members of one side leave.
type departure struct {
	side quorum.Side
	// reason is shown while it continues.
	reason steps.Reason
	// mayStop reports whether a member's pod may be stopped now.
	mayStop func(world World, victim quorum.Member) error
	// before is called before a pod is stopped.
	before func(ctx context.Context) error
}

// takeAway makes one move: a pod is stopped, or the member of a stopped pod is removed.
func (j *Joint) takeAway(ctx context.Context, etcdRole string, world World, d departure) (Progress, error) {
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	victim := world.Members.RemovalOrder(d.side)[0]
	pod := naming.PodName(etcdRole, victim.Ordinal)
	wanted := int32(victim.Ordinal) // #nosec G115 -- One of three.
	replicas := ptr.Deref(statefulSet.Spec.Replicas, 1)
	if replicas > wanted {
		// Without the pause etcd-druid would put the pods back at once.
		if err := j.pauseDruid(ctx, etcdRole); err != nil {
			return Progress{}, err
		}
	}
	switch {
	case replicas > wanted+1:
		// Pods above the highest member are no members: removed before an interruption and not worth waiting for.
		return j.scale(ctx, etcdRole, replicas, wanted+1, d)
	case replicas == wanted+1:
		if err := d.mayStop(world, victim); err != nil {
			return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
		}
		if err := d.before(ctx); err != nil {
			return Progress{}, err
		}
		j.Log.Info("Stopping a member", "side", d.side, "etcd", naming.EtcdName(etcdRole), "member", victim.String(),
			"members", world.Members.String())
		// The pod ends before its StatefulSet is told: the controller would end it in its own time, and a kubelet does
		// not hurry a container that it is stopping already. If the agent is interrupted in between, the member
		// restarts and stays.
		if _, err := j.endPod(ctx, pod); err != nil {
			return Progress{}, err
		}
		return j.scale(ctx, etcdRole, replicas, wanted, d)
	}

	// It repeats what an interruption may have kept from being done.
	gone, err := j.endPod(ctx, pod)
	if err != nil {
		return Progress{}, err
	}
	if !gone {
		return waiting(d.reason, "pod %s of the %s stops", pod, d.side), nil
	}
	return j.remove(ctx, etcdRole, victim, d)
}

// leaveGrace is how long the pod of a member that leaves may take to stop.
//
// An etcd that is told to stop sends its clients away at once and then waits for their requests to end, for 7 s with
// the usual timings (etcd, server/embed, Etcd.Close). Those of the kube-apiserver's watches never do. All the while it
// is one of the six voters, of which the moment is to be short. Other requests than watches end within the time given
// here, and a member that leaves has no data to save.
const leaveGrace = 3 * time.Second

// endPod sees to it that the pod, which the StatefulSet no longer wants, is gone soon, and reports whether it is.
func (j *Joint) endPod(ctx context.Context, name string) (bool, error) {
	pod, err := j.getPod(ctx, name)
	if err != nil || pod == nil {
		return err == nil, err
	}
	grace := int64(leaveGrace.Seconds())
	if pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) <= grace {
		return false, nil
	}
	return false, j.deletePod(ctx, pod, client.GracePeriodSeconds(grace))
}

// deletePod deletes just this pod. One that has followed it under the same name stays.
func (j *Joint) deletePod(ctx context.Context, pod *corev1.Pod, opts ...client.DeleteOption) error {
	err := j.Client.Delete(ctx, pod, append(opts, client.Preconditions{UID: &pod.UID})...)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// mayRetire projects the quorum without the member. Only while there are six voters, the weakest moment of all, does it
// accept another member that is down: ending that moment is worth more than waiting for a restart.
func mayRetire(world World, victim quorum.Member) error {
	if err := world.Members.Remove(victim.ID); err != nil {
		return err
	}
	others := world.Members.Filter(func(m quorum.Member) bool { return m.ID != victim.ID })
	if down := others.Unhealthy(); len(down) > 0 && len(world.Members.Voters()) != 2*naming.MembersPerSeed {
		return fmt.Errorf("member %s stays until the others are healthy: %s", victim.Name, world.Summary())
	}
	return nil
}

// remove removes a member whose pod is gone, on a fresh view, and looks afterwards.
func (j *Joint) remove(ctx context.Context, etcdRole string, victim quorum.Member, d departure) (Progress, error) {
	world, err := j.Observe(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	current, ok := world.Members.ByID(victim.ID)
	if !ok {
		return waiting(d.reason, "%s", world.Summary()), nil
	}
	if current.Healthy {
		return waiting(d.reason, "member %s still answers", current.Name), nil
	}
	if err := world.Members.Remove(victim.ID); err != nil {
		return waiting(steps.ReasonQuorumAtRisk, "%s", err), nil
	}
	cluster, err := j.cluster(ctx, etcdRole)
	if err != nil {
		return Progress{}, err
	}
	j.Log.Info("Removing a member", "side", d.side, "etcd", naming.EtcdName(etcdRole), "member", current.String(),
		"members", world.Members.String())
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

func (j *Joint) getStatefulSet(ctx context.Context, etcdRole string) (*appsv1.StatefulSet, error) {
	statefulSet := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: naming.EtcdName(etcdRole)},
	}
	if err := j.Client.Get(ctx, client.ObjectKeyFromObject(statefulSet), statefulSet); err != nil {
		return nil, fmt.Errorf("failed to get StatefulSet %s: %w", client.ObjectKeyFromObject(statefulSet), err)
	}
	return statefulSet, nil
}

// scale changes the number of replicas. That the status changes meanwhile, as it does with the end of a pod, is no
// reason to decide again.
func (j *Joint) scale(ctx context.Context, etcdRole string, from, to int32, d departure) (Progress, error) {
	name := naming.EtcdName(etcdRole)
	attempt := func() error {
		statefulSet, err := j.getStatefulSet(ctx, etcdRole)
		if err != nil {
			return err
		}
		if now := ptr.Deref(statefulSet.Spec.Replicas, 1); now != from {
			return fmt.Errorf("it had %d replicas and has %d now", from, now)
		}
		patch := client.MergeFromWithOptions(statefulSet.DeepCopy(), client.MergeFromWithOptimisticLock{})
		statefulSet.Spec.Replicas = &to
		return j.Client.Patch(ctx, statefulSet, patch)
	}
	var err error
	// The retry takes a timeout for the end of its own patience and swallows it.
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err = attempt()
		return err
	})
	if err != nil {
		return Progress{}, fmt.Errorf("failed to scale StatefulSet %s/%s to %d: %w", j.Namespace, name, to, err)
	}
	return waiting(d.reason, "StatefulSet %s of the %s is scaled to %d", name, d.side, to), nil
}

// getPod returns the pod, or nil if it is gone.
func (j *Joint) getPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: j.Namespace, Name: name}
	if err := j.Client.Get(ctx, key, pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to get pod %s: %w", key, err)
	}
	return pod, nil
}
