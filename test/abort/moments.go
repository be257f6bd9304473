// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package abort

import (
	"slices"
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
	// Messages are parts of what the condition says then, of which one suffices. It is reported every few seconds: what
	// follows at once must not slip through.
	Messages []string
	// Replaced are the beginnings of what has been taken away by then, and comes back as others of the same names.
	Replaced []string
}

// Moments are the moments at which an abort is permitted, in the order in which a migration comes to them.
func Moments() []Moment {
	const (
		first  = gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin
		second = gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined
		third  = gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer
		fourth = gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady
		fifth  = gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords
		sixth  = gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete
	)
	var (
		extensions = []string{"extensions "}
		records    = append(extensions, "dnsrecords ")
	)
	return []Moment{
		{Name: "before the first step", PauseBefore: first, Step: first, Reason: steps.ReasonPaused},
		{Name: "in the first step", Step: first, Reason: steps.ReasonPersistingShootState},
		{Name: "while the destination prepares before its turn", Step: first, Reason: steps.ReasonShootStatePersisted},
		{Name: "between the steps", PauseBefore: second, Step: second, Reason: steps.ReasonPaused},
		{Name: "while the destination is prepared", Step: second, Reason: steps.ReasonPreparingDestination},
		{Name: "while the first members join", Step: second, Reason: steps.ReasonJoiningEtcdMembers},
		{Name: "with members joined", Step: second,
			Messages: []string{"1 in the destination", "2 in the destination"}},
		{Name: "before the extensions move", PauseBefore: third, Step: third, Reason: steps.ReasonPaused},
		// etcd-druid may not have reported them yet.
		{Name: "with all members joined", Step: third, Reason: steps.ReasonMigratingExtensions, Replaced: extensions},
		{Name: "before the kube-apiserver starts", PauseBefore: fourth, Step: fourth, Reason: steps.ReasonPaused,
			Replaced: extensions},
		{Name: "while the kube-apiserver starts", Step: fourth, Reason: steps.ReasonDeployingKubeAPIServer,
			Replaced: extensions},
		{Name: "with two kube-apiservers", PauseBefore: fifth, Step: fifth, Reason: steps.ReasonPaused,
			Replaced: extensions},
		{Name: "before DNS moves", PauseBefore: sixth, Step: sixth, Reason: steps.ReasonPaused, Replaced: records},
	}
}

// Reached reports whether the migration is at the moment.
func (m Moment) Reached(conditions []gardencorev1beta1.Condition) bool {
	condition := v1beta1helper.GetCondition(conditions, m.Step)
	if condition == nil {
		return false
	}
	if m.Reason != "" {
		return condition.Reason == string(m.Reason)
	}
	return slices.ContainsFunc(m.Messages, func(part string) bool { return strings.Contains(condition.Message, part) })
}

// Passed reports whether the step of the moment is done, so that the moment does not come any more. A migration in
// which every step is done is an earlier one.
func (m Moment) Passed(conditions []gardencorev1beta1.Condition) bool {
	return done(conditions, m.Step) && !done(conditions, gardencorev1beta1.ShootLiveMigrationMigrationCompleted)
}

func done(conditions []gardencorev1beta1.Condition, step gardencorev1beta1.ConditionType) bool {
	condition := v1beta1helper.GetCondition(conditions, step)
	return condition != nil && condition.Status == gardencorev1beta1.ConditionTrue
}
