// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
)

// Scenario is a loss, or several, in the middle of a migration. It is one of four kinds: the quorum is lost for good
// and an operator follows the page (Etcds); the migration gets over its losses by itself (Losses); the source takes the
// shoot back (Back); or the destination finishes without the source (Alone).
type Scenario struct {
	// Name tells what is lost.
	Name string
	// Step is the current step when it happens. The migration pauses before it. Losses have steps of their own.
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
	// Losses happen one after the other, in the order of the steps. Nobody does anything about them.
	Losses []Loss
	// Back is how the source takes the shoot back.
	Back Back
	// Alone lets the source be lost for good before the step, and the destination finish without it.
	Alone bool
}

// LosesQuorum reports whether an operator has to follow the page to its end.
func (s Scenario) LosesQuorum() bool { return len(s.Etcds) > 0 }

// NeedsNodes reports whether the seeds must have several nodes.
func (s Scenario) NeedsNodes() bool {
	return slices.ContainsFunc(s.Losses, func(loss Loss) bool { return loss.Kind == Node })
}

// Back is a way back to the source.
type Back string

const (
	// BackByAbort is the ordinary abort, with a destination that withdraws.
	BackByAbort Back = "abort"
	// BackByAbandonment is without the destination, whose agent is gone and which nobody reaches.
	BackByAbandonment Back = "abandonment"
)

// Kind is what is lost.
type Kind string

const (
	// Volume is the volume of a member of both etcds, in the last step of etcd-main alone.
	Volume Kind = "volume"
	// Node is a node with the member of etcd-main on it, and the volumes that are bound to it.
	Node Kind = "node"
	// Garden is the garden's API, while all relays of both seeds are replaced.
	Garden Kind = "garden"
)

// Loss is a loss that a migration gets over by itself.
type Loss struct {
	// Kind is what is lost.
	Kind Kind
	// Role is the side that loses it; empty for the garden.
	Role steps.Role
	// Step is the step before which the migration is paused when it happens.
	Step gardencorev1beta1.ConditionType
	// Amid lets it happen in the middle of the restart of the members instead, of which the last step waits for the end
	// and the one before may see the begin: when the first member has restarted and the next one has not.
	Amid bool
}

// String returns the loss in words.
func (l Loss) String() string {
	what := string(l.Kind)
	if l.Role != "" {
		what += " of the " + string(l.Role)
	}
	if l.Amid {
		return what + " in " + string(l.Step)
	}
	return what + " before " + string(l.Step)
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
			Name: "by itself: a member of the source that loses its volume, one of the destination, the relays " +
				"without the garden, and a member in the last step",
			Losses: []Loss{
				{Kind: Volume, Role: steps.Source,
					Step: gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady},
				{Kind: Volume, Role: steps.Destination, Step: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords},
				{Kind: Garden, Step: gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete},
				{Kind: Volume, Role: steps.Destination, Step: gardencorev1beta1.ShootLiveMigrationMigrationCompleted,
					Amid: true},
			},
		},
		{
			Name: "by itself: a node of the source that is lost with a member and its volume",
			Losses: []Loss{
				{Kind: Node, Role: steps.Source, Step: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords},
			},
		},
		{
			Name: "the source by abandonment of a destination that is lost before step 5",
			Step: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
			Back: BackByAbandonment,
		},
		{
			Name:  "the destination without a source that is lost before step 7",
			Step:  gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup,
			Alone: true,
		},
		{
			Name: "the source by an abort after step 4",
			Step: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
			Back: BackByAbort,
		},
	}
}
