// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"maps"
	"time"

	gardenindexer "github.com/gardener/gardener/pkg/api/indexer"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration/drain"
)

const (
	// ControllerName is the name of the controller.
	ControllerName = "drain"

	// gathering is how long events are gathered before one look at the whole garden.
	gathering = 500 * time.Millisecond
)

// AddToManager adds the controller to the manager of the garden.
func AddToManager(ctx context.Context, mgr manager.Manager, config configv1alpha1.DrainController) error {
	if !ptr.Deref(config.Enabled, true) {
		return nil
	}
	// The scheduler looks for the project of a namespace by this field.
	if err := gardenindexer.AddProjectNamespace(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("failed to prepare the cache for controller %s: %w", ControllerName, err)
	}
	notices, err := noticesOf(config.Notice)
	if err != nil {
		return fmt.Errorf("failed to prepare the notices of controller %s: %w", ControllerName, err)
	}
	reconciler := &Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Recorder:  mgr.GetEventRecorder("livecpm-controller-manager"),
		Clock:     clock.RealClock{},
		Namespace: v1beta1constants.GardenNamespace,
		Strategy:  config.SchedulingStrategy,
		Period:    config.SyncPeriod.Duration,
		Budget: drain.Budget{
			PerSource: *config.MaxPerSource, PerDestination: *config.MaxPerDestination, Total: *config.MaxTotal,
			Pause: config.Pause.Duration, Failures: *config.MaxFailuresInARow,
			FailurePercent: *config.MaxFailurePercent,
			Attempts:       *config.MaxAttempts, RetryAfter: config.RetryAfter.Duration,
		},
		Notices: notices,
	}
	if err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&gardencorev1beta1.Seed{}, gatherer(), builder.WithPredicates(SeedPredicate())).
		Watches(&gardencorev1beta1.Shoot{}, gatherer(), builder.WithPredicates(ShootPredicate())).
		Complete(reconciler); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ControllerName, err)
	}
	return nil
}

// noticesOf returns how moves are announced.
func noticesOf(config configv1alpha1.DrainNotice) (Notices, error) {
	notices := Notices{Lead: config.LeadTime.Duration}
	if config.Webhook == nil {
		return notices, nil
	}
	webhook, err := NewWebhook(*config.Webhook)
	if err != nil {
		return Notices{}, err
	}
	notices.Notifier, notices.RetryAfter = webhook, config.Webhook.RetryAfter.Duration
	if config.Webhook.OnFailure == configv1alpha1.DrainWebhookContinue {
		notices.ContinueAfter = *config.Webhook.Attempts
	}
	return notices, nil
}

// gatherer asks for one look after whatever has happened.
func gatherer() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	look := func(q queue) { q.AddAfter(reconcile.Request{}, gathering) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { look(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { look(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { look(q) },
	}
}

// SeedPredicate lets through what may change a decision, or the condition that the controller keeps. Gardenlets write
// their Seeds often without doing so.
func SeedPredicate() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*gardencorev1beta1.Seed)
		after, okay := e.ObjectNew.(*gardencorev1beta1.Seed)
		return !ok || !okay || before.Generation != after.Generation ||
			!maps.Equal(before.Annotations, after.Annotations) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!maps.Equal(outline(before.Status.Conditions), outline(after.Status.Conditions))
	}}
}

func outline(conditions []gardencorev1beta1.Condition) map[gardencorev1beta1.ConditionType]string {
	out := make(map[gardencorev1beta1.ConditionType]string, len(conditions))
	for _, condition := range conditions {
		out[condition.Type] = string(condition.Status) + " " + condition.Reason
	}
	return out
}

// ShootPredicate lets through what may change a decision: where a Shoot is and what is recorded of its move, its
// specification, and how its last operation has ended.
func ShootPredicate() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*gardencorev1beta1.Shoot)
		after, okay := e.ObjectNew.(*gardencorev1beta1.Shoot)
		return !ok || !okay || before.Generation != after.Generation || drain.ShootOf(before) != drain.ShootOf(after) ||
			before.Status.IsHibernated != after.Status.IsHibernated || operation(before) != operation(after)
	}}
}

func operation(shoot *gardencorev1beta1.Shoot) string {
	if shoot.Status.LastOperation == nil {
		return ""
	}
	return fmt.Sprintf("%s %s", shoot.Status.LastOperation.Type, shoot.Status.LastOperation.State)
}
