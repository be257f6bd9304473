// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	"github.com/gardener/gardener/pkg/utils/retry"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
)

// Controllers are the Deployments in a shoot's namespace that act on the shoot and must not run in two seeds.
var Controllers = ownership.Exclusive()

// DeleteDeployments deletes the Deployments and waits until their last pod is gone: in foreground deletion the object
// outlives its pods. They are deleted instead of scaled because others scale them too (dependency-watchdog,
// autoscalers). Deployments that do not exist are no error.
func (c *ControlPlane) DeleteDeployments(ctx context.Context, namespace string, names ...string) error {
	seed, timings := c.options.SeedClientSet.Client(), c.options.Timings
	for _, name := range names {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		if err := seed.Delete(ctx, deployment,
			client.PropagationPolicy(metav1.DeletePropagationForeground)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete deployment %s/%s: %w", namespace, name, err)
		}
	}

	gone := func(ctx context.Context) (bool, error) {
		for _, name := range names {
			err := seed.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{})
			if err == nil {
				return retry.MinorError(fmt.Errorf("deployment %s/%s still has pods", namespace, name))
			}
			if !apierrors.IsNotFound(err) {
				return retry.MinorError(fmt.Errorf("failed to read deployment %s/%s: %w", namespace, name, err))
			}
		}
		return retry.Ok()
	}
	return retry.UntilTimeout(ctx, timings.PollInterval, timings.RolloutTimeout, gone)
}
