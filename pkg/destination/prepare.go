// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/operation"
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
				return d.backupEntryRestored(ctx, b)
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
	if err := d.backupEntryRestored(ctx, b); err == nil {
		return nil
	}
	return b.DeployBackupEntry(ctx)
}

func (d *destination) backupEntryRestored(ctx context.Context, b *botanist.Botanist) error {
	entry := &gardencorev1beta1.BackupEntry{}
	key := client.ObjectKey{Namespace: b.Shoot.GetInfo().Namespace, Name: b.Shoot.BackupEntryName}
	if err := d.deps.GardenAPIReader.Get(ctx, key, entry); err != nil {
		return fmt.Errorf("failed to read backup entry %s: %w", key, err)
	}
	if err := checkBackupEntry(entry, d.deps.SeedName(), string(b.Seed.GetInfo().UID)); err != nil {
		return err
	}

	secretKey := client.ObjectKey{Namespace: b.Shoot.ControlPlaneNamespace, Name: v1beta1constants.BackupSecretName}
	if err := d.deps.SeedClientSet.APIReader().Get(ctx, secretKey, &corev1.Secret{}); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("backup secret %s does not exist yet", secretKey)
		}
		return fmt.Errorf("failed to read backup secret %s: %w", secretKey, err)
	}
	return nil
}

// checkBackupEntry tells whether the backup entry is managed by the seed, stored in the seed's bucket and in order.
func checkBackupEntry(entry *gardencorev1beta1.BackupEntry, seedName, bucketName string) error {
	if name := ptr.Deref(entry.Spec.SeedName, ""); name != seedName {
		return fmt.Errorf("backup entry %s is assigned to seed %q", entry.Name, name)
	}
	if name := ptr.Deref(entry.Status.SeedName, ""); name != seedName {
		return fmt.Errorf("backup entry %s is managed by seed %q", entry.Name, name)
	}
	if entry.Spec.BucketName != bucketName {
		return fmt.Errorf("backup entry %s is stored in bucket %s", entry.Name, entry.Spec.BucketName)
	}
	if operation, ok := entry.Annotations[v1beta1constants.GardenerOperation]; ok {
		return fmt.Errorf("operation %q of backup entry %s has not been picked up yet", operation, entry.Name)
	}
	if entry.Status.ObservedGeneration != entry.Generation {
		return fmt.Errorf("backup entry %s has not been observed in its latest generation", entry.Name)
	}
	lastOperation := entry.Status.LastOperation
	if lastOperation == nil || lastOperation.Type == gardencorev1beta1.LastOperationTypeMigrate || lastOperation.State != gardencorev1beta1.LastOperationStateSucceeded {
		return fmt.Errorf("backup entry %s has not been restored yet", entry.Name)
	}
	return nil
}
