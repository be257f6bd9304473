// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
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

// Step is one step of a live migration, or of its abort: everything that is known of it before it runs. It is a plain
// value, and it stands in one file of this package. Order, conditions, guards, ownership, the plan, the documentation's
// tables, the gate's policy and the moments at which the fault suite strikes are derived from it or checked against it
// by a test.
type Step struct {
	// Condition is the type of the condition in status.liveMigration.conditions that records the step.
	Condition gardencorev1beta1.ConditionType
	// Owner is the only role that acts on the step and writes its condition.
	Owner Role
	// Title is a short sentence for humans.
	Title string
	// Finish is how the condition records that the step is finished.
	Finish Finish
	// Work is what is done in the step, in its order.
	Work []Work

	// Deadline is how long the step may take, from its start, before its condition becomes False. The work continues
	// nevertheless: a deadline calls for an operator, it undoes nothing.
	Deadline time.Duration
	// Expected is how long the work of the step takes on the landscape of the repository, with two cores, under load
	// and with a small etcd, and without the times for which it waits. It is the last resort of pkg/migration/expected,
	// where no migration was ever recorded.
	Expected time.Duration
	// Progress is the percentage of the whole migration that is done when this step is finished.
	Progress int32

	// Entry marks the first step of its owner. All prerequisites of a migration are checked before it, not only Guards.
	Entry bool
	// Abortable reports whether an abort is still accepted while this step is the current one.
	Abortable bool
	// PointOfNoReturn marks the step in whose course the way back to the source is lost.
	PointOfNoReturn bool
	// Abandonable marks the step of the source that the destination may finish in its place, because an operator has
	// said that the source is lost.
	Abandonable bool
	// HandsOver marks the step that ends the migration: one write finishes it, makes status.seedName the destination
	// and takes the intent annotation away.
	HandsOver bool

	// Guards are the checks that are made right before the step begins, and what they do to it. A check that is not
	// named is not made.
	Guards map[Check]Guard
	// Ownership tells for every set of components in which seed it may be at work during the step.
	Ownership map[Components]Holder
	// Midst tells when the step counts as being in its midst. The fault suite strikes there.
	Midst Midst
}

// Finish is how a condition records the end of a step.
type Finish struct {
	// Status is True for a step of a migration, and False for a step of an abort.
	Status gardencorev1beta1.ConditionStatus
	// Reason is the reason of the condition.
	Reason Reason
}

// completed is how the steps of a migration end.
var completed = Finish{Status: gardencorev1beta1.ConditionTrue, Reason: ReasonCompleted}

// Work is a part of a step that operators can see by itself.
type Work struct {
	// Title says what is done, as an order.
	Title string
	// By is the role that does it. It is the owner of the step or, if Reasons hold what asks the peer for its part, the
	// peer.
	By Role
	// Reasons are those that the step's condition shows meanwhile.
	Reasons []Reason
	// Asks is the reason with which the owner asks the peer for this work; empty if the owner does it itself.
	Asks Reason
	// Ahead is the condition of the peer's own step that the peer begins with this work before its turn; empty if it
	// does not. What holds that step holds the work. The reason that asks for the work stays until the end of the
	// asking step and is its finish as well (AskedAhead): whoever aborts has to know that something may be left there.
	Ahead gardencorev1beta1.ConditionType
	// When tells in which migrations the work is done.
	When When
}

// When tells in which migrations a part of a step is done.
type When string

const (
	// Always is in every migration.
	Always When = ""
	// WithWorkers is for shoots with workers.
	WithWorkers When = "for shoots with workers"
	// WhenForced is with the annotation AnnotationForceShrink.
	WhenForced When = "with the annotation " + AnnotationForceShrink
	// UnlessForced is unless the work was done in an earlier step, because of that annotation.
	UnlessForced When = "unless it was done in an earlier step"
	// OnlyMembers is with the annotation AnnotationWithGap, where each etcd has one member in one seed.
	OnlyMembers When = "with the annotation " + AnnotationWithGap + ", instead of the other moves of members"
	// SinceExtensions is in aborts from step 3 on, which have extensions to restore.
	SinceExtensions When = "from step 3 on"
	// SinceKubeAPIServer is in aborts from step 4 on, which have a kube-apiserver of the destination to stop.
	SinceKubeAPIServer When = "from step 4 on"
	// SinceDNSRecords is in aborts from step 5 on, which have DNSRecords to deploy again.
	SinceDNSRecords When = "from step 5 on"
)

// Midst tells when a step is in its midst.
type Midst struct {
	// Reasons are those of the step's condition any of which marks it.
	Reasons []Reason
	// After is how long after the beginning of the step it counts as in its midst in any case; zero stands for never.
	// Steps that are over in a few seconds need it: their reason may not be seen.
	After time.Duration
}

// Reached reports whether a step is in its midst now. began is when its condition was first seen to have begun; reason
// is the condition's.
func (m Midst) Reached(now, began time.Time, reason Reason) bool {
	if slices.Contains(m.Reasons, reason) {
		return true
	}
	return m.After > 0 && !began.IsZero() && now.Sub(began) >= m.After
}

// String returns the condition type of the step.
func (s Step) String() string { return string(s.Condition) }

// Finished reports whether the conditions say that the step is finished. A missing condition says that it is not. Nor
// does False alone say so, which a passed deadline leaves as well: a step of an abort is told by its reason.
func (s Step) Finished(conditions []gardencorev1beta1.Condition) bool {
	condition := v1beta1helper.GetCondition(conditions, s.Condition)
	return condition != nil && condition.Status == s.Finish.Status &&
		(condition.Status == gardencorev1beta1.ConditionTrue || condition.Reason == string(s.Finish.Reason))
}

// Has reports whether a part of the step is done only then.
func (s Step) Has(when When) bool {
	return slices.ContainsFunc(s.Work, func(work Work) bool { return work.When == when })
}

// Asks returns the reasons with which the owner asks the peer for its parts in this step, each once and in the order of
// the parts. It is empty if the peer has no part. The caller owns the returned slice.
func (s Step) Asks() []Reason {
	var asks []Reason
	for _, work := range s.Work {
		if work.Asks != "" && !slices.Contains(asks, work.Asks) {
			asks = append(asks, work.Asks)
		}
	}
	return asks
}

// AsksWith reports whether the reason asks the peer for a part in this step.
func (s Step) AsksWith(reason Reason) bool { return slices.Contains(s.Asks(), reason) }

// Ahead returns the peer's own step that the peer begins before its turn when the reason asks it; false if the reason
// asks for no such work.
func (s Step) Ahead(reason Reason) (Step, bool) {
	for _, work := range s.Work {
		if work.Ahead != "" && work.Asks == reason {
			return Get(work.Ahead)
		}
	}
	return Step{}, false
}

// order is the order of a live migration (GEP-0039, "Migration flow"). At any time exactly one role acts: the owner of
// the first step whose condition is not True.
var order = []Step{
	prepareSource,
	joinDestination,
	migrateEarlyExtensions,
	startKubeAPIServer,
	releaseDNSRecords,
	moveEtcd,
	cleanUpSource,
	complete,
}

// abort is the order of an abort. Each of its steps is recorded in the condition of the first step that its owner has
// in a migration.
var abort = []Step{
	withdraw,
	restoreSource,
}

// Table returns the steps in their order. The caller owns the returned slice.
func Table() []Step { return slices.Clone(order) }

// AbortTable returns the steps of an abort in their order. The caller owns the returned slice.
func AbortTable() []Step { return slices.Clone(abort) }

// Get returns the step that the given condition type records.
func Get(conditionType gardencorev1beta1.ConditionType) (Step, bool) {
	if i := Index(conditionType); i >= 0 {
		return order[i], true
	}
	return Step{}, false
}

// Index returns the position of the condition type in the order, or -1 if it is no step.
func Index(conditionType gardencorev1beta1.ConditionType) int {
	return slices.IndexFunc(order, func(step Step) bool { return step.Condition == conditionType })
}

// First returns the step that every migration starts with.
func First() Step { return order[0] }

// Last returns the step that ends every migration.
func Last() Step { return order[len(order)-1] }

// LastAbortable returns the last step in which an abort is still accepted. After it, an abort is accepted until the
// next one begins.
func LastAbortable() Step {
	last := Step{}
	for _, step := range order {
		if step.Abortable {
			last = step
		}
	}
	return last
}

// AbortOf returns the role's step in an abort.
func AbortOf(role Role) Step {
	for _, step := range abort {
		if step.Owner == role {
			return step
		}
	}
	return Step{}
}

// ConditionTypes returns the condition types of all steps in their order.
func ConditionTypes() []gardencorev1beta1.ConditionType {
	out := make([]gardencorev1beta1.ConditionType, 0, len(order))
	for _, step := range order {
		out = append(out, step.Condition)
	}
	return out
}

// Current returns the first step whose condition is not True. It returns false when all of them are True. A missing
// condition counts as not True.
func Current(conditions []gardencorev1beta1.Condition) (Step, bool) {
	for _, step := range order {
		if !step.Finished(conditions) {
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
		return order[i-1].Progress
	}
	return 0
}
