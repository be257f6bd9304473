// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package formerbackups

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Reconciler creates the backup entry that an agent asks for.
type Reconciler struct {
	// Client writes to the garden.
	Client client.Client
	// APIReader reads from the garden without a cache.
	APIReader client.Reader
	// Clock tells how long ago a seed was abandoned.
	Clock clock.PassiveClock
}

// Reconcile creates the backup entry of a Shoot's former backups if an agent asks for it and there is none.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := r.APIReader.Get(ctx, request.NamespacedName, shoot); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if Kept(shoot) {
		return r.release(ctx, shoot)
	}
	if !Asked(shoot) {
		return reconcile.Result{}, nil
	}
	name, err := gardenerutils.GenerateBackupEntryName(v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
		shoot.Status.UID, shoot.UID)
	if err != nil {
		return reconcile.Result{},
			fmt.Errorf("failed to tell the name of the backup entry of Shoot %s: %w", request.NamespacedName, err)
	}
	key := client.ObjectKey{Namespace: shoot.Namespace,
		Name: fmt.Sprintf("%s-%s", v1beta1constants.BackupSourcePrefix, name)}
	if err := r.APIReader.Get(ctx, key, &gardencorev1beta1.BackupEntry{}); !apierrors.IsNotFound(err) {
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("failed to read BackupEntry %s: %w", key, err)
		}
		return reconcile.Result{}, nil
	}

	// Only now: an agent takes its request away before it deletes the entry, so one that has been deleted is not asked
	// for.
	if err := r.APIReader.Get(ctx, request.NamespacedName, shoot); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	holder, former, asked := steps.FormerBackups(shoot)
	if !asked {
		return reconcile.Result{}, nil
	}
	bucket, err := r.formerBucket(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: name}, holder, former)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Client.Create(ctx, formerEntry(shoot, key, holder, bucket)); client.IgnoreAlreadyExists(err) != nil {
		return reconcile.Result{},
			fmt.Errorf("failed to create BackupEntry %s for the backups in the bucket of seed %s: %w", key, former, err)
	}
	logf.FromContext(ctx).Info("Created the backup entry of former backups", "backupEntry", key, "seed", holder,
		"formerSeed", former)
	return reconcile.Result{}, nil
}

// formerBucket returns the bucket of the former seed. What is in it is going to be deleted, so the shoot's own backups,
// which are those of the backup entry with the given key, must be elsewhere, in the hands of the seed that asks.
func (r *Reconciler) formerBucket(ctx context.Context, key client.ObjectKey, holder, former string) (string, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: former}, seed); err != nil {
		return "", fmt.Errorf("failed to read Seed %s: %w", former, err)
	}
	bucket := string(seed.UID)

	own := &gardencorev1beta1.BackupEntry{}
	if err := r.APIReader.Get(ctx, key, own); err != nil {
		return "", fmt.Errorf("failed to read BackupEntry %s: %w", key, err)
	}
	if own.Spec.BucketName == bucket || ptr.Deref(own.Spec.SeedName, "") != holder ||
		ptr.Deref(own.Status.SeedName, "") != holder {
		return "", fmt.Errorf("the backups in the bucket of seed %s are not deleted: BackupEntry %s is not managed "+
			"by seed %s in another bucket", former, key, holder)
	}
	return bucket, nil
}

// formerEntry returns the backup entry as Gardener makes it in a classic migration. The agent brings the rest.
func formerEntry(
	shoot *gardencorev1beta1.Shoot, key client.ObjectKey, seedName, bucket string,
) *gardencorev1beta1.BackupEntry {
	owner := metav1.NewControllerRef(shoot, gardencorev1beta1.SchemeGroupVersion.WithKind("Shoot"))
	owner.BlockOwnerDeletion = ptr.To(false)
	entry := &gardencorev1beta1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{*owner}},
		Spec: gardencorev1beta1.BackupEntrySpec{BucketName: bucket, SeedName: &seedName},
	}
	if shoot.Spec.Purpose != nil {
		metav1.SetMetaDataAnnotation(&entry.ObjectMeta, v1beta1constants.ShootPurpose, string(*shoot.Spec.Purpose))
	}
	return entry
}
