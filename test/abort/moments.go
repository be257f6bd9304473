// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort

import (
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Moment is when the abort of a migration is asked for.
type Moment struct {
	// Name names it in reports.
	Name string
	// PauseBefore, if set, is the step before which the migration is paused meanwhile.
	PauseBefore gardencorev1beta1.ConditionType
	// Step and Reason are what a condition shows at that moment. An empty reason stands for any but that of the
	// beginning.
	Step   gardencorev1beta1.ConditionType
	Reason steps.Reason
	// Message is a part of what the condition says then.
	Message string
}

// Moments are the moments at which an abort is permitted, in the order in which a migration comes to them.
func Moments() []Moment {
	const (
		first  = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
		second = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
	)
	return []Moment{
		{Name: "before the first step", PauseBefore: first, Step: first, Reason: steps.ReasonPaused},
		{Name: "in the first step", Step: first, Reason: steps.ReasonPersistingShootState},
		{Name: "between the steps", PauseBefore: second, Step: second, Reason: steps.ReasonPaused},
		{Name: "while the destination is prepared", Step: second, Reason: steps.ReasonPreparingDestination},
		{Name: "while the first members join", Step: second, Reason: steps.ReasonJoiningEtcdMembers},
		{Name: "with members joined", Step: second, Message: "1 in the destination"},
		{Name: "with all members joined", Step: second, Message: "2 in the destination"},
	}
}

// Reached reports whether the migration is at the moment, or past it.
func (m Moment) Reached(conditions []gardencorev1beta1.Condition) bool {
	condition := v1beta1helper.GetCondition(conditions, m.Step)
	if condition == nil {
		return false
	}
	if m.Reason != "" {
		return condition.Reason == string(m.Reason)
	}
	return strings.Contains(condition.Message, m.Message)
}
