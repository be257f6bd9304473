// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// relayTimeout bounds how long a new relay may take to be ready.
const relayTimeout = 3 * time.Minute

// replaceRelay deletes the relay of an ordinal, and waits until the one that follows it is ready.
func replaceRelay(ctx context.Context, kube kubernetes.Interface, namespace string, ordinal int) error {
	name := fmt.Sprintf("%s-%d", exposure.Name, ordinal)
	pods := kube.CoreV1().Pods(namespace)
	old, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get pod %s: %w", name, err)
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
		Preconditions: &metav1.Preconditions{UID: &old.UID}}); err != nil {
		return fmt.Errorf("failed to delete pod %s: %w", name, err)
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Second, relayTimeout, true,
		func(ctx context.Context) (bool, error) {
			now, err := pods.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && now.UID != old.UID && health.IsPodReady(now), nil
		}); err != nil {
		return fmt.Errorf("failed to wait until the next pod %s is ready: %w", name, err)
	}
	return nil
}
