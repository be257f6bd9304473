// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package conditions computes what the owner of the current step writes into a Shoot's status: status.liveMigration
// .conditions and status.lastOperation. It is pure: it takes the old values and a clock and returns new ones.
package conditions

import (
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// maxMessageLength keeps a chain of wrapped errors from filling the Shoot.
const maxMessageLength = 2048

// Initialize returns the conditions for a migration that starts now: one per step, all of them Unknown, in the order of
// the table. Those of the previous migration are replaced; conditions of other types are kept behind them. It is the
// source that writes them, the only time that a role writes conditions of its peer.
func Initialize(clk clock.PassiveClock, old []gardencorev1beta1.Condition) []gardencorev1beta1.Condition {
	now := metav1.NewTime(clk.Now())
	var out []gardencorev1beta1.Condition
	for _, step := range steps.Table() {
		out = append(out, gardencorev1beta1.Condition{
			Type:               step.Condition,
			Status:             gardencorev1beta1.ConditionUnknown,
			Reason:             string(steps.ReasonPending),
			Message:            pendingMessage(step),
			LastTransitionTime: now,
			LastUpdateTime:     now,
		})
	}
	return append(out, v1beta1helper.RemoveConditions(old, steps.ConditionTypes()...)...)
}

func pendingMessage(step steps.Step) string {
	return fmt.Sprintf("%s: not begun yet. Owner is the %s.", step.Title, step.Owner)
}

// Change is what a role writes into the condition of a step.
type Change struct {
	// Step is the step, Role who writes.
	Step steps.Step
	Role steps.Role
	// Status, Reason and Message are what the condition says from then on.
	Status  gardencorev1beta1.ConditionStatus
	Reason  steps.Reason
	Message string
}

// Apply returns the conditions with the change; all others are as before, also those that are unknown here. It refuses
// what the step table does not allow (see steps.CheckTransition). The transition time changes with the status only, the
// update time with any change.
func Apply(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, change Change,
) ([]gardencorev1beta1.Condition, error) {
	if err := steps.CheckTransition(old, change.Step, change.Role, change.Status); err != nil {
		return nil, err
	}
	return set(clk, old, change), nil
}

// set writes the condition. Gardener's UpdatedConditionWithClock is not the same: it keeps the update time when only
// the status changes, and it puts a sentence of its own where there is no message.
func set(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, change Change,
) []gardencorev1beta1.Condition {
	now := metav1.NewTime(clk.Now())
	condition := gardencorev1beta1.Condition{Type: change.Step.Condition, LastTransitionTime: now}
	if former := v1beta1helper.GetCondition(old, change.Step.Condition); former != nil {
		condition = *former
	}
	reason, message := string(change.Reason), Cut(change.Message, maxMessageLength)
	if condition.Status != change.Status {
		condition.LastTransitionTime = now
	}
	if condition.Status != change.Status || condition.Reason != reason || condition.Message != message {
		condition.LastUpdateTime = now
	}
	condition.Status, condition.Reason, condition.Message = change.Status, reason, message
	condition.Codes = nil
	return v1beta1helper.MergeConditions(old, condition)
}

// Restart returns the conditions with the clock of the current step, which has begun, set to now: an operator has asked
// for a retry, and the step has its whole deadline again.
func Restart(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, step steps.Step, role steps.Role,
) ([]gardencorev1beta1.Condition, error) {
	// What may be written as it is may be restarted; this leaves out the steps of the peer and those that are not
	// current.
	if err := steps.CheckTransition(old, step, role, gardencorev1beta1.ConditionTrue); err != nil {
		return nil, err
	}
	if !steps.Begun(old, step) {
		return nil, fmt.Errorf("condition %s cannot be restarted: the step has not begun", step.Condition)
	}
	reason := steps.ReasonStarted
	if standing := steps.Standing(old, step, reason); standing != "" {
		reason = standing
	}
	out := set(clk, old, Change{
		Step: step, Status: gardencorev1beta1.ConditionProgressing, Reason: reason,
		Message: step.Title + ": retried on request",
	})
	condition := v1beta1helper.GetCondition(out, step.Condition)
	condition.LastTransitionTime = metav1.NewTime(clk.Now())
	return v1beta1helper.MergeConditions(out, *condition), nil
}

// ShowLife returns the conditions with the update time of the last step that the role has finished set to now, and
// nothing else changed: it says to the peer that the role is at work. It refuses that in a step of the role's own,
// whose condition says so itself, unless it is the one that the peer may have to finish (steps.Step.Abandonable), and
// if the role has not finished any.
func ShowLife(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, role steps.Role,
) ([]gardencorev1beta1.Condition, error) {
	current, running := steps.Current(old)
	if !running || current.Owner == role && !current.Abandonable {
		return nil, fmt.Errorf("the %s shows no sign of life: the current step is not one of its peer", role)
	}
	finished, found := steps.LastFinishedOf(old, role)
	if !found {
		return nil, fmt.Errorf("the %s shows no sign of life: it has not finished any step", role)
	}
	condition := *v1beta1helper.GetCondition(old, finished.Condition)
	condition.LastUpdateTime = metav1.NewTime(clk.Now())
	return v1beta1helper.MergeConditions(old, condition), nil
}

// AbortChange is what a role writes about its part in an abort.
type AbortChange struct {
	// Role is who writes.
	Role steps.Role
	// Reason and Message are what the condition of its step says from then on.
	Reason  steps.Reason
	Message string
	// Failed reports that the last attempt failed.
	Failed bool
	// Abandoning reports that the source does not wait for the destination: it takes that one's members out of the
	// etcds.
	Abandoning bool
}

// Abort returns the conditions with the change, in the condition that records the role's step of an abort. It refuses
// what steps.CheckAbort does not allow.
func Abort(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, change AbortChange,
) ([]gardencorev1beta1.Condition, error) {
	check := steps.CheckAbort(old, change.Role)
	if change.Abandoning && change.Role == steps.Source && change.Reason != steps.ReasonAborted {
		check = steps.CheckAbandon(old)
	}
	if check != nil {
		return nil, check
	}
	step := steps.AbortOf(change.Role)
	reason, message := change.Reason, change.Message
	if asked := askedAheadOnly(old); asked != "" && change.Abandoning && reason != steps.ReasonAborted {
		// Until the abandonment is recorded, nothing else says that there is something to abandon.
		reason, message = asked, string(reason)+": "+message
	}
	return set(clk, old, Change{Step: step, Status: step.Finish.Status, Reason: reason, Message: message}), nil
}

// askedAheadOnly returns the reason with which the destination was asked to prepare before its own first step if that
// step has not begun; empty otherwise.
func askedAheadOnly(conditions []gardencorev1beta1.Condition) steps.Reason {
	if steps.Begun(conditions, steps.AbortOf(steps.Destination)) || !steps.AskedAhead(conditions) {
		return ""
	}
	return steps.Reason(v1beta1helper.GetCondition(conditions, steps.AbortOf(steps.Source).Condition).Reason)
}

// Abandon returns the conditions with that of the destination's first step saying that the destination was abandoned,
// and what is left there. The source writes it, for the destination is lost. It refuses what steps.CheckAbandon does
// not allow.
func Abandon(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, message string,
) ([]gardencorev1beta1.Condition, error) {
	if err := steps.CheckAbandon(old); err != nil {
		return nil, err
	}
	return set(clk, old, Change{
		Step: steps.AbortOf(steps.Destination), Status: gardencorev1beta1.ConditionFalse,
		Reason: steps.ReasonAbandoned, Message: message,
	}), nil
}

// Cleared returns the conditions with an abandoned destination withdrawn: its agent has come back and cleaned up.
// Others are returned as they are.
func Cleared(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, message string,
) []gardencorev1beta1.Condition {
	if !steps.Abandoned(old) {
		return old
	}
	step := steps.AbortOf(steps.Destination)
	return set(clk, old, Change{Step: step, Status: step.Finish.Status, Reason: step.Finish.Reason, Message: message})
}

// AbandoningSource returns the conditions with that of the last step, which has not begun, saying how the destination
// gets on with an abandonment of the source, or why it must not abandon it. It refuses what steps.CheckAbandonSource
// does not allow.
func AbandoningSource(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, message string,
) ([]gardencorev1beta1.Condition, error) {
	if err := steps.CheckAbandonSource(old); err != nil {
		return nil, err
	}
	return set(clk, old, Change{Step: steps.Last(), Status: gardencorev1beta1.ConditionUnknown,
		Reason: steps.ReasonAbandoningSource, Message: message}), nil
}

// NotAbandoningSource returns the conditions with that of the last step pending again, if it speaks of an abandonment
// of the source that nobody asks for any more. Others are returned as they are.
func NotAbandoningSource(clk clock.PassiveClock, old []gardencorev1beta1.Condition) []gardencorev1beta1.Condition {
	last := v1beta1helper.GetCondition(old, steps.Last().Condition)
	if last == nil || last.Reason != string(steps.ReasonAbandoningSource) {
		return old
	}
	return set(clk, old, Change{Step: steps.Last(), Status: gardencorev1beta1.ConditionUnknown,
		Reason: steps.ReasonPending, Message: pendingMessage(steps.Last())})
}

// AbandonSource returns the conditions with the source's cleanup finished in the place of the source: the message names
// what may be left there. The destination writes it, for the source is lost. It refuses what steps.CheckAbandonSource
// does not allow.
func AbandonSource(
	clk clock.PassiveClock, old []gardencorev1beta1.Condition, message string,
) ([]gardencorev1beta1.Condition, error) {
	if err := steps.CheckAbandonSource(old); err != nil {
		return nil, err
	}
	current, _ := steps.Current(old)
	return NotAbandoningSource(clk, set(clk, old, Change{Step: current, Status: gardencorev1beta1.ConditionTrue,
		Reason: steps.ReasonSourceAbandoned, Message: message})), nil
}

// AbortOperation returns the last operation that belongs to the conditions while an abort continues, and Aborted when
// it is completed. It returns the old one, update time included, when nothing in it changes.
func AbortOperation(
	clk clock.PassiveClock, old *gardencorev1beta1.LastOperation, conditions []gardencorev1beta1.Condition,
	change AbortChange,
) *gardencorev1beta1.LastOperation {
	operation := gardencorev1beta1.LastOperation{
		Type:     gardencorev1beta1.LastOperationTypeLiveMigrate,
		State:    gardencorev1beta1.LastOperationStateProcessing,
		Progress: steps.Progress(conditions),
		Description: fmt.Sprintf("Aborting the live migration (%s): %s", change.Role,
			Cut(change.Message, maxMessageLength)),
	}
	switch {
	case steps.Aborted(conditions):
		operation.State = gardencorev1beta1.LastOperationStateAborted
		operation.Progress = 0
		operation.Description = "Live migration was aborted: " + change.Message
	case change.Failed:
		operation.State = gardencorev1beta1.LastOperationStateError
	}
	return unlessSame(clk, old, operation)
}

func unlessSame(
	clk clock.PassiveClock, old *gardencorev1beta1.LastOperation, operation gardencorev1beta1.LastOperation,
) *gardencorev1beta1.LastOperation {
	if old != nil && old.Type == operation.Type && old.State == operation.State && old.Progress == operation.Progress &&
		old.Description == operation.Description {
		return old
	}
	operation.LastUpdateTime = metav1.NewTime(clk.Now())
	return &operation
}

// Judge turns what an attempt came to into what the condition shows, in the light of the time: once the step has taken
// longer than its deadline, the condition is False until the step is finished, and the message names the runbook page.
// The reason then is DeadlineExceeded, except where the peer waits for the very reason (an assist). What the peer has
// been asked for also outlives faults and holds (steps.Standing), which then show in the message. What it was asked for
// ahead of its turn outlives the end of the step as well.
func Judge(
	clk clock.PassiveClock,
	old []gardencorev1beta1.Condition,
	step steps.Step,
	outcome steps.Outcome,
) (gardencorev1beta1.ConditionStatus, steps.Reason, string) {
	standing := steps.Standing(old, step, outcome.Reason)
	if outcome.Finished() {
		if standing != "" {
			return gardencorev1beta1.ConditionTrue, standing, outcome.Message
		}
		return gardencorev1beta1.ConditionTrue, outcome.Reason, outcome.Message
	}
	if !Overdue(clk, old, step) {
		if standing != "" {
			return gardencorev1beta1.ConditionProgressing, standing, string(outcome.Reason) + ": " + outcome.Message
		}
		return gardencorev1beta1.ConditionProgressing, outcome.Reason, outcome.Message
	}

	reason := steps.ReasonDeadlineExceeded
	switch {
	case standing != "":
		reason = standing
	case step.AsksWith(outcome.Reason):
		reason = outcome.Reason
	}
	return gardencorev1beta1.ConditionFalse, reason,
		fmt.Sprintf("%s: %s. The step takes longer than its deadline of %s. The agent keeps trying; see %s",
			outcome.Reason, outcome.Message, step.Deadline, pages.OfStep(step))
}

// Overdue reports whether the step has taken longer than its deadline. A condition that is False stays overdue.
func Overdue(clk clock.PassiveClock, conditions []gardencorev1beta1.Condition, step steps.Step) bool {
	condition := v1beta1helper.GetCondition(conditions, step.Condition)
	if condition == nil {
		return false
	}
	switch condition.Status {
	case gardencorev1beta1.ConditionFalse:
		return true
	case gardencorev1beta1.ConditionProgressing:
		return step.Deadline > 0 && clk.Since(condition.LastTransitionTime.Time) > step.Deadline
	}
	return false
}

// handOverDescription is how the description begins of the last operation that ends a live migration.
const handOverDescription = "Control plane of the shoot was migrated live from seed "

// HandOverDescription returns the description of the last operation with which a Shoot is handed over that has come
// from the seed.
func HandOverDescription(source string) string { return handOverDescription + source + "." }

// IsHandOver reports whether the last operation, whatever its state, is the one with which a Shoot was handed over, and
// nobody has begun another one since.
func IsHandOver(operation *gardencorev1beta1.LastOperation) bool {
	return operation != nil && strings.HasPrefix(operation.Description, handOverDescription)
}

// LastOperation returns the last operation that belongs to the conditions while the given step is the current one. It
// returns the old one, update time included, when nothing in it changes.
func LastOperation(
	clk clock.PassiveClock,
	old *gardencorev1beta1.LastOperation,
	conditions []gardencorev1beta1.Condition,
	step steps.Step,
) *gardencorev1beta1.LastOperation {
	operation := gardencorev1beta1.LastOperation{
		Type:     gardencorev1beta1.LastOperationTypeLiveMigrate,
		State:    gardencorev1beta1.LastOperationStateProcessing,
		Progress: steps.Progress(conditions),
	}

	turn := fmt.Sprintf("Step %d of %d (%s): %s", steps.Index(step.Condition)+1, len(steps.Table()), step.Owner,
		step.Title)
	condition := v1beta1helper.GetCondition(conditions, step.Condition)
	switch {
	case condition == nil:
		operation.Description = turn
	case condition.Status == gardencorev1beta1.ConditionTrue && step.HandsOver:
		operation.State = gardencorev1beta1.LastOperationStateSucceeded
		operation.Description = "Live migration of the control plane succeeded"
	default:
		if condition.Status == gardencorev1beta1.ConditionFalse ||
			(condition.Status != gardencorev1beta1.ConditionTrue && steps.Reason(condition.Reason).Fault()) {
			operation.State = gardencorev1beta1.LastOperationStateError
		}
		operation.Description = turn + ": " + condition.Message
	}

	return unlessSame(clk, old, operation)
}

// Duration returns how long the step has taken, or false when it has not begun.
func Duration(clk clock.PassiveClock, conditions []gardencorev1beta1.Condition, step steps.Step) (time.Duration, bool) {
	started := steps.StartedAt(conditions, step)
	if started.IsZero() {
		return 0, false
	}
	return clk.Since(started), true
}
