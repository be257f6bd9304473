// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package formerbackups

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// lookAgain is the pause between two looks at an abandonment whose backup entry may still change hands.
	lookAgain = 10 * time.Second
	// patience is how long a gardenlet that still answers gets to release the entry by itself. Only livecpm's agent may
	// be lost. A gardenlet takes seconds; the extension's controller beside it may be lost as well.
	patience = 2 * time.Minute
)

// Kept reports whether the object is a Shoot whose backup entry a seed may keep that was abandoned: the source has
// taken the seed's members out of the etcds, and has not come to its end.
func Kept(object client.Object) bool {
	shoot, ok := object.(*gardencorev1beta1.Shoot)
	return ok && steps.AbortDue(shoot) && steps.Abandoned(steps.Conditions(shoot))
}

// release gives a backup entry that a lost seed has to the source, as if the gardenlet of that seed had released it:
// the source's agent takes it from there. Only the gardenlet that has an entry may change it, and that one does not
// answer any more. Nothing in any bucket is touched.
func (r *Reconciler) release(ctx context.Context, shoot *gardencorev1beta1.Shoot) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: lookAgain}
	source, destination, _ := steps.Seeds(shoot)
	name, err := gardenerutils.GenerateBackupEntryName(v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
		shoot.Status.UID, shoot.UID)
	if err != nil {
		return reconcile.Result{},
			fmt.Errorf("failed to tell the name of the backup entry of Shoot %s: %w", client.ObjectKeyFromObject(shoot),
				err)
	}
	entry, key := &gardencorev1beta1.BackupEntry{}, client.ObjectKey{Namespace: shoot.Namespace, Name: name}
	if err := r.APIReader.Get(ctx, key, entry); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return again, nil
		}
		return reconcile.Result{}, fmt.Errorf("failed to read BackupEntry %s: %w", key, err)
	}
	assigned, managed := ptr.Deref(entry.Spec.SeedName, ""), ptr.Deref(entry.Status.SeedName, "")
	if assigned != destination && managed != destination && !(managed == "" && releasing(entry)) {
		return again, nil
	}

	if managed == source {
		// The source was about to release it when the migration was aborted, and its gardenlet brings that to its end.
		return again, nil
	}
	// A seed that is neither of the two has nothing to do with this migration.
	if assigned != destination && assigned != source || managed != destination && managed != "" {
		return reconcile.Result{}, fmt.Errorf("BackupEntry %s is not taken from seed %s, which was abandoned: it is "+
			"assigned to seed %q and managed by seed %q", key, destination, assigned, managed)
	}
	if err := r.assign(ctx, entry, source); err != nil {
		return reconcile.Result{}, err
	}
	if alive, err := r.releasesByItself(ctx, shoot, destination); err != nil || alive {
		return again, err
	}
	patch := client.MergeFromWithOptions(entry.DeepCopy(), client.MergeFromWithOptimisticLock{})
	entry.Status.SeedName = nil
	entry.Status.LastError = nil
	entry.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type: gardencorev1beta1.LastOperationTypeMigrate, State: gardencorev1beta1.LastOperationStateSucceeded,
		Progress: 100, LastUpdateTime: metav1.Now(),
		Description: fmt.Sprintf("Taken from seed %s, which was abandoned in a live migration", destination),
	}
	if err := r.Client.Status().Patch(ctx, entry, patch); err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to release BackupEntry %s from seed %s: %w", key, destination,
			err)
	}
	logf.FromContext(ctx).Info("Took the backup entry from a seed that was abandoned", "backupEntry", key, "seed",
		destination, "assignedTo", source)
	return again, nil
}

// releasing reports whether the entry is in the middle of being released. If no seed manages it then, the gardenlet of
// the lost seed has answered after all, and has written over what it could not know yet.
func releasing(entry *gardencorev1beta1.BackupEntry) bool {
	operation := entry.Status.LastOperation
	return operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeMigrate &&
		operation.State != gardencorev1beta1.LastOperationStateSucceeded
}

// releasesByItself reports whether the gardenlet of the seed answers, and has not had its time yet to release what is
// assigned to another seed.
func (r *Reconciler) releasesByItself(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, seedName string,
) (bool, error) {
	abandoned := v1beta1helper.GetCondition(steps.Conditions(shoot),
		gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined)
	if abandoned != nil && r.Clock.Since(abandoned.LastTransitionTime.Time) >= patience {
		return false, nil
	}
	seed := &gardencorev1beta1.Seed{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: seedName}, seed); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("failed to read Seed %s: %w", seedName, err)
	}
	ready := v1beta1helper.GetCondition(seed.Status.Conditions, gardencorev1beta1.GardenletReady)
	return ready != nil && ready.Status == gardencorev1beta1.ConditionTrue, nil
}

// assign names the source as the entry's seed. What the lost seed was asked to do with the entry is not for the source:
// it would be carried out on the bucket of the other one.
func (r *Reconciler) assign(ctx context.Context, entry *gardencorev1beta1.BackupEntry, source string) error {
	if ptr.Deref(entry.Spec.SeedName, "") == source {
		return nil
	}
	patch := client.MergeFromWithOptions(entry.DeepCopy(), client.MergeFromWithOptimisticLock{})
	delete(entry.Annotations, v1beta1constants.GardenerOperation)
	entry.Spec.SeedName = &source
	if err := r.Client.Patch(ctx, entry, patch); err != nil {
		return fmt.Errorf("failed to assign BackupEntry %s to seed %s: %w", client.ObjectKeyFromObject(entry), source,
			err)
	}
	return nil
}
