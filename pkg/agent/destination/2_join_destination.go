// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
)

// prepareGraph sets everything up that the members of the destination need before they can join: whatever can be made
// ready before the first membership change is made ready here.
func (d *destination) prepareGraph(m *migration.Migration, b *botanist.Botanist, hasBackup bool) *flow.Graph {
	var (
		g       = flow.NewGraph("preparation of the destination")
		timeout = d.deps.Timings.RolloutTimeout

		_ = g.Add(flow.Task{
			Name: "Checking that the extensions of the shoot are ready in the destination",
			Fn: operation.Retry(func(ctx context.Context) error {
				return b.RequiredExtensionsReady(ctx)
			}, timeout),
		})
		base = d.addBase(g, b)
		_    = g.Add(flow.Task{
			Name: "Ensuring the shoot's cluster identity",
			Fn: operation.Retry(func(ctx context.Context) error {
				if err := b.EnsureShootClusterIdentity(ctx); err != nil {
					return err
				}
				operation.KeepLastOperation(b, gardencorev1beta1.LastOperationTypeRestore)
				return nil
			}, timeout),
			Dependencies: flow.NewTaskIDs(base.secrets, base.resources),
		})
		// The backup secret is created in the shoot's namespace, so the namespace comes first.
		restoreBackupEntry = g.Add(flow.Task{
			Name: "Restoring the backup entry",
			Fn: operation.Retry(func(ctx context.Context) error {
				return d.restoreBackupEntry(ctx, b)
			}, timeout),
			SkipIf:       !hasBackup,
			Dependencies: flow.NewTaskIDs(base.namespace),
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until the backup entry is restored",
			Fn: operation.Retry(func(ctx context.Context) error {
				return d.deps.CheckBackupEntryHere(ctx, b)
			}, timeout),
			SkipIf:       !hasBackup,
			Dependencies: flow.NewTaskIDs(restoreBackupEntry),
		})
		// The names of the source's members have to be known in the seed before an etcd of the destination is created.
		deployExposure = g.Add(flow.Task{
			Name: "Deploying the exposure between the seeds",
			Fn: operation.Retry(func(ctx context.Context) error {
				return d.deployExposure(ctx, m, b)
			}, timeout),
			Dependencies: flow.NewTaskIDs(base.secrets),
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until the exposure is ready",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return d.waitForExposure(ctx, m, b)
			}).Timeout(timeout),
			Dependencies: flow.NewTaskIDs(deployExposure),
		})
	)
	return g
}

// restoreBackupEntry assigns the backup entry to this seed and its bucket, unless that has happened already.
func (d *destination) restoreBackupEntry(ctx context.Context, b *botanist.Botanist) error {
	if err := d.deps.CheckBackupEntryHere(ctx, b); err == nil {
		return nil
	}
	return b.DeployBackupEntry(ctx)
}
