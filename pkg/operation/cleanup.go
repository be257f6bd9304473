// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/retry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Exists reads the object and tells whether it is there.
func Exists(ctx context.Context, reader client.Reader, key client.ObjectKey, obj client.Object) (bool, error) {
	if err := reader.Get(ctx, key, obj); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("failed to read %T %s: %w", obj, key, err)
	}
	return true, nil
}

// WaitUntilGone waits until the object does not exist any more.
func WaitUntilGone(ctx context.Context, reader client.Reader, key client.ObjectKey, obj client.Object, interval time.Duration) error {
	return retry.Until(ctx, interval, func(ctx context.Context) (bool, error) {
		found, err := Exists(ctx, reader, key, obj)
		if err != nil {
			return retry.MinorError(err)
		}
		if found {
			return retry.MinorError(fmt.Errorf("%T %s still exists", obj, key))
		}
		return retry.Ok()
	})
}

// WaitUntilEtcdsGone waits until no Etcd is left in the namespace.
func WaitUntilEtcdsGone(ctx context.Context, c client.Client, namespace string, interval time.Duration) error {
	return retry.Until(ctx, interval, func(ctx context.Context) (bool, error) {
		etcds := &druidcorev1alpha1.EtcdList{}
		if err := c.List(ctx, etcds, client.InNamespace(namespace)); err != nil {
			return retry.MinorError(fmt.Errorf("failed to list etcds in namespace %s: %w", namespace, err))
		}
		if n := len(etcds.Items); n > 0 {
			return retry.MinorError(fmt.Errorf("%d etcds in namespace %s still exist", n, namespace))
		}
		return retry.Ok()
	})
}
