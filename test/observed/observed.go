// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package observed compares what was seen of a migration with the model of the steps (pkg/migration/steps), observation
// by observation: which condition may change to what, when members may join and leave the etcds, and when the shoot's
// DNS records may change. What the model does not permit is a violation, whatever came of the migration. It looks at
// nothing itself.
//
// An observer looks again and again, and does not see what comes and goes between two looks. So the rules hold for any
// part of what happened: they do not ask for an observation, and take two changes in one look for two changes.
package observed

import (
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Migration is what was seen of a migration.
type Migration struct {
	// Source and Destination are the seeds.
	Source, Destination string
	// Triggered is when the migration was asked for.
	Triggered time.Time
	// Steps are the steps that have finished, in their order.
	Steps []recording.Step
	// Transitions are what the conditions have said, in the order in which it was seen.
	Transitions []recording.Transition
	// Etcd are the member lists of each etcd, each time they changed.
	Etcd map[string][]recording.Members
	// DNS are the changes of the shoot's records.
	DNS []recording.RecordChange
}

// Of returns what a recording has seen.
func Of(report *recording.Recording, details *recording.Details) Migration {
	return Migration{
		Source: report.Source, Destination: report.Destination, Triggered: details.Triggered, Steps: report.Steps,
		Transitions: details.Transitions, Etcd: details.Etcd, DNS: details.DNSChanges,
	}
}

// maxViolations bounds how many are spelled out: one wrong condition makes all that follow wrong.
const maxViolations = 20

// Violations returns what the model does not permit, one sentence each; nothing if all is permitted. A migration whose
// conditions nobody has recorded has not been checked, which is one as well.
func (m Migration) Violations() []string {
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

// tolerance is how much a change may seem to be outside of its step: conditions have times of whole seconds, and
// members are seen a while after they have come or gone.
const tolerance = 10 * time.Second

// during reports whether the step was the current one at the time, as far as steps were seen to end: it begins when the
// one before it has ended. A step of which no end was seen has not ended.
func (m Migration) during(step steps.Step, at time.Time) bool {
	ends, i := m.ends(), steps.Index(step.Condition)
	if i < 0 || i > len(ends) {
		return false
	}
	begin := m.Triggered
	if i > 0 {
		begin = ends[i-1]
	}
	return !at.Before(begin.Add(-tolerance)) && (i == len(ends) || !at.After(ends[i].Add(tolerance)))
}

// ends returns when the steps that have finished did so, in their order: when the condition became True, as the agent
// has written it. Where that was not recorded, it is when the demo has seen it, which may be much later if the garden
// does not answer.
func (m Migration) ends() []time.Time {
	var ends []time.Time
	seen := m.Triggered
	for i, step := range steps.Table() {
		if i < len(m.Steps) {
			seen = seen.Add(time.Duration(m.Steps[i].Seconds * float64(time.Second)))
		}
		written := slices.IndexFunc(m.Transitions, func(t recording.Transition) bool {
			return t.Condition == step.Condition && t.Status == gardencorev1beta1.ConditionTrue
		})
		switch {
		case written >= 0:
			ends = append(ends, m.Transitions[written].Time)
		case i < len(m.Steps):
			ends = append(ends, seen)
		default:
			return ends
		}
	}
	return ends
}

// moving returns the step in which the members of the destination replace those of the source: an earlier one if its
// condition has told so.
func (m Migration) moving() steps.Step {
	var last steps.Step
	for _, step := range steps.Table() {
		if step.Has(steps.UnlessForced) {
			last = step
		}
		if step.Has(steps.WhenForced) && m.said(step, steps.WhenForced) {
			return step
		}
	}
	return last
}

// said reports whether the condition of the step has told that such a part of it is done.
func (m Migration) said(step steps.Step, when steps.When) bool {
	return slices.ContainsFunc(m.Transitions, func(t recording.Transition) bool {
		return t.Condition == step.Condition && slices.ContainsFunc(step.Work, func(work steps.Work) bool {
			return work.When == when && slices.Contains(work.Reasons, steps.Reason(t.Reason))
		})
	})
}
