// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Seeds lets altered work change what runs in the seeds.
type Seeds struct{ turn *turn }

// Run lets sets of components be at work in the seed of the role from now on.
func (s *Seeds) Run(role steps.Role, names ...steps.Components) error {
	return s.turn.do("starts more", func(v *view) { v.running[seedOf(role)] |= setOf(names...) })
}

// Stop ends sets of components in the seed of the role.
func (s *Seeds) Stop(role steps.Role, names ...steps.Components) error {
	return s.turn.do("stops more", func(v *view) { v.running[seedOf(role)] &^= setOf(names...) })
}

// Write changes the status of the Shoot in the name of the agent.
func (s *Seeds) Write(ctx context.Context, change func(*gardencorev1beta1.Shoot)) error {
	api, shoot := &garden{turn: s.turn}, &gardencorev1beta1.Shoot{}
	if err := api.Get(ctx, key, shoot); err != nil {
		return err
	}
	before := shoot.DeepCopy()
	change(shoot)
	if err := api.Status().Patch(ctx, shoot, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to write the Shoot: %w", err)
	}
	return nil
}

func seedOf(role steps.Role) int {
	if role == steps.Source {
		return from
	}
	return to
}
