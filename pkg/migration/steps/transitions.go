// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// transitions lists which status may follow which within one migration. True is final: a finished step is never taken
// back; only the start of another migration or an abort replaces it. False means that the deadline has passed; the step
// may still finish, but it does not count as on time again, unless an operator asks for a retry.
var transitions = map[gardencorev1beta1.ConditionStatus][]gardencorev1beta1.ConditionStatus{
	gardencorev1beta1.ConditionUnknown: {gardencorev1beta1.ConditionUnknown, gardencorev1beta1.ConditionProgressing,
		gardencorev1beta1.ConditionTrue},
	gardencorev1beta1.ConditionProgressing: {gardencorev1beta1.ConditionProgressing, gardencorev1beta1.ConditionFalse,
		gardencorev1beta1.ConditionTrue},
	gardencorev1beta1.ConditionFalse: {gardencorev1beta1.ConditionFalse, gardencorev1beta1.ConditionTrue},
	gardencorev1beta1.ConditionTrue:  {gardencorev1beta1.ConditionTrue},
}

// CheckTransition returns an error unless the role may now set the condition of the step to the status: the role owns
// the step, the step is the current one, and the status may follow the one that the condition has.
func CheckTransition(
	conditions []gardencorev1beta1.Condition, step Step, role Role, to gardencorev1beta1.ConditionStatus,
) error {
	if step.Owner != role {
		return fmt.Errorf("condition %s is written by the %s only, not by the %s", step.Condition, step.Owner, role)
	}
	current, ok := Current(conditions)
	if !ok {
		return fmt.Errorf("condition %s cannot become %s: all steps are finished", step.Condition, to)
	}
	if current.Condition != step.Condition {
		return fmt.Errorf("condition %s cannot become %s: the current step is %s", step.Condition, to,
			current.Condition)
	}
	from := gardencorev1beta1.ConditionUnknown
	if condition := v1beta1helper.GetCondition(conditions, step.Condition); condition != nil {
		from = condition.Status
	}
	if !slices.Contains(transitions[from], to) {
		return fmt.Errorf("condition %s cannot go from %s to %s", step.Condition, from, to)
	}
	return nil
}
