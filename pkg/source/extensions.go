// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/operation"
	"github.com/livecpm/livecpm/pkg/steps"
)

// migrateExtensions hands the extensions that act before the kube-apiserver over: their controllers let go of what they
// manage outside of the seed, and their state moves to the ShootState. The destination restores them before it starts
// its kube-apiserver.
func (s *source) migrateExtensions(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	b, err := s.deps.NewBotanist(ctx, m.Log, m.Shoot, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := operation.RunFlow(ctx, m, steps.ReasonMigratingExtensions, s.extensionsGraph(m, b)); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Extensions that act before the kube-apiserver are migrated and their state is persisted"), nil
}

func (s *source) extensionsGraph(m *migration.Migration, b *botanist.Botanist) *flow.Graph {
	var (
		g       = flow.NewGraph("migration of extensions before kube-apiserver")
		timeout = s.deps.Timings.RolloutTimeout

		migrate = g.Add(flow.Task{
			Name: "Migrating extensions before kube-apiserver",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.Shoot.Components.Extensions.Extension.MigrateBeforeKubeAPIServer(ctx)
			}, timeout),
		})
		waitUntilMigrated = g.Add(flow.Task{
			Name: "Waiting until extensions before kube-apiserver are migrated",
			Fn: func(ctx context.Context) error {
				return b.Shoot.Components.Extensions.Extension.WaitMigrateBeforeKubeAPIServer(ctx)
			},
			Dependencies: flow.NewTaskIDs(migrate),
		})
		persistState = g.Add(flow.Task{
			Name: "Persisting the state of extensions before kube-apiserver",
			Fn: func(ctx context.Context) error {
				return s.deps.PersistShootState(ctx, m.Shoot, b.Shoot.ControlPlaneNamespace, false)
			},
			Dependencies: flow.NewTaskIDs(waitUntilMigrated),
		})
		destroy = g.Add(flow.Task{
			Name: "Deleting extensions before kube-apiserver",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.Shoot.Components.Extensions.Extension.DestroyBeforeKubeAPIServer(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(persistState),
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until extensions before kube-apiserver are deleted",
			Fn: func(ctx context.Context) error {
				return b.Shoot.Components.Extensions.Extension.WaitCleanupBeforeKubeAPIServer(ctx)
			},
			Dependencies: flow.NewTaskIDs(destroy),
		})
	)
	return g
}
