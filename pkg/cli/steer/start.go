// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Start is what a live migration is asked for with.
type Start struct {
	// Destination is the seed to move to.
	Destination string
	// PauseBefore is the step to hold before; nil for none.
	PauseBefore *steps.Step
	// By is the user who asks for it, to be named in reports; empty if nobody knows.
	By string
}

// Start asks for the live migration: the annotations, and then the binding to the seed. If the API server refuses the
// binding, the annotations are taken back.
func (s Steerer) Start(ctx context.Context, shoot *gardencorev1beta1.Shoot, start Start) (Result, error) {
	migration := s.Summary(shoot)
	out := s.result(shoot, migration.String())
	if err := start.refuse(shoot, migration); err != nil {
		return out, err
	}
	_, _, again := steps.Seeds(shoot)

	asked, unchanged := start.request(shoot), shoot.DeepCopy()
	write, err := s.annotate(ctx, shoot, asked.values)
	if err != nil {
		return out, err
	}
	out.Done, out.Writes = asked.done, []Write{write}
	out.Not = []string{"nothing else was written: the agents in the seeds do the rest"}

	switch from := *shoot.Spec.SeedName; {
	case again:
		out.Done = append(out.Done,
			fmt.Sprintf("spec.seedName is %s already: the aborted migration begins again", start.Destination))
	case s.DryRun == DryRunServer:
		// Whether the API server accepts the binding depends on the annotation, which it has not kept.
		shoot = unchanged
		write, err = s.bind(ctx, shoot, start.Destination, func(shoot *gardencorev1beta1.Shoot) {
			setAnnotations(shoot, asked.values)
		})
		out.bound(from, start.Destination, write)
		out.Not = append(out.Not, "a real run sets the annotations first and then the seed's name; here the second "+
			"request has both, because nothing of the first was kept")
	default:
		write, err = s.bindOrUndo(ctx, shoot, start.Destination, asked.before)
		out.bound(from, start.Destination, write)
	}
	if err != nil {
		return out, err
	}
	out.After = s.Summary(shoot).String()
	out.Next = []string{"kubectl livecpm get " + target(shoot) + " -w"}
	return out, nil
}

// bound records that spec.seedName was set.
func (r *Result) bound(from, to string, write Write) {
	r.Done = append(r.Done, fmt.Sprintf("set spec.seedName from %s to %s", from, to))
	r.Writes = append(r.Writes, write)
}

// refuse returns why the migration cannot be started, or nil. One that was aborted can only begin again to the same
// seed.
func (s Start) refuse(shoot *gardencorev1beta1.Shoot, migration summary.Summary) error {
	source, destination, between := steps.Seeds(shoot)
	switch {
	case migration.State == summary.Aborted && between:
		if destination != s.Destination {
			return exit.Refused("%s has an aborted migration to seed %s; close it first (kubectl livecpm abort %s "+
				"--stay), or start the migration to seed %s again", nameOf(shoot), destination, target(shoot),
				destination)
		}
	case between:
		return exit.Refused("%s is already on its way from seed %s to seed %s: %s", nameOf(shoot), source, destination,
			migration)
	case shoot.Status.SeedName == nil || shoot.Spec.SeedName == nil:
		return exit.Refused("%s is not in a seed yet; wait until it is created", nameOf(shoot))
	case *shoot.Status.SeedName == s.Destination:
		return exit.Refused("%s is already in seed %s", nameOf(shoot), s.Destination)
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
	asks := steps.IntentOf(shoot)
	change(asks, "true")
	out.done = append(out.done, set(asks, "true"))
	if was, ok := shoot.Annotations[steps.AnnotationIntent]; ok && asks != steps.AnnotationIntent {
		// With it, Gardener's admission would demand that the control plane is highly available.
		change(steps.AnnotationIntent, "")
		out.done = append(out.done, removed(steps.AnnotationIntent, was))
	}
	if s.PauseBefore != nil {
		change(steps.AnnotationPauseBefore, s.PauseBefore.String())
		out.done = append(out.done, set(steps.AnnotationPauseBefore, s.PauseBefore.String()))
	}
	if s.By != "" || shoot.Annotations[steps.AnnotationRequestedBy] != "" {
		// Left alone, that of an aborted migration would name somebody else.
		change(steps.AnnotationRequestedBy, s.By)
	}
	if s.By != "" {
		out.done = append(out.done, set(steps.AnnotationRequestedBy, s.By))
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
) (Write, error) {
	from := *shoot.Spec.SeedName
	write, err := s.bind(ctx, shoot, seed)
	if err == nil {
		return write, nil
	}
	shoot.Spec.SeedName = &from
	if _, undo := s.annotate(ctx, shoot, before); undo != nil {
		// A refusal changes nothing, but here something was left behind: the code of neither error fits.
		return write, fmt.Errorf("%s\nThe annotations could not be taken back either; remove %s by hand: %s",
			err.Error(), steps.IntentOf(shoot), undo.Error())
	}
	return write, fmt.Errorf("%w\nNothing was started, and the annotations are as before", err)
}
