// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/steps"
)

// InsideMark tells when a step counts as being in its midst.
type InsideMark struct {
	// Reasons are those of the step's condition any of which marks it.
	Reasons []steps.Reason
	// After is how long after the beginning of the step it counts as in its midst in any case; zero stands for never. Steps
	// that are over in a few seconds need it: their reason may not be seen.
	After time.Duration
}

var insides = map[gardencorev1beta1.ConditionType]InsideMark{
	gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin: {
		Reasons: []steps.Reason{steps.ReasonPersistingShootState}, After: 5 * time.Second,
	},
	gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined: {
		Reasons: []steps.Reason{steps.ReasonJoiningEtcdMembers, steps.ReasonWaitingForEtcdMember},
	},
	gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer: {
		Reasons: []steps.Reason{steps.ReasonMigratingExtensions}, After: time.Second,
	},
	gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady: {
		Reasons: []steps.Reason{steps.ReasonDeployingKubeAPIServer}, After: 10 * time.Second,
	},
	// It can be over within a second, so that its beginning is all that is sure to be seen of it.
	gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords: {
		Reasons: []steps.Reason{steps.ReasonStarted, steps.ReasonReleasingDNSRecords},
	},
	// The cluster is at its weakest with six members.
	gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete: {
		Reasons: []steps.Reason{steps.ReasonJoiningLastEtcdMember, steps.ReasonReadyForSourceMemberRemoval},
	},
	gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup: {
		Reasons: []steps.Reason{steps.ReasonStoppingSourceControlPlane, steps.ReasonDeletingSourceResources},
	},
	gardencorev1beta1.ShootLiveMigrationMigrationCompleted: {
		Reasons: []steps.Reason{steps.ReasonDeployingControlPlane, steps.ReasonRollingEtcd, steps.ReasonHandingOver}, After: 10 * time.Second,
	},
}

// InsideOf returns what marks the midst of the step.
func InsideOf(step steps.Step) InsideMark { return insides[step.Condition] }

// Reached tells whether the step is in its midst. began is when its condition was first seen to have begun.
func (m InsideMark) Reached(now, began time.Time, reason steps.Reason) bool {
	if slices.Contains(m.Reasons, reason) {
		return true
	}
	return m.After > 0 && !began.IsZero() && now.Sub(began) >= m.After
}
