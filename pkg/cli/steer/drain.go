// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"strconv"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

const (
	// AnnotationDrain on a Seed asks to move all its shoots to other seeds.
	AnnotationDrain = "migration.gardener.cloud/drain"
	// ConditionDrained of a Seed tells how far that is.
	ConditionDrained gardencorev1beta1.ConditionType = "Drained"
)

// Drain asks to move all shoots off the seed.
func (s Steerer) Drain(ctx context.Context, seed *gardencorev1beta1.Seed) (Result, error) {
	out := Result{Before: Drained(seed)}
	if draining(seed) {
		return out, fmt.Errorf("%s is asked to drain already: %s", nameOf(seed), Drained(seed))
	}
	if err := s.annotate(ctx, seed, map[string]string{AnnotationDrain: "true"}); err != nil {
		return out, err
	}
	out.After = Drained(seed)
	out.Done = []string{set(AnnotationDrain, "true")}
	out.Not = []string{"no shoot was moved by this command: livecpm-controller-manager starts the migrations within its budget, if its drain is enabled"}
	out.Next = []string{"kubectl livecpm list -A", fmt.Sprintf("kubectl livecpm drain %s --cancel", seed.Name)}
	return out, nil
}

// CancelDrain takes the request back.
func (s Steerer) CancelDrain(ctx context.Context, seed *gardencorev1beta1.Seed) (Result, error) {
	out := Result{Before: Drained(seed)}
	was, ok := seed.Annotations[AnnotationDrain]
	if !ok {
		return out, fmt.Errorf("%s is not asked to drain", nameOf(seed))
	}
	if err := s.annotate(ctx, seed, map[string]string{AnnotationDrain: ""}); err != nil {
		return out, err
	}
	out.After = Drained(seed)
	out.Done = []string{removed(AnnotationDrain, was)}
	out.Not = []string{"migrations that are under way go on; shoots that have moved stay where they are"}
	out.Next = []string{"kubectl livecpm list -A"}
	return out, nil
}

func draining(seed *gardencorev1beta1.Seed) bool {
	value, err := strconv.ParseBool(seed.Annotations[AnnotationDrain])
	return err == nil && value
}

// Drained tells how far the drain of the seed is.
func Drained(seed *gardencorev1beta1.Seed) string {
	asked := "not asked to drain"
	if draining(seed) {
		asked = "asked to drain"
	}
	condition := v1beta1helper.GetCondition(seed.Status.Conditions, ConditionDrained)
	if condition == nil {
		return asked + ", no condition " + string(ConditionDrained)
	}
	return fmt.Sprintf("%s, %s is %s (%s): %s", asked, condition.Type, condition.Status, condition.Reason, condition.Message)
}
