// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/features"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// RolloutView is what the gardenlet's Deployment in a seed says.
type RolloutView struct {
	// Name is the name of the Deployment, with its namespace.
	Name string
	// Pending tells what the Deployment still waits for; empty if its rollout is complete.
	Pending string
	// Version is the Gardener version that the Deployment asks for; empty if its image does not tell.
	Version string
}

// checkGardenletRollout looks at what the gardenlet beside the agent is going to be, where GardenletVersion looks at
// what both are. A rollout takes minutes, and a migration that begins meanwhile would be held in the middle of it.
func checkGardenletRollout(f Facts) Finding {
	const remedy = "wait until the rollout is complete; the check runs again by itself"
	if f.RolloutError != nil {
		return unknown(GardenletRollout, "let the agent read it, or deploy the gardenlet in the seed",
			"the gardenlet's Deployment in seed %s could not be read: %v", f.OwnSeed, f.RolloutError)
	}
	if f.Rollout.Pending != "" {
		return fail(GardenletRollout, remedy, "Deployment %s in seed %s: %s", f.Rollout.Name, f.OwnSeed,
			f.Rollout.Pending)
	}
	for _, view := range []SeedView{f.Source, f.Destination} {
		if view.Name != f.OwnSeed || view.Seed == nil || view.Seed.Status.Gardener == nil || f.Rollout.Version == "" {
			continue
		}
		// That it has reported none is what GardenletVersion says.
		if reported := view.Seed.Status.Gardener.Version; reported != "" && reported != f.Rollout.Version {
			return fail(GardenletRollout, remedy, "Deployment %s asks for %s, the gardenlet of seed %s has reported %s",
				f.Rollout.Name, f.Rollout.Version, f.OwnSeed, reported)
		}
	}
	return pass(GardenletRollout, "the rollout of Deployment %s is complete", f.Rollout.Name)
}

// rival tells by what a gardenlet is known that may carry out the shoot's live migration itself, as GEP-0039 wants it
// in the end; empty if there is nothing of the kind. Two of them would fight for the same conditions and the same
// etcds, so the agent stands back before it writes anything. What could not be read is left to the guards.
//
// In the first step only the conditions tell: an agent that has begun it holds for other reasons.
func rival(f Facts) string {
	all := steps.Conditions(f.Shoot)
	if steps.Initialized(all) {
		if writer := conditionsWriter(f.Shoot); writer != "" {
			return fmt.Sprintf("%q has written the conditions of the live migration, and no agent has", writer)
		}
		if steps.Begun(all, steps.First()) {
			return ""
		}
	}
	const gate = string(features.LiveControlPlaneMigration)
	if f.Gardenlet != nil && f.Gardenlet.FeatureGates[gate] {
		return fmt.Sprintf("the feature gate %s is on in the configuration of the gardenlet of seed %s", gate,
			f.OwnSeed)
	}
	return laterGardenlets(f)
}

// laterGardenlets tells that both gardenlets are of a later minor release than the agent knows; empty if not. One alone
// has no other to migrate with, and is a version skew.
func laterGardenlets(f Facts) string {
	if f.Version == "" {
		return ""
	}
	var versions []string
	for _, view := range []SeedView{f.Source, f.Destination} {
		if view.Seed == nil || view.Seed.Status.Gardener == nil {
			return ""
		}
		version := view.Seed.Status.Gardener.Version
		if newer, err := steps.NewerMinor(version, f.Version); err != nil || !newer {
			return ""
		}
		versions = append(versions, version)
	}
	return fmt.Sprintf("the gardenlets of seeds %s and %s are %s and %s, of a later minor release than %s, with which "+
		"the agent of seed %s is built", f.Source.Name, f.Destination.Name, versions[0], versions[1], f.Version,
		f.OwnSeed)
}

// conditionsWriter returns who has written the conditions of a live migration if no agent is among them; empty
// otherwise.
func conditionsWriter(shoot *gardencorev1beta1.Shoot) string {
	other := ""
	for _, entry := range shoot.ManagedFields {
		if !writesConditions(entry) {
			continue
		}
		if entry.Manager == steps.AgentFieldManager {
			return ""
		}
		other = entry.Manager
	}
	return other
}

// writesConditions reports whether the entry is of somebody who has set status.liveMigration or a part of it.
func writesConditions(entry metav1.ManagedFieldsEntry) bool {
	var fields struct {
		Status map[string]json.RawMessage `json:"f:status"`
	}
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return false
	}
	_, writes := fields.Status["f:liveMigration"]
	return writes
}
