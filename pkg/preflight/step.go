// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/steps"
)

// Effect is what a guard has on a step that is about to begin.
type Effect string

const (
	// Holds means that the step does not begin while the check does not pass.
	Holds Effect = "hold"
	// Warns means that the step begins, and that the finding is made known.
	Warns Effect = "warn"
	// Ignores means that the check is not made.
	Ignores Effect = "-"
)

// Guard is a check that is made before every step, not only at the beginning.
type Guard struct {
	// Name is the check.
	Name Name
	// Effects are its effects on the steps, in the order of the step table.
	Effects []Effect
}

// guards say what holds which step. In short: until the etcd members of the source begin to leave (step 6), waiting costs
// next to nothing, because the source serves as ever. From then on a step is held only if going on would be worse than the
// half-way state that waiting prolongs: the source's control plane on relays (before step 7), no controllers in either
// seed (before step 8). docs/concepts/guards.md has the reason for every cell.
var guards = []Guard{
	{GardenletVersion, []Effect{Holds, Holds, Holds, Holds, Holds, Holds, Holds, Holds}},
	{SourceSeedHealth, []Effect{Holds, Holds, Warns, Warns, Warns, Warns, Warns, Ignores}},
	{DestinationSeedHealth, []Effect{Holds, Holds, Holds, Holds, Holds, Holds, Warns, Warns}},
	{EtcdQuorum, []Effect{Holds, Holds, Holds, Holds, Holds, Holds, Holds, Holds}},
	{EtcdHealth, []Effect{Holds, Holds, Holds, Holds, Holds, Holds, Warns, Holds}},
	{EtcdSpace, []Effect{Holds, Holds, Holds, Holds, Holds, Holds, Warns, Warns}},
	{EtcdIntegrity, []Effect{Holds, Holds, Holds, Holds, Holds, Holds, Holds, Holds}},
	{EtcdDefragmentation, []Effect{Holds, Holds, Ignores, Ignores, Ignores, Holds, Ignores, Holds}},
	{EtcdSize, []Effect{Holds, Holds, Warns, Warns, Warns, Warns, Warns, Warns}},
}

// Guards returns the checks that are made before every step. The caller must not change them.
func Guards() []Guard { return guards }

// EvaluateStep judges the world before the given step begins. It returns the findings of the guards in a fixed order; those
// that do not hold this step have the status Warn instead of Fail or Unknown.
func EvaluateStep(w World, step steps.Step) []Finding {
	index := steps.Index(step.Condition)
	if index < 0 {
		return nil
	}
	found := map[Name]Finding{}
	for name, check := range map[Name]func(World) Finding{
		GardenletVersion:      checkGardenletVersion,
		SourceSeedHealth:      checkSourceSeedHealth,
		DestinationSeedHealth: checkDestinationSeedHealth,
	} {
		if missing := unreadable(w, name); missing != nil {
			found[name] = *missing
			continue
		}
		found[name] = check(w)
	}
	for _, finding := range checkEtcds(w) {
		found[finding.Name] = finding
	}

	var out []Finding
	for _, guard := range guards {
		finding, ok := found[guard.Name]
		if !ok {
			continue
		}
		switch effectOn(w, guard, index) {
		case Ignores:
			continue
		case Warns:
			if finding.Status != Pass {
				finding.Status = Warn
			}
		}
		out = append(out, finding)
	}
	return out
}

// effectOn returns the guard's effect on the step. From the start of the destination's kube-apiserver until the etcds have
// moved, an operator may have forced the source's members out because the seeds are too far apart: what the etcds look like
// from afar then holds nothing, other than that their data may be damaged (GEP-0039, "Kube API Server is unhealthy"). The
// steps after that stop and restart members again, and everything of the etcds is near by then.
func effectOn(w World, guard Guard, index int) Effect {
	effect := guard.Effects[index]
	if effect != Holds || !steps.ForceShrinkRequested(w.Shoot) ||
		index < steps.Index(gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady) ||
		index > steps.Index(gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete) {
		return effect
	}
	switch guard.Name {
	case EtcdQuorum, EtcdHealth, EtcdSpace, EtcdDefragmentation, EtcdSize:
		return Warns
	}
	return effect
}
