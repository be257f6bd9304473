// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"
)

// An abandonment is an abort without the destination, which is lost: its seed is gone, or its agent for good. The
// source does alone what is to be done to the etcds and says so in the condition of the destination's first step
// (ReasonAbandoned), the only time but for the start that it writes a condition of its peer. Then it ends the abort as
// ever. What stays in the destination is for the destination's agent, should it come back, or for an operator.

const (
	// AnnotationAbandon on a Shoot says that the destination of its live migration is lost: the abort, which has to be
	// requested as well, does not wait for it. Its value is the name of the destination's seed, which an operator has
	// to type; any other one asks for nothing.
	AnnotationAbandon = "migration.gardener.cloud/abandon-destination"
	// AnnotationLeftBehind on a Shoot names the seed that an abandonment has left something of the Shoot in. The source
	// sets it, and the agent of that seed removes it when it has cleaned up. An operator removes it when the seed is
	// gone for good or was cleaned up by hand. It outlives the migration: no other one into that seed begins before.
	AnnotationLeftBehind = "migration.gardener.cloud/left-behind-in"
)

// AbandonRequested reports whether the shoot says of the very seed that it is on its way to that it is lost.
func AbandonRequested(shoot *gardencorev1beta1.Shoot) bool {
	_, destination, ok := Seeds(shoot)
	return ok && shoot.Annotations[AnnotationAbandon] == destination
}

// AbandonDue reports whether the source has to take the destination's members out of the etcds by itself: an abort is
// due, the destination is said to be lost, and it has neither withdrawn nor been abandoned yet. A destination that has
// neither begun nor been asked to prepare has nothing to be abandoned.
func AbandonDue(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	return AbortDue(shoot) && AbandonRequested(shoot) && !Withdrawn(conditions) && !Abandoned(conditions)
}

// Abandoned reports whether the source has taken the destination's members out of the etcds and closed the way to it,
// and nobody has cleaned the destination up since.
func Abandoned(conditions []gardencorev1beta1.Condition) bool {
	condition := v1beta1helper.GetCondition(conditions, AbortOf(Destination).Condition)
	return condition != nil && condition.Status == gardencorev1beta1.ConditionFalse &&
		condition.Reason == string(ReasonAbandoned)
}

// LeftBehindIn reports whether an abandonment has left something of the shoot in the seed that it is on its way to.
func LeftBehindIn(shoot *gardencorev1beta1.Shoot) (string, bool) {
	_, destination, ok := Seeds(shoot)
	return destination, ok && shoot.Annotations[AnnotationLeftBehind] == destination
}

// ClearDue reports whether the agent of the destination has to remove what an abandonment has left behind in its seed:
// the Shoot says so, and no migration is at work there. The etcds are none of its business any more.
func ClearDue(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	_, left := LeftBehindIn(shoot)
	return left && Intended(shoot) && (Abandoned(conditions) || !Initialized(conditions))
}

// CheckAbandon returns an error unless the source may now record an abandonment.
func CheckAbandon(conditions []gardencorev1beta1.Condition) error {
	switch {
	case !Abortable(conditions):
		current, _ := Current(conditions)
		return fmt.Errorf("the destination cannot be abandoned any more: the current step is %s", current.Condition)
	case Withdrawn(conditions):
		return fmt.Errorf("the destination cannot be abandoned: nothing of the migration is there")
	}
	return nil
}

// LeaveBehind records on the Shoot, in memory, that the seed that it is on its way to has something of it.
func LeaveBehind(shoot *gardencorev1beta1.Shoot) {
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[AnnotationLeftBehind] = ptr.Deref(shoot.Spec.SeedName, "")
}
