// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// CheckBackupEntryReleased reports whether the gardenlet of the seed that had the backup entry has released it. The
// seed that it goes to may already have taken it, if this is repeated.
func CheckBackupEntryReleased(entry *gardencorev1beta1.BackupEntry, to string) error {
	if name := ptr.Deref(entry.Spec.SeedName, ""); name != to {
		return fmt.Errorf("backup entry %s is assigned to seed %q", entry.Name, name)
	}
	if name := ptr.Deref(entry.Status.SeedName, to); name != to {
		return fmt.Errorf("backup entry %s is still managed by seed %s", entry.Name, name)
	}
	if entry.Status.SeedName == nil && !BackupEntryUnmanaged(entry) {
		return fmt.Errorf("backup entry %s has not been migrated yet", entry.Name)
	}
	return nil
}

// BackupEntryUnmanaged reports whether no gardenlet has the backup entry: the last one has released it, and nobody has
// taken it since.
func BackupEntryUnmanaged(entry *gardencorev1beta1.BackupEntry) bool {
	return entry.Status.SeedName == nil && migrated(entry.Status.LastOperation)
}

func migrated(lastOperation *gardencorev1beta1.LastOperation) bool {
	return lastOperation != nil && lastOperation.Type == gardencorev1beta1.LastOperationTypeMigrate &&
		lastOperation.State == gardencorev1beta1.LastOperationStateSucceeded
}

// RemoveMigratedBackupEntry makes sure that nothing of the backup entry is left in the agent's own seed after its
// gardenlet has released it, and returns an error as long as something is.
//
// The gardenlet (v1.150.0, migrateBackupEntry) takes an extension resource that it happens to see while its migration
// is still being processed for one that is gone: it declares the migration complete and forgets the resource. Its
// extension controller has taken the finalizers off by then, so the deletion leaves the backups alone, as the
// gardenlet's own does.
func (d *Deps) RemoveMigratedBackupEntry(ctx context.Context, name string) error {
	entry := &extensionsv1alpha1.BackupEntry{}
	found, err := Exists(ctx, d.SeedClientSet.APIReader(), client.ObjectKey{Name: name}, entry)
	if err != nil || !found {
		return err
	}
	if !migrated(entry.Status.LastOperation) || len(entry.Finalizers) > 0 {
		return fmt.Errorf("extension resource BackupEntry %s in seed %s has not been migrated yet", name, d.SeedName())
	}
	if entry.DeletionTimestamp == nil {
		if err := gardenerutils.ConfirmDeletion(ctx, d.SeedClientSet.Client(), entry); err != nil {
			return fmt.Errorf("failed to confirm the deletion of extension resource BackupEntry %s: %w", name, err)
		}
		if err := client.IgnoreNotFound(d.SeedClientSet.Client().Delete(ctx, entry)); err != nil {
			return fmt.Errorf("failed to delete extension resource BackupEntry %s: %w", name, err)
		}
	}
	if found, err = Exists(ctx, d.SeedClientSet.APIReader(), client.ObjectKey{Name: name}, entry); err != nil ||
		!found {
		return err
	}
	return fmt.Errorf("extension resource BackupEntry %s in seed %s is being deleted", name, d.SeedName())
}

// CheckBackupEntryHere reports whether the backup entry of the botanist's shoot is managed by the agent's own seed,
// stored in its bucket and in order, and whether the secret with the bucket's credentials is in the shoot's namespace.
func (d *Deps) CheckBackupEntryHere(ctx context.Context, b *botanist.Botanist) error {
	entry := &gardencorev1beta1.BackupEntry{}
	key := client.ObjectKey{Namespace: b.Shoot.GetInfo().Namespace, Name: b.Shoot.BackupEntryName}
	if err := d.GardenAPIReader.Get(ctx, key, entry); err != nil {
		return fmt.Errorf("failed to read backup entry %s: %w", key, err)
	}
	if err := ownership.CheckBackupEntry(entry, d.SeedName(), string(b.Seed.GetInfo().UID)); err != nil {
		return err
	}

	secretKey := client.ObjectKey{Namespace: b.Shoot.ControlPlaneNamespace, Name: v1beta1constants.BackupSecretName}
	if err := d.SeedClientSet.APIReader().Get(ctx, secretKey, &corev1.Secret{}); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("backup secret %s does not exist yet", secretKey)
		}
		return fmt.Errorf("failed to read backup secret %s: %w", secretKey, err)
	}
	return nil
}

// DeleteBackups deletes the shoot's backups in the bucket of a seed that it has left. They go the way that they go in a
// classic migration: through a backup entry of its own that is managed by the agent's seed.
//
// Gardener's SeedRestriction lets a seed create such an entry only while the last operation is a restoration, and only
// before the shoot's own backup entry has got its new bucket. Neither is so in a live migration. Where it refuses, the
// entry is asked for from livecpm-controller-manager, which is not bound to a seed; everything else the seed authorizer
// lets the agent do itself.
func DeleteBackups(ctx context.Context, b *botanist.Botanist, bucketName string) error {
	entry := b.Shoot.Components.SourceBackupEntry
	entry.SetBucketName(bucketName)
	if err := entry.Deploy(ctx); err != nil {
		if apierrors.IsForbidden(err) {
			return errors.Join(
				fmt.Errorf("the backup entry of the former seed's backups is awaited from "+
					"livecpm-controller-manager, because this seed may not create it: %w", err),
				askForFormerBackups(ctx, b, true),
			)
		}
		return fmt.Errorf("failed to deploy the backup entry of the former seed's backups: %w", err)
	}
	if err := entry.Wait(ctx); err != nil {
		return fmt.Errorf("failed to wait for the backup entry of the former seed's backups: %w", err)
	}
	// Not after the deletion: whoever finds that the entry is gone must not find it asked for any more.
	if err := askForFormerBackups(ctx, b, false); err != nil {
		return err
	}
	if err := b.DestroySourceBackupEntry(ctx); err != nil {
		return fmt.Errorf("failed to delete the backup entry of the former seed's backups: %w", err)
	}
	if err := entry.WaitCleanup(ctx); err != nil {
		return fmt.Errorf("failed to wait until the former seed's backups are deleted: %w", err)
	}
	return nil
}

// askForFormerBackups sets the annotation by which livecpm-controller-manager is asked for the backup entry, or takes
// it away. The patch has nothing but the annotation: the botanist's copy of the Shoot pretends another last operation.
func askForFormerBackups(ctx context.Context, b *botanist.Botanist, ask bool) error {
	value := "null"
	if ask {
		value = `"true"`
	}
	info := b.Shoot.GetInfo()
	shoot := &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: info.Namespace, Name: info.Name}}
	patch := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, steps.AnnotationDeleteFormerBackups, value))
	if err := b.GardenClient.Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to patch annotation %s of Shoot %s: %w", steps.AnnotationDeleteFormerBackups,
			client.ObjectKeyFromObject(info), err)
	}
	return nil
}
