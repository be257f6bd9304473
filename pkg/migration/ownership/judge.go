// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Phase is where a migration stands: the index of the current step, or one of the phases around them.
type Phase int

const (
	// Before is the phase of a shoot whose migration has not begun. It ends when the first step begins.
	Before Phase = -1
	// After is the phase of a shoot that has been handed over.
	After Phase = 1 << 10
)

// Phases returns all phases in the order in which a migration goes through them.
func Phases() []Phase {
	out := []Phase{Before}
	for i := range steps.Table() {
		out = append(out, Phase(i))
	}
	return append(out, After)
}

// String returns the phase as the table counts steps, from 1.
func (p Phase) String() string {
	switch p {
	case Before:
		return "before step 1"
	case After:
		return "after the hand-over"
	}
	return fmt.Sprintf("step %d", int(p)+1)
}

// PhaseOf returns the phase that a Shoot which moves to the seed is in, by its conditions and status.seedName. A
// migration that is aborted goes back to Before.
func PhaseOf(shoot *gardencorev1beta1.Shoot, destinationSeed string) Phase {
	if ptr.Deref(shoot.Status.SeedName, "") == destinationSeed {
		return After
	}
	conditions := steps.Conditions(shoot)
	if !steps.Initialized(conditions) || !steps.Begun(conditions, steps.First()) {
		return Before
	}
	current, unfinished := steps.Current(conditions)
	if !unfinished {
		return After
	}
	return Phase(steps.Index(current.Condition))
}

// Asked reports whether the owner of the Shoot's current step asks its peer for a part.
func Asked(shoot *gardencorev1beta1.Shoot) bool {
	conditions := steps.Conditions(shoot)
	current, unfinished := steps.Current(conditions)
	return unfinished && steps.AssistDue(conditions, current, current.Owner.Peer())
}

// lastOfOnlyMember is the step in which the pod of an etcd's only member ends in the source. The member has left the
// list before, so that it serves nobody: with two voters the pod cannot end first, and only its agent sees that it has
// ended.
const lastOfOnlyMember = gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup

// owners returns who may act on the set in the phase, as far as the sample has seen of it.
func (s Set) owners(phase Phase, sample Sample) []steps.Holder {
	owner := s.owner(phase)
	if s.Name == steps.Etcd && sample.OneMember && phase == Phase(steps.Index(lastOfOnlyMember)) {
		owner = steps.HeldByBoth
	}
	if owner != steps.PassedWhenAsked {
		return []steps.Holder{owner}
	}
	var out []steps.Holder
	if sample.From != phase || !sample.AskedFrom {
		out = append(out, steps.LetGo)
	}
	if sample.To != phase || sample.AskedTo {
		out = append(out, steps.Taken)
	}
	return out
}

// owner returns who may act on the set in the phase.
func (s Set) owner(phase Phase) steps.Holder {
	switch {
	case phase == Before:
		return steps.HeldBySource
	case phase == After:
		return steps.HeldByDestination
	case int(phase) < len(s.Owners):
		return s.Owners[phase]
	}
	return steps.HeldByNobody
}

// Sample is one look at both seeds. The destination must have been looked at before the source: what is seen in the
// source then was there when the destination was looked at, too, because the source only ever releases.
type Sample struct {
	// Time is when the look was taken.
	Time time.Time
	// From and To are the phases read right before and right after the look at the seeds. What any phase between them
	// permits is permitted.
	From, To Phase
	// AskedFrom and AskedTo report whether the owner of the step asked its peer for a part at the same moments.
	AskedFrom, AskedTo bool
	// OneMember reports that each etcd has one member in one seed.
	OneMember bool
	// Running tells by what the sets are at work in each seed: the names of pods or other objects. A set that is not at
	// work is missing.
	Running map[steps.Components]map[steps.Role][]string
}

// Violation is something in a sample that the table does not permit.
type Violation struct {
	// Time is that of the sample.
	Time time.Time
	// Set is what was at work.
	Set steps.Components
	// From and To are the phases between which it was.
	From, To Phase
	// Overlap reports that the set was at work in both seeds; otherwise Role tells where it was though it should not
	// have been.
	Overlap bool
	// Role is the seed in question; empty for an overlap.
	Role steps.Role
	// Objects are those that were seen.
	Objects []string
}

// String returns the violation as one sentence.
func (v Violation) String() string {
	where := "in the " + string(v.Role)
	if v.Overlap {
		where = "in both seeds at the same time"
	}
	return fmt.Sprintf("%s: %s was at work %s between %s and %s (%s)",
		v.Time.UTC().Format(time.RFC3339), v.Set, where, v.From, v.To, strings.Join(v.Objects, ", "))
}

// Judge returns what the table does not permit in the sample, in the order of the table. It is made for migrations that
// go forward: an abort gives the backup entry back in steps of which the table says that it is the destination's.
func Judge(sample Sample) []Violation {
	var out []Violation
	for _, set := range Sets() {
		running := sample.Running[set.Name]
		violation := Violation{Time: sample.Time, Set: set.Name, From: sample.From, To: sample.To}

		inSource, inDestination := len(running[steps.Source]) > 0, len(running[steps.Destination]) > 0
		if inSource && inDestination &&
			!set.permitted(sample, func(owner steps.Holder) bool { return owner == steps.HeldByBoth }) {
			violation.Overlap = true
			violation.Objects = slices.Concat(prefixed(steps.Source, running), prefixed(steps.Destination, running))
			out = append(out, violation)
			continue
		}
		for _, role := range []steps.Role{steps.Source, steps.Destination} {
			if len(running[role]) == 0 ||
				set.permitted(sample, func(owner steps.Holder) bool { return owner.Permits(role) }) {
				continue
			}
			violation.Role, violation.Objects = role, running[role]
			out = append(out, violation)
		}
	}
	return out
}

// permitted reports whether the owner in any phase of the sample passes the test.
func (s Set) permitted(sample Sample, test func(steps.Holder) bool) bool {
	for phase := range sample.phases {
		if slices.ContainsFunc(s.owners(phase, sample), test) {
			return true
		}
	}
	return false
}

// phases yields the phases from the first to the last of the sample. An abort goes back: it yields all between them,
// too.
func (s Sample) phases(yield func(Phase) bool) {
	from, to := min(s.From, s.To), max(s.From, s.To)
	if from == Before && !yield(Before) {
		return
	}
	for step := max(from, 0); step <= to && int(step) < len(steps.Table()); step++ {
		if !yield(step) {
			return
		}
	}
	if to == After {
		yield(After)
	}
}

func prefixed(role steps.Role, running map[steps.Role][]string) []string {
	var out []string
	for _, object := range running[role] {
		out = append(out, string(role)+"/"+object)
	}
	return out
}
