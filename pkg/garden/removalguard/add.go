// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllerutils"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// ControllerName is the name of the controller.
const ControllerName = "removal-guard"

// AddToManager adds the controller to the manager of the garden, if it is enabled.
func AddToManager(mgr manager.Manager, config configv1alpha1.ControllerManagerControllers) error {
	if !ptr.Deref(config.RemovalGuard.Enabled, true) {
		return nil
	}
	// What is written is about all Shoots together, so there is one request for all of them.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	reconciler := &Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Namespace: v1beta1constants.GardenNamespace,
		Clock:     clock.RealClock{},
	}
	// The ConfigMap of an earlier run may name what is over.
	controllers := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&gardencorev1beta1.Shoot{}, all, builder.WithPredicates(Predicate())).
		WatchesRawSource(controllerutils.EnqueueOnce)
	if ptr.Deref(config.Drain.Enabled, true) {
		// Only then there is a permission to read Seeds.
		reconciler.Drains = mgr.GetClient()
		controllers = controllers.Watches(&gardencorev1beta1.Seed{}, all, builder.WithPredicates(DrainPredicate()))
	}
	if err := controllers.Complete(reconciler); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ControllerName, err)
	}
	return nil
}

// Predicate lets through when a Shoot begins or ends to need the agents, or needs those of other seeds, when its
// migration comes into another state, and when something of it is left behind in a seed or removed there.
func Predicate() predicate.Predicate {
	return changes(func(object client.Object) string {
		shoot, ok := object.(*gardencorev1beta1.Shoot)
		if !ok {
			return ""
		}
		state := shoot.Annotations[steps.AnnotationLeftBehind]
		if steps.NeedsAgents(shoot) {
			state += "/" + *shoot.Status.SeedName + "/" + *shoot.Spec.SeedName + "/" +
				string(summary.Summarize(shoot, time.Time{}).State)
		}
		return state
	})
}

// DrainPredicate lets through when a drain of a Seed is requested or cancelled.
func DrainPredicate() predicate.Predicate {
	return changes(func(object client.Object) string {
		if seed, ok := object.(*gardencorev1beta1.Seed); ok && drain.Requested(seed) {
			return seed.Name
		}
		return ""
	})
}

// changes lets through when what counts of an object becomes another, begins or ends.
func changes(counts func(client.Object) string) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return counts(e.Object) != "" },
		UpdateFunc:  func(e event.UpdateEvent) bool { return counts(e.ObjectOld) != counts(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return counts(e.Object) != "" },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
