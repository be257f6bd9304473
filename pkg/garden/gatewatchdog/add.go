// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/controllerutils"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	// ObjectsControllerName is the name of the controller for policy and binding.
	ObjectsControllerName = "gate-objects"
	// ProofsControllerName is the name of the controller for the proofs.
	ProofsControllerName = "gate-proofs"

	// buffered is how many requests of one controller to the other may wait. More are dropped: both look again by
	// themselves.
	buffered = 1024
)

// AddToManager adds both controllers to the manager of the garden.
func AddToManager(mgr manager.Manager, config configv1alpha1.GateWatchdogController) error {
	shipped, err := Shipped()
	if err != nil {
		return err
	}
	var (
		restore    = ptr.Deref(config.Restore, true)
		forObjects = make(chan event.GenericEvent, 1)
		forProofs  = make(chan event.GenericEvent, buffered)
		reporter   = &Reporter{Log: mgr.GetLogger().WithName("gate-watchdog"),
			Recorder: mgr.GetEventRecorder("livecpm-controller-manager")}
		// The two objects are looked at together, so there is one request for both.
		both = handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{}}
		})
	)

	objects := &Objects{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Manifests: shipped,
		Restore:   restore,
		Limiter:   flowcontrol.NewTokenBucketPassiveRateLimiter(restorationsPerSecond, restorationsAtOnce),
		Reporter:  reporter,
		Prove:     func(shoot *gardencorev1beta1.Shoot) { send(forProofs, shoot) },
	}
	if err := builder.ControllerManagedBy(mgr).
		Named(ObjectsControllerName).
		// The standby replica watches as well, so that it is up to date when it becomes the leader.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, EnableWarmup: ptr.To(true)}).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, both,
			builder.WithPredicates(named(gate.PolicyName))).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, both,
			builder.WithPredicates(named(gate.PolicyName))).
		WatchesRawSource(source.Channel(forObjects, both)).
		// Objects that are missing from the start cause no event.
		WatchesRawSource(controllerutils.EnqueueOnce).
		Complete(objects); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ObjectsControllerName, err)
	}

	proofs := &Proofs{
		Client:        mgr.GetClient(),
		APIReader:     mgr.GetAPIReader(),
		Gate:          gate.New(mgr.GetClient(), mgr.GetAPIReader()),
		Period:        config.ProofPeriod.Duration,
		Restore:       restore,
		Reporter:      reporter,
		LookAtObjects: func() { send(forObjects, shipped.Policy) },
	}
	if err := builder.ControllerManagedBy(mgr).
		Named(ProofsControllerName).
		WithOptions(controller.Options{MaxConcurrentReconciles: ptr.Deref(config.ConcurrentProofs, 0),
			EnableWarmup: ptr.To(true)}).
		Watches(&gardencorev1beta1.Shoot{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(ShootPredicate())).
		WatchesRawSource(source.Channel(forProofs, &handler.EnqueueRequestForObject{})).
		Complete(proofs); err != nil {
		return fmt.Errorf("failed to add controller %s: %w", ProofsControllerName, err)
	}
	return nil
}

// ShootPredicate lets through when a Shoot begins or ends to need the gate, and when the constraint that starts the
// classic migration changes. In between, the controller looks again by itself.
func ShootPredicate() predicate.Predicate {
	requested := func(object client.Object) bool {
		shoot, ok := object.(*gardencorev1beta1.Shoot)
		return ok && steps.Requested(shoot)
	}
	ready := func(object client.Object) bool {
		shoot, ok := object.(*gardencorev1beta1.Shoot)
		return ok && gate.ReadyForMigration(shoot)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return requested(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if requested(e.ObjectOld) != requested(e.ObjectNew) {
				return true
			}
			return requested(e.ObjectNew) && ready(e.ObjectOld) != ready(e.ObjectNew)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return requested(e.Object) },
	}
}

func named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == name })
}

// send asks for a look without waiting. When the channel is full, enough is asked for already.
func send(channel chan<- event.GenericEvent, object client.Object) {
	select {
	case channel <- event.GenericEvent{Object: object}:
	default:
	}
}
