// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package conditions computes what the owner of the current step writes into a Shoot's status: status.liveMigration
// .conditions and status.lastOperation. It is pure: it takes the old values and a clock and returns new ones.
package conditions

import (
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/steps"
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
			Message:            fmt.Sprintf("%s: not begun yet. Owner is the %s.", step.Title, step.Owner),
			LastTransitionTime: now,
			LastUpdateTime:     now,
		})
	}
	for _, condition := range old {
		if steps.Index(condition.Type) < 0 {
			out = append(out, condition)
		}
	}
	return out
}

// Apply returns the conditions with the one of the given step set to status, reason and message; all others are as
// before, also those that are unknown here. It refuses what the step table does not allow (see steps.CheckTransition).
// The transition time changes with the status only, the update time with any change.
func Apply(
	clk clock.PassiveClock,
	old []gardencorev1beta1.Condition,
	step steps.Step,
	role steps.Role,
	status gardencorev1beta1.ConditionStatus,
	reason steps.Reason,
	message string,
) ([]gardencorev1beta1.Condition, error) {
	if err := steps.CheckTransition(old, step, role, status); err != nil {
		return nil, err
	}

	now := metav1.NewTime(clk.Now())
	out := slices.Clone(old)
	i := slices.IndexFunc(out, func(c gardencorev1beta1.Condition) bool { return c.Type == step.Condition })
	if i < 0 {
		out = append(out, gardencorev1beta1.Condition{Type: step.Condition, LastTransitionTime: now})
		i = len(out) - 1
	}

	condition := &out[i]
	message = shorten(message)
	if condition.Status != status {
		condition.LastTransitionTime = now
	}
	if condition.Status != status || condition.Reason != string(reason) || condition.Message != message {
		condition.LastUpdateTime = now
	}
	condition.Status, condition.Reason, condition.Message = status, string(reason), message
	condition.Codes = nil
	return out, nil
}

// Judge turns what an attempt came to into what the condition shows, in the light of the time: once the step has taken
// longer than its deadline, the condition is False until the step is finished, and the message names the runbook page. The
// reason then is DeadlineExceeded, except where the peer waits for the very reason (an assist).
func Judge(
	clk clock.PassiveClock,
	old []gardencorev1beta1.Condition,
	step steps.Step,
	outcome steps.Outcome,
) (gardencorev1beta1.ConditionStatus, steps.Reason, string) {
	if outcome.Finished() {
		return gardencorev1beta1.ConditionTrue, outcome.Reason, outcome.Message
	}
	if !Overdue(clk, old, step) {
		return gardencorev1beta1.ConditionProgressing, outcome.Reason, outcome.Message
	}

	reason := steps.ReasonDeadlineExceeded
	if step.AssistOn != "" && outcome.Reason == step.AssistOn {
		reason = outcome.Reason
	}
	return gardencorev1beta1.ConditionFalse, reason, fmt.Sprintf("%s: %s. The step takes longer than its deadline of %s and is still tried; see %s",
		outcome.Reason, outcome.Message, step.Deadline, Runbook(step))
}

// Runbook returns the page that tells an operator what to do when the step does not come to its end.
func Runbook(step steps.Step) string { return "docs/runbooks/" + string(step.Condition) + ".md" }

// Overdue tells whether the step has taken longer than its deadline. A condition that is False stays overdue.
func Overdue(clk clock.PassiveClock, conditions []gardencorev1beta1.Condition, step steps.Step) bool {
	i := slices.IndexFunc(conditions, func(c gardencorev1beta1.Condition) bool { return c.Type == step.Condition })
	if i < 0 {
		return false
	}
	switch conditions[i].Status {
	case gardencorev1beta1.ConditionFalse:
		return true
	case gardencorev1beta1.ConditionProgressing:
		return step.Deadline > 0 && clk.Since(conditions[i].LastTransitionTime.Time) > step.Deadline
	}
	return false
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

	i := slices.IndexFunc(conditions, func(c gardencorev1beta1.Condition) bool { return c.Type == step.Condition })
	switch {
	case i < 0:
		operation.Description = fmt.Sprintf("Step %d of %d (%s): %s", steps.Index(step.Condition)+1, len(steps.Table()), step.Owner, step.Title)
	case conditions[i].Status == gardencorev1beta1.ConditionTrue && step.Condition == steps.Last().Condition:
		operation.State = gardencorev1beta1.LastOperationStateSucceeded
		operation.Description = "Live migration of the control plane succeeded"
	default:
		if conditions[i].Status == gardencorev1beta1.ConditionFalse || (conditions[i].Status != gardencorev1beta1.ConditionTrue && steps.Reason(conditions[i].Reason).Fault()) {
			operation.State = gardencorev1beta1.LastOperationStateError
		}
		operation.Description = fmt.Sprintf("Step %d of %d (%s): %s: %s", steps.Index(step.Condition)+1, len(steps.Table()), step.Owner, step.Title, conditions[i].Message)
	}

	if old != nil && old.Type == operation.Type && old.State == operation.State && old.Progress == operation.Progress && old.Description == operation.Description {
		return old
	}
	operation.LastUpdateTime = metav1.NewTime(clk.Now())
	return &operation
}

// Duration returns how long the step has taken, or false when it has not begun.
func Duration(clk clock.PassiveClock, conditions []gardencorev1beta1.Condition, step steps.Step) (time.Duration, bool) {
	started := steps.StartedAt(conditions, step)
	if started.IsZero() {
		return 0, false
	}
	return clk.Since(started), true
}

// shorten cuts an overlong message at a rune's boundary.
func shorten(message string) string {
	if len(message) <= maxMessageLength {
		return message
	}
	cut := maxMessageLength - len("…")
	for cut > 0 && message[cut]&0xC0 == 0x80 {
		cut--
	}
	return message[:cut] + "…"
}
