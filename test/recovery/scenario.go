// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
)

// Scenario is a loss in the middle of a migration.
type Scenario struct {
	// Name tells what is lost.
	Name string
	// Step is the current step when it happens. The migration pauses before it.
	Step gardencorev1beta1.ConditionType
	// Six lets step 6 begin without the source's agent, so that it stays at six members.
	Six bool
	// Etcds are the roles of the etcds that lose their quorum. The others keep theirs.
	Etcds []string
	// Survivors are the ordinals of the members whose volumes are left, by side.
	Survivors map[steps.Role][]int
	// Side is the one that continues.
	Side steps.Role
	// Backup takes section B of the page rather than section A.
	Backup bool
	// Heals tells that nobody has to do anything: the quorum holds, and those that have lost their volumes join again.
	Heals bool
}

// lost returns the ordinals of the members of a side that lose their volumes.
func (s Scenario) lost(role steps.Role) []int {
	var lost []int
	for ordinal := range members {
		if !slices.Contains(s.Survivors[role], ordinal) {
			lost = append(lost, ordinal)
		}
	}
	return lost
}

// Scenarios returns all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name:      "five members of etcd-main, of which one of the source is left",
			Step:      gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer,
			Etcds:     []string{driver.RoleMain},
			Survivors: map[steps.Role][]int{steps.Source: {0}},
			Side:      steps.Source,
		},
		{
			Name:      "six members of both etcds, of which those of the destination are left",
			Step:      gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
			Six:       true,
			Etcds:     []string{driver.RoleMain, driver.RoleEvents},
			Survivors: map[steps.Role][]int{steps.Destination: {0, 1, 2}},
			Side:      steps.Destination,
		},
		{
			Name:   "five members of both etcds, of which none is left",
			Step:   gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer,
			Etcds:  []string{driver.RoleMain, driver.RoleEvents},
			Side:   steps.Source,
			Backup: true,
		},
		{
			Name:      "one member of the source that loses its volume, by itself",
			Step:      gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
			Etcds:     []string{driver.RoleMain, driver.RoleEvents},
			Survivors: map[steps.Role][]int{steps.Source: {0, 2}, steps.Destination: {0, 1, 2}},
			Side:      steps.Source,
			Heals:     true,
		},
		{
			Name:      "one member of the destination that loses its volume, by itself",
			Step:      gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
			Etcds:     []string{driver.RoleMain, driver.RoleEvents},
			Survivors: map[steps.Role][]int{steps.Source: {0, 1, 2}, steps.Destination: {0, 2}},
			Side:      steps.Destination,
			Heals:     true,
		},
	}
}
