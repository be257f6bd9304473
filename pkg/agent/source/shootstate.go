// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// keepShootState keeps the date of the ShootState ahead from when step 1 has written it until nothing is left in this
// seed, and takes what was lost again as long as the control plane here has it. A failure holds nothing: the migration
// has to go forward if only the garden does not take the write, and before the ShootState is restored from it is
// compared with what was taken.
func (s *source) keepShootState(ctx context.Context, m *migration.Migration) {
	at := steps.Index(m.Step.Condition)
	if at <= 0 || at > steps.Index(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup) {
		return
	}
	if err := s.ShootStates.Keep(ctx, m.Shoot, s.takeAgain(m, at)); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to keep the ShootState")
	}
}

// takeAgain returns what takes the state of the control plane again, or nil if that would take what is left of it. From
// step 3 on extensions are gone from this seed. In step 7 the objects of machines go one by one: the flow of that step
// knows when their state may be taken.
func (s *source) takeAgain(m *migration.Migration, at int) func(ctx context.Context) error {
	take := s.ShootStates.Merge
	switch {
	case at >= steps.Index(gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup):
		return nil
	case at <= steps.Index(gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined):
		take = s.ShootStates.Replace
	}
	return func(ctx context.Context) error {
		m.Log.Info("The ShootState is not what was taken into it: taking it again")
		return take(ctx, m.Shoot)
	}
}
