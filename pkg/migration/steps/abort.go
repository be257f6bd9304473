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
			Title: "Stop the kube-apiserver and take it from the ingress gateway",
			By:    Destination, Reasons: []Reason{ReasonAborting},
			When: SinceKubeAPIServer,
		},
		{
			Title: "Migrate the early extensions and save their state in the ShootState",
			By:    Destination, Reasons: []Reason{ReasonAborting},
			When: SinceKubeAPIServer,
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
			Title: "Restore the extensions that act before the kube-apiserver",
			By:    Source, Reasons: []Reason{ReasonAborting},
			When: SinceExtensions,
		},
		{
			Title: "Remove what the destination has written into the shoot",
			By:    Source, Reasons: []Reason{ReasonAborting},
			When: SinceKubeAPIServer,
		},
		{
			Title: "Deploy the DNSRecords again and let etcd-druid manage the etcds again",
			By:    Source, Reasons: []Reason{ReasonAborting},
			When: SinceDNSRecords,
		},
		{
			Title: "Give the DNSRecords the TTL of before",
			By:    Source, Reasons: []Reason{ReasonAborting},
		},
		{
			Title: "Remove the exposure between the seeds and renew the ShootState",
			By:    Source, Reasons: []Reason{ReasonAborting},
		},
	},
}

const (
	// AnnotationAbort on a Shoot asks for the abort of its live migration (GEP-0039). It is accepted until the step
	// with the point of no return begins, and with AnnotationForceShrink until the step begins that moves the etcd
	// members then.
	AnnotationAbort = "migration.shoot.gardener.cloud/abort-live-migration"
	// AnnotationForceShrink on a Shoot asks that the etcd members of the source leave before the kube-apiserver of the
	// destination starts (GEP-0039). It is for seeds so distant that the latter does not start with members in both.
	AnnotationForceShrink = "migration.gardener.cloud/force-shrink-etcd"
)

// AbortRequested reports whether the shoot carries the abort annotation with a true value.
func AbortRequested(shoot *gardencorev1beta1.Shoot) bool { return isTrue(shoot, AnnotationAbort) }

// ForceShrinkRequested reports whether the shoot carries the force-shrink annotation with a true value. Where the etcds
// have one member each, it counts for nothing: the kube-apiserver of the destination starts with the one of the source.
func ForceShrinkRequested(shoot *gardencorev1beta1.Shoot) bool {
	return isTrue(shoot, AnnotationForceShrink) && !WithGap(shoot)
}

func isTrue(shoot *gardencorev1beta1.Shoot, annotation string) bool {
	value, err := strconv.ParseBool(shoot.Annotations[annotation])
	return err == nil && value
}

// AbortDue reports whether the abort of a live migration is requested, possible and not completed. A migration that has
// not begun can be aborted as well: it ends before it does anything.
func AbortDue(shoot *gardencorev1beta1.Shoot) bool {
	return Requested(shoot) && AbortRequested(shoot) && !Aborted(Conditions(shoot)) && AbortPossible(shoot)
}

// AbortPossible reports whether the way back of the shoot's migration is still open: Abortable, and no etcd member of
// the source may have left because of AnnotationForceShrink. An abort that has begun continues whatever the annotation
// says: it has taken back the condition of an earlier step.
func AbortPossible(shoot *gardencorev1beta1.Shoot) bool {
	conditions := Conditions(shoot)
	if !Abortable(conditions) {
		return false
	}
	current, unfinished := Current(conditions)
	if !Initialized(conditions) || !unfinished || !ForceShrinkRequested(shoot) {
		return true
	}
	forced := shrinking()
	return Index(current.Condition) < Index(forced.Condition) || !Begun(conditions, forced)
}

// shrinking returns the step that moves the etcd members with AnnotationForceShrink.
func shrinking() Step {
	for _, step := range order {
		if step.Has(WhenForced) {
			return step
		}
	}
	return Step{}
}

// Abortable reports whether the conditions leave the way back open: there are none, they are those of an earlier
// migration, the current step is abortable, or it is the one with the point of no return and has not begun.
func Abortable(conditions []gardencorev1beta1.Condition) bool {
	if !Initialized(conditions) {
		return true
	}
	step, unfinished := Current(conditions)
	return unfinished && (step.Abortable || step.PointOfNoReturn && !Begun(conditions, step))
}

// Aborted reports whether the conditions are those of a migration whose abort is completed: both seeds are as before.
func Aborted(conditions []gardencorev1beta1.Condition) bool {
	return AbortOf(Source).Finished(conditions)
}

// Withdrawn reports whether nothing of the migration is left in the destination: it has neither begun nor been asked to
// prepare before its turn, or it has said so.
func Withdrawn(conditions []gardencorev1beta1.Condition) bool {
	step := AbortOf(Destination)
	return step.Finished(conditions) || !Begun(conditions, step) && !AskedAhead(conditions)
}

// CheckAbort returns an error unless the role may now record its part in an abort.
func CheckAbort(conditions []gardencorev1beta1.Condition, role Role) error {
	if !Abortable(conditions) {
		current, _ := Current(conditions)
		return fmt.Errorf("the live migration cannot be aborted any more: the current step is %s", current.Condition)
	}
	if role == Source && !Withdrawn(conditions) && !Abandoned(conditions) {
		return fmt.Errorf("the %s cannot complete the abort: the %s has not withdrawn yet", role, role.Peer())
	}
	return nil
}
