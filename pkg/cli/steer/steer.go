// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package steer is what kubectl-livecpm changes. It starts, pauses, resumes, retries and aborts the live migration of a
// shoot, and requests the drain of a seed: each is an annotation (for start and for abort with Stay, spec.seedName as
// well), and says what it did, and what it did not. It also runs the probe, which puts load on a shoot.
package steer

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Result is what a command did.
type Result struct {
	// Before and After are the state of the migration.
	Before, After string
	// Done is what was written, Not what was not done although one could expect it, Next what to do now.
	Done, Not, Next []string
}

// Steerer writes to the garden.
type Steerer struct {
	// Client writes to the garden.
	Client client.Client
	// Clock is the clock.
	Clock clock.PassiveClock
	// DryRun lets the API server judge the writes without keeping them.
	DryRun bool
}

// Summary returns what the shoot says about its migration.
func (s Steerer) Summary(shoot *gardencorev1beta1.Shoot) summary.Summary {
	return summary.Summarize(shoot, s.Clock.Now())
}

// annotate sets annotations of the object; an empty value removes one. The object is what was written afterwards.
func (s Steerer) annotate(ctx context.Context, object client.Object, values map[string]string) error {
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range values {
		if value == "" {
			delete(annotations, key)
			continue
		}
		annotations[key] = value
	}
	object.SetAnnotations(annotations)
	if err := s.Client.Patch(ctx, object, patch, s.patchOptions()...); err != nil {
		return fmt.Errorf("failed to annotate %s: %w", nameOf(object), err)
	}
	return nil
}

// bind sets spec.seedName, and changes the Shoot in the same write.
func (s Steerer) bind(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, seed string, changes ...func(*gardencorev1beta1.Shoot),
) error {
	patch := client.MergeFrom(shoot.DeepCopy())
	shoot.Spec.SeedName = &seed
	for _, change := range changes {
		change(shoot)
	}
	var options []client.SubResourcePatchOption
	if s.DryRun {
		options = append(options, client.DryRunAll)
	}
	if err := s.Client.SubResource("binding").Patch(ctx, shoot, patch, options...); err != nil {
		return fmt.Errorf("failed to bind %s to seed %s: %w", nameOf(shoot), seed, err)
	}
	return nil
}

func (s Steerer) patchOptions() []client.PatchOption {
	if s.DryRun {
		return []client.PatchOption{client.DryRunAll}
	}
	return nil
}

func nameOf(object client.Object) string {
	switch object.(type) {
	case *gardencorev1beta1.Shoot:
		return "Shoot " + client.ObjectKeyFromObject(object).String()
	case *gardencorev1beta1.Seed:
		return "Seed " + object.GetName()
	}
	return object.GetName()
}

func set(annotation, value string) string {
	return fmt.Sprintf("set the annotation %s=%s", annotation, value)
}
func removed(annotation, was string) string {
	return fmt.Sprintf("removed the annotation %s (it was %s)", annotation, was)
}
