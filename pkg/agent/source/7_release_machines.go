// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/flow"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration"
)

// annotationMachinesReleased is on the shoot's namespace in the source from when the ShootState is known to have all
// machines. From then on their objects are deleted, one by one. An agent that takes over in the middle of it must not
// save what is left of them: the destination would take the others for machines that are still to be created.
const annotationMachinesReleased = "livecpm.gardener.cloud/machines-released"

// addWorkersMigration adds what releases the machines and what is on them, up to the point at which the state of all of
// it can be saved. The order is that of a classic migration, with two additions: the dependency-watchdog loses its
// access to the shoot, and cluster-autoscaler is stopped first.
func (c *cleanup) addWorkersMigration(managedResourcesGone flow.TaskID) flow.TaskID {
	// It would take the end of the source's kube-apiserver for an outage of the nodes' network.
	blindWatchdog := c.addRetried(flow.Task{
		Name: "Revoking the dependency-watchdog's access to the shoot",
		Fn: func(ctx context.Context) error {
			return c.botanist.Shoot.Components.DependencyWatchdogAccess.Destroy(ctx)
		},
		Dependencies: flow.NewTaskIDs(managedResourcesGone),
	})
	stopAutoscaler := c.add(flow.Task{
		Name: "Stopping the cluster-autoscaler",
		Fn: func(ctx context.Context) error {
			return c.deleteDeployments(ctx, v1beta1constants.DeploymentNameClusterAutoscaler)
		},
		Dependencies: flow.NewTaskIDs(blindWatchdog),
	})
	stopMachineControllerManager := c.add(flow.Task{
		Name: "Stopping the machine-controller-manager",
		Fn: func(ctx context.Context) error {
			// The component's own deletion does not wait for the pods. As long as one runs, it creates and deletes
			// machines.
			if err := c.deleteDeployments(ctx, v1beta1constants.DeploymentNameMachineControllerManager); err != nil {
				return err
			}
			if err := c.botanist.Shoot.Components.ControlPlane.MachineControllerManager.Destroy(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.ControlPlane.MachineControllerManager.WaitCleanup(ctx)
		},
		Dependencies: flow.NewTaskIDs(stopAutoscaler),
	})
	migrate := c.addRetried(flow.Task{
		Name: "Migrating workers, network, operating system configs and container runtimes",
		Fn: func(ctx context.Context) error {
			return c.botanist.MigrateExtensionResourcesInParallel(ctx)
		},
		Dependencies: flow.NewTaskIDs(stopMachineControllerManager),
	})
	return c.add(flow.Task{
		Name: "Waiting until workers, network, operating system configs and container runtimes are migrated",
		Fn: func(ctx context.Context) error {
			return c.botanist.WaitUntilExtensionResourcesMigrated(ctx)
		},
		Dependencies: flow.NewTaskIDs(migrate),
	})
}

// addWorkersDeletion adds the deletion of what addWorkersMigration has migrated, once its state is saved. The objects
// of machines are deleted without their finalizers, so nobody deletes the machines.
func (c *cleanup) addWorkersDeletion(saved flow.TaskIDs) flow.TaskID {
	releaseMachines := c.addRetried(flow.Task{
		Name: "Checking that the ShootState has all machines",
		Fn: func(ctx context.Context) error {
			return c.releaseMachines(ctx, c.migration)
		},
		Dependencies: saved,
	})
	deleteMachines := c.addRetried(flow.Task{
		Name: "Deleting the objects of machines and leaving the machines alone",
		Fn: func(ctx context.Context) error {
			return c.botanist.ShallowDeleteMachineResources(ctx)
		},
		Dependencies: flow.NewTaskIDs(releaseMachines),
	})
	machinesDeleted := c.addBounded(flow.Task{
		Name: "Waiting until the objects of machines are deleted",
		Fn: func(ctx context.Context) error {
			return gardenerutils.WaitUntilMachineResourcesDeleted(ctx, c.migration.Log, c.SeedClientSet.Client(),
				c.namespace)
		},
		Dependencies: flow.NewTaskIDs(deleteMachines),
	})
	destroy := c.addRetried(flow.Task{
		Name: "Deleting workers, network, operating system configs and container runtimes",
		Fn: func(ctx context.Context) error {
			return c.botanist.DestroyExtensionResourcesInParallel(ctx)
		},
		Dependencies: flow.NewTaskIDs(machinesDeleted),
	})
	return c.add(flow.Task{
		Name: "Waiting until workers, network, operating system configs and container runtimes are deleted",
		Fn: func(ctx context.Context) error {
			return c.botanist.WaitUntilExtensionResourcesDeleted(ctx)
		},
		Dependencies: flow.NewTaskIDs(destroy),
	})
}

// addControlPlaneDeletion adds the migration of what the provider runs in the shoot's namespace:
// cloud-controller-manager and CSI controllers. Upstream does not wait for its migration and does not save its state
// again; both cost next to nothing.
func (c *cleanup) addControlPlaneDeletion(extensionsGone flow.TaskIDs) flow.TaskID {
	migrate := c.add(flow.Task{
		Name: "Migrating the provider's part of the control plane",
		Fn: func(ctx context.Context) error {
			if err := c.botanist.Shoot.Components.Extensions.ControlPlane.Migrate(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.Extensions.ControlPlane.WaitMigrate(ctx)
		},
		Dependencies: extensionsGone,
	})
	persist := c.add(flow.Task{
		Name:         "Persisting the state of the provider's part of the control plane",
		Fn:           c.persist,
		Dependencies: flow.NewTaskIDs(migrate),
	})
	return c.add(flow.Task{
		Name: "Deleting the provider's part of the control plane",
		Fn: func(ctx context.Context) error {
			if err := c.botanist.Shoot.Components.Extensions.ControlPlane.Destroy(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.Extensions.ControlPlane.WaitCleanup(ctx)
		},
		Dependencies: flow.NewTaskIDs(persist),
	})
}

// addInfrastructureMigration adds the last migration of all, as in a classic migration: everything else needs the
// infrastructure.
func (c *cleanup) addInfrastructureMigration(kubeAPIServerStopped flow.TaskID) flow.TaskID {
	return c.add(flow.Task{
		Name: "Migrating the infrastructure",
		Fn: func(ctx context.Context) error {
			if err := c.botanist.Shoot.Components.Extensions.Infrastructure.Migrate(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.Extensions.Infrastructure.WaitMigrate(ctx)
		},
		Dependencies: flow.NewTaskIDs(kubeAPIServerStopped),
	})
}

// addInfrastructureDeletion adds the deletion of the infrastructure's object, once its state is saved.
func (c *cleanup) addInfrastructureDeletion(saved flow.TaskID) flow.TaskID {
	return c.add(flow.Task{
		Name: "Deleting the migrated infrastructure",
		Fn: func(ctx context.Context) error {
			if err := c.botanist.Shoot.Components.Extensions.Infrastructure.Destroy(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.Extensions.Infrastructure.WaitCleanup(ctx)
		},
		Dependencies: flow.NewTaskIDs(saved),
	})
}

// releaseMachines makes sure that the ShootState names every machine, and remembers that it did so.
func (s *source) releaseMachines(ctx context.Context, m *migration.Migration) error {
	var (
		reader    = s.SeedClientSet.APIReader()
		name      = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
		namespace = &corev1.Namespace{}
		machines  = &machinev1alpha1.MachineList{}
	)
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	if _, released := namespace.Annotations[annotationMachinesReleased]; released {
		return nil
	}
	if err := reader.List(ctx, machines, client.InNamespace(name)); err != nil {
		return fmt.Errorf("failed to list the machines in namespace %s: %w", name, err)
	}
	if err := s.ShootStates.CheckMachines(ctx, m.Shoot, machines.Items); err != nil {
		return err
	}

	patch := client.MergeFrom(namespace.DeepCopy())
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, annotationMachinesReleased,
		m.Clock.Now().UTC().Format(time.RFC3339))
	if err := s.SeedClientSet.Client().Patch(ctx, namespace, patch); err != nil {
		return fmt.Errorf("failed to annotate namespace %s with %s: %w", name, annotationMachinesReleased, err)
	}
	return nil
}
