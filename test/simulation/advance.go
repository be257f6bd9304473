// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Advance changes the Shoot as both agents together would by the next step of its live migration: the first call
// initializes the conditions and begins the first step, each later one finishes a step, and the last one hands over. It
// is for gardens with so many migrations that an agent for each seed would be too much; who calls it writes the Shoot,
// with an optimistic lock.
func Advance(clk clock.PassiveClock, shoot *gardencorev1beta1.Shoot) error {
	if !steps.Intended(shoot) {
		return errors.New("the shoot is not meant to be migrated live")
	}
	if !steps.Initialized(steps.Conditions(shoot)) {
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{
			Conditions: conditions.Initialize(clk, steps.Conditions(shoot)),
		}
		return set(clk, shoot, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
	}
	step, unfinished := steps.Current(steps.Conditions(shoot))
	if !unfinished {
		return errors.New("all steps are finished")
	}
	if err := set(clk, shoot, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted); err != nil {
		return err
	}
	if step.HandsOver {
		Arrive(shoot, clk.Now())
		delete(shoot.Annotations, steps.AnnotationIntent)
	}
	return nil
}

// set sets the condition of the current step, by its owner.
func set(
	clk clock.PassiveClock, shoot *gardencorev1beta1.Shoot, status gardencorev1beta1.ConditionStatus,
	reason steps.Reason,
) error {
	all := steps.Conditions(shoot)
	step, _ := steps.Current(all)
	if err := steps.CheckTransition(all, step, step.Owner, status); err != nil {
		return err
	}
	now := metav1.NewTime(clk.Now())
	shoot.Status.LiveMigration.Conditions = v1beta1helper.MergeConditions(all, gardencorev1beta1.Condition{
		Type: step.Condition, Status: status, Reason: string(reason), Message: "simulated", LastTransitionTime: now,
		LastUpdateTime: now,
	})
	return nil
}
