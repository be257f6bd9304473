// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	// CauseMissing is the cause of the restoration of an object that was not there, in the metrics.
	CauseMissing = "Missing"
	// CauseChanged is the cause of the restoration of an object that was not as shipped, in the metrics.
	CauseChanged = "Changed"

	// resyncPeriod is the time between two looks at the objects when nothing has happened to them.
	resyncPeriod = time.Minute
	// rivalPause is the wait when restorations come faster than the limit: somebody else writes his own version each
	// time.
	rivalPause = time.Second
	// racePause is the wait after a conflict.
	racePause = 100 * time.Millisecond
	// restorationsPerSecond and restorationsAtOnce are that limit.
	restorationsPerSecond, restorationsAtOnce = 1, 10
)

// errRaced means that somebody else has written an object at the same time. It is looked at again.
var errRaced = errors.New("the object has changed meanwhile")

// errLimited means that an object was not restored, because that has happened too often.
var errLimited = errors.New("restored too often, somebody else keeps changing it")

// Objects keeps the policy and its binding as the chart ships them.
type Objects struct {
	// Client writes to the garden, and reads Shoots.
	Client client.Client
	// APIReader reads the objects without a cache: what was removed a moment ago must be seen.
	APIReader client.Reader
	// Manifests is how the objects have to be.
	Manifests *Manifests
	// Restore reports whether to write.
	Restore bool
	// Limiter bounds the writes.
	Limiter flowcontrol.PassiveRateLimiter
	// Reporter is told what was found.
	Reporter *Reporter
	// Prove asks for a proof for the Shoot at once. It must not block.
	Prove func(*gardencorev1beta1.Shoot)
}

// Reconcile looks at both objects, whatever the request is.
func (o *Objects) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var (
		faults           []string
		failures         []error
		standing, looked = false, true
		again            = reconcile.Result{RequeueAfter: resyncPeriod}
	)
	for _, object := range o.Manifests.guarded() {
		fault, err := o.keep(ctx, object)
		switch {
		case errors.Is(err, errLimited):
			again.RequeueAfter = min(again.RequeueAfter, rivalPause)
		case errors.Is(err, errRaced):
			again.RequeueAfter = racePause
		case err != nil:
			failures = append(failures, err)
		}
		switch {
		case fault != "":
			faults = append(faults, fault)
			standing = standing || err != nil || !o.Restore
			metrics.GateObject(object.kind, err == nil && o.Restore)
		case err != nil:
			// Could not look: that says nothing about the object.
			looked = false
		default:
			metrics.GateObject(object.kind, true)
		}
	}
	if ended(ctx) {
		return reconcile.Result{}, nil
	}

	switch {
	case len(faults) > 0:
		shoots, err := o.concerned(ctx)
		if err != nil {
			failures = append(failures, err)
		}
		if standing {
			o.Reporter.ObjectsFaulty(shoots, sentence(faults))
		} else {
			o.Reporter.ObjectsRestored(shoots, sentence(faults))
		}
		for _, shoot := range shoots {
			o.Prove(shoot)
		}
	case looked:
		o.Reporter.ObjectsIntact()
	}
	return again, errors.Join(failures...)
}

// keep looks at one object and restores it. It returns what was wrong, and an error if it could not look or not
// restore.
func (o *Objects) keep(ctx context.Context, object guarded) (fault string, err error) {
	log := logf.FromContext(ctx).WithValues("kind", object.kind)

	current, cause := object.empty(), ""
	err = o.APIReader.Get(ctx, client.ObjectKeyFromObject(object.shipped), current)
	switch {
	case apierrors.IsNotFound(err):
		cause, fault = CauseMissing, fmt.Sprintf("the %s %s was missing", object.kind, gate.PolicyName)
	case err != nil:
		return "", fmt.Errorf("failed to read %s %s: %w", object.kind, gate.PolicyName, err)
	default:
		fields, err := object.differences(current)
		if err != nil {
			return "", err
		}
		if len(fields) == 0 {
			return "", nil
		}
		cause, fault = CauseChanged, fmt.Sprintf("the %s %s was changed in spec.%s", object.kind, gate.PolicyName,
			strings.Join(fields, ", spec."))
	}

	if !o.Restore {
		log.Info("The gate is not as the chart ships it, and the configuration forbids restoring it", "fault", fault)
		return fault + "; install the chart livecpm-garden again at once", nil
	}
	if !o.Limiter.TryAccept() {
		log.Info("The gate is not as the chart ships it, and was restored too often", "fault", fault)
		return fault + "; restoring it did not last, find out who keeps changing it", errLimited
	}
	restored, err := o.restore(ctx, object, current, cause)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return "", errRaced
	case err != nil:
		log.Error(err, "Failed to restore the gate", "fault", fault)
		return fault + "; it could not be restored, install the chart livecpm-garden again at once: " + err.Error(), err
	case !restored:
		log.V(1).Info("The API server has set defaults that are not known here, the gate is as the chart ships it",
			"fault", fault)
		return "", nil
	}
	metrics.GateRestored(object.kind, cause)
	log.Info("Restored the gate", "fault", fault)
	return fault + " and is restored", nil
}

// restore writes the object and returns whether that has changed anything.
func (o *Objects) restore(ctx context.Context, object guarded, current client.Object, cause string) (bool, error) {
	if cause == CauseMissing {
		missing := object.shipped.DeepCopyObject().(client.Object)
		if err := o.Client.Create(ctx, missing); err != nil {
			return false, fmt.Errorf("failed to create %s %s: %w", object.kind, gate.PolicyName, err)
		}
		return true, nil
	}

	// An update and no patch or server-side apply: those would leave alone what others have added to the lists. The
	// resource version makes sure that what was judged is what is replaced.
	before := current.GetResourceVersion()
	object.correct(current)
	if err := o.Client.Update(ctx, current); err != nil {
		return false, fmt.Errorf("failed to update %s %s: %w", object.kind, gate.PolicyName, err)
	}
	return current.GetResourceVersion() != before, nil
}

// concerned returns the Shoots for which the gate matters now.
func (o *Objects) concerned(ctx context.Context) ([]*gardencorev1beta1.Shoot, error) {
	list := &gardencorev1beta1.ShootList{}
	if err := o.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("failed to list the Shoots that the gate is for: %w", err)
	}
	var shoots []*gardencorev1beta1.Shoot
	for i := range list.Items {
		if steps.Requested(&list.Items[i]) {
			shoots = append(shoots, &list.Items[i])
		}
	}
	return shoots, nil
}

// ended reports whether the program is about to end: whatever fails then says nothing about the gate.
func ended(ctx context.Context) bool { return ctx.Err() != nil }
