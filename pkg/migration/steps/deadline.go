// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"errors"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

const (
	// AnnotationDeadline on a Shoot is how long its migration may take as a whole, as a Go duration, for example "6h".
	// It takes the place of what the controller manager is configured with.
	AnnotationDeadline = "migration.gardener.cloud/deadline"
	// AnnotationOverdue on a Shoot says that its migration has passed its deadline. The value is when the migration
	// began, in RFC 3339, for the conditions do not tell that to the end. The controller manager writes it before it
	// tells people, so that it tells them once. It goes with the migration, and when the next one begins.
	AnnotationOverdue = "migration.gardener.cloud/overdue"
)

// Deadline is the deadline of a migration as a whole. Like those of the steps it calls for people; it undoes nothing.
type Deadline struct {
	// Began is when the migration was taken up.
	Began time.Time
	// After is how long it may take.
	After time.Duration
}

// At returns when the deadline passes.
func (d Deadline) At() time.Time { return d.Began.Add(d.After) }

// Passed reports whether it has passed.
func (d Deadline) Passed(now time.Time) bool { return !now.Before(d.At()) }

// DeadlineOf returns the deadline of the shoot's migration; false if none is being carried out, or was aborted. Without
// the annotation, or if that is malformed, which is the error, the migration may take as long as the default.
func DeadlineOf(shoot *gardencorev1beta1.Shoot, byDefault time.Duration) (Deadline, bool, error) {
	conditions := Conditions(shoot)
	if !Requested(shoot) || !Initialized(conditions) {
		return Deadline{}, false, nil
	}
	deadline := Deadline{Began: BeganAt(conditions), After: byDefault}
	if noted, err := time.Parse(time.RFC3339, shoot.Annotations[AnnotationOverdue]); err == nil &&
		noted.Before(deadline.Began) {
		deadline.Began = noted
	}
	value, ok := shoot.Annotations[AnnotationDeadline]
	if !ok {
		return deadline, true, nil
	}
	after, err := time.ParseDuration(value)
	if err == nil && after <= 0 {
		err = errors.New("it is not positive")
	}
	if err != nil {
		return deadline, true, fmt.Errorf("the annotation %s=%q is malformed, so %s count: %w", AnnotationDeadline,
			value, byDefault, err)
	}
	deadline.After = after
	return deadline, true, nil
}

// DeadlinePassed reports whether the controller manager has found that the migration has passed its deadline.
func DeadlinePassed(shoot *gardencorev1beta1.Shoot) bool {
	return shoot.Annotations[AnnotationOverdue] != ""
}

// BeganAt returns when the migration was taken up, which is when its conditions were written. The condition of a step
// that has not begun is from then. When the last step has begun, there is none of these, and the end of the first step
// stands in.
func BeganAt(conditions []gardencorev1beta1.Condition) time.Time {
	var began time.Time
	for _, step := range order {
		condition := v1beta1helper.GetCondition(conditions, step.Condition)
		if condition == nil {
			continue
		}
		if at := condition.LastTransitionTime.Time; began.IsZero() || at.Before(began) {
			began = at
		}
	}
	return began
}
