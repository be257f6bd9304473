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
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
)

// annotationMachinesReleased stands on the shoot's namespace in the source from when the ShootState is known to have
// all machines. From then on their objects go, one by one. An agent that takes over in the middle of it must not save
// what is left of them: the destination would take the others for machines that are still to be created.
const annotationMachinesReleased = "livecpm.gardener.cloud/machines-released"

// addWorkersCleanup adds what releases the machines and what is on them, up to the point at which the state of all
// of it can be saved. The order is that of a classic migration, with two additions: the dependency-watchdog loses sight
// of the shoot, and cluster-autoscaler is gone first.
func (s *source) addWorkersCleanup(
	g *flow.Graph, m *migration.Migration, b *botanist.Botanist, skip bool, dependencies flow.TaskIDs,
) flow.TaskID {
	var (
		timeout   = s.deps.Timings.RolloutTimeout
		interval  = s.deps.Timings.PollInterval
		namespace = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

		// It would take the end of the source's kube-apiserver for an outage of the nodes' network.
		blindWatchdog = g.Add(flow.Task{
			Name: "Taking its access to the shoot from the dependency-watchdog",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.Shoot.Components.DependencyWatchdogAccess.Destroy(ctx)
			}, timeout),
			SkipIf:       skip,
			Dependencies: dependencies,
		})
		stopAutoscaler = g.Add(flow.Task{
			Name: "Stopping the cluster-autoscaler",
			Fn: func(ctx context.Context) error {
				return operation.DeleteDeployments(ctx, s.deps.SeedClientSet.Client(), namespace, interval, timeout,
					v1beta1constants.DeploymentNameClusterAutoscaler)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(blindWatchdog),
		})
		stopMachineControllerManager = g.Add(flow.Task{
			Name: "Stopping the machine-controller-manager",
			Fn: func(ctx context.Context) error {
				// The component's own deletion does not wait for the pods. As long as one runs, it creates and deletes
				// machines.
				if err := operation.DeleteDeployments(ctx, s.deps.SeedClientSet.Client(), namespace, interval, timeout,
					v1beta1constants.DeploymentNameMachineControllerManager); err != nil {
					return err
				}
				if err := b.Shoot.Components.ControlPlane.MachineControllerManager.Destroy(ctx); err != nil {
					return err
				}
				return b.Shoot.Components.ControlPlane.MachineControllerManager.WaitCleanup(ctx)
			},
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(stopAutoscaler),
		})
		migrate = g.Add(flow.Task{
			Name: "Migrating workers, network, operating system configs and container runtimes",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.MigrateExtensionResourcesInParallel(ctx)
			}, timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(stopMachineControllerManager),
		})
	)
	return g.Add(flow.Task{
		Name: "Waiting until workers, network, operating system configs and container runtimes are migrated",
		Fn: func(ctx context.Context) error {
			return b.WaitUntilExtensionResourcesMigrated(ctx)
		},
		SkipIf:       skip,
		Dependencies: flow.NewTaskIDs(migrate),
	})
}

// addWorkersDeletion adds the deletion of what addWorkersCleanup has migrated, once its state is saved. Machines and
// their like go without their finalizers, so nobody deletes what they stand for.
func (s *source) addWorkersDeletion(
	g *flow.Graph, m *migration.Migration, b *botanist.Botanist, skip bool, dependencies flow.TaskIDs,
) flow.TaskID {
	var (
		timeout   = s.deps.Timings.RolloutTimeout
		namespace = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

		releaseMachines = g.Add(flow.Task{
			Name: "Checking that the ShootState has all machines",
			Fn: operation.Retry(func(ctx context.Context) error {
				return s.releaseMachines(ctx, m)
			}, timeout),
			SkipIf:       skip,
			Dependencies: dependencies,
		})
		deleteMachines = g.Add(flow.Task{
			Name: "Deleting the objects of machines and leaving the machines alone",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.ShallowDeleteMachineResources(ctx)
			}, timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(releaseMachines),
		})
		machinesDeleted = g.Add(flow.Task{
			Name: "Waiting until the objects of machines are deleted",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return gardenerutils.WaitUntilMachineResourcesDeleted(ctx, m.Log, s.deps.SeedClientSet.Client(),
					namespace)
			}).Timeout(timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(deleteMachines),
		})
		destroy = g.Add(flow.Task{
			Name: "Deleting workers, network, operating system configs and container runtimes",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.DestroyExtensionResourcesInParallel(ctx)
			}, timeout),
			SkipIf:       skip,
			Dependencies: flow.NewTaskIDs(machinesDeleted),
		})
	)
	return g.Add(flow.Task{
		Name: "Waiting until workers, network, operating system configs and container runtimes are deleted",
		Fn: func(ctx context.Context) error {
			return b.WaitUntilExtensionResourcesDeleted(ctx)
		},
		SkipIf:       skip,
		Dependencies: flow.NewTaskIDs(destroy),
	})
}

// addControlPlaneCleanup adds the migration of what the provider runs in the shoot's namespace:
// cloud-controller-manager and CSI controllers. Upstream does not wait for its migration and does not save its state
// again; both cost next to nothing.
func (s *source) addControlPlaneCleanup(
	g *flow.Graph, m *migration.Migration, b *botanist.Botanist, skip bool, dependencies flow.TaskIDs,
) flow.TaskID {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

	migrate := g.Add(flow.Task{
		Name: "Migrating the provider's part of the control plane",
		Fn: func(ctx context.Context) error {
			if err := b.Shoot.Components.Extensions.ControlPlane.Migrate(ctx); err != nil {
				return err
			}
			return b.Shoot.Components.Extensions.ControlPlane.WaitMigrate(ctx)
		},
		SkipIf:       skip,
		Dependencies: dependencies,
	})
	persist := g.Add(flow.Task{
		Name: "Persisting the state of the provider's part of the control plane",
		Fn: func(ctx context.Context) error {
			return s.deps.PersistShootState(ctx, m.Shoot, namespace, false)
		},
		SkipIf:       skip,
		Dependencies: flow.NewTaskIDs(migrate),
	})
	return g.Add(flow.Task{
		Name: "Deleting the provider's part of the control plane",
		Fn: func(ctx context.Context) error {
			if err := b.Shoot.Components.Extensions.ControlPlane.Destroy(ctx); err != nil {
				return err
			}
			return b.Shoot.Components.Extensions.ControlPlane.WaitCleanup(ctx)
		},
		SkipIf:       skip,
		Dependencies: flow.NewTaskIDs(persist),
	})
}

// releaseMachines makes sure that the ShootState names every machine, and remembers that it did so.
func (s *source) releaseMachines(ctx context.Context, m *migration.Migration) error {
	var (
		reader    = s.deps.SeedClientSet.APIReader()
		name      = v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
		namespace = &corev1.Namespace{}
		machines  = &machinev1alpha1.MachineList{}
		state     = &gardencorev1beta1.ShootState{}
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
	if err := s.deps.GardenAPIReader.Get(ctx, client.ObjectKeyFromObject(m.Shoot), state); err != nil {
		return fmt.Errorf("failed to read ShootState %s: %w", client.ObjectKeyFromObject(m.Shoot), err)
	}
	if err := checkMachineState(state, machines.Items); err != nil {
		return err
	}

	patch := client.MergeFrom(namespace.DeepCopy())
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, annotationMachinesReleased,
		s.deps.Clock.Now().UTC().Format(time.RFC3339))
	if err := s.deps.SeedClientSet.Client().Patch(ctx, namespace, patch); err != nil {
		return fmt.Errorf("failed to annotate namespace %s with %s: %w", name, annotationMachinesReleased, err)
	}
	return nil
}

// checkMachineState returns an error unless the ShootState has all of the machines. machine-controller-manager is
// stopped by then, so there are no others to come.
func checkMachineState(state *gardencorev1beta1.ShootState, machines []machinev1alpha1.Machine) error {
	if len(machines) == 0 {
		return nil
	}
	key := client.ObjectKeyFromObject(state)

	all := v1beta1helper.GardenerResourceDataList(state.Spec.Gardener)
	data := all.Get(v1beta1constants.DataTypeMachineState)
	if data == nil {
		return fmt.Errorf("ShootState %s has no state of machines, but there are %d of them", key, len(machines))
	}
	saved, err := shootstate.UnmarshalMachineState(data.Data.Raw)
	if err != nil {
		return fmt.Errorf("failed to decode the state of machines in ShootState %s: %w", key, err)
	}

	found := sets.New[string]()
	for _, deployment := range saved.MachineDeployments {
		for _, machine := range deployment.Machines {
			found.Insert(machine.Name)
		}
	}
	missing := sets.New[string]()
	for _, machine := range machines {
		if !found.Has(machine.Name) {
			missing.Insert(machine.Name)
		}
	}
	if missing.Len() > 0 {
		return fmt.Errorf("ShootState %s lacks machines %s: nothing of them is deleted; see whether they belong to a "+
			"MachineDeployment", key, strings.Join(sets.List(missing), ", "))
	}
	return nil
}
