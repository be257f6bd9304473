// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// remains is what is left of the shoot in this seed.
type remains struct {
	// namespace reports whether the shoot's namespace exists.
	namespace bool
	// terminating reports whether the namespace is being deleted. Only the garbage collection works on it then.
	terminating bool
	// kubeAPIServer reports whether the Deployment of the kube-apiserver exists and is not being deleted.
	kubeAPIServer bool
	// cluster reports whether the Cluster resource exists.
	cluster bool
	// workers tells that the shoot has workers.
	workers bool
	// machinesReleased tells that the machines are safe in the ShootState and their objects are being deleted here.
	// What is left of them then must not be saved again.
	machinesReleased bool
}

func (s *source) readRemains(ctx context.Context, namespace string) (remains, error) {
	var (
		reader = s.deps.SeedClientSet.APIReader()
		out    remains

		ns         = &corev1.Namespace{}
		deployment = &appsv1.Deployment{}
	)

	found, err := operation.Exists(ctx, reader, client.ObjectKey{Name: namespace}, ns)
	if err != nil {
		return out, err
	}
	out.namespace = found
	_, out.machinesReleased = ns.Annotations[annotationMachinesReleased]
	out.terminating = found && (ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating)

	if found, err = operation.Exists(ctx, reader,
		client.ObjectKey{Namespace: namespace,
			Name: v1beta1constants.DeploymentNameKubeAPIServer}, deployment); err != nil {
		return out, err
	}
	out.kubeAPIServer = found && deployment.DeletionTimestamp == nil

	if out.cluster, err = operation.Exists(ctx, reader, client.ObjectKey{Name: namespace},
		&extensionsv1alpha1.Cluster{}); err != nil {
		return out, err
	}
	return out, nil
}

// drainedAt is when the source's kube-apiserver may be stopped.
//
// DNS needs no more waiting here: the step before was only finished after the old records had left all caches, so since
// then new connections go to the destination. What is left are connections from before. Clients give them up on their
// own account only rarely; the kube-apiserver makes them do it when it ends gracefully (it lets requests finish, sends
// GOAWAY on HTTP/2 connections and closes idle ones). The period gives requests that take long the time to finish.
func drainedAt(conditions []gardencorev1beta1.Condition, drain time.Duration) (time.Time, error) {
	condition := v1beta1helper.GetCondition(conditions, gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	if condition == nil || condition.Status != gardencorev1beta1.ConditionTrue {
		return time.Time{}, fmt.Errorf("failed to tell when the clients have left: condition %s is not True",
			gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	}
	return condition.LastTransitionTime.Add(drain), nil
}

// cleanUp stops the control plane in the source and removes everything that belongs to the shoot from the seed. What
// the control plane manages inside of the shoot stays.
func (s *source) cleanUp(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

	left, err := s.readRemains(ctx, namespace)
	if err != nil {
		return steps.Outcome{}, err
	}
	if !left.namespace && !left.cluster {
		return steps.Done("Nothing of the shoot is left in seed %s", s.deps.SeedName()), nil
	}

	if left.kubeAPIServer {
		due, err := drainedAt(steps.Conditions(m.Shoot), s.deps.Timings.DrainTimeout)
		if err != nil {
			return steps.Outcome{}, err
		}
		if wait := due.Sub(m.Clock.Now()); wait > 0 {
			return steps.Waiting(min(wait, 10*time.Second), steps.ReasonWaitingForClientsToLeave,
				"Requests on connections to the source's kube-apiserver may finish until %s",
				due.UTC().Format(time.RFC3339)), nil
		}
	}

	b, err := s.deps.NewBotanist(ctx, m.Log, m.Shoot, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return steps.Outcome{}, err
	}

	left.workers = !b.Shoot.IsWorkerless
	reason := steps.ReasonStoppingSourceControlPlane
	if !left.kubeAPIServer {
		reason = steps.ReasonDeletingSourceResources
	}
	if err := operation.RunFlow(ctx, m, reason, s.cleanupGraph(m, b, left)); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Nothing of the shoot is left in seed %s", s.deps.SeedName()), nil
}

func (s *source) cleanupGraph(m *migration.Migration, b *botanist.Botanist, left remains) *flow.Graph {
	var (
		g         = flow.NewGraph("cleanup of the source seed")
		timeout   = s.deps.Timings.RolloutTimeout
		interval  = s.deps.Timings.PollInterval
		namespace = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
		// Nothing can be created or restarted in a namespace that is being deleted.
		skip = !left.namespace || left.terminating

		keepObjects = g.Add(flow.Task{
			Name: "Keeping the objects of managed resources in the shoot",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.KeepObjectsForManagedResources(ctx)
			}, timeout),
			SkipIf: skip,
		})
		deleteManagedResources = g.Add(flow.Task{
			Name: "Deleting managed resources",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.DeleteManagedResources(ctx)
			}, timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(keepObjects),
		})
		waitUntilManagedResourcesDeleted = g.Add(flow.Task{
			Name: "Waiting until managed resources are deleted",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return b.WaitUntilManagedResourcesDeleted(ctx)
			}).Timeout(timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(deleteManagedResources),
		})
		workersMigrated = s.addWorkersCleanup(g, m, b, skip || !left.workers,
			flow.NewTaskIDs(waitUntilManagedResourcesDeleted))

		migrateExtensions = g.Add(flow.Task{
			Name: "Migrating extensions while the kube-apiserver runs",
			Fn: func(ctx context.Context) error {
				if err := b.Shoot.Components.Extensions.Extension.MigrateBeforeKubeAPIServer(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.Extensions.Extension.WaitMigrateBeforeKubeAPIServer(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(waitUntilManagedResourcesDeleted),
		})
		persistState = g.Add(flow.Task{
			Name: "Persisting the state of migrated extensions",
			Fn: func(ctx context.Context) error {
				return s.deps.PersistShootState(ctx, m.Shoot, namespace, false)
			},
			SkipIf:       skip || left.machinesReleased,
			Dependencies: flow.NewTaskIDs(migrateExtensions, workersMigrated),
		})
		workersDeleted = s.addWorkersDeletion(g, m, b, skip || !left.workers, flow.NewTaskIDs(persistState))

		destroyExtensions = g.Add(flow.Task{
			Name: "Deleting migrated extensions",
			Fn: func(ctx context.Context) error {
				if err := b.Shoot.Components.Extensions.Extension.DestroyBeforeKubeAPIServer(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.Extensions.Extension.WaitCleanupBeforeKubeAPIServer(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(persistState, workersDeleted),
		})
		controlPlaneDeleted = s.addControlPlaneCleanup(g, m, b, skip || !left.workers,
			flow.NewTaskIDs(destroyExtensions))
		waitUntilExtensionsManagedResourcesDeleted = g.Add(flow.Task{
			Name: "Waiting until the managed resources of extensions are deleted",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return b.WaitUntilShootManagedResourcesDeleted(ctx)
			}).Timeout(timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(destroyExtensions, controlPlaneDeleted),
		})
		// The resource manager takes its finalizers off the secrets of managed resources a moment after it has let go
		// of the managed resources. Without it they would keep the namespace.
		waitUntilSecretsReleased = g.Add(flow.Task{
			Name: "Waiting until the resource manager has released its secrets",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return waitUntilSecretsReleased(ctx, s.deps.SeedClientSet.Client(), namespace, interval)
			}).Timeout(timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(waitUntilExtensionsManagedResourcesDeleted),
		})
		// The destination starts its controllers in the next step: these are the last ones to be stopped before that.
		//
		// For a shoot with workers, those that ask for machines are long gone; see addWorkersCleanup.
		stopControllers = g.Add(flow.Task{
			Name: "Stopping the controllers of the shoot",
			Fn: func(ctx context.Context) error {
				return operation.DeleteDeployments(ctx, s.deps.SeedClientSet.Client(), namespace, interval, timeout,
					operation.Controllers...)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(waitUntilSecretsReleased),
		})
		stopKubeAPIServer = g.Add(flow.Task{
			Name: "Stopping the kube-apiserver gracefully",
			Fn: func(ctx context.Context) error {
				if err := operation.DeleteDeployments(ctx, s.deps.SeedClientSet.Client(), namespace, interval, timeout,
					v1beta1constants.DeploymentNameKubeAPIServer); err != nil {
					return err
				}
				return b.DeleteKubeAPIServer(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(stopControllers),
		})
		destroyKubeAPIServerSNI = g.Add(flow.Task{
			Name: "Removing the kube-apiserver from the ingress gateway",
			Fn: func(ctx context.Context) error {
				return b.Shoot.Components.ControlPlane.KubeAPIServerSNI.Destroy(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(stopKubeAPIServer),
		})
		migrateRemainingExtensions = g.Add(flow.Task{
			Name: "Migrating extensions after kube-apiserver",
			Fn: func(ctx context.Context) error {
				if err := b.Shoot.Components.Extensions.Extension.MigrateAfterKubeAPIServer(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.Extensions.Extension.WaitMigrateAfterKubeAPIServer(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(stopKubeAPIServer),
		})
		// The last one of all, as in a classic migration: it is what everything else stands on.
		migrateInfrastructure = g.Add(flow.Task{
			Name: "Migrating the infrastructure",
			Fn: func(ctx context.Context) error {
				if err := b.Shoot.Components.Extensions.Infrastructure.Migrate(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.Extensions.Infrastructure.WaitMigrate(ctx)
			},
			SkipIf:       skip || !left.workers,
			Dependencies: flow.NewTaskIDs(stopKubeAPIServer),
		})
		persistRemainingState = g.Add(flow.Task{
			Name: "Persisting the state of extensions after kube-apiserver",
			Fn: func(ctx context.Context) error {
				return s.deps.PersistShootState(ctx, m.Shoot, namespace, false)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(migrateRemainingExtensions, migrateInfrastructure),
		})
		destroyInfrastructure = g.Add(flow.Task{
			Name: "Deleting the migrated infrastructure",
			Fn: func(ctx context.Context) error {
				if err := b.Shoot.Components.Extensions.Infrastructure.Destroy(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.Extensions.Infrastructure.WaitCleanup(ctx)
			},
			SkipIf:       skip || !left.workers,
			Dependencies: flow.NewTaskIDs(persistRemainingState),
		})
		destroyRemainingExtensions = g.Add(flow.Task{
			Name: "Deleting all extensions",
			Fn: func(ctx context.Context) error {
				if err := b.Shoot.Components.Extensions.Extension.Destroy(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.Extensions.Extension.WaitCleanup(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(persistRemainingState),
		})
	)
	s.deps.AddSeedCleanup(g, m, b, skip, flow.NewTaskIDs(stopKubeAPIServer),
		flow.NewTaskIDs(destroyKubeAPIServerSNI, destroyRemainingExtensions, destroyInfrastructure))
	return g
}

// resourceManagerFinalizers is how the finalizers of resource managers begin; each class has its own.
const resourceManagerFinalizers = "resources.gardener.cloud/"

func waitUntilSecretsReleased(ctx context.Context, c client.Client, namespace string, interval time.Duration) error {
	return retry.Until(ctx, interval, func(ctx context.Context) (bool, error) {
		secrets := &metav1.PartialObjectMetadataList{}
		secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		if err := c.List(ctx, secrets, client.InNamespace(namespace)); err != nil {
			return retry.MinorError(fmt.Errorf("failed to list secrets in namespace %s: %w", namespace, err))
		}
		for _, secret := range secrets.Items {
			for _, finalizer := range secret.Finalizers {
				if strings.HasPrefix(finalizer, resourceManagerFinalizers) {
					return retry.MinorError(fmt.Errorf("secret %s/%s still has finalizer %s", namespace, secret.Name,
						finalizer))
				}
			}
		}
		return retry.Ok()
	})
}
