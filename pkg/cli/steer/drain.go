// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// Drain requests to move all shoots off the seed, with these settings: values of the annotations that
// drain.AllSettings names, where an empty one removes the annotation. The settings that are not among them stay as they
// are. A drain that is already requested only takes settings. What the drain could not read is refused.
func (s Steerer) Drain(ctx context.Context, seed *gardencorev1beta1.Seed, settings map[string]string) (Result, error) {
	out := s.result(seed, Drained(seed))
	if drain.Requested(seed) && len(settings) == 0 {
		return out, exit.Refused("a drain of %s is already requested; see kubectl livecpm drain status %s",
			nameOf(seed), seed.Name)
	}
	values := maps.Clone(settings)
	if values == nil {
		values = map[string]string{}
	}
	if !drain.Requested(seed) {
		values[drain.AnnotationDrain] = "true"
	}
	after := seed.DeepCopy()
	setAnnotations(after, values)
	if problem := drain.SettingsOf(after.Annotations).Problem; problem != "" {
		return out, exit.Refused("the drain of %s would hold all shoots: %s", nameOf(seed), problem)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		was, there := seed.Annotations[key]
		switch value := values[key]; {
		case value != "":
			out.Done = append(out.Done, set(key, value))
		case there:
			out.Done = append(out.Done, removed(key, was))
		}
	}
	write, err := s.annotate(ctx, seed, values)
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = Drained(seed)
	out.Not = []string{"no shoot was moved by this command: livecpm-controller-manager starts the migrations within " +
		"its budget, if its drain is enabled"}
	out.Next = []string{"kubectl livecpm drain status " + seed.Name,
		"kubectl livecpm drain cancel " + seed.Name}
	return out, nil
}

// CancelDrain withdraws the request.
func (s Steerer) CancelDrain(ctx context.Context, seed *gardencorev1beta1.Seed) (Result, error) {
	out := s.result(seed, Drained(seed))
	was, ok := seed.Annotations[drain.AnnotationDrain]
	if !ok {
		return out, exit.Refused("no drain of %s is requested", nameOf(seed))
	}
	write, err := s.annotate(ctx, seed, map[string]string{drain.AnnotationDrain: ""})
	if err != nil {
		return out, err
	}
	out.Writes = []Write{write}
	out.After = Drained(seed)
	out.Done = []string{removed(drain.AnnotationDrain, was)}
	out.Not = []string{"migrations in flight continue; shoots that have moved stay where they are",
		"the progress of the drain is kept: request it again, and it resumes"}
	if drain.SeedOf(seed).Hops > 1 {
		out.Not = append(out.Not, "shoots between two migrations stay in the seed on the way: the status names them, "+
			"and how to continue")
	}
	out.Next = []string{"kubectl livecpm drain status " + seed.Name}
	return out, nil
}

// Drained returns the progress of the seed's drain as a sentence.
func Drained(seed *gardencorev1beta1.Seed) string {
	requested := "no drain requested"
	if drain.Requested(seed) {
		requested = "drain requested"
	}
	condition := v1beta1helper.GetCondition(seed.Status.Conditions, drain.ConditionDrained)
	if condition == nil {
		return requested + ", no condition " + string(drain.ConditionDrained)
	}
	return fmt.Sprintf("%s, %s is %s (%s): %s", requested, condition.Type, condition.Status, condition.Reason,
		condition.Message)
}
