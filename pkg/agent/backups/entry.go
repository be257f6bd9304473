// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package backups is about the backups of a shoot's etcd: the entry that says in which seed's bucket they are, and what
// the etcd is told of it.
package backups

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
)

// Options are what Backups need. All of them are required.
type Options struct {
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// SeedClientSet is the client set of the agent's own seed. Its client must not be backed by a cache.
	SeedClientSet kubernetes.Interface
	// SeedName is the name of that seed.
	SeedName string
}

// Backups knows where the backups of shoots are and what of them is in the agent's own seed.
type Backups struct {
	options Options
}

// New returns Backups.
func New(options Options) (*Backups, error) {
	if err := required.Fields("the access to backups", options); err != nil {
		return nil, err
	}
	return &Backups{options: options}, nil
}

// CheckReleased reports whether the gardenlet of the seed that had the backup entry has released it. The
// seed that it goes to may already have taken it, if this is repeated.
func CheckReleased(entry *gardencorev1beta1.BackupEntry, to string) error {
	if name := ptr.Deref(entry.Spec.SeedName, ""); name != to {
		return fmt.Errorf("backup entry %s is assigned to seed %q", entry.Name, name)
	}
	if name := ptr.Deref(entry.Status.SeedName, to); name != to {
		return fmt.Errorf("backup entry %s is still managed by seed %s", entry.Name, name)
	}
	if entry.Status.SeedName == nil && !Unmanaged(entry) {
		return fmt.Errorf("backup entry %s has not been migrated yet", entry.Name)
	}
	return nil
}

// Unmanaged reports whether no gardenlet has the backup entry: the last one has released it, and nobody has
// taken it since.
func Unmanaged(entry *gardencorev1beta1.BackupEntry) bool {
	return entry.Status.SeedName == nil && migrated(entry.Status.LastOperation)
}

func migrated(lastOperation *gardencorev1beta1.LastOperation) bool {
	return lastOperation != nil && lastOperation.Type == gardencorev1beta1.LastOperationTypeMigrate &&
		lastOperation.State == gardencorev1beta1.LastOperationStateSucceeded
}

// RemoveMigrated makes sure that nothing of the backup entry is left in the agent's own seed after its
// gardenlet has released it, and returns an error as long as something is.
//
// The gardenlet (v1.150.0, migrateBackupEntry) takes an extension resource that it happens to see while its migration
// is still being processed for one that is gone: it declares the migration complete and forgets the resource. Its
// extension controller has taken the finalizers off by then, so the deletion leaves the backups alone, as the
// gardenlet's own does.
func (b *Backups) RemoveMigrated(ctx context.Context, name string) error {
	entry := &extensionsv1alpha1.BackupEntry{}
	key := client.ObjectKey{Name: name}
	if found, err := b.read(ctx, key, entry); err != nil || !found {
		return err
	}
	if !migrated(entry.Status.LastOperation) || len(entry.Finalizers) > 0 {
		return fmt.Errorf("extension resource BackupEntry %s in seed %s has not been migrated yet", name,
			b.options.SeedName)
	}
	if entry.DeletionTimestamp == nil {
		if err := gardenerutils.ConfirmDeletion(ctx, b.options.SeedClientSet.Client(), entry); err != nil {
			return fmt.Errorf("failed to confirm the deletion of extension resource BackupEntry %s: %w", name, err)
		}
		if err := client.IgnoreNotFound(b.options.SeedClientSet.Client().Delete(ctx, entry)); err != nil {
			return fmt.Errorf("failed to delete extension resource BackupEntry %s: %w", name, err)
		}
	}
	if found, err := b.read(ctx, key, entry); err != nil || !found {
		return err
	}
	return fmt.Errorf("extension resource BackupEntry %s in seed %s is being deleted", name, b.options.SeedName)
}

// Discard removes the extension's BackupEntry from the agent's own seed without its controller, which would delete the
// backups, and without a gardenlet: the entry in the garden was given to another seed while this one was lost. Nobody
// takes care of what was written into this seed's bucket.
func (b *Backups) Discard(ctx context.Context, name string) error {
	entry := &extensionsv1alpha1.BackupEntry{}
	if found, err := b.read(ctx, client.ObjectKey{Name: name}, entry); err != nil || !found {
		return err
	}
	seed := b.options.SeedClientSet.Client()
	patch := client.MergeFromWithOptions(entry.DeepCopy(), client.MergeFromWithOptimisticLock{})
	// A seed's admission webhook requires it before an extension resource may be deleted.
	metav1.SetMetaDataAnnotation(&entry.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
	entry.Finalizers = nil
	if err := seed.Patch(ctx, entry, patch); err != nil {
		return fmt.Errorf("failed to remove the finalizers of extension resource BackupEntry %s: %w", name, err)
	}
	// Without finalizers it goes at once; the precondition makes sure that no controller has put one back.
	if err := seed.Delete(ctx, entry, client.Preconditions{UID: &entry.UID,
		ResourceVersion: &entry.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete extension resource BackupEntry %s: %w", name, err)
	}
	return nil
}

// CheckHere reports whether the backup entry of the botanist's shoot is managed by the agent's own seed,
// stored in its bucket and in order, and whether the secret with the bucket's credentials is in the shoot's namespace.
func (b *Backups) CheckHere(ctx context.Context, of *botanist.Botanist) error {
	entry := &gardencorev1beta1.BackupEntry{}
	key := client.ObjectKey{Namespace: of.Shoot.GetInfo().Namespace, Name: of.Shoot.BackupEntryName}
	if err := b.options.GardenAPIReader.Get(ctx, key, entry); err != nil {
		return fmt.Errorf("failed to read backup entry %s: %w", key, err)
	}
	if err := ownership.CheckBackupEntry(entry, b.options.SeedName, string(of.Seed.GetInfo().UID)); err != nil {
		return err
	}

	secretKey := client.ObjectKey{Namespace: of.Shoot.ControlPlaneNamespace, Name: v1beta1constants.BackupSecretName}
	if err := b.options.SeedClientSet.APIReader().Get(ctx, secretKey, &corev1.Secret{}); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("backup secret %s does not exist yet", secretKey)
		}
		return fmt.Errorf("failed to read backup secret %s: %w", secretKey, err)
	}
	return nil
}

// read reads an extension resource in the seed and reports whether it is there.
func (b *Backups) read(
	ctx context.Context, key client.ObjectKey, entry *extensionsv1alpha1.BackupEntry,
) (bool, error) {
	if err := b.options.SeedClientSet.APIReader().Get(ctx, key, entry); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("failed to read %T %s: %w", entry, key, err)
	}
	return true, nil
}
