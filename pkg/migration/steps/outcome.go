// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// Outcome is what one attempt at a step came to.
type Outcome struct {
	// Status is True when the step is finished; everything else counts as Progressing. Actions do not judge about time:
	// it is the frame that makes the condition False when the deadline has passed.
	Status gardencorev1beta1.ConditionStatus
	// Reason is the word for what the step waits for or has done.
	Reason Reason
	// Message tells a human the same with names and numbers. It holds no secrets.
	Message string
	// RequeueAfter is when to try again if the step is not finished; zero lets the frame choose.
	RequeueAfter time.Duration
}

// Done is the outcome of a finished step.
func Done(format string, args ...any) Outcome {
	return Outcome{Status: gardencorev1beta1.ConditionTrue, Reason: ReasonCompleted,
		Message: fmt.Sprintf(format, args...)}
}

// Waiting is the outcome of a step that has nothing to do until something in the world changes.
func Waiting(after time.Duration, reason Reason, format string, args ...any) Outcome {
	return Outcome{Status: gardencorev1beta1.ConditionProgressing, Reason: reason,
		Message: fmt.Sprintf(format, args...), RequeueAfter: after}
}

// Finished reports whether the step is done.
func (o Outcome) Finished() bool { return o.Status == gardencorev1beta1.ConditionTrue }
