// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Start is what a live migration is asked for with.
type Start struct {
	// Destination is the seed to move to.
	Destination string
	// PauseBefore is the step to hold before; nil for none.
	PauseBefore *steps.Step
}

// Start asks for the live migration: the annotations, and then the binding to the seed. If the API server refuses the
// binding, the annotations are taken back.
func (s Steerer) Start(ctx context.Context, shoot *gardencorev1beta1.Shoot, start Start) (Result, error) {
	migration := s.Summary(shoot)
	out := Result{Before: migration.String()}
	if err := start.refuse(shoot, migration); err != nil {
		return out, err
	}
	_, _, again := steps.Seeds(shoot)

	asked := start.request(shoot)
	if err := s.annotate(ctx, shoot, asked.values); err != nil {
		return out, err
	}
	out.Done = asked.done

	switch {
	case again:
		out.Done = append(out.Done,
			fmt.Sprintf("spec.seedName is %s already: the aborted migration begins again", start.Destination))
	case s.DryRun:
		// Whether the API server would accept the binding depends on the annotation, which it has not kept.
		out.Done = append(out.Done,
			fmt.Sprintf("would set spec.seedName from %s to %s through shoots/binding; gardener-apiserver "+
				"judges that only in a real run", *shoot.Spec.SeedName, start.Destination))
	default:
		from := *shoot.Spec.SeedName
		if err := s.bindOrUndo(ctx, shoot, start.Destination, asked.before); err != nil {
			return out, err
		}
		out.Done = append(out.Done, fmt.Sprintf("set spec.seedName from %s to %s", from, start.Destination))
	}
	out.After = s.Summary(shoot).String()
	out.Not = []string{"nothing else was written: the agents in the seeds do the rest"}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

// refuse returns why the migration cannot be started, or nil. One that was aborted can only begin again to the same
// seed.
func (s Start) refuse(shoot *gardencorev1beta1.Shoot, migration summary.Summary) error {
	source, destination, between := steps.Seeds(shoot)
	switch {
	case migration.State == summary.Aborted && between:
		if destination != s.Destination {
			return fmt.Errorf("%s has an aborted migration to seed %s; close it first (kubectl livecpm abort %s "+
				"--stay), or start the migration to seed %s again", nameOf(shoot), destination, target(shoot),
				destination)
		}
	case between:
		return fmt.Errorf("%s is already on its way from seed %s to seed %s: %s", nameOf(shoot), source, destination,
			migration)
	case shoot.Status.SeedName == nil || shoot.Spec.SeedName == nil:
		return fmt.Errorf("%s is not in a seed yet; wait until it is created", nameOf(shoot))
	case *shoot.Status.SeedName == s.Destination:
		return fmt.Errorf("%s is already in seed %s", nameOf(shoot), s.Destination)
	}
	return nil
}

// request is what annotations ask for a migration.
type request struct {
	// values are the annotations to set, before what they are now. An empty value removes one.
	values, before map[string]string
	// done says in sentences what setting them does.
	done []string
}

func (s Start) request(shoot *gardencorev1beta1.Shoot) request {
	out := request{values: map[string]string{}, before: map[string]string{}}
	change := func(annotation, value string) {
		out.values[annotation], out.before[annotation] = value, shoot.Annotations[annotation]
	}
	change(steps.AnnotationIntent, "true")
	out.done = append(out.done, set(steps.AnnotationIntent, "true"))
	if s.PauseBefore != nil {
		change(steps.AnnotationPauseBefore, s.PauseBefore.String())
		out.done = append(out.done, set(steps.AnnotationPauseBefore, s.PauseBefore.String()))
	}
	if was, ok := shoot.Annotations[steps.AnnotationAbort]; ok {
		// Left alone, it would abort the new migration at once.
		change(steps.AnnotationAbort, "")
		out.done = append(out.done, removed(steps.AnnotationAbort, was))
	}
	return out
}

// bindOrUndo sets spec.seedName. If that is refused, it sets the annotations to what they were before.
func (s Steerer) bindOrUndo(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, seed string, before map[string]string,
) error {
	from := *shoot.Spec.SeedName
	err := s.bind(ctx, shoot, seed)
	if err == nil {
		return nil
	}
	shoot.Spec.SeedName = &from
	if undo := s.annotate(ctx, shoot, before); undo != nil {
		return errors.Join(err, fmt.Errorf("the annotations could not be taken back either; remove %s by hand: %w",
			steps.AnnotationIntent, undo))
	}
	return fmt.Errorf("%w\nNothing was started, and the annotations are as before", err)
}
