// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Pause asks the migration to hold before the step. Without one it is the first that has not begun.
func (s Steerer) Pause(ctx context.Context, shoot *gardencorev1beta1.Shoot, before *steps.Step) (Result, error) {
	out := Result{Before: s.Summary(shoot).String()}
	conditions := steps.Conditions(shoot)
	running := steps.Requested(shoot) && steps.Initialized(conditions)
	begun := func(step steps.Step) bool { return running && steps.Begun(conditions, step) }
	if before == nil {
		step, err := firstNotBegun(begun)
		if err != nil {
			return out, fmt.Errorf("%s cannot be paused: %w", nameOf(shoot), err)
		}
		before = &step
	}
	if begun(*before) {
		alternative := "no step is left to pause before"
		if next, err := firstNotBegun(begun); err == nil {
			alternative = fmt.Sprintf("pause before %s instead", next)
		}
		return out, fmt.Errorf("%s cannot be paused before %s: the step has begun, and a step that has begun "+
			"cannot be held; %s", nameOf(shoot), before, alternative)
	}

	if err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationPauseBefore: before.String()}); err != nil {
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(steps.AnnotationPauseBefore, before.String())}
	if running {
		out.Not = []string{"a step that has begun is not stopped; the migration holds when it reaches " +
			before.String()}
	}
	if before.Condition == steps.Last().Condition {
		out.Not = append(out.Not,
			"no controller of the shoot runs in either seed while this step is held: do not hold it for long")
	}
	out.Next = []string{"kubectl livecpm resume " + target(shoot)}
	return out, nil
}

func firstNotBegun(begun func(steps.Step) bool) (steps.Step, error) {
	for _, step := range steps.Table() {
		if !begun(step) {
			return step, nil
		}
	}
	return steps.Step{}, fmt.Errorf("the last step, %s, has begun; it can only continue", steps.Last())
}

// Resume withdraws the request for a pause.
func (s Steerer) Resume(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Result, error) {
	migration := s.Summary(shoot)
	out := Result{Before: migration.String()}
	was, ok := shoot.Annotations[steps.AnnotationPauseBefore]
	if !ok {
		return out, fmt.Errorf("no pause of %s is requested; its state is: %s", nameOf(shoot), migration)
	}
	if err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationPauseBefore: ""}); err != nil {
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Done = []string{removed(steps.AnnotationPauseBefore, was)}
	out.Not = []string{"the agent of the step's owner resumes within seconds; this command does not wait for it"}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

// Retry asks the owner of the current step for another attempt at once, with the whole deadline.
func (s Steerer) Retry(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Result, error) {
	migration := s.Summary(shoot)
	out := Result{Before: migration.String()}
	conditions := steps.Conditions(shoot)
	current, unfinished := steps.Current(conditions)
	switch {
	case !steps.Requested(shoot) || !steps.Initialized(conditions) || !unfinished:
		return out, fmt.Errorf("%s has no live migration to retry; its state is: %s", nameOf(shoot), migration)
	case steps.AbortDue(shoot):
		return out, fmt.Errorf("%s is being aborted; the agents retry an abort by themselves", nameOf(shoot))
	case !steps.Begun(conditions, current):
		return out, fmt.Errorf("step %s of %s has not begun, so there is nothing to retry; the agent checks every "+
			"few seconds whether it can begin: %s", current, nameOf(shoot), migration.Message)
	}
	if was, ok := shoot.Annotations[v1beta1constants.GardenerOperation]; ok {
		return out, fmt.Errorf("%s already has the annotation %s=%s; wait until it is removed", nameOf(shoot),
			v1beta1constants.GardenerOperation, was)
	}
	if err := s.annotate(ctx, shoot,
		map[string]string{v1beta1constants.GardenerOperation: v1beta1constants.ShootOperationRetry}); err != nil {
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(v1beta1constants.GardenerOperation, v1beta1constants.ShootOperationRetry)}
	out.Not = []string{"finished steps are not repeated, and nothing is undone"}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

func target(shoot *gardencorev1beta1.Shoot) string { return shoot.Name + " -n " + shoot.Namespace }
