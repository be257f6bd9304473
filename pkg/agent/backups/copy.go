// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component/etcd/copybackupstask"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
)

// CopyFormer copies the shoot's backups in the bucket of the seed that it has left into that of the agent's seed, as a
// classic migration does: a job of etcd-druid copies all that the other bucket has and this one has not. Call it only
// if steps.MixingObstacle permits, and when a full snapshot is in this bucket. It can be repeated, and copies then what
// is missing.
//
// Where the deletion has begun, they have been copied before it.
func CopyFormer(ctx context.Context, b *botanist.Botanist, bucketName string) error {
	switch entry, err := b.Shoot.Components.SourceBackupEntry.Get(ctx); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("failed to read the backup entry of the former seed's backups: %w", err)
	case err == nil && entry.DeletionTimestamp != nil:
		return nil
	}
	if err := openFormer(ctx, b, bucketName); err != nil {
		return err
	}
	task := copyTask(b)
	b.Shoot.Components.ControlPlane.EtcdCopyBackupsTask = task
	if err := b.DeployEtcdCopyBackupsTask(ctx); err != nil {
		return fmt.Errorf("failed to start to copy the former seed's backups: %w", err)
	}
	if err := task.Wait(ctx); err != nil {
		return fmt.Errorf("failed to wait until the former seed's backups are copied: %w", err)
	}
	return endCopy(ctx, b)
}

// copyTask returns the task as the botanist has it, but for the wait: Gardener's looks for the last snapshot that the
// source takes before it stops. Here the source has stopped before.
func copyTask(b *botanist.Botanist) copybackupstask.Interface {
	return copybackupstask.New(b.Logger, b.SeedClientSet.Client(), &copybackupstask.Values{
		Name: b.Shoot.GetInfo().Name, Namespace: b.Shoot.ControlPlaneNamespace,
	}, copybackupstask.DefaultInterval, copybackupstask.DefaultSevereThreshold, copybackupstask.DefaultTimeout)
}

// endCopy removes the task with its job, whether it has come to its end or not.
func endCopy(ctx context.Context, b *botanist.Botanist) error {
	task := copyTask(b)
	if err := task.Destroy(ctx); err != nil {
		return fmt.Errorf("failed to delete the task that copies the former seed's backups: %w", err)
	}
	if err := task.WaitCleanup(ctx); err != nil {
		return fmt.Errorf("failed to wait until the task is deleted that copies the former seed's backups: %w", err)
	}
	return nil
}

// KeepFormer gives up the access to the shoot's backups in the bucket of the seed that it has left, and leaves them
// there. The backup entry must not stay: the gardenlet would delete it with the backups when it restores a shoot with
// workers, and a later classic migration would take it for its own and restore the shoot from these old backups.
//
// The gardenlet deletes backups when it sees an entry that is being deleted and has its finalizer, so that goes first.
// What the entry stood for in this seed goes without a controller (Discard), and so do the credentials of the other
// bucket.
func (b *Backups) KeepFormer(ctx context.Context, of *botanist.Botanist) error {
	// At first: the entry may be created as long as it is asked for.
	if err := stopAsking(ctx, of); err != nil {
		return err
	}
	if err := endCopy(ctx, of); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s", v1beta1constants.BackupSourcePrefix, of.Shoot.BackupEntryName)
	if err := b.forgetEntry(ctx, of, name); err != nil {
		return err
	}
	if err := b.Discard(ctx, name); err != nil {
		return err
	}
	for _, key := range []client.ObjectKey{
		{Namespace: v1beta1constants.GardenNamespace, Name: "entry-" + name},
		{Namespace: of.Shoot.ControlPlaneNamespace,
			Name: fmt.Sprintf("%s-%s", v1beta1constants.BackupSourcePrefix, v1beta1constants.BackupSecretName)},
	} {
		if err := b.deleteCredentials(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// forgetEntry removes the backup entry from the garden without the gardenlet.
func (b *Backups) forgetEntry(ctx context.Context, of *botanist.Botanist, name string) error {
	entry := &gardencorev1beta1.BackupEntry{}
	key := client.ObjectKey{Namespace: of.Shoot.GetInfo().Namespace, Name: name}
	if err := b.options.GardenAPIReader.Get(ctx, key, entry); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to read BackupEntry %s: %w", key, err)
	}
	if entry.DeletionTimestamp != nil {
		return fmt.Errorf("BackupEntry %s is being deleted, and the backups with it", key)
	}
	patch := client.MergeFromWithOptions(entry.DeepCopy(), client.MergeFromWithOptimisticLock{})
	entry.Finalizers = nil
	if err := of.GardenClient.Patch(ctx, entry, patch); err != nil {
		return fmt.Errorf("failed to remove the finalizers of BackupEntry %s: %w", key, err)
	}
	// Without finalizers it goes at once; the precondition makes sure that the gardenlet has not put its own back.
	if err := of.GardenClient.Delete(ctx, entry, client.Preconditions{UID: &entry.UID,
		ResourceVersion: &entry.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete BackupEntry %s: %w", key, err)
	}
	return nil
}

// deleteCredentials deletes a secret with the credentials of the other seed's bucket. The extension's controller has
// put a finalizer on one of them, and takes it away with the resource only.
func (b *Backups) deleteCredentials(ctx context.Context, key client.ObjectKey) error {
	secret := &corev1.Secret{}
	if err := b.options.SeedClientSet.APIReader().Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("failed to read Secret %s: %w", key, err)
	}
	seed := b.options.SeedClientSet.Client()
	if len(secret.Finalizers) > 0 {
		patch := client.MergeFrom(secret.DeepCopy())
		secret.Finalizers = nil
		if err := seed.Patch(ctx, secret, patch); err != nil {
			return fmt.Errorf("failed to remove the finalizers of Secret %s: %w", key, err)
		}
	}
	if err := seed.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete Secret %s: %w", key, err)
	}
	return nil
}
