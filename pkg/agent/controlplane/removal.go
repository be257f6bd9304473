// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/stranded"
)

// Removal is how a flow removes a shoot from the agent's own seed.
type Removal struct {
	// Migration and Botanist are those of the attempt.
	Migration *migration.Migration
	Botanist  *botanist.Botanist
	// Terminating leaves out what works in the shoot's namespace: nothing can be deleted one by one in a namespace that
	// is being deleted or gone.
	Terminating bool
	// BeforeEtcds and BeforeNamespace are what the flow does before the Etcds and the namespace are deleted.
	BeforeEtcds, BeforeNamespace flow.TaskIDs
}

// AddRemoval adds the tasks that end every removal of a shoot from the agent's own seed: first its Etcds and the
// way to the other seed, then its namespace, and the Cluster when nothing can ask for it.
func (c *ControlPlane) AddRemoval(g *flow.Graph, removal Removal) {
	var (
		timeout   = c.options.Timings.RolloutTimeout
		interval  = c.options.Timings.PollInterval
		m, b      = removal.Migration, removal.Botanist
		namespace = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

		destroyEtcds = g.Add(flow.Task{
			Name: fmt.Sprintf("Deleting the etcds of the %s", m.Role),
			Fn: flows.Retry(func(ctx context.Context) error {
				if err := b.DestroyEtcd(ctx); err != nil {
					return err
				}
				return WaitUntilEtcdsGone(ctx, c.options.SeedClientSet.Client(), namespace, interval)
			}, timeout),
			SkipIf:       removal.Terminating,
			Dependencies: removal.BeforeEtcds,
		})
		destroyExposure = g.Add(flow.Task{
			Name: "Removing the exposure between the seeds",
			Fn: func(ctx context.Context) error {
				return c.options.DestroyTunnel(ctx, m)
			},
			SkipIf:       removal.Terminating,
			Dependencies: flow.NewTaskIDs(destroyEtcds),
		})
		deleteNamespace = g.Add(flow.Task{
			Name: "Deleting the shoot's namespace",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.DeleteSeedNamespace(ctx)
			}, timeout),
			SkipIf:       removal.Terminating,
			Dependencies: flow.NewTaskIDs(removal.BeforeNamespace, destroyExposure),
		})
		waitUntilNamespaceDeleted = g.Add(flow.Task{
			Name: "Waiting until the shoot's namespace is gone",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return c.WaitUntilNamespaceGone(ctx, namespace)
			}).Timeout(timeout),
			Dependencies: flow.NewTaskIDs(deleteNamespace),
		})
	)
	g.Add(flow.Task{
		Name: "Deleting the Cluster resource",
		Fn: func(ctx context.Context) error {
			return b.DeleteClusterResourceFromSeed(ctx)
		},
		Dependencies: flow.NewTaskIDs(waitUntilNamespaceDeleted),
	})
}

// Exists reads the object and reports whether it is there.
func Exists(ctx context.Context, reader client.Reader, key client.ObjectKey, obj client.Object) (bool, error) {
	if err := reader.Get(ctx, key, obj); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("failed to read %T %s: %w", obj, key, err)
	}
	return true, nil
}

// WaitUntilNamespaceGone waits until a namespace that is being deleted no longer exists. It removes the objects of
// stranded pods, which nobody else would: the namespace would stay, and so would their volumes.
//
// Should their containers run on, on a node that is only cut off, they do no harm any more. What must not run on was
// stopped and waited for before (DeleteDeployments). The members of etcd are in no list, and the way to the other seed
// is gone, and with it whatever such a container could reach of the shoot.
func (c *ControlPlane) WaitUntilNamespaceGone(ctx context.Context, name string) error {
	return retry.Until(ctx, c.options.Timings.PollInterval, func(ctx context.Context) (bool, error) {
		namespace := &corev1.Namespace{}
		found, err := Exists(ctx, c.options.SeedClientSet.APIReader(), client.ObjectKey{Name: name}, namespace)
		if err != nil {
			return retry.MinorError(err)
		}
		if !found {
			return retry.Ok()
		}
		if namespace.DeletionTimestamp != nil {
			err = c.removeStranded(ctx, name)
		}
		return retry.MinorError(errors.Join(fmt.Errorf("%T %s still exists", namespace, name), err))
	})
}

// removeStranded removes the objects of stranded pods from a namespace that is being deleted.
func (c *ControlPlane) removeStranded(ctx context.Context, namespace string) error {
	pods := &corev1.PodList{}
	if err := c.options.SeedClientSet.APIReader().List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("failed to list the pods in namespace %s: %w", namespace, err)
	}
	var errs []error
	for _, pod := range pods.Items {
		if !stranded.Pod(&pod, c.options.Clock.Now()) {
			continue
		}
		logf.FromContext(ctx).Info("Removing the object of a pod that never ends", "pod", stranded.Describe(&pod))
		if err := c.options.SeedClientSet.Client().Delete(ctx, &pod, client.GracePeriodSeconds(0),
			client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("failed to remove pod %s: %w", client.ObjectKeyFromObject(&pod), err))
		}
	}
	return errors.Join(errs...)
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
