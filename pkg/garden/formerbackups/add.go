// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package formerbackups

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// ControllerName is the name of the controller.
const ControllerName = "former-backups"

// AddToManager adds the controller to the manager of the garden, if it is enabled.
func AddToManager(mgr manager.Manager, config configv1alpha1.FormerBackupsController) error {
	if !ptr.Deref(config.Enabled, true) {
		return nil
	}
	reconciler := &Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		For(&gardencorev1beta1.Shoot{}, builder.WithPredicates(predicate.NewPredicateFuncs(concerns))).
		Complete(reconciler); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ControllerName, err)
	}
	return nil
}

func concerns(object client.Object) bool { return Asked(object) || Kept(object) }

// Asked reports whether the object is a Shoot for which an agent asks for the entry, at its time.
func Asked(object client.Object) bool {
	shoot, ok := object.(*gardencorev1beta1.Shoot)
	if !ok {
		return false
	}
	_, _, asked := steps.FormerBackups(shoot)
	return asked
}
