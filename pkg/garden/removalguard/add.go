// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllerutils"
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
)

// ControllerName is the name of the controller.
const ControllerName = "removal-guard"

// AddToManager adds the controller to the manager of the garden, if it is enabled.
func AddToManager(mgr manager.Manager, config configv1alpha1.RemovalGuardController) error {
	if !ptr.Deref(config.Enabled, true) {
		return nil
	}
	// What is written is about all Shoots together, so there is one request for all of them.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	if err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&gardencorev1beta1.Shoot{}, all, builder.WithPredicates(Predicate())).
		// The ConfigMap of an earlier run may name what is over.
		WatchesRawSource(controllerutils.EnqueueOnce).
		Complete(&Reconciler{
			Client:    mgr.GetClient(),
			APIReader: mgr.GetAPIReader(),
			Namespace: v1beta1constants.GardenNamespace,
		}); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ControllerName, err)
	}
	return nil
}

// Predicate lets through when a Shoot begins or ends to need the agents, or needs those of other seeds.
func Predicate() predicate.Predicate {
	seeds := func(object client.Object) string {
		shoot, ok := object.(*gardencorev1beta1.Shoot)
		if !ok || !Needs(shoot) {
			return ""
		}
		return *shoot.Status.SeedName + "/" + *shoot.Spec.SeedName
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return seeds(e.Object) != "" },
		UpdateFunc:  func(e event.UpdateEvent) bool { return seeds(e.ObjectOld) != seeds(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return seeds(e.Object) != "" },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
