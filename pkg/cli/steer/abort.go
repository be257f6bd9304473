// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Abort asks both seeds to undo what they have done, if that is still possible.
func (s Steerer) Abort(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Result, error) {
	migration := s.Summary(shoot)
	out := Result{Before: migration.String()}
	conditions := steps.Conditions(shoot)
	switch {
	case migration.State == summary.Aborting:
		return out, fmt.Errorf("%s is already being aborted: %s", nameOf(shoot), migration.Message)
	case migration.State == summary.Aborted:
		return out, fmt.Errorf("the live migration of %s is already aborted; choose what happens next:\n%s",
			nameOf(shoot),
			choices(shoot))
	case !steps.Requested(shoot):
		return out, fmt.Errorf("%s has no live migration to abort; its state is: %s", nameOf(shoot), migration)
	case !steps.Abortable(conditions):
		current, _ := steps.Current(conditions)
		return out,
			fmt.Errorf("the live migration of %s can no longer be aborted: %s is True, the current step is %s. %s",
				nameOf(shoot), steps.LastAbortable(), current,
				alternative(shoot, conditions, current))
	}

	if err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationAbort: "true"}); err != nil {
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(steps.AnnotationAbort, "true")}
	out.Not = []string{
		"spec.seedName is not set back; choose what happens next when the state is Aborted",
		"the annotation cannot be removed while the abort is in flight",
	}
	out.Next = []string{"kubectl livecpm status " + target(shoot) +
		" (it exits with code 1 when the abort is completed)", choices(shoot)}
	return out, nil
}

// alternative says what to do instead of an abort that comes too late.
func alternative(shoot *gardencorev1beta1.Shoot, conditions []gardencorev1beta1.Condition, current steps.Step) string {
	noReturn, joined := false, steps.Index(current.Condition)
	for _, step := range steps.Table()[:joined] {
		noReturn = noReturn || step.PointOfNoReturn
	}
	way := "Extensions may already have left the source, so the migration can only go forward"
	if noReturn {
		way = "The etcd is in the destination, so there is nothing to go back to"
	}
	if steps.Begun(conditions, current) {
		return fmt.Sprintf("%s: to gain time, pause before the next step (kubectl livecpm pause %s); if the step "+
			"makes no progress, see docs/operations/%s.md and retry it (kubectl livecpm retry %s).",
			way, target(shoot), current, target(shoot))
	}
	return fmt.Sprintf("%s: to gain time, pause before this step (kubectl livecpm pause %s); see "+
		"docs/operations/%s.md for what may hold it.", way, target(shoot), current)
}

func choices(shoot *gardencorev1beta1.Shoot) string {
	_, destination, _ := steps.Seeds(shoot)
	return fmt.Sprintf("when the state is Aborted, keep the shoot where it is (kubectl livecpm abort %s --stay), or "+
		"start again (kubectl livecpm start %s --to %s)", target(shoot), target(shoot), destination)
}

// Stay closes an aborted migration with one write: spec.seedName becomes the source again, and the annotations of the
// migration go. gardener-apiserver judges a change of the seed with the intent annotation as a new live migration, so
// with two writes the versions of the gardenlets or the distance of the seeds could keep the shoot from staying where
// it is; and without the annotation, but with different seeds, the classic migration would begin.
func (s Steerer) Stay(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Result, error) {
	migration := s.Summary(shoot)
	out := Result{Before: migration.String()}
	source, destination, between := steps.Seeds(shoot)
	switch {
	case !between:
		return out, fmt.Errorf("%s is not on its way to another seed", nameOf(shoot))
	case migration.State != summary.Aborted:
		return out, fmt.Errorf("spec.seedName of %s can be set back only when its live migration is Aborted; its "+
			"state is: %s", nameOf(shoot), migration)
	}
	annotations := maps.Clone(shoot.Annotations)
	if err := s.bind(ctx, shoot, source, steps.RemoveAnnotations); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w\nNothing was changed. gardener-apiserver asks of every change of the seed that its "+
				"taints, its access restrictions and its number of shoots allow another one: if the message names one "+
				"of them, lift it in Seed %s for as long as this command takes", err, source)
		}
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Done = []string{fmt.Sprintf("set spec.seedName from %s back to %s", destination, source)}
	for _, annotation := range slices.Sorted(maps.Keys(annotations)) {
		if _, kept := shoot.Annotations[annotation]; !kept {
			out.Done = append(out.Done, removed(annotation, annotations[annotation]))
		}
	}
	out.Not = []string{"the conditions of the aborted migration are not removed; the next one replaces them"}
	return out, nil
}
