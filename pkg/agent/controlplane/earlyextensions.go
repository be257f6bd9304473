// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/go-logr/logr"

	"github.com/livecpm/livecpm/pkg/agent/flows"
)

// EarlyExtensions is how a flow hands the extensions that act before the kube-apiserver over to the other seed: the
// source does that in a migration, the destination in an abort.
type EarlyExtensions struct {
	// Log is the log.
	Log logr.Logger
	// Namespace is the shoot's namespace.
	Namespace string
	// Needed tells which extensions these are.
	Needed func(obj extensionsv1alpha1.Object) bool
	// Persist saves the state of the migrated extensions in the ShootState. Without it, nobody needs their state.
	Persist func(ctx context.Context) error
	// After is what the flow does before.
	After flow.TaskIDs
}

// AddEarlyExtensions adds their migration and returns the task after which nothing of them is left in the seed. Their
// controllers release what they manage outside of the seed; the state is saved before the objects go.
func (c *ControlPlane) AddEarlyExtensions(g *flow.Graph, early EarlyExtensions) flow.TaskID {
	var (
		timeout  = c.options.Timings.RolloutTimeout
		interval = c.options.Timings.PollInterval
		seed     = c.options.SeedClientSet.Client()

		migrate = g.Add(flow.Task{
			Name: "Migrating extensions before kube-apiserver",
			Fn: flows.Retry(func(ctx context.Context) error {
				return extensions.MigrateExtensionObjects(ctx, seed, &extensionsv1alpha1.ExtensionList{},
					early.Namespace, early.Needed)
			}, timeout),
			Dependencies: early.After,
		})
		waitUntilMigrated = g.Add(flow.Task{
			Name: "Waiting until extensions before kube-apiserver are migrated",
			Fn: func(ctx context.Context) error {
				return extensions.WaitUntilExtensionObjectsMigrated(ctx, seed, &extensionsv1alpha1.ExtensionList{},
					extensionsv1alpha1.ExtensionResource, early.Namespace, interval, timeout, early.Needed)
			},
			Dependencies: flow.NewTaskIDs(migrate),
		})
		persistState = g.Add(flow.Task{
			Name:         "Persisting the state of extensions before kube-apiserver",
			Fn:           early.Persist,
			SkipIf:       early.Persist == nil,
			Dependencies: flow.NewTaskIDs(waitUntilMigrated),
		})
		destroy = g.Add(flow.Task{
			Name: "Deleting extensions before kube-apiserver",
			Fn: flows.Retry(func(ctx context.Context) error {
				return extensions.DeleteExtensionObjects(ctx, seed, &extensionsv1alpha1.ExtensionList{},
					early.Namespace, early.Needed)
			}, timeout),
			Dependencies: flow.NewTaskIDs(persistState),
		})
	)
	return g.Add(flow.Task{
		Name: "Waiting until extensions before kube-apiserver are deleted",
		Fn: func(ctx context.Context) error {
			return extensions.WaitUntilExtensionObjectsDeleted(ctx, seed, early.Log,
				&extensionsv1alpha1.ExtensionList{}, extensionsv1alpha1.ExtensionResource, early.Namespace, interval,
				timeout, early.Needed)
		},
		Dependencies: flow.NewTaskIDs(destroy),
	})
}
