// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Pause asks the migration to hold before the step. Without one it is the first that has not begun.
func (s Steerer) Pause(ctx context.Context, shoot *gardencorev1beta1.Shoot, before *steps.Step) (Result, error) {
	out := s.result(shoot, s.Summary(shoot).String())
	conditions := steps.Conditions(shoot)
	running := steps.Requested(shoot) && steps.Initialized(conditions)
	begun := func(step steps.Step) bool { return running && steps.Begun(conditions, step) }
	if before == nil {
		step, err := firstNotBegun(begun)
		if err != nil {
			return out, exit.Refused("%s cannot be paused: %w", nameOf(shoot), err)
		}
		before = &step
	}
	if begun(*before) {
		alternative := "no step is left to pause before"
		if next, err := firstNotBegun(begun); err == nil {
			alternative = fmt.Sprintf("pause before %s instead", next)
		}
		return out, exit.Refused("%s cannot be paused before %s: the step has begun, and a step that has begun "+
			"cannot be held; %s", nameOf(shoot), before, alternative)
	}

	write, err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationPauseBefore: before.String()})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
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
	out := s.result(shoot, migration.String())
	was, ok := shoot.Annotations[steps.AnnotationPauseBefore]
	if !ok {
		return out, exit.Refused("no pause of %s is requested; its state is: %s", nameOf(shoot), migration)
	}
	write, err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationPauseBefore: ""})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = s.Summary(shoot).String()
	out.Done = []string{removed(steps.AnnotationPauseBefore, was)}
	out.Not = []string{"the agent of the step's owner resumes within seconds; this command does not wait for it"}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

// Retry asks the owner of the current step for another attempt at once, with the whole deadline.
func (s Steerer) Retry(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Result, error) {
	migration := s.Summary(shoot)
	out := s.result(shoot, migration.String())
	conditions := steps.Conditions(shoot)
	current, unfinished := steps.Current(conditions)
	switch {
	case !steps.Requested(shoot) || !steps.Initialized(conditions) || !unfinished:
		return out, exit.Refused("%s has no live migration to retry; its state is: %s", nameOf(shoot), migration)
	case steps.AbortDue(shoot):
		return out, exit.Refused("%s is being aborted; the agents retry an abort by themselves", nameOf(shoot))
	case !steps.Begun(conditions, current):
		return out, exit.Refused("step %s of %s has not begun, so there is nothing to retry; the agent checks every "+
			"few seconds whether it can begin: %s", current, nameOf(shoot), migration.Message)
	}
	if was, ok := shoot.Annotations[v1beta1constants.GardenerOperation]; ok {
		return out, exit.Refused("%s already has the annotation %s=%s; wait until it is removed", nameOf(shoot),
			v1beta1constants.GardenerOperation, was)
	}
	write, err := s.annotate(ctx, shoot,
		map[string]string{v1beta1constants.GardenerOperation: v1beta1constants.ShootOperationRetry})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(v1beta1constants.GardenerOperation, v1beta1constants.ShootOperationRetry)}
	out.Not = []string{"finished steps are not repeated, and nothing is undone"}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

// AbandonSource asks the destination to finish the migration without the source, which is lost. The caller has the name
// of the source's seed typed by an operator; another one is refused. Whether the destination can do without the source,
// and whether that shows no sign of life, is for the destination to find out.
func (s Steerer) AbandonSource(ctx context.Context, shoot *gardencorev1beta1.Shoot, typed string) (Result, error) {
	migration := s.Summary(shoot)
	out := s.result(shoot, migration.String())
	source, destination, _ := steps.Seeds(shoot)
	current, _ := steps.Current(steps.Conditions(shoot))
	switch {
	case !steps.Requested(shoot):
		return out, exit.Refused("%s has no live migration to finish; its state is: %s", nameOf(shoot), migration)
	case typed != source:
		return out, exit.Refused("the source of %s is seed %q, not %q: name the seed that is lost to confirm that it "+
			"is to be abandoned", nameOf(shoot), source, typed)
	case steps.SourceAbandoned(steps.Conditions(shoot)):
		return out, exit.Refused("seed %s is abandoned already: %s", source, migration)
	case current.HandsOver:
		return out, exit.Refused("seed %s need not be abandoned: step %s asks nothing of it", source, current)
	case !steps.AbandonSourcePossible(steps.Conditions(shoot)):
		return out, exit.Refused("seed %s cannot be abandoned: the current step is %s, and the shoot is what seed %s "+
			"has. See "+pages.Recovery, source, current, source)
	case steps.AbandonSourceRequested(shoot):
		return out, exit.Refused("seed %s is already being abandoned: %s", source, migration.Message)
	}
	write, err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationAbandonSource: source})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(steps.AnnotationAbandonSource, source)}
	out.Not = []string{
		fmt.Sprintf("seed %s is abandoned only when neither its agent nor its gardenlet has answered for a while, and "+
			"seed %s is whole by itself", source, destination),
		fmt.Sprintf("nothing in seed %s is removed; the Shoot's annotation %s says so until that has been done", source,
			steps.AnnotationLeftBehind),
	}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

func target(shoot *gardencorev1beta1.Shoot) string { return shoot.Name + " -n " + shoot.Namespace }
