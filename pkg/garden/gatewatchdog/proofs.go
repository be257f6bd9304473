// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gatewatchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

const (
	// CauseConstraintTrue is the cause of a restoration of a Shoot, in the metrics.
	CauseConstraintTrue = "ConstraintTrue"

	// proofTimeout bounds one proof, so that a garden that does not answer does not hold up the proofs of other Shoots.
	proofTimeout = 10 * time.Second
	// retryPeriod is the time between two proofs while the gate is open. A configured period that is shorter wins.
	retryPeriod = time.Second
)

// Verifier proves the gate for one Shoot.
type Verifier interface {
	// Verify returns an *gate.OpenError unless the gate was proved to be in force just now.
	Verify(ctx context.Context, shoot *gardencorev1beta1.Shoot) error
}

// Proofs proves for every Shoot on its way to another seed, again and again, that the gate is in force.
type Proofs struct {
	// Client reads Shoots, and writes to them.
	Client client.Client
	// APIReader reads without a cache.
	APIReader client.Reader
	// Gate makes the proof.
	Gate Verifier
	// Period is the time between two proofs of one Shoot.
	Period time.Duration
	// Restore reports whether to take a left-over constraint off a Shoot.
	Restore bool
	// Reporter is told what was found.
	Reporter *Reporter
	// LookAtObjects asks for a look at policy and binding at once. It must not block.
	LookAtObjects func()
}

// Reconcile makes one proof for the Shoot, if it needs one.
func (p *Proofs) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	shoot := &gardencorev1beta1.Shoot{}
	if err := p.Client.Get(ctx, request.NamespacedName, shoot); err != nil {
		if apierrors.IsNotFound(err) {
			p.Reporter.Forget(request.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("failed to read Shoot %s: %w", request.NamespacedName, err)
	}
	if !steps.Requested(shoot) {
		p.Reporter.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}

	err := p.verify(ctx, shoot)
	if ended(ctx) {
		return reconcile.Result{}, nil
	}
	if err == nil {
		p.Reporter.Proved(shoot)
		return reconcile.Result{RequeueAfter: p.Period}, nil
	}
	again := reconcile.Result{RequeueAfter: min(p.Period, retryPeriod)}
	if apierrors.IsNotFound(err) {
		// The Shoot is gone, or the API is not served for a moment. The cache will tell which.
		return again, nil
	}

	var open *gate.OpenError
	if !errors.As(err, &open) {
		open = &gate.OpenError{Problem: gate.ProblemNotProved, Message: "the proof failed",
			Remedy: "the proof is tried again", Err: err}
	}
	if open.Problem == gate.ProblemNoIntent {
		// The annotation has just been removed, which the gate permits only before a migration has begun and after its
		// abort. The watch will tell.
		return again, nil
	}

	p.Reporter.Open(shoot, open)
	p.LookAtObjects()
	if open.Problem == gate.ProblemConstraintTrue && p.Restore {
		if err := p.removeConstraint(ctx, request.NamespacedName); err != nil {
			logf.FromContext(ctx).Error(err, "Failed to remove the left-over constraint", "shoot",
				request.NamespacedName)
		}
	}
	return again, nil
}

func (p *Proofs) verify(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	return p.Gate.Verify(ctx, shoot)
}

// removeConstraint takes the constraint ReadyForMigration off the Shoot. gardener-controller-manager sets it as soon as
// the gate is open, and when the gate is closed again it is in everybody's way: the policy refuses every write that
// leaves it as it is, those of the agents as well.
//
// One case is left to people: before a live migration has begun, a classic one may be in flight already, and must
// continue.
func (p *Proofs) removeConstraint(ctx context.Context, key client.ObjectKey) error {
	shoot := &gardencorev1beta1.Shoot{}
	if err := p.APIReader.Get(ctx, key, shoot); err != nil {
		return fmt.Errorf("failed to read Shoot %s: %w", key, err)
	}
	operation := shoot.Status.LastOperation
	classic := operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeMigrate
	if !steps.Requested(shoot) || !gate.ReadyForMigration(shoot) || (classic && gate.Released(shoot)) {
		return nil
	}

	patch := client.MergeFromWithOptions(shoot.DeepCopy(), client.MergeFromWithOptimisticLock{})
	shoot.Status.Constraints = slices.DeleteFunc(
		shoot.Status.Constraints, func(constraint gardencorev1beta1.Condition) bool {
			return constraint.Type == gardencorev1beta1.ShootReadyForMigration
		})
	if err := p.Client.Status().Patch(ctx, shoot, patch); err != nil {
		return fmt.Errorf("failed to remove the constraint %s of Shoot %s: %w",
			gardencorev1beta1.ShootReadyForMigration, key, err)
	}
	metrics.GateRestored("Shoot", CauseConstraintTrue)
	logf.FromContext(ctx).Info("Removed the left-over constraint that starts the classic migration", "shoot", key)
	return nil
}
