// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ControllerName is the name of the controller.
const ControllerName = "livemigration"

// AddToManager adds the reconciler to the manager. It watches the Shoots of the garden that the cluster's cache holds.
func (r *Reconciler) AddToManager(mgr manager.Manager, gardenCluster cluster.Cluster) error {
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: *r.Config.ConcurrentSyncs,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				r.Config.RetryBackoff.Base.Duration, r.Config.RetryBackoff.Max.Duration),
		}).
		WatchesRawSource(source.Kind[client.Object](
			gardenCluster.GetCache(),
			&gardencorev1beta1.Shoot{},
			&handler.EnqueueRequestForObject{},
			Predicate(),
		)).
		Complete(r)
}

// Predicate lets through what may change whose turn it is or whether it may act. It keeps out the messages that the
// agent itself writes while it works: reacting to them would undo the backoff.
func Predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			shoot, ok := e.Object.(*gardencorev1beta1.Shoot)
			if !ok {
				return false
			}
			_, _, between := steps.Seeds(shoot)
			return between || len(steps.Conditions(shoot)) > 0
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*gardencorev1beta1.Shoot)
			if !ok {
				return false
			}
			after, ok := e.ObjectNew.(*gardencorev1beta1.Shoot)
			if !ok {
				return false
			}
			return !maps.Equal(before.Annotations, after.Annotations) ||
				(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
				!ptr.Equal(before.Spec.SeedName, after.Spec.SeedName) ||
				!ptr.Equal(before.Status.SeedName, after.Status.SeedName) ||
				!maps.Equal(turns(before), turns(after)) ||
				readyForMigration(before) != readyForMigration(after) ||
				(overwritten(after) && !overwritten(before)) ||
				(undone(after) && !undone(before))
		},
	}
}

// turns maps each step to what makes the roles act: the status of its condition, and whether the peer is asked for its
// part in the step or in an abort.
func turns(shoot *gardencorev1beta1.Shoot) map[gardencorev1beta1.ConditionType]string {
	out := map[gardencorev1beta1.ConditionType]string{}
	for _, condition := range steps.Conditions(shoot) {
		step, ok := steps.Get(condition.Type)
		if !ok {
			continue
		}
		out[condition.Type] = string(condition.Status)
		if step.AsksWith(steps.Reason(condition.Reason)) ||
			condition.Reason == string(steps.ReasonWithdrawn) {
			out[condition.Type] += "/" + condition.Reason
		}
	}
	return out
}

// readyForMigration returns the status of the constraint that would start the classic migration.
func readyForMigration(shoot *gardencorev1beta1.Shoot) gardencorev1beta1.ConditionStatus {
	for _, constraint := range shoot.Status.Constraints {
		if constraint.Type == gardencorev1beta1.ShootReadyForMigration {
			return constraint.Status
		}
	}
	return ""
}

// overwritten reports whether somebody else has written the last operation of a migration in flight.
func overwritten(shoot *gardencorev1beta1.Shoot) bool {
	operation := shoot.Status.LastOperation
	return steps.InFlight(shoot) && operation != nil &&
		(operation.Type != gardencorev1beta1.LastOperationTypeLiveMigrate ||
			operation.State == gardencorev1beta1.LastOperationStateAborted)
}
