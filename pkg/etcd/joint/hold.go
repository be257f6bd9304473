// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

// holdRollout keeps the destination's first two members from being restarted when the third one joins.
//
// With the third member etcd-druid changes the configuration of all, and the StatefulSet restarts the other two as soon
// as the third one is ready: just when the cluster has six members and the source's begin to leave. That restart is not
// needed, because the final deployment restarts every member anyway. So holdRollout makes the StatefulSet apply its new
// template to the third pod only. There are many seconds for that between etcd-druid's change and the third pod being
// ready.
func (j *Joint) holdRollout(ctx context.Context, etcdRole string) error {
	etcd, err := j.getEtcd(ctx, etcdRole)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if etcd.Spec.Etcd.BootstrapWithExistingCluster == nil || etcd.Spec.Replicas != naming.MembersPerSeed {
		return nil
	}
	statefulSet, err := j.getStatefulSet(ctx, etcdRole)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if ptr.Deref(statefulSet.Spec.Replicas, 1) != naming.MembersPerSeed {
		// etcd-druid has not scaled the StatefulSet yet.
		return nil
	}

	if partition := int32(naming.MembersPerSeed - 1); !hasPartition(statefulSet, partition) {
		if err := j.annotate(ctx, etcd, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(statefulSet.DeepCopy(), client.MergeFromWithOptimisticLock{})
		statefulSet.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
		if err := j.Client.Patch(ctx, statefulSet, patch); err != nil {
			return fmt.Errorf("failed to hold the restart of the members of StatefulSet %s: %w",
				client.ObjectKeyFromObject(statefulSet), err)
		}
		j.Log.Info("Holding the restart of the members that joined before", "etcd", etcd.Name)
	}
	if druidcorev1alpha1.HasReconcileOperationAnnotation(etcd.ObjectMeta) {
		// etcd-druid has not finished. If it were paused now, it would find the annotation later and restart the
		// members then.
		return nil
	}
	return j.annotate(ctx, etcd, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation)
}

func hasPartition(statefulSet *appsv1.StatefulSet, partition int32) bool {
	rollingUpdate := statefulSet.Spec.UpdateStrategy.RollingUpdate
	return rollingUpdate != nil && ptr.Deref(rollingUpdate.Partition, 0) == partition
}

// ReleaseRollout gives the destination's Etcds back to etcd-druid. The members restart with the next deployment. In the
// source it takes PrepareRetirement back: nothing was changed since, and nothing restarts.
func (j *Joint) ReleaseRollout(ctx context.Context) error {
	for _, etcdRole := range naming.EtcdRoles {
		etcd, err := j.getEtcd(ctx, etcdRole)
		if err != nil {
			return err
		}
		if err := j.release(ctx, etcd); err != nil {
			return err
		}
	}
	return nil
}

// release gives one Etcd back to etcd-druid.
func (j *Joint) release(ctx context.Context, etcd *druidcorev1alpha1.Etcd) error {
	patch, before := client.MergeFrom(etcd.DeepCopy()), len(etcd.Annotations)
	delete(etcd.Annotations, druidcorev1alpha1.SuspendEtcdSpecReconcileAnnotation)
	delete(etcd.Annotations, druidcorev1alpha1.DisableEtcdComponentProtectionAnnotation)
	if len(etcd.Annotations) == before {
		return nil
	}
	if err := j.Client.Patch(ctx, etcd, patch); err != nil {
		return fmt.Errorf("failed to give Etcd %s back to etcd-druid: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return nil
}
