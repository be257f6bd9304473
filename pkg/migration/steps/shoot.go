// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
)

const (
	// AnnotationIntent on a Shoot makes a change of spec.seedName a live migration (GEP-0039).
	AnnotationIntent = v1beta1constants.AnnotationMigrationLiveMigrate
	// AnnotationWithGap on a Shoot makes a change of spec.seedName a live migration with one short gap, for a control
	// plane with one etcd member. Gardener's admission refuses AnnotationIntent for those when the seed's name changes.
	// Users set it before, and agree to the gap with it (docs/concepts/single-member.md).
	AnnotationWithGap = "migration.gardener.cloud/live-migrate-with-gap"
	// AnnotationWithWorkers on a Shoot, with any value that is not true, keeps it from being migrated live with its
	// workers. It says nothing about a shoot without workers, and stays when a migration is over.
	AnnotationWithWorkers = "migration.gardener.cloud/live-migrate-with-workers"
	// AnnotationPauseBefore on a Shoot names the condition type of the step that must not begin while it is set. A step
	// that has begun continues.
	AnnotationPauseBefore = "migration.gardener.cloud/pause-before"
	// AnnotationRequestedBy on a Shoot names the user who has requested its migration, for people to read. The plugin
	// writes it with the request; nothing depends on it, and whoever may change the Shoot can write it as well.
	AnnotationRequestedBy = "migration.gardener.cloud/requested-by"
)

// ExpectedGap is how long nothing is served in a migration with AnnotationWithGap: from the end of the only member of
// each etcd in the last step, until it runs with its ordinary specification. It is what a restart of such a pod takes:
// 18 and 22 s on the landscape (docs/concepts/single-member.md).
const ExpectedGap = "15 to 30 s"

// AgentFieldManager is the name by which the API server knows the agents as writers of the conditions, whatever program
// they run in. A drop-in gardenlet would otherwise be taken for an ordinary one.
const AgentFieldManager = "livecpm-agent"

// annotations are those that people and agents set for one migration.
var annotations = []string{AnnotationIntent, AnnotationWithGap, AnnotationPauseBefore, AnnotationForceShrink,
	AnnotationAbort, AnnotationAbandon, AnnotationAbandonSource, AnnotationDeleteFormerBackups,
	AnnotationConfirmVersions, AnnotationDeadline, AnnotationOverdue, AnnotationSnapshots(Source),
	AnnotationSnapshots(Destination), AnnotationSourceRevision, AnnotationSourceClients, AnnotationRequestedBy}

// RemoveAnnotations removes the annotations of a migration that is over from the Shoot, in memory. Left behind, they
// would make its next migration a live one, or pause or abort it.
func RemoveAnnotations(shoot *gardencorev1beta1.Shoot) {
	for _, annotation := range annotations {
		delete(shoot.Annotations, annotation)
	}
}

// Intended reports whether the shoot carries one of the intent annotations with a true value.
func Intended(shoot *gardencorev1beta1.Shoot) bool {
	return isTrue(shoot, AnnotationIntent) || isTrue(shoot, AnnotationWithGap)
}

// IntentOf returns the annotation that asks for a live migration of the shoot when it becomes true: AnnotationWithGap
// if its users have set that already and it is not highly available, AnnotationIntent otherwise.
func IntentOf(shoot *gardencorev1beta1.Shoot) string {
	if WithGap(shoot) {
		return AnnotationWithGap
	}
	return AnnotationIntent
}

// Intend makes the shoot ask for a live migration, in memory, with the one annotation that Gardener's admission takes
// from it. RemoveIntent makes it ask for none.
func Intend(shoot *gardencorev1beta1.Shoot) {
	asks := IntentOf(shoot)
	if asks != AnnotationIntent {
		delete(shoot.Annotations, AnnotationIntent)
	}
	if shoot.Annotations == nil {
		shoot.Annotations = map[string]string{}
	}
	shoot.Annotations[asks] = "true"
}

// RemoveIntent removes the intent annotations from the shoot, in memory: what follows is a classic migration.
func RemoveIntent(shoot *gardencorev1beta1.Shoot) {
	delete(shoot.Annotations, AnnotationIntent)
	delete(shoot.Annotations, AnnotationWithGap)
}

// WithGap reports whether the etcds of the shoot have one member each in one seed, and its users have agreed to the
// short gap that a live migration has then: the control plane is not highly available, and the shoot carries
// AnnotationWithGap with a true value. Of a highly available one the annotation changes nothing.
func WithGap(shoot *gardencorev1beta1.Shoot) bool {
	return isTrue(shoot, AnnotationWithGap) && !v1beta1helper.IsHAControlPlaneConfigured(shoot)
}

// MayGoWithWorkers reports whether the shoot may be migrated live with its workers, as far as its users have a say:
// AnnotationWithWorkers is missing, or has a true value.
func MayGoWithWorkers(shoot *gardencorev1beta1.Shoot) bool {
	_, set := shoot.Annotations[AnnotationWithWorkers]
	return !set || isTrue(shoot, AnnotationWithWorkers)
}

// Seeds returns the seeds of the migration that the shoot asks for: status.seedName and spec.seedName. It returns false
// if one is missing or both are the same.
func Seeds(shoot *gardencorev1beta1.Shoot) (source, destination string, ok bool) {
	if shoot.Status.SeedName == nil || shoot.Spec.SeedName == nil {
		return "", "", false
	}
	source, destination = *shoot.Status.SeedName, *shoot.Spec.SeedName
	if source == "" || destination == "" || source == destination {
		return "", "", false
	}
	return source, destination, true
}

// Requested reports whether the shoot asks for a live migration: the intent annotation and different seed names. It
// stays true until the hand-over.
func Requested(shoot *gardencorev1beta1.Shoot) bool {
	_, _, ok := Seeds(shoot)
	return ok && Intended(shoot)
}

// Conditions returns the conditions of the shoot's live migration.
func Conditions(shoot *gardencorev1beta1.Shoot) []gardencorev1beta1.Condition {
	if shoot.Status.LiveMigration == nil {
		return nil
	}
	return shoot.Status.LiveMigration.Conditions
}

// Initialized reports whether the conditions belong to a migration that is not over. The hand-over sets the last
// condition to True in the same write that changes status.seedName, so a set that is complete and True always belongs
// to the previous migration, and the source replaces it when the next one starts. So does a set whose migration was
// aborted.
func Initialized(conditions []gardencorev1beta1.Condition) bool {
	for _, step := range order {
		if v1beta1helper.GetCondition(conditions, step.Condition) == nil {
			return false
		}
	}
	_, unfinished := Current(conditions)
	return unfinished && !Aborted(conditions)
}

// InFlight reports whether a live migration of the shoot is requested and its first step has begun.
func InFlight(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	return Requested(shoot) && Initialized(conditions) && Begun(conditions, First())
}

// NeedsAgents reports whether the agents of both seeds are needed for the Shoot: its live migration is asked for and
// neither complete nor aborted. Without them it stands still wherever it is.
func NeedsAgents(shoot *gardencorev1beta1.Shoot) bool {
	return Requested(shoot) && !Aborted(Conditions(shoot))
}

// Begun reports whether the owner of the step has ever acted on it: its condition is no longer Unknown.
func Begun(conditions []gardencorev1beta1.Condition, step Step) bool {
	return ConditionBegun(conditions, step.Condition)
}

// ConditionBegun does the same for the step with the condition. In an abort it says what there is to undo.
func ConditionBegun(
	conditions []gardencorev1beta1.Condition, conditionType gardencorev1beta1.ConditionType,
) bool {
	condition := v1beta1helper.GetCondition(conditions, conditionType)
	return condition != nil && condition.Status != gardencorev1beta1.ConditionUnknown
}

// RoleOf returns the role that the given seed has in the migration that the shoot asks for.
func RoleOf(shoot *gardencorev1beta1.Shoot, seedName string) (Role, bool) {
	source, destination, ok := Seeds(shoot)
	if !ok || !Intended(shoot) {
		return "", false
	}
	switch seedName {
	case source:
		return Source, true
	case destination:
		return Destination, true
	}
	return "", false
}

// PausedBefore reports whether the shoot asks to hold before the step, and the step has not begun.
func PausedBefore(shoot *gardencorev1beta1.Shoot, step Step) bool {
	return shoot.Annotations[AnnotationPauseBefore] == string(step.Condition) && !Begun(Conditions(shoot), step)
}

// AskedFor returns the reason with which the peer asks the role for its part in the peer's step; empty if it does not.
// A step that has exceeded its deadline still asks.
func AskedFor(conditions []gardencorev1beta1.Condition, step Step, role Role) Reason {
	condition := v1beta1helper.GetCondition(conditions, step.Condition)
	if step.Owner == role || condition == nil || !step.AsksWith(Reason(condition.Reason)) {
		return ""
	}
	if condition.Status != gardencorev1beta1.ConditionProgressing &&
		condition.Status != gardencorev1beta1.ConditionFalse {
		return ""
	}
	return Reason(condition.Reason)
}

// Standing returns the reason with which the condition of the step asks the peer for its part, if it has to stay there
// although the owner has come to another one: a fault, a hold or a fresh start says nothing about what the peer is to
// do. Were the reason replaced, the peer would stop in the middle of its part, and a cluster of etcd might keep six
// voters until the fault is over. A reason that asks for work ahead stays whatever comes (Work.Ahead). It is empty if
// the other reason may take its place.
func Standing(conditions []gardencorev1beta1.Condition, step Step, other Reason) Reason {
	asked := AskedFor(conditions, step, step.Owner.Peer())
	if _, ahead := step.Ahead(asked); ahead && other != asked {
		return asked
	}
	if other != ReasonStarted && !other.Fault() && !other.Hold() {
		return ""
	}
	return asked
}

// AskedAhead reports whether the destination was asked to prepare before its own first step, so that there may be
// something of the shoot in it although that step has not begun. The condition of the step that asks keeps it until the
// source takes that condition back in an abort, which it does when the destination has withdrawn or is abandoned.
func AskedAhead(conditions []gardencorev1beta1.Condition) bool {
	for _, step := range order {
		condition := v1beta1helper.GetCondition(conditions, step.Condition)
		if condition == nil {
			continue
		}
		if _, ahead := step.Ahead(Reason(condition.Reason)); ahead {
			return true
		}
	}
	return false
}

// AssistDue reports whether the role has to do its part in the step of its peer, because the peer asked for it.
func AssistDue(conditions []gardencorev1beta1.Condition, step Step, role Role) bool {
	return AskedFor(conditions, step, role) != ""
}

// StartedAt returns when work on the step began, read from the conditions: a condition becomes Progressing at its start
// and keeps the time of that transition until it is False or True. For a False one the end of the step before it stands
// in. It returns the zero time when the step has not begun.
func StartedAt(conditions []gardencorev1beta1.Condition, step Step) time.Time {
	condition := v1beta1helper.GetCondition(conditions, step.Condition)
	if condition == nil {
		return time.Time{}
	}
	switch condition.Status {
	case gardencorev1beta1.ConditionProgressing:
		return condition.LastTransitionTime.Time
	case gardencorev1beta1.ConditionFalse, gardencorev1beta1.ConditionTrue:
		if i := Index(step.Condition); i > 0 {
			if previous := v1beta1helper.GetCondition(conditions, order[i-1].Condition); previous != nil {
				return previous.LastTransitionTime.Time
			}
		}
	}
	return time.Time{}
}
