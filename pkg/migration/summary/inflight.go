// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// InFlight is what speaks against an upgrade or a removal of livecpm or of the gardenlets. Programs may rely on the
// fields.
type InFlight struct {
	// Seed is the seed that was asked about; empty for all.
	Seed string `json:"seed,omitempty"`
	// MayUpgrade reports that nothing is in flight and no drain would start anything.
	MayUpgrade bool `json:"mayUpgrade"`
	// MayRemove reports the same, and that no agent still has to clean up in a seed that was lost and comes back.
	MayRemove bool `json:"mayRemove"`
	// Migrations are those that need the agents of their seeds, in the order of their names.
	Migrations []Moving `json:"migrations"`
	// Drains are the seeds that are to be drained, in order.
	Drains []string `json:"drains"`
	// LeftBehind are the shoots of which a lost seed still has something, in the order of their names.
	LeftBehind []Left `json:"leftBehind"`
}

// Moving is a migration in flight.
type Moving struct {
	// Namespace and Name are those of the Shoot.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source and Destination are its seeds.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// State is where the migration stands.
	State State `json:"state"`
	// Step is the current step, Reason that of its condition; empty if there is none.
	Step   string `json:"step,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Left is a shoot of which a seed still has something.
type Left struct {
	// Namespace and Name are those of the Shoot.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Seed is the seed that was lost.
	Seed string `json:"seed"`
}

// InFlightOf tells what of the Shoots and Seeds is in flight. With a seed's name, only what that seed takes part in
// counts: migrations from and to it, its own drain, and what was left behind in it.
func InFlightOf(
	shoots []gardencorev1beta1.Shoot, seeds []gardencorev1beta1.Seed, seed string, now time.Time,
) InFlight {
	concerns := func(names ...string) bool { return seed == "" || slices.Contains(names, seed) }
	out := InFlight{Seed: seed, Migrations: []Moving{}, Drains: []string{}, LeftBehind: []Left{}}
	for i := range shoots {
		shoot := &shoots[i]
		if source, destination, ok := steps.Seeds(shoot); ok && steps.NeedsAgents(shoot) &&
			concerns(source, destination) {
			s := Summarize(shoot, now)
			out.Migrations = append(out.Migrations, Moving{Namespace: s.Namespace, Name: s.Name, Source: source,
				Destination: destination, State: s.State, Step: s.Step, Reason: s.Reason})
		}
		if left := shoot.Annotations[steps.AnnotationLeftBehind]; left != "" && concerns(left) {
			out.LeftBehind = append(out.LeftBehind, Left{Namespace: shoot.Namespace, Name: shoot.Name, Seed: left})
		}
	}
	for i := range seeds {
		if drain.Requested(&seeds[i]) && concerns(seeds[i].Name) {
			out.Drains = append(out.Drains, seeds[i].Name)
		}
	}
	slices.SortFunc(out.Migrations, func(a, b Moving) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	slices.SortFunc(out.LeftBehind, func(a, b Left) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	slices.Sort(out.Drains)
	out.MayUpgrade = len(out.Migrations) == 0 && len(out.Drains) == 0
	out.MayRemove = out.MayUpgrade && len(out.LeftBehind) == 0
	return out
}
