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

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Abort asks both seeds to undo what they have done, if that is still possible.
func (s Steerer) Abort(ctx context.Context, shoot *gardencorev1beta1.Shoot) (Result, error) {
	migration := s.Summary(shoot)
	out := s.result(shoot, migration.String())
	conditions := steps.Conditions(shoot)
	switch {
	case migration.State == summary.Aborting:
		return out, exit.Refused("%s is already being aborted: %s", nameOf(shoot), migration.Message)
	case migration.State == summary.Aborted:
		return out, exit.Refused("the live migration of %s is already aborted; choose what happens next:\n%s",
			nameOf(shoot),
			choices(shoot))
	case !steps.Requested(shoot):
		return out, exit.Refused("%s has no live migration to abort; its state is: %s", nameOf(shoot), migration)
	case !steps.AbortPossible(shoot):
		current, _ := steps.Current(conditions)
		return out, exit.Refused("the live migration of %s can no longer be aborted: the current step is %s. %s",
			nameOf(shoot), current, alternative(shoot, conditions, current))
	}

	write, err := s.annotate(ctx, shoot, map[string]string{steps.AnnotationAbort: "true"})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(steps.AnnotationAbort, "true")}
	out.Not = []string{
		"spec.seedName is not set back; choose what happens next when the state is Aborted",
		"the annotation cannot be removed while the abort is in flight",
	}
	out.Next = []string{"kubectl livecpm status " + target(shoot) + " --for Aborted", choices(shoot)}
	return out, nil
}

// Abandon asks the source to abort without the destination, which is lost. The caller has the name of the destination's
// seed typed by an operator; another one is refused. An abort that waits for the destination can be made one as well.
func (s Steerer) Abandon(ctx context.Context, shoot *gardencorev1beta1.Shoot, typed string) (Result, error) {
	migration := s.Summary(shoot)
	out := s.result(shoot, migration.String())
	source, destination, _ := steps.Seeds(shoot)
	conditions := steps.Conditions(shoot)
	switch {
	case !steps.Requested(shoot):
		return out, exit.Refused("%s has no live migration to abort; its state is: %s", nameOf(shoot), migration)
	case typed != destination:
		return out, exit.Refused("the destination of %s is seed %q, not %q: name the seed that is lost to confirm "+
			"that it is to be abandoned", nameOf(shoot), destination, typed)
	case migration.State == summary.Aborted:
		return out, exit.Refused("the live migration of %s is already aborted", nameOf(shoot))
	case !steps.AbortPossible(shoot):
		current, _ := steps.Current(conditions)
		return out, exit.Refused("seed %s cannot be abandoned any more: the current step is %s, and etcd members of "+
			"seed %s may have left. See "+pages.Recovery, destination, current, source)
	case steps.Withdrawn(conditions):
		return out, exit.Refused("nothing of %s is in seed %s: abort without it (kubectl livecpm abort %s)",
			nameOf(shoot),
			destination, target(shoot))
	case steps.AbandonRequested(shoot):
		return out, exit.Refused("seed %s is already being abandoned: %s", destination, migration.Message)
	}

	write, err := s.annotate(ctx, shoot, map[string]string{
		steps.AnnotationAbort: "true", steps.AnnotationAbandon: destination,
	})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = s.Summary(shoot).String()
	out.Done = []string{set(steps.AnnotationAbort, "true"), set(steps.AnnotationAbandon, destination)}
	out.Not = []string{
		fmt.Sprintf("nothing in seed %s is removed; its agent does that if it comes back, and the Shoot's annotation "+
			"%s says so until then", destination, steps.AnnotationLeftBehind),
		"the annotations cannot be removed while the abort is in flight",
	}
	out.Next = []string{"kubectl livecpm status " + target(shoot) + " --for Aborted", choices(shoot)}
	return out, nil
}

// alternative says what to do instead of an abort that comes too late.
func alternative(shoot *gardencorev1beta1.Shoot, conditions []gardencorev1beta1.Condition, current steps.Step) string {
	noReturn := steps.ForceShrinkRequested(shoot)
	for _, step := range steps.Table()[:steps.Index(current.Condition)] {
		noReturn = noReturn || step.PointOfNoReturn
	}
	way := "DNS moves to the destination, and etcd members of the source may leave at any moment, so the migration " +
		"can only go forward"
	if noReturn {
		way = "The etcd is in the destination or on its way there, so there is nothing to go back to"
	}
	if steps.Begun(conditions, current) {
		return fmt.Sprintf("%s: to gain time, pause before the next step (kubectl livecpm pause %s); if the step "+
			"makes no progress, see %s and retry it (kubectl livecpm retry %s).",
			way, target(shoot), pages.OfStep(current), target(shoot))
	}
	return fmt.Sprintf("%s: to gain time, pause before this step (kubectl livecpm pause %s); see "+
		"%s for what may hold it.", way, target(shoot), pages.OfStep(current))
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
	out := s.result(shoot, migration.String())
	source, destination, between := steps.Seeds(shoot)
	switch {
	case !between:
		return out, exit.Refused("%s is not on its way to another seed", nameOf(shoot))
	case migration.State != summary.Aborted:
		return out, exit.Refused("spec.seedName of %s can be set back only when its live migration is Aborted; its "+
			"state is: %s", nameOf(shoot), migration)
	}
	annotations := maps.Clone(shoot.Annotations)
	write, err := s.bind(ctx, shoot, source, steps.RemoveAnnotations)
	if err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w\nNothing was changed. gardener-apiserver asks of every change of the seed that its "+
				"taints, its access restrictions and its number of shoots allow another one: if the message names one "+
				"of them, lift it in Seed %s for as long as this command takes", err, source)
		}
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Writes = []Write{write}
	out.Done = []string{fmt.Sprintf("set spec.seedName from %s back to %s", destination, source)}
	for _, annotation := range slices.Sorted(maps.Keys(annotations)) {
		if _, kept := shoot.Annotations[annotation]; !kept {
			out.Done = append(out.Done, removed(annotation, annotations[annotation]))
		}
	}
	out.Not = []string{"the conditions of the aborted migration are not removed; the next one replaces them"}
	if left, ok := shoot.Annotations[steps.AnnotationLeftBehind]; ok {
		out.Not = append(out.Not,
			fmt.Sprintf("the annotation %s stays: seed %s was abandoned and may have something of "+
				"the shoot. Its agent cannot see the Shoot any more; remove the rest by hand and the annotation then "+
				"("+pages.Abort+")", steps.AnnotationLeftBehind, left))
	}
	return out, nil
}
