// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What others ask of a Shoot while it is in flight stays in its annotations, because no gardenlet acts. Users ask for
// operations (gardener.cloud/operation), and so does the maintenance controller in every maintenance time window:
// for a reconciliation, and for rotations that are due. gardener-apiserver (v1.150.0) refuses a rotation's start then,
// but neither its completion, nor the rotation of credentials for observability, nor rollouts of workers.

// exclusive are the operations that gardener-apiserver permits only alone.
var exclusive = []string{v1beta1constants.ShootOperationMaintain, v1beta1constants.ShootOperationRetry,
	v1beta1constants.ShootOperationForceInPlaceUpdate}

// keepRequests sees to the operations that were asked for in flight, in the write of the hand-over. It returns what
// becomes of them, or nothing if there are none.
//
// A request for a reconciliation, or for a retry, would merely be stored by a write of the status, and stand in the way
// of the one that follows (requestReconciliation). Of a shoot that is restored, the others are carried out by the
// reconciliation that follows. Where the gardenlet has to restore, it would carry them out at the start of that, and a
// rollout of workers fails as long as there are none (updateShootStatusOperationStart): nothing would be restored any
// more. So these wait for the next maintenance time window.
func keepRequests(shoot *gardencorev1beta1.Shoot) string {
	operations := v1beta1helper.RemoveOperation(v1beta1helper.GetShootGardenerOperations(shoot.Annotations),
		v1beta1constants.GardenerOperationReconcile, v1beta1constants.ShootOperationRetry)
	var alone, others []string
	for _, operation := range operations {
		if slices.Contains(exclusive, operation) {
			alone = append(alone, operation)
		} else {
			others = append(others, operation)
		}
	}
	if restored(shoot) {
		setOperations(shoot, v1beta1constants.GardenerOperation, operations)
		if len(others) == 0 {
			return ""
		}
		return "Operations that were requested during the migration follow now: " + strings.Join(others, ", ")
	}

	setOperations(shoot, v1beta1constants.GardenerOperation, alone)
	if len(others) == 0 {
		return ""
	}
	later := v1beta1helper.GetShootMaintenanceOperations(shoot.Annotations)
	for _, operation := range others {
		if !slices.Contains(later, operation) {
			later = append(later, operation)
		}
	}
	setOperations(shoot, v1beta1constants.GardenerMaintenanceOperation, later)
	return fmt.Sprintf("Operations that were requested during the migration follow in the next maintenance time "+
		"window (annotation %s): %s", v1beta1constants.GardenerMaintenanceOperation, strings.Join(others, ", "))
}

// setOperations sets the annotation to the operations. Without any, the Shoot has no such annotation.
func setOperations(shoot *gardencorev1beta1.Shoot, annotation string, operations []string) {
	if len(operations) == 0 {
		delete(shoot.Annotations, annotation)
		return
	}
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[annotation] = strings.Join(operations, v1beta1constants.GardenerOperationsSeparator)
}

// handedOver reports whether the Shoot was handed over to the gardenlet of the own seed.
func (r *Reconciler) handedOver(shoot *gardencorev1beta1.Shoot) bool {
	all := steps.Conditions(shoot)
	_, unfinished := steps.Current(all)
	return len(all) > 0 && !unfinished && shoot.DeletionTimestamp == nil &&
		ptr.Deref(shoot.Spec.SeedName, "") == r.SeedName && ptr.Deref(shoot.Status.SeedName, "") == r.SeedName
}

// reassertHandOver writes the state of the last operation again if a gardenlet has overwritten it. When one starts, it
// sets the state of every operation to Aborted that it has read as processing, without a lock: that may hit a Shoot
// that was handed over in between. The gardenlet would take it for a restoration that it has to repeat, from a
// ShootState that is outdated or gone. Whoever has begun to act on the Shoot meanwhile has written an operation of his
// own.
func (r *Reconciler) reassertHandOver(ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot) error {
	if !r.handedOver(shoot) || !undone(shoot) {
		return nil
	}
	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateSucceeded
	if err := r.GardenClient.Status().Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to restore the last operation of Shoot %s: %w", client.ObjectKeyFromObject(shoot),
			err)
	}
	log.Info("Restored the last operation, which a gardenlet had set to Aborted")
	return nil
}

// undone reports whether somebody has set the restoration to Aborted that a live migration has ended with.
func undone(shoot *gardencorev1beta1.Shoot) bool {
	operation := shoot.Status.LastOperation
	return operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeRestore &&
		operation.State == gardencorev1beta1.LastOperationStateAborted && conditions.IsHandOver(operation)
}

// requestReconciliation asks the gardenlet of the own seed to reconcile a shoot that was just handed over and restored.
// It is decided by what the Shoot shows, so it also happens if the agent was restarted right after the hand-over: the
// last operation still is the restoration, and the gardenlet has nothing else pending. (Where the gardenlet itself has
// to restore, the last operation is a migration, and the API server's registry makes the gardenlet act.)
//
// Operations that were requested in flight stay beside the request. They do not wake the gardenlet by themselves: the
// generation that they have raised counts as observed.
func (r *Reconciler) requestReconciliation(ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot) error {
	if !r.handedOver(shoot) || !restored(shoot) || shoot.Generation != shoot.Status.ObservedGeneration {
		return nil
	}
	operations := v1beta1helper.GetShootGardenerOperations(shoot.Annotations)
	if slices.Contains(operations, v1beta1constants.GardenerOperationReconcile) ||
		slices.Contains(operations, v1beta1constants.ShootOperationMaintain) {
		// The maintenance controller takes its request away, and asks for the reconciliation itself.
		return nil
	}
	var dropped []string
	operations = slices.DeleteFunc(operations, func(operation string) bool {
		alone := slices.Contains(exclusive, operation)
		if alone {
			dropped = append(dropped, operation)
		}
		return alone
	})

	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	setOperations(shoot, v1beta1constants.GardenerOperation,
		append(operations, v1beta1constants.GardenerOperationReconcile))
	if err := r.GardenClient.Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to request a reconciliation of Shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	log.Info("Handed the shoot over and requested a reconciliation by the gardenlet", "operations", operations,
		"dropped", dropped)
	if len(dropped) > 0 {
		r.event(shoot, eventWarning, "RequestDropped", fmt.Sprintf("The operation %s was requested during the "+
			"migration and permits no reconciliation beside it: request it again", strings.Join(dropped, ", ")))
	}
	r.event(shoot, eventNormal, "HandedOver",
		fmt.Sprintf("The control plane runs in seed %s and is managed by its gardenlet", r.SeedName))
	return nil
}

// restored reports whether the last operation is a restoration that succeeded.
func restored(shoot *gardencorev1beta1.Shoot) bool {
	operation := shoot.Status.LastOperation
	return operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeRestore &&
		operation.State == gardencorev1beta1.LastOperationStateSucceeded
}
