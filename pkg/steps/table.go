// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// Role tells on which side of a migration an agent stands.
type Role string

const (
	// Source is the role of the seed that runs the control plane when the migration starts (status.seedName).
	Source Role = "source"
	// Destination is the role of the seed that the control plane moves to (spec.seedName).
	Destination Role = "destination"
)

// Peer returns the opposite role.
func (r Role) Peer() Role {
	if r == Source {
		return Destination
	}
	return Source
}

// Step is one row of the step table. It is a plain value.
type Step struct {
	// Condition is the type of the condition in status.liveMigration.conditions that records the step.
	Condition gardencorev1beta1.ConditionType
	// Owner is the only role that acts on the step and writes its condition.
	Owner Role
	// Title is a short sentence for humans.
	Title string
	// Deadline is how long the step may take, from its start, before its condition becomes False. The work goes on
	// nevertheless: a deadline calls for an operator, it undoes nothing.
	Deadline time.Duration
	// Abortable tells whether an abort is still accepted while this step is the current one.
	Abortable bool
	// PointOfNoReturn marks the step in whose course the way back to the source is lost.
	PointOfNoReturn bool
	// Progress is the percentage of the whole migration that is done when this step is finished.
	Progress int32
	// AssistOn is the reason with which the owner asks the peer for its part in this step; empty if the peer has none.
	AssistOn Reason
}

// String returns the condition type of the step.
func (s Step) String() string { return string(s.Condition) }

// table is the order of a live migration (GEP-0039, "Migration flow"). At any time exactly one role acts: the owner of
// the first row whose condition is not True.
var table = []Step{
	{
		Condition: gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin,
		Owner:     Source,
		Title:     "Prepare the source etcd for members of the destination",
		Deadline:  15 * time.Minute,
		Abortable: true,
		Progress:  10,
	},
	{
		Condition: gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined,
		Owner:     Destination,
		Title:     "Join two etcd members of the destination",
		Deadline:  20 * time.Minute,
		Abortable: true,
		Progress:  30,
	},
	{
		Condition: gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer,
		Owner:     Source,
		Title:     "Migrate the extensions that act before the kube-apiserver",
		Deadline:  15 * time.Minute,
		Progress:  35,
	},
	{
		Condition: gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady,
		Owner:     Destination,
		Title:     "Start the kube-apiserver in the destination",
		Deadline:  20 * time.Minute,
		Progress:  50,
		// With AnnotationForceShrink the members of the source leave in this step already.
		AssistOn: ReasonReadyForSourceMemberRemoval,
	},
	{
		Condition: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
		Owner:     Source,
		Title:     "Let go of the DNS records in the source",
		Deadline:  10 * time.Minute,
		Progress:  55,
	},
	{
		Condition:       gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
		Owner:           Destination,
		Title:           "Switch DNS and move the remaining etcd members",
		Deadline:        30 * time.Minute,
		PointOfNoReturn: true,
		Progress:        75,
		AssistOn:        ReasonReadyForSourceMemberRemoval,
	},
	{
		Condition: gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup,
		Owner:     Source,
		Title:     "Clean up the source seed",
		Deadline:  45 * time.Minute,
		Progress:  90,
	},
	{
		Condition: gardencorev1beta1.ShootLiveMigrationMigrationCompleted,
		Owner:     Destination,
		Title:     "Complete the control plane and hand it over",
		Deadline:  30 * time.Minute,
		Progress:  100,
	},
}

// Table returns the steps in their order. The caller owns the returned slice.
func Table() []Step {
	out := make([]Step, len(table))
	copy(out, table)
	return out
}

// Get returns the step that the given condition type records.
func Get(conditionType gardencorev1beta1.ConditionType) (Step, bool) {
	if i := Index(conditionType); i >= 0 {
		return table[i], true
	}
	return Step{}, false
}

// Index returns the position of the condition type in the table, or -1 if it is no step.
func Index(conditionType gardencorev1beta1.ConditionType) int {
	for i, step := range table {
		if step.Condition == conditionType {
			return i
		}
	}
	return -1
}

// First returns the step that every migration starts with.
func First() Step { return table[0] }

// Last returns the step that ends every migration.
func Last() Step { return table[len(table)-1] }

// ConditionTypes returns the condition types of all steps in their order.
func ConditionTypes() []gardencorev1beta1.ConditionType {
	out := make([]gardencorev1beta1.ConditionType, 0, len(table))
	for _, step := range table {
		out = append(out, step.Condition)
	}
	return out
}

// Current returns the first step whose condition is not True. It returns false when all of them are True. A missing
// condition counts as not True.
func Current(conditions []gardencorev1beta1.Condition) (Step, bool) {
	for _, step := range table {
		if condition := find(conditions, step.Condition); condition == nil || condition.Status != gardencorev1beta1.ConditionTrue {
			return step, true
		}
	}
	return Step{}, false
}

// Progress returns the percentage that is done according to the conditions: what the finished steps add up to.
func Progress(conditions []gardencorev1beta1.Condition) int32 {
	current, ok := Current(conditions)
	if !ok {
		return 100
	}
	if i := Index(current.Condition); i > 0 {
		return table[i-1].Progress
	}
	return 0
}

func find(conditions []gardencorev1beta1.Condition, conditionType gardencorev1beta1.ConditionType) *gardencorev1beta1.Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}
