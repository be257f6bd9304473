// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package steer is what kubectl-livecpm changes. It starts, pauses, resumes, retries and aborts the live migration of a
// shoot, and requests the drain of a seed: each is an annotation (for start and for abort with Stay, spec.seedName as
// well), and says what it did, and what it did not. It also runs the probe, which puts load on a shoot.
package steer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// DryRun says whether writes are made.
type DryRun string

const (
	// DryRunNone makes them.
	DryRunNone DryRun = "none"
	// DryRunClient sends nothing: what would be written is worked out from what was read.
	DryRunClient DryRun = "client"
	// DryRunServer lets the API server judge them without keeping them.
	DryRunServer DryRun = "server"
)

// Object is what was written to.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns kind, namespace and name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// ResourceName returns what kubectl prints with -o name.
func (o Object) ResourceName() string {
	resource := strings.ToLower(o.Kind)
	if group, _, found := strings.Cut(o.APIVersion, "/"); found {
		resource += "." + group
	}
	return resource + "/" + o.Name
}

// Write is a request to the API server.
type Write struct {
	Object
	// Subresource is the part of the object that is written to; empty for the object itself.
	Subresource string `json:"subresource,omitempty"`
	// Patch is the JSON merge patch.
	Patch json.RawMessage `json:"patch"`
}

// Result is what a command did, or would do.
type Result struct {
	// Object is what it was done to.
	Object Object `json:"object"`
	// DryRun says that nothing was kept; empty if it was.
	DryRun DryRun `json:"dryRun,omitempty"`
	// Before and After are the state of the migration or of the drain.
	Before string `json:"before"`
	After  string `json:"after,omitempty"`
	// Done is what was written, Not what was not done although one could expect it, Next what to do now.
	Done []string `json:"done"`
	Not  []string `json:"not,omitempty"`
	Next []string `json:"next,omitempty"`
	// Writes are the requests behind Done.
	Writes []Write `json:"writes"`
}

// Steerer writes to the garden.
type Steerer struct {
	// Client writes to the garden.
	Client client.Client
	// Clock is the clock.
	Clock clock.PassiveClock
	// DryRun says whether the writes are made; empty as DryRunNone.
	DryRun DryRun
}

func (s Steerer) result(object client.Object, before string) Result {
	out := Result{Object: objectOf(object), Before: before}
	if s.dry() {
		out.DryRun = s.DryRun
	}
	return out
}

func (s Steerer) dry() bool { return s.DryRun == DryRunClient || s.DryRun == DryRunServer }

// Summary returns what the shoot says about its migration.
func (s Steerer) Summary(shoot *gardencorev1beta1.Shoot) summary.Summary {
	return summary.Summarize(shoot, s.Clock.Now())
}

// annotate sets annotations of the object; an empty value removes one. The object is what was written afterwards.
func (s Steerer) annotate(ctx context.Context, object client.Object, values map[string]string) (Write, error) {
	before := object.DeepCopyObject().(client.Object)
	setAnnotations(object, values)
	write, err := writeOf(object, before, "")
	if err != nil || s.DryRun == DryRunClient {
		return write, err
	}
	var options []client.PatchOption
	if s.DryRun == DryRunServer {
		options = append(options, client.DryRunAll)
	}
	if err := s.Client.Patch(ctx, object, client.MergeFrom(before), options...); err != nil {
		return write, refusal(fmt.Errorf("failed to annotate %s: %w", nameOf(object), err))
	}
	return write, nil
}

func setAnnotations(object client.Object, values map[string]string) {
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
}

// bind sets spec.seedName, and changes the Shoot in the same write.
func (s Steerer) bind(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, seed string, changes ...func(*gardencorev1beta1.Shoot),
) (Write, error) {
	before := shoot.DeepCopy()
	shoot.Spec.SeedName = &seed
	for _, change := range changes {
		change(shoot)
	}
	write, err := writeOf(shoot, before, "binding")
	if err != nil || s.DryRun == DryRunClient {
		return write, err
	}
	var options []client.SubResourcePatchOption
	if s.DryRun == DryRunServer {
		options = append(options, client.DryRunAll)
	}
	if err := s.Client.SubResource("binding").Patch(ctx, shoot, client.MergeFrom(before), options...); err != nil {
		return write, refusal(fmt.Errorf("failed to bind %s to seed %s: %w", nameOf(shoot), seed, err))
	}
	return write, nil
}

// writeOf returns the write that makes the object of what it was before.
func writeOf(object, before client.Object, subresource string) (Write, error) {
	patch, err := client.MergeFrom(before).Data(object)
	if err != nil {
		return Write{}, fmt.Errorf("failed to make the patch of %s: %w", nameOf(object), err)
	}
	return Write{Object: objectOf(object), Subresource: subresource, Patch: patch}, nil
}

// refusal tells what the API server refuses from what failed.
func refusal(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return exit.With(exit.No, err)
	}
	return err
}

func objectOf(object client.Object) Object {
	out := Object{APIVersion: gardencorev1beta1.SchemeGroupVersion.String(), Namespace: object.GetNamespace(),
		Name: object.GetName()}
	switch object.(type) {
	case *gardencorev1beta1.Shoot:
		out.Kind = "Shoot"
	case *gardencorev1beta1.Seed:
		out.Kind = "Seed"
	}
	return out
}

func nameOf(object client.Object) string { return objectOf(object).String() }

func set(annotation, value string) string {
	return fmt.Sprintf("set the annotation %s=%s", annotation, value)
}
func removed(annotation, was string) string {
	return fmt.Sprintf("removed the annotation %s (it was %s)", annotation, was)
}
