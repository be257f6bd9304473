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
	source, destination, between := steps.Seeds(shoot)
	switch {
	case migration.State == summary.Aborted && between:
		if destination != start.Destination {
			return out,
				fmt.Errorf("%s has an aborted migration to seed %s; keep it where it is first (kubectl livecpm abort "+
					"%s --stay), or start to seed %s again", nameOf(shoot), destination, target(shoot), destination)
		}
	case between:
		return out, fmt.Errorf("%s is on its way from seed %s to seed %s already: %s", nameOf(shoot), source,
			destination, migration)
	case shoot.Status.SeedName == nil || shoot.Spec.SeedName == nil:
		return out, fmt.Errorf("%s is in no seed yet; wait until it is created", nameOf(shoot))
	case *shoot.Status.SeedName == start.Destination:
		return out, fmt.Errorf("%s is in seed %s already", nameOf(shoot), start.Destination)
	}

	var (
		values = map[string]string{steps.AnnotationIntent: "true"}
		before = map[string]string{steps.AnnotationIntent: shoot.Annotations[steps.AnnotationIntent]}
		again  = between
	)
	if was, ok := shoot.Annotations[steps.AnnotationAbort]; ok {
		// Left alone, it would abort the new migration at once.
		values[steps.AnnotationAbort], before[steps.AnnotationAbort] = "", was
	}
	if start.PauseBefore != nil {
		values[steps.AnnotationPauseBefore] = start.PauseBefore.String()
		before[steps.AnnotationPauseBefore] = shoot.Annotations[steps.AnnotationPauseBefore]
	}
	if err := s.annotate(ctx, shoot, values); err != nil {
		return out, err
	}
	out.Done = append(out.Done, set(steps.AnnotationIntent, "true"))
	if start.PauseBefore != nil {
		out.Done = append(out.Done, set(steps.AnnotationPauseBefore, start.PauseBefore.String()))
	}
	if was, ok := before[steps.AnnotationAbort]; ok {
		out.Done = append(out.Done, removed(steps.AnnotationAbort, was))
	}

	switch {
	case again:
		out.Done = append(out.Done,
			fmt.Sprintf("spec.seedName is %s already: the aborted migration begins again", destination))
	case s.DryRun:
		// Whether the API server would accept the binding depends on the annotation, which it has not kept.
		out.Done = append(out.Done,
			fmt.Sprintf("would set spec.seedName from %s to %s through shoots/binding; gardener-apiserver judges "+
				"that only when it is done", *shoot.Spec.SeedName, start.Destination))
	default:
		from := *shoot.Spec.SeedName
		if err := s.bind(ctx, shoot, start.Destination); err != nil {
			shoot.Spec.SeedName = &from
			if undo := s.annotate(ctx, shoot, before); undo != nil {
				return out, errors.Join(err,
					fmt.Errorf("the annotations could not be taken back either; remove %s by hand: %w",
						steps.AnnotationIntent, undo))
			}
			return out, fmt.Errorf("%w\nNothing was started, and the annotations are as before", err)
		}
		out.Done = append(out.Done, fmt.Sprintf("set spec.seedName from %s to %s", from, start.Destination))
	}
	out.After = s.Summary(shoot).String()
	out.Not = []string{"nothing else was written: the agents in the seeds do the rest"}
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}
