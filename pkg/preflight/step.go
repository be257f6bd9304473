// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Guard is a check that is made before every step, not only at the beginning.
type Guard struct {
	// Name is the check.
	Name Name
	// Effects are its effects on the steps, in the order of the step table.
	Effects []steps.Effect
}

// guards are the checks that are made before every step, in the order in which they are told. What each of them does to
// which step is in the steps. In short: until the etcd members of the source begin to leave (step 6), waiting costs
// next to nothing, because the source serves as before. From then on a step is held only if continuing would be worse
// than the half-way state that waiting prolongs: the source's control plane on relays (before step 7), no controllers
// in either seed (before step 8). docs/concepts/guards.md has the reason for every cell.
var guards = []Name{
	steps.GardenletVersion,
	steps.AgentProtocol,
	steps.SourceSeedHealth,
	steps.DestinationSeedHealth,
	steps.EtcdQuorum,
	steps.EtcdHealth,
	steps.EtcdSpace,
	steps.EtcdIntegrity,
	steps.EtcdDefragmentation,
	steps.EtcdSize,
}

// continuing are the guards that are looked at while a step runs as well. A step that has begun holds because of them
// at the next moment at which that is safe.
var continuing = map[Name]bool{steps.GardenletVersion: true}

// EvaluateDuring judges the facts while the given step runs. It returns the findings of the guards that hold a step
// which has begun, in a fixed order.
func EvaluateDuring(f Facts, step steps.Step) []Finding {
	return slices.DeleteFunc(EvaluateStep(f, step), func(finding Finding) bool { return !continuing[finding.Name] })
}

// Guards returns the checks that are made before every step, and what they do to each.
func Guards() []Guard {
	out := make([]Guard, 0, len(guards))
	for _, name := range guards {
		guard := Guard{Name: name}
		for _, step := range steps.Table() {
			guard.Effects = append(guard.Effects, step.GuardOf(name).Effect)
		}
		out = append(out, guard)
	}
	return out
}

// EvaluateStep judges the facts before the given step begins. It returns the findings of the guards in a fixed order;
// those that do not hold this step have the status Warn instead of Fail or Unknown.
func EvaluateStep(f Facts, step steps.Step) []Finding {
	found := map[Name]Finding{}
	for name, check := range map[Name]func(Facts) Finding{
		steps.GardenletVersion:      checkGardenletVersion,
		steps.AgentProtocol:         checkAgentProtocol,
		steps.SourceSeedHealth:      checkSourceSeedHealth,
		steps.DestinationSeedHealth: checkDestinationSeedHealth,
	} {
		if name == steps.AgentProtocol && f.Protocols == (steps.Protocols{}) {
			continue
		}
		if missing := unreadable(f, name); missing != nil {
			found[name] = *missing
			continue
		}
		found[name] = check(f)
	}
	etcds := checkRequiredEtcds
	if f.ownRole() != steps.Source && step.Entry {
		// The destination's etcds are created in its first step.
		etcds = checkEtcds
	}
	for _, finding := range etcds(f) {
		found[finding.Name] = finding
	}

	var out []Finding
	for _, name := range guards {
		finding, ok := found[name]
		if !ok {
			continue
		}
		switch step.GuardOf(name).EffectOn(f.Shoot) {
		case steps.Ignores:
			continue
		case steps.Warns:
			if finding.Status != Pass {
				finding.Status = Warn
			}
		}
		out = append(out, finding)
	}
	return out
}
