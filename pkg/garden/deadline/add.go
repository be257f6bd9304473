// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ControllerName is the name of the controller.
const ControllerName = "migration-deadline"

// AddToManager adds the controller to the manager of the garden, if it is enabled.
func AddToManager(mgr manager.Manager, config configv1alpha1.DeadlineController) error {
	if !ptr.Deref(config.Enabled, true) {
		return nil
	}
	if config.After == nil {
		return fmt.Errorf("failed to add controller %s: controllers.deadline.after is missing", ControllerName)
	}
	if err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		For(&gardencorev1beta1.Shoot{}, builder.WithPredicates(Predicate())).
		Complete(&Reconciler{
			Client:    mgr.GetClient(),
			APIReader: mgr.GetAPIReader(),
			Recorder:  mgr.GetEventRecorder("livecpm-controller-manager"),
			Clock:     clock.RealClock{},
			After:     config.After.Duration,
		}); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ControllerName, err)
	}
	return nil
}

// Predicate lets through Shoots of which a migration is being carried out, or was a moment ago.
func Predicate() predicate.Predicate {
	running := func(object client.Object) bool {
		shoot, ok := object.(*gardencorev1beta1.Shoot)
		if !ok {
			return false
		}
		_, running, _ := steps.DeadlineOf(shoot, 0)
		return running
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return running(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return running(e.ObjectOld) || running(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return running(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
