// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"strconv"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// An abort is recorded where the migration is: the destination says in the condition of its first step that nothing of
// it is left (ReasonWithdrawn), then the source says the same in the condition of its own (ReasonAborted). The second
// ends the abort, and with it the migration.

// withdraw takes the destination out of the migration.
var withdraw = Step{
	Condition: joinDestination.Condition,
	Owner:     Destination,
	Title:     "Remove everything of the shoot from the destination",
	Finish:    Finish{Status: gardencorev1beta1.ConditionFalse, Reason: ReasonWithdrawn},
	Work: []Work{
		{
			Title: "Transfer leadership of each etcd to the source",
			By:    Destination, Reasons: []Reason{ReasonAborting},
		},
		{
			Title: "Remove the members of the destination from the etcds, one by one",
			By:    Destination, Reasons: []Reason{ReasonAborting},
		},
		{
			Title: "Release the backup entry to the source",
			By:    Destination, Reasons: []Reason{ReasonAborting},
		},
		{
			Title: "Delete everything of the shoot in the destination",
			By:    Destination, Reasons: []Reason{ReasonAborting},
		},
	},
}

// restoreSource makes the source what it was before the migration.
var restoreSource = Step{
	Condition: prepareSource.Condition,
	Owner:     Source,
	Title:     "Restore the source to what it was before the migration",
	Finish:    Finish{Status: gardencorev1beta1.ConditionFalse, Reason: ReasonAborted},
	Work: []Work{
		{
			Title: "Check that the etcds are those of before the migration",
			By:    Source, Reasons: []Reason{ReasonWaitingForSourceEtcd},
		},
		{
			Title: "Take the backup entry back and delete the backups that the destination has written",
			By:    Source, Reasons: []Reason{ReasonAborting},
		},
		{
			Title: "Remove the exposure between the seeds and renew the ShootState",
			By:    Source, Reasons: []Reason{ReasonAborting},
		},
	},
}

const (
	// AnnotationAbort on a Shoot asks for the abort of its live migration (GEP-0039). It is accepted
	// while the current step is abortable, that is until LastAbortable is finished.
	AnnotationAbort = "migration.shoot.gardener.cloud/abort-live-migration"
	// AnnotationForceShrink on a Shoot asks that the etcd members of the source leave before the kube-apiserver of the
	// destination starts (GEP-0039). It is for seeds so distant that the latter does not start with members in both.
	AnnotationForceShrink = "migration.gardener.cloud/force-shrink-etcd"
)

// AbortRequested reports whether the shoot carries the abort annotation with a true value.
func AbortRequested(shoot *gardencorev1beta1.Shoot) bool { return isTrue(shoot, AnnotationAbort) }

// ForceShrinkRequested reports whether the shoot carries the force-shrink annotation with a true value.
func ForceShrinkRequested(shoot *gardencorev1beta1.Shoot) bool {
	return isTrue(shoot, AnnotationForceShrink)
}

func isTrue(shoot *gardencorev1beta1.Shoot, annotation string) bool {
	value, err := strconv.ParseBool(shoot.Annotations[annotation])
	return err == nil && value
}

// AbortDue reports whether the abort of a live migration is requested, possible and not completed. A migration that has
// not begun can be aborted as well: it ends before it does anything.
func AbortDue(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	return Requested(shoot) && AbortRequested(shoot) && !Aborted(conditions) && Abortable(conditions)
}

// Abortable reports whether the way back is still open: no condition, those of an earlier migration, or an abortable
// current step.
func Abortable(conditions []gardencorev1beta1.Condition) bool {
	if !Initialized(conditions) {
		return true
	}
	step, unfinished := Current(conditions)
	return unfinished && step.Abortable
}

// Aborted reports whether the conditions are those of a migration whose abort is completed: both seeds are as before.
func Aborted(conditions []gardencorev1beta1.Condition) bool {
	return AbortOf(Source).Finished(conditions)
}

// Withdrawn reports whether nothing of the migration is left in the destination: it has never begun, or it has said so.
func Withdrawn(conditions []gardencorev1beta1.Condition) bool {
	step := AbortOf(Destination)
	return !Begun(conditions, step) || step.Finished(conditions)
}

// CheckAbort returns an error unless the role may now record its part in an abort.
func CheckAbort(conditions []gardencorev1beta1.Condition, role Role) error {
	if !Abortable(conditions) {
		current, _ := Current(conditions)
		return fmt.Errorf("the live migration cannot be aborted any more: the current step is %s", current.Condition)
	}
	if role == Source && !Withdrawn(conditions) {
		return fmt.Errorf("the %s cannot complete the abort: the %s has not withdrawn yet", role, role.Peer())
	}
	return nil
}
