// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// ControllerName is the name of the controller.
const ControllerName = "history"

// AddToManager adds the controller to the manager of the garden.
func AddToManager(mgr manager.Manager) error {
	reconciler := &Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Namespace: v1beta1constants.GardenNamespace,
		Clock:     clock.RealClock{},
	}
	// What is written is about all Shoots together, so there is one request for all of them.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	if err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&gardencorev1beta1.Shoot{}, all, builder.WithPredicates(Predicate())).
		Complete(reconciler); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ControllerName, err)
	}
	return nil
}

// Predicate lets through when a live migration begins, when it is held or waits for a time to pass, and when it ends.
// What ended while nobody looked comes with the first list of Shoots.
func Predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return counts(e.Object) != "" },
		UpdateFunc:  func(e event.UpdateEvent) bool { return counts(e.ObjectOld) != counts(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// counts returns what the history keeps of the migration before it ends; empty if there is none.
func counts(object client.Object) string {
	shoot, ok := object.(*gardencorev1beta1.Shoot)
	if !ok {
		return ""
	}
	migration := summary.Summarize(shoot, time.Time{})
	if len(migration.Steps) == 0 {
		return ""
	}
	out := "in flight"
	if migration.State.Final() {
		out = string(migration.State)
	}
	for _, at := range []*time.Time{migration.Started, migration.Ended} {
		if at != nil {
			out += " " + at.String()
		}
	}
	if wait, ok := history.Waiting(migration); ok {
		out += fmt.Sprint(" waits ", wait)
	}
	if step := history.Holding(migration); step != "" {
		out += " held before " + step
	}
	return out
}
