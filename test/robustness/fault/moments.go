// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"slices"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Variant says which parts of a step a migration has that others do not have.
type Variant struct {
	// ForceShrink is for migrations that are asked to force-shrink.
	ForceShrink bool
	// Workers is for migrations of a shoot with workers.
	Workers bool
}

// Variants returns those in which all parts of all steps occur.
func Variants() []Variant { return []Variant{{}, {ForceShrink: true}, {Workers: true}} }

// does reports whether a migration of the variant does a part of a step.
func (v Variant) does(when steps.When) bool {
	switch when {
	case steps.WithWorkers:
		return v.Workers
	case steps.WhenForced:
		return v.ForceShrink
	case steps.UnlessForced:
		return !v.ForceShrink
	case steps.OnlyMembers:
		return false // The suites move no shoot whose etcds have one member each.
	}
	return true
}

// withheld are the reasons that the landscape's migrations report only when something has gone wrong beside the fault,
// or is set up otherwise, and why. A cell at such a moment would always be missed.
var withheld = map[steps.Reason]string{
	steps.ReasonWaitingForSourceEtcd: "the step shows it only while a member of the source is not healthy, and all " +
		"are when it begins",
	steps.ReasonReleasingDNSRecords: "the step shows it only while a controller is busy with a DNSRecord, and is " +
		"over within two seconds otherwise",
	steps.ReasonWaitingForClientsToLeave: "the step shows it only if clients have not left in the step before",
}

// Withheld returns why no migration of the landscape's shoot has a moment at which the reason shows, though the model
// of the steps has the reason; empty if some have.
func Withheld(reason steps.Reason) string { return withheld[reason] }

// At returns the moment at which the condition of a step shows the reason.
func At(reason steps.Reason) Moment { return Moment(reason) }

// Reason returns the reason that the condition of the step shows at the moment; none for the boundary and the midst.
func (m Moment) Reason() (steps.Reason, bool) {
	return steps.Reason(m), m != Boundary && m != Inside
}

// MomentsOf returns the moments of a step in a migration of the variant, in their order: its boundary, its midst, and
// one for each reason with which the condition tells what is being done. They follow from the model of the step. Those
// that no migration of the landscape's shoot has are left out (Withheld).
func MomentsOf(step steps.Step, variant Variant) []Moment {
	moments := Moments()
	for _, work := range step.Work {
		if !variant.does(work.When) {
			continue
		}
		for _, reason := range work.Reasons {
			if moment := At(reason); Withheld(reason) == "" && !slices.Contains(moments, moment) {
				moments = append(moments, moment)
			}
		}
	}
	return moments
}

// Rank orders the moments of a step in lists. A step need not come to them in this order: the reasons that mark its
// midst may follow others. Those that no variant has come last.
func Rank(step steps.Step, moment Moment) int {
	if i := slices.Index(Moments(), moment); i >= 0 {
		return i
	}
	rank := len(Moments())
	for _, work := range step.Work {
		if i := slices.Index(work.Reasons, steps.Reason(moment)); i >= 0 {
			return rank + i
		}
		rank += len(work.Reasons)
	}
	return rank
}
