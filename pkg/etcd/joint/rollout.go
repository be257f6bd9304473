// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// rollout is what was found of a rolling restart in the objects of the seed.
//
// The partition of the StatefulSet is the lowest ordinal that its controller may restart. etcd-druid sets it to 0
// whenever it applies the specification of an Etcd (v0.38.1, internal/component/statefulset, createStatefulSetSpec). So
// the highest ordinal restarts before it can be held, and there are many seconds for that until its pod is ready and
// the controller goes on. From then on etcd-druid is suspended.
type rollout struct {
	etcdRole    string
	etcd        *druidcorev1alpha1.Etcd
	statefulSet *appsv1.StatefulSet
	replicas    int
	// pods are the pods by ordinal; nil where there is none.
	pods []*corev1.Pod
}

func (j *Joint) lookAtRollout(ctx context.Context, etcdRole string) (rollout, error) {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		return rollout{}, err
	}
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		return rollout{}, err
	}
	r := rollout{etcdRole: etcdRole, etcd: etcd, statefulSet: statefulSet,
		replicas: int(ptr.Deref(statefulSet.Spec.Replicas, 1))}
	for ordinal := range r.replicas {
		pod, err := j.getPod(ctx, naming.PodName(etcdRole, ordinal))
		if err != nil {
			return rollout{}, err
		}
		r.pods = append(r.pods, pod)
	}
	return r, nil
}

// plain reports whether the Etcd has its ordinary specification.
func (r rollout) plain() bool { return r.etcd.Spec.Etcd.BootstrapWithExistingCluster == nil }

// suspended reports whether etcd-druid leaves the StatefulSet alone.
func (r rollout) suspended() bool {
	return metav1.HasAnnotation(r.etcd.ObjectMeta, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation)
}

// underWay reports whether members restart with the ordinary specification, or are held on their way there.
func (r rollout) underWay() bool { return r.plain() && r.suspended() }

// druidMayAct reports whether etcd-druid has a specification to apply, and does it. An agent that restarts deploys the
// Etcd again: a suspended etcd-druid begins with that when it is released.
func (r rollout) druidMayAct() bool {
	return !r.suspended() && (druidcorev1alpha1.HasReconcileOperationAnnotation(r.etcd.ObjectMeta) ||
		ptr.Deref(r.etcd.Status.ObservedGeneration, 0) != r.etcd.Generation)
}

// notApplied tells why the ordinary specification has not got through to the StatefulSet and the revision that its
// pods shall have; empty if it has. What the pods have until then is due to an earlier change.
func (r rollout) notApplied() string {
	switch {
	case !r.plain():
		return "the Etcd still has the bootstrap of the joint cluster"
	case r.druidMayAct() && len(r.etcd.Status.LastErrors) > 0:
		return fmt.Sprintf("it reports %+v", r.etcd.Status.LastErrors)
	case r.druidMayAct():
		return "it has not finished with the Etcd"
	case !r.revisionKnown():
		return "the controller of StatefulSets has not seen it"
	}
	return ""
}

func (r rollout) revisionKnown() bool {
	return r.statefulSet.Status.ObservedGeneration == r.statefulSet.Generation
}

// leaving reports whether the pod stops or has stopped.
func (r rollout) leaving(ordinal int) bool {
	pod := r.pods[ordinal]
	return pod == nil || !pod.DeletionTimestamp.IsZero()
}

// restarted reports whether the pod has the newest template.
func (r rollout) restarted(ordinal int) bool {
	return ordinal < len(r.pods) && !r.leaving(ordinal) && r.revisionKnown() &&
		r.pods[ordinal].Labels[appsv1.StatefulSetRevisionLabel] == r.statefulSet.Status.UpdateRevision
}

// reached reports whether the StatefulSet has come to the pod or may do so at any time.
func (r rollout) reached(ordinal int) bool {
	return r.leaving(ordinal) || r.restarted(ordinal) || ordinal >= r.partition()
}

func (r rollout) partition() int {
	if rollingUpdate := r.statefulSet.Spec.UpdateStrategy.RollingUpdate; rollingUpdate != nil {
		return int(ptr.Deref(rollingUpdate.Partition, 0))
	}
	return 0
}

// allRestarted reports whether every pod has the newest template.
func (r rollout) allRestarted() bool {
	for ordinal := range r.replicas {
		if !r.restarted(ordinal) {
			return false
		}
	}
	return true
}

// limit is the lowest ordinal that the restart has come to. If it has come to none, the highest one: that one restarts
// before anybody can keep it from that.
func (r rollout) limit() int {
	for ordinal := range r.replicas {
		if r.leaving(ordinal) || r.restarted(ordinal) {
			return ordinal
		}
	}
	return r.replicas - 1
}

// startsFrom reports whether etcd-druid is about to begin a restart with that ordinal.
func (r rollout) startsFrom(ordinal int) bool {
	return r.plain() && r.druidMayAct() && !r.allRestarted() && r.limit() == ordinal
}

// keepRollout keeps the StatefulSet from restarting a member that it has not come to, and etcd-druid from changing that
// as soon as it has applied the specification. Once etcd-druid is suspended, only letRestart changes the partition.
func (j *Joint) keepRollout(ctx context.Context, r rollout) error {
	if !r.plain() || r.suspended() || r.allRestarted() {
		return nil
	}
	if limit := r.limit(); r.partition() < limit {
		if err := j.setPartition(ctx, r, limit); err != nil {
			return err
		}
	}
	if r.druidMayAct() {
		// If etcd-druid were suspended now, it would apply the specification later.
		return nil
	}
	return j.annotate(ctx, r.etcd, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation)
}

// setPartition sets the lowest ordinal that the StatefulSet may restart, unless the StatefulSet has changed since it
// was looked at.
func (j *Joint) setPartition(ctx context.Context, r rollout, partition int) error {
	if err := j.annotate(ctx, r.etcd, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation); err != nil {
		return err
	}
	before := r.partition()
	patch := client.MergeFromWithOptions(r.statefulSet.DeepCopy(), client.MergeFromWithOptimisticLock{})
	r.statefulSet.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
		Partition: new(int32(partition)), // #nosec G115 -- One of three.
	}
	if err := j.Client.Patch(ctx, r.statefulSet, patch); err != nil {
		return fmt.Errorf("failed to set the partition of StatefulSet %s from %d to %d: %w",
			client.ObjectKeyFromObject(r.statefulSet), before, partition, err)
	}
	j.Log.Info("Set the lowest ordinal that restarts", "etcd", r.etcd.Name, "before", before, "ordinal", partition)
	return nil
}

// finishRollout makes StatefulSet and Etcd ordinary ones after all members have restarted. If the Etcd was deployed
// again meanwhile, etcd-druid applies that now, and the restart is over only if it brings nothing new.
func (j *Joint) finishRollout(ctx context.Context, r rollout) (Progress, error) {
	if r.partition() != 0 {
		if err := j.setPartition(ctx, r, 0); err != nil {
			return Progress{}, err
		}
	}
	if err := j.release(ctx, r.etcd); err != nil {
		return Progress{}, err
	}
	if r.druidMayAct() {
		return waiting(steps.ReasonRollingEtcd, "etcd-druid has to apply the specification once more"), nil
	}
	return Progress{Done: true, Message: "all members have been restarted"}, nil
}
