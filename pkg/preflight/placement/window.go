// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// InWindow returns the assessment with what the time says about the shoot's maintenance time window. As for Gardener,
// the window ends 15 minutes early, so that what begins late in it is over, and is always open if the Shoot has none.
func InWindow(assessment drain.Assessment, shoot *gardencorev1beta1.Shoot, now time.Time) drain.Assessment {
	window := gardenerutils.EffectiveShootMaintenanceTimeWindow(shoot)
	assessment.InMaintenanceWindow, assessment.WindowOpens = window.Contains(now), time.Time{}
	if !assessment.InMaintenanceWindow {
		assessment.WindowOpens = window.AdjustedBegin(now.UTC())
		if !assessment.WindowOpens.After(now) {
			assessment.WindowOpens = assessment.WindowOpens.AddDate(0, 0, 1)
		}
	}
	return assessment
}
