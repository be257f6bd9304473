// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"context"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

const (
	// EventMigrationOverdue is the reason of the event at a Shoot whose migration takes longer than its deadline.
	EventMigrationOverdue = "MigrationOverdue"

	eventAction = "WatchDeadline"
	// maxNoteLength is a little below what the API server accepts for the note of an event.
	maxNoteLength = 1000
)

// Reconciler watches the deadline of each migration.
type Reconciler struct {
	// Client reads Shoots, and writes to their status.
	Client client.Client
	// APIReader reads without a cache: what was told already must not be told again because a cache is old.
	APIReader client.Reader
	// Recorder records the event.
	Recorder events.EventRecorder
	// Clock is the clock.
	Clock clock.PassiveClock
	// After is how long a migration may take whose Shoot does not say otherwise.
	After time.Duration
}

// Reconcile looks whether the migration of the Shoot is past its deadline, and comes back when it will be.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := r.Client.Get(ctx, request.NamespacedName, shoot); err != nil {
		if apierrors.IsNotFound(err) {
			metrics.ForgetMigrationOverdue(request.Namespace, request.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("failed to read Shoot %s: %w", request.NamespacedName, err)
	}
	deadline, running, malformed := steps.DeadlineOf(shoot, r.After)
	if !running {
		metrics.ForgetMigrationOverdue(request.Namespace, request.Name)
		return reconcile.Result{}, nil
	}
	if malformed != nil {
		logf.FromContext(ctx).Info("The Shoot's own deadline does not count", "cause", malformed.Error())
	}
	passed := deadline.Passed(r.Clock.Now())
	metrics.MigrationOverdue(request.Namespace, request.Name, passed)
	if passed != steps.DeadlinePassed(shoot) {
		if err := r.tell(ctx, request.NamespacedName); err != nil {
			return reconcile.Result{}, err
		}
	}
	if passed {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: deadline.At().Sub(r.Clock.Now())}, nil
}

// tell notes at the Shoot that the deadline has passed, and then records the event. In this order, a controller manager
// that ends in between tells nobody, and the alert remains; in the other one, each that takes over would tell it again.
// When an operator has moved the deadline, the note goes, so that the new one is told when it passes.
//
// The note is written with the status: that keeps changes of the metadata, and asks for no other permission.
func (r *Reconciler) tell(ctx context.Context, key client.ObjectKey) error {
	shoot := &gardencorev1beta1.Shoot{}
	if err := r.APIReader.Get(ctx, key, shoot); err != nil {
		return client.IgnoreNotFound(err)
	}
	deadline, running, malformed := steps.DeadlineOf(shoot, r.After)
	passed := deadline.Passed(r.Clock.Now())
	if !running || passed == steps.DeadlinePassed(shoot) {
		return nil
	}
	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if passed {
		shoot.Annotations[steps.AnnotationOverdue] = deadline.Began.UTC().Format(time.RFC3339)
	} else {
		delete(shoot.Annotations, steps.AnnotationOverdue)
	}
	if err := r.Client.Status().Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to note at Shoot %s whether its migration is past its deadline: %w", key, err)
	}
	if !passed {
		return nil
	}

	note := fmt.Sprintf("The live migration takes longer than %s: it began at %s, and its state is: %s. The agents "+
		"continue, and nothing is undone. See "+pages.OfReason(steps.ReasonDeadlineExceeded), deadline.After,
		deadline.Began.UTC().Format(time.RFC3339), summary.Summarize(shoot, r.Clock.Now()))
	if malformed != nil {
		note += ". " + malformed.Error()
	}
	logf.FromContext(ctx).Info("The migration is past its deadline", "shoot", key, "deadline", deadline.At())
	r.Recorder.Eventf(shoot, nil, corev1.EventTypeWarning, EventMigrationOverdue, eventAction, "%s",
		conditions.Cut(note, maxNoteLength))
	return nil
}
