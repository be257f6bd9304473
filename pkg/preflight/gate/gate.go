// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package gate proves that the admission policy which keeps the classic migration away from a live one is in force. The
// policy itself is in the chart livecpm-garden.
//
// The proof is an attempt: the agent asks the API server, as a dry run on the very Shoot that it is about to migrate,
// for the one write that would start the classic migration. Only a refusal by the policy counts. Reading the policy
// object would prove less: neither that the gardener-apiserver has it nor that it applies to this Shoot.
package gate

import (
	"context"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// PolicyName is the name of the ValidatingAdmissionPolicy and of its binding.
	PolicyName = "livecpm-gate"
	// ReasonAborted in a condition of a live migration tells the policy that the abort is completed: nothing of the
	// migration stands in either seed, and the intent annotation may be removed.
	ReasonAborted = "Aborted"

	// constraintRule is how the policy's message about the constraint begins. It tells a refusal by that rule from one
	// by another rule or by a rule that could not be evaluated.
	constraintRule = "livecpm gate: the constraint " + string(gardencorev1beta1.ShootReadyForMigration)
)

// Problem tells what is wrong with the gate.
type Problem string

const (
	// ProblemNoIntent means that the Shoot lacks the intent annotation while it is on its way to another seed.
	ProblemNoIntent Problem = "NoIntent"
	// ProblemConstraintTrue means that the constraint which starts the classic migration is already True.
	ProblemConstraintTrue Problem = "ConstraintTrue"
	// ProblemNotInForce means that the API server would accept the write which starts the classic migration.
	ProblemNotInForce Problem = "NotInForce"
	// ProblemNotProved means that the question could not be asked, or was refused by something else than the policy.
	ProblemNotProved Problem = "NotProved"
)

// OpenError says that the gate is open, or not proved to be closed, and what leads out of it.
type OpenError struct {
	// Problem is the kind of the fault.
	Problem Problem
	// Message tells a human what was seen.
	Message string
	// Remedy tells a human what to do.
	Remedy string
	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *OpenError) Error() string {
	text := e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + "; " + e.Remedy
}

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// Gate verifies the policy.
type Gate struct {
	client client.Client
	reader client.Reader
}

// New returns a Gate. The reader must not be a cache: a constraint that has just become True must be seen.
func New(c client.Client, reader client.Reader) *Gate {
	return &Gate{client: c, reader: reader}
}

// Verify returns nil if the classic migration of the shoot cannot start: the policy refuses the write that would start
// it, or the shoot is not between two seeds. Any other result is an *OpenError.
func (g *Gate) Verify(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	current := &gardencorev1beta1.Shoot{}
	if err := g.reader.Get(ctx, client.ObjectKeyFromObject(shoot), current); err != nil {
		return &OpenError{
			Problem: ProblemNotProved,
			Message: fmt.Sprintf("failed to read Shoot %s for the proof of the gate",
				client.ObjectKeyFromObject(shoot)),
			Remedy: "the agent tries again by itself",
			Err:    err,
		}
	}

	return g.Prove(ctx, current)
}

// Prove is Verify for a caller that has just read the Shoot, and not from a cache: it asks for the proof only. With
// many migrations at once, what the garden has to answer is what their agents ask for with every look.
func (g *Gate) Prove(ctx context.Context, current *gardencorev1beta1.Shoot) error {
	if _, _, between := steps.Seeds(current); !between {
		return nil
	}
	if !steps.Intended(current) {
		return &OpenError{
			Problem: ProblemNoIntent,
			Message: fmt.Sprintf("the annotation %s is not true on the Shoot", steps.IntentOf(current)),
			Remedy:  "there is nothing to do: the classic migration takes the Shoot over",
		}
	}
	if ReadyForMigration(current) {
		return &OpenError{
			Problem: ProblemConstraintTrue,
			Message: fmt.Sprintf("the constraint %s is True, the classic migration may start at any moment",
				gardencorev1beta1.ShootReadyForMigration),
			Remedy: constraintRemedy(current),
		}
	}

	return g.probe(ctx, current)
}

// Released reports whether the policy lets the intent annotation of the shoot go: nothing of a live migration stands in
// either seed, because it has not begun or because its abort is completed. It is the variable of that name in the
// policy.
func Released(shoot *gardencorev1beta1.Shoot) bool {
	begun, completed := false, false
	for _, condition := range steps.Conditions(shoot) {
		switch {
		case condition.Reason == ReasonAborted:
			return true
		case condition.Type == steps.First().Condition:
			begun = condition.Status != gardencorev1beta1.ConditionUnknown
		case condition.Type == steps.Last().Condition:
			completed = condition.Status == gardencorev1beta1.ConditionTrue
		}
	}
	return !begun || completed
}

// constraintRemedy tells what to do about a constraint that is True. What is right depends on two things: whether the
// annotation may still go, and whether the gardenlet of the source has taken the constraint for its start signal
// already.
func constraintRemedy(shoot *gardencorev1beta1.Shoot) string {
	var (
		source, _, _ = steps.Seeds(shoot)
		operation    = shoot.Status.LastOperation
		classic      = operation != nil && operation.Type == gardencorev1beta1.LastOperationTypeMigrate
	)
	switch {
	case Released(shoot) && classic:
		return fmt.Sprintf("the last operation is %s, so the classic migration is already in flight: remove the "+
			"annotation %s and let it complete",
			operation.Type, steps.IntentOf(shoot))
	case Released(shoot):
		return fmt.Sprintf("remove the constraint from the Shoot's status to migrate live, or the annotation %s to "+
			"migrate classically", steps.IntentOf(shoot))
	case classic:
		return fmt.Sprintf("the last operation is %s, so the gardenlet of seed %s has taken it for its start signal: "+
			"stop that gardenlet at once, remove the constraint from the Shoot's status, "+
			"and start the gardenlet again; leave the annotation %s alone, the live migration has begun",
			operation.Type, source, steps.IntentOf(shoot))
	default:
		return fmt.Sprintf("remove the constraint from the Shoot's status at once and leave the annotation %s alone: "+
			"the live migration has begun, so the policy refuses to let it go, "+
			"and without it the classic migration would start", steps.IntentOf(shoot))
	}
}

// probe asks for the write that must be refused.
func (g *Gate) probe(ctx context.Context, current *gardencorev1beta1.Shoot) error {
	probe := current.DeepCopy()
	var others []gardencorev1beta1.Condition
	for _, constraint := range probe.Status.Constraints {
		if constraint.Type != gardencorev1beta1.ShootReadyForMigration {
			others = append(others, constraint)
		}
	}
	now := metav1.Now()
	probe.Status.Constraints = append(others, gardencorev1beta1.Condition{
		Type:               gardencorev1beta1.ShootReadyForMigration,
		Status:             gardencorev1beta1.ConditionTrue,
		Reason:             "GateProbe",
		Message:            "Dry run: the policy has to refuse this.",
		LastTransitionTime: now,
		LastUpdateTime:     now,
	})

	err := g.client.Status().Patch(ctx, probe, client.MergeFrom(current), client.DryRunAll)
	switch {
	case err == nil:
		return &OpenError{
			Problem: ProblemNotInForce,
			Message: fmt.Sprintf("the ValidatingAdmissionPolicy %s is not in force: the API server would accept the "+
				"constraint %s=True", PolicyName, gardencorev1beta1.ShootReadyForMigration),
			Remedy: "install or repair the chart livecpm-garden in the garden at once, the classic migration may " +
				"start at any moment",
		}
	case refusedByPolicy(err):
		return nil
	default:
		return &OpenError{
			Problem: ProblemNotProved,
			Message: fmt.Sprintf("the ValidatingAdmissionPolicy %s is not proved to be in force: the dry run "+
				"failed with another error", PolicyName),
			Remedy: "let the agent patch shoots/status in the garden, and restore the policy of the chart " +
				"livecpm-garden if it was changed",
			Err: err,
		}
	}
}

func refusedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) &&
		strings.Contains(err.Error(), fmt.Sprintf("ValidatingAdmissionPolicy '%s'", PolicyName)) &&
		strings.Contains(err.Error(), constraintRule)
}

// ReadyForMigration reports whether the shoot has the constraint that starts the classic migration.
func ReadyForMigration(shoot *gardencorev1beta1.Shoot) bool {
	for _, constraint := range shoot.Status.Constraints {
		if constraint.Type == gardencorev1beta1.ShootReadyForMigration {
			return constraint.Status == gardencorev1beta1.ConditionTrue
		}
	}
	return false
}
