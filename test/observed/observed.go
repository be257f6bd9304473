// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package observed compares what was seen of a migration with the model of the steps (pkg/migration/steps), observation
// by observation: which condition may change to what, when members may join and leave the etcds, and when the shoot's
// DNS records may change. What the model does not permit is a violation, whatever came of the migration. It looks at
// nothing itself.
//
// An observer looks again and again, and a look takes its time, on a busy machine many seconds. So what it sees has
// happened at some moment between the beginning of the look before and the end of this one, and in any order if one
// look shows several changes. It is a violation if the model permits it at none of these moments, and in none of these
// orders. Nothing else is forgiven: a recording that does not say when it was looked is a violation itself. What comes
// and goes between two looks is not seen, and the rules do not ask for it.
//
// The log of the DNS server has the very moment of a change. Who acts in which seed is judged in the same way by
// pkg/migration/ownership, whose samples have the step in which they began and the one in which they ended.
package observed

import (
	"fmt"
	"slices"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Migration is what was seen of a migration.
type Migration struct {
	// Source and Destination are the seeds.
	Source, Destination string
	// Triggered is when the migration was asked for.
	Triggered time.Time
	// Transitions are what the conditions have said, in the order in which it was seen.
	Transitions []recording.Transition
	// Etcd are the member lists of each etcd, each time they changed.
	Etcd map[string][]recording.Members
	// OneMember reports that each etcd has one member in one seed.
	OneMember bool
	// DNS are the changes of the shoot's records, each at its very moment.
	DNS []recording.RecordChange
	// Lost are the seeds in which members of etcd have lost their data on purpose.
	Lost []Loss
}

// Loss is a fault after which members of a seed have no data any more. etcd-druid replaces them by learners of the same
// names.
type Loss struct {
	// Role tells the seed.
	Role steps.Role
	// At is when the fault had struck.
	At time.Time
}

// Of returns what a recording has seen.
func Of(report *recording.Recording, details *recording.Details) Migration {
	return Migration{
		Source: report.Source, Destination: report.Destination, Triggered: details.Triggered,
		Transitions: details.Transitions, Etcd: details.Etcd, DNS: details.DNSChanges,
		OneMember: report.Probe.AgreedGap,
	}
}

// maxViolations bounds how many are spelled out: one wrong condition makes all that follow wrong.
const maxViolations = 20

// Violations returns what the model does not permit, one sentence each; nothing if all is permitted. A migration whose
// conditions nobody has recorded has not been checked, which is one as well.
func (m Migration) Violations() []string {
	if len(m.Transitions) == 0 {
		return []string{"nobody has recorded what the conditions said, so that nothing was compared with the model"}
	}
	found := &violations{}
	m.checkConditions(found)
	for _, role := range []string{"main", "events"} {
		m.checkMembers(role, found)
	}
	m.checkDNS(found)
	if more := len(found.list) - maxViolations; more > 0 {
		return append(found.list[:maxViolations:maxViolations],
			fmt.Sprintf("and %d more violations of the model", more))
	}
	return found.list
}

// violations collects what is wrong.
type violations struct{ list []string }

func (v *violations) add(format string, args ...any) {
	v.list = append(v.list, fmt.Sprintf(format, args...))
}

// moving returns the step in which the members of the destination replace those of the source, and when in it: in an
// earlier one if its condition has told so.
func (m Migration) moving() (steps.Step, steps.When) {
	var last steps.Step
	for _, step := range steps.Table() {
		if step.Has(steps.UnlessForced) {
			last = step
		}
		if step.Has(steps.WhenForced) && m.said(step, steps.WhenForced) {
			return step, steps.WhenForced
		}
	}
	return last, steps.UnlessForced
}

// said reports whether the condition of the step has told that such a part of it is done.
func (m Migration) said(step steps.Step, when steps.When) bool {
	return slices.ContainsFunc(m.Transitions, func(t recording.Transition) bool {
		return t.Condition == step.Condition && slices.ContainsFunc(step.Work, func(work steps.Work) bool {
			return work.When == when && slices.Contains(work.Reasons, steps.Reason(t.Reason))
		})
	})
}
