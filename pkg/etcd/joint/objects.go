// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package joint

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

func (j *Joint) getEtcd(ctx context.Context, etcdRole string) (*druidcorev1alpha1.Etcd, error) {
	etcd := &druidcorev1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: naming.EtcdName(etcdRole)},
	}
	if err := j.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd); err != nil {
		return nil, fmt.Errorf("failed to get Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return etcd, nil
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

// deletePod deletes just this pod. One that has followed it under the same name stays.
func (j *Joint) deletePod(ctx context.Context, pod *corev1.Pod, opts ...client.DeleteOption) error {
	err := j.Client.Delete(ctx, pod, append(opts, client.Preconditions{UID: &pod.UID})...)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// annotate sets the annotations that the Etcd does not have.
func (j *Joint) annotate(ctx context.Context, etcd *druidcorev1alpha1.Etcd, annotations ...string) error {
	patch, missing := client.MergeFrom(etcd.DeepCopy()), false
	for _, annotation := range annotations {
		if !metav1.HasAnnotation(etcd.ObjectMeta, annotation) {
			missing = true
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, annotation, "true")
		}
	}
	if !missing {
		return nil
	}
	if err := j.Client.Patch(ctx, etcd, patch); err != nil {
		return fmt.Errorf("failed to annotate Etcd %s for etcd-druid: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return nil
}
