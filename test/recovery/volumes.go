// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// members is the number of members that an etcd has in each seed.
const members = 3

// loseTimeout bounds how long a lost volume may take to go.
const loseTimeout = 2 * time.Minute

// volumes are those of a StatefulSet in a seed.
type volumes struct {
	kube                   kubernetes.Interface
	namespace, statefulSet string
}

// lose takes the volumes of members away for good, all at once, with the pods that use them. Members that have not been
// started are left out.
func (v volumes) lose(ctx context.Context, ordinals []int) error {
	set, err := v.kube.AppsV1().StatefulSets(v.namespace).Get(ctx, v.statefulSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get stateful set %s: %w", v.statefulSet, err)
	}
	if len(set.Spec.VolumeClaimTemplates) != 1 {
		return fmt.Errorf("stateful set %s has %d templates for volumes, not one", v.statefulSet,
			len(set.Spec.VolumeClaimTemplates))
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, ordinal := range ordinals {
		pod := fmt.Sprintf("%s-%d", v.statefulSet, ordinal)
		group.Go(func() error {
			return v.loseOne(ctx, set.Spec.VolumeClaimTemplates[0].Name+"-"+pod, pod)
		})
	}
	return group.Wait()
}

func (v volumes) loseOne(ctx context.Context, claim, pod string) error {
	claims, pods := v.kube.CoreV1().PersistentVolumeClaims(v.namespace), v.kube.CoreV1().Pods(v.namespace)
	old, err := claims.Get(ctx, claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to get volume claim %s: %w", claim, err)
	}
	// The claim goes once the pod has gone, and the next pod is not scheduled before that.
	if err := claims.Delete(ctx, claim, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("failed to delete volume claim %s: %w", claim, err)
	}
	if err := pods.Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to delete pod %s: %w", pod, err)
	}
	var now types.UID
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, loseTimeout,
		true, func(ctx context.Context) (bool, error) {
			current, err := claims.Get(ctx, claim, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			if err == nil {
				now = current.UID
			}
			return err == nil && now != old.UID, nil
		}); err != nil {
		return fmt.Errorf("failed to wait until the volume of %s is gone: %w", pod, err)
	}
	return nil
}
