// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package fault holds what the fault suite does to a live migration. Each file is one kind of fault.
package fault

import (
	"context"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Moment is when in a step a fault strikes.
type Moment string

const (
	// Boundary is the beginning of the step: the migration is held before it, and the fault strikes as it may continue.
	Boundary Moment = "boundary"
	// Inside is the midst of the step: when its owner reports a certain reason (steps.Midst).
	Inside Moment = "inside"
	// All other moments are reasons of the step's condition (At).
)

// Moments returns the moments that each step has, in their order. MomentsOf has those of a certain step as well.
func Moments() []Moment { return []Moment{Boundary, Inside} }

// Fault is something that goes wrong and, where it does not end by itself, is healed.
type Fault interface {
	// Name is unique among the faults.
	Name() string
	// Family is the kind of fault. Its members differ in the seed, the duration or the size.
	Family() string
	// Applies reports whether there is anything to hit at the moment of the step.
	Applies(step steps.Step, moment Moment) bool
	// Course says when the fault begins and ends.
	Course() Course
	// Inject lets the fault strike.
	Inject(ctx context.Context, targets *Targets) error
	// Heal ends the fault. It needs no memory of Inject and does nothing if there is nothing to heal, so that it can
	// also clean up after a suite that was killed.
	Heal(ctx context.Context, targets *Targets) error
}

// Fleeting is a fault that something else may end before its time.
type Fleeting interface {
	Fault
	// InForce reports whether the fault still is what Inject has made of it.
	InForce(ctx context.Context, targets *Targets) (bool, error)
}

// Witnessed is a fault whose effect can only be seen while it is in force, because it waits for something that it can
// hit.
type Witnessed interface {
	Fault
	// Witness notes what the fault has hit since Inject, as proofs (Targets.Prove). It is called before the fault is
	// healed.
	Witness(ctx context.Context, targets *Targets) error
}

// MemberLoss is a fault after which members of etcd have lost their data, and are replaced by others of their names.
type MemberLoss interface {
	Fault
	// LosesMembers tells in which seed.
	LosesMembers() steps.Role
}

// Course is how a fault continues after it has struck.
type Course struct {
	// Lasts is how long the fault is in force. Zero stands for faults that need no healing.
	Lasts time.Duration
	// ThroughStep ends the fault with the step instead; Lasts is then the longest it may be in force.
	ThroughStep bool
	// Early makes a fault at the boundary strike before the migration may continue, because the step's owner only looks
	// before it begins.
	Early bool
}

// point is a moment of a step.
type point struct {
	condition gardencorev1beta1.ConditionType
	moment    Moment
}

// index orders the points of a migration.
func (p point) index() int {
	i := 2 * steps.Index(p.condition)
	if p.moment != Boundary {
		i++
	}
	return i
}

// span is the part of a migration in which a fault has something to hit. Its ends belong to it.
type span struct{ from, to point }

func (s span) contains(step steps.Step, moment Moment) bool {
	i := point{step.Condition, moment}.index()
	return i >= s.from.index() && i <= s.to.index()
}

var (
	begin = point{steps.First().Condition, Boundary}
	end   = point{steps.Last().Condition, Inside}
	whole = span{begin, end}
)

// fault is what all faults have in common.
type fault struct {
	name, family string
	span         span
	// except are the moments of the span at which there is nothing to hit nevertheless.
	except []point
	course Course
}

// Name implements Fault.
func (f fault) Name() string { return f.name }

// Family implements Fault.
func (f fault) Family() string { return f.family }

// Applies implements Fault.
func (f fault) Applies(step steps.Step, moment Moment) bool {
	return f.span.contains(step, moment) && !slices.Contains(f.except, point{step.Condition, moment})
}

// Course implements Fault.
func (f fault) Course() Course { return f.course }

// Heal implements Fault for those that need no healing: whatever was killed or deleted is started again by its owner.
func (f fault) Heal(context.Context, *Targets) error { return nil }

// All returns every fault, in the order in which the matrix shows them.
func All() []Fault {
	var all []Fault
	for _, kind := range [][]Fault{
		agentKills(), etcdKills(), kubeAPIServerDeletions(), relayKills(), cuts(), latencies(), gardenStops(),
		gardenletRestarts(), druidRestarts(), fullQuotas(), versionSkews(), etcdMemberKills(), stops(), gatewayKills(),
		controllerManagerKills(), oneWayCuts(), resets(), losses(), gardenEtcdStops(), dnsStops(), allStops(),
		comingBack(), livecpmKills(), goneBuckets(), saturations(), killsAgain(),
	} {
		all = append(all, kind...)
	}
	return all
}

// Names returns the names of all faults, in the same order.
func Names() []string {
	var names []string
	for _, f := range All() {
		names = append(names, f.Name())
	}
	return names
}

// Get returns the fault with the name.
func Get(name string) (Fault, bool) {
	for _, f := range append(All(), OfNodes()...) {
		if f.Name() == name {
			return f, true
		}
	}
	return nil, false
}
