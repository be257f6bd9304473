// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// keepShootState keeps the date of the ShootState ahead, also when the source is away. The last step dates it by
// itself, once it has begun. A failure holds nothing here: before the ShootState is restored from, it is compared with
// what was taken.
func (d *destination) keepShootState(ctx context.Context, m *migration.Migration) {
	if steps.Index(m.Step.Condition) <= 0 ||
		m.Step.HandsOver && steps.Begun(steps.Conditions(m.Shoot), m.Step) {
		return
	}
	if err := d.ShootStates.Keep(ctx, m.Shoot, nil); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to keep the ShootState")
	}
}

// restorable makes the ShootState fit to restore from: what this seed has restored before is taken from here, and the
// rest has to be what was taken in the source. The outcome is not finished as long as it is not.
func (d *destination) restorable(
	ctx context.Context, shoot *gardencorev1beta1.Shoot,
) (steps.Outcome, error) {
	if err := d.ShootStates.Refresh(ctx, shoot); err != nil {
		return steps.Outcome{}, err
	}
	return d.compared(ctx, shoot)
}

// dateForGardenlet makes the ShootState one of now, for the gardenlet to restore from after the hand-over. The outcome
// is not finished as long as the ShootState is not fit for that.
func (d *destination) dateForGardenlet(ctx context.Context, shoot *gardencorev1beta1.Shoot) (steps.Outcome, error) {
	outcome, err := d.restorable(ctx, shoot)
	if err != nil || !outcome.Finished() {
		return outcome, err
	}
	return outcome, d.ShootStates.Date(ctx, shoot)
}

// compared returns a finished outcome if the ShootState is what was taken.
func (d *destination) compared(ctx context.Context, shoot *gardencorev1beta1.Shoot) (steps.Outcome, error) {
	switch err := d.ShootStates.Compare(ctx, shoot); {
	case shootstate.IsDifference(err):
		return steps.Waiting(d.Timings.PollInterval, steps.ReasonShootStateDiffers, "%s", err), nil
	case err != nil:
		return steps.Outcome{}, err
	}
	return steps.Done("The ShootState is what was taken"), nil
}
