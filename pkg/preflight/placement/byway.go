// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	schedulerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/scheduler/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/hops"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// ofHop are the checks that depend on the two seeds of a migration. The others passed for the shoot where it is, and
// are made again before each migration.
var ofHop = slices.Concat(ofDestination, []preflight.Name{steps.SourceSeedHealth, steps.AgentProtocol})

// HopOf judges one migration of a chain, from the facts as they would be if the shoot was in its source. It is stricter
// than the checks of a migration that begins at once: before that the agents measure the connection themselves, but on
// the way it would be too late to find out that the next seed is out of reach.
func HopOf(f preflight.Facts) hops.Hop {
	hop := hops.Hop{From: f.Source.Name, To: f.Destination.Name, State: hops.Unfit}
	if f.Source.Seed == nil || f.Destination.Seed == nil {
		hop.Why = "one of the seeds could not be read"
		return hop
	}
	apart := preflight.ApartOf(f)
	hop.RoundTrip = apart.RoundTrip
	if apart.Distance != nil {
		hop.Distance = *apart.Distance
	}
	f.Planned, f.Probed = true, true
	f.Protocols = f.Source.Protocols()
	obstacles := only(preflight.Obstacles(preflight.Evaluate(f)), ofHop)
	unmeasured := slices.ContainsFunc(obstacles, func(finding preflight.Finding) bool {
		return finding.Name == preflight.SeedConnection && finding.Status == preflight.Unknown && takesPart(f)
	})
	switch {
	case len(obstacles) == 0:
		hop.State = hops.Near
	case len(obstacles) == 1 && unmeasured:
		hop.State, hop.Why = hops.NotMeasured, obstacles[0].Evidence
	default:
		hop.Why = strings.Join(preflight.Sentences(obstacles), "; ")
	}
	return hop
}

// takesPart reports whether there is an agent in both seeds that can be asked for a probe.
func takesPart(f preflight.Facts) bool {
	for _, view := range []preflight.SeedView{f.Source, f.Destination} {
		var probes seedfacts.Probes
		if seedfacts.Of(view.Seed, seedfacts.AnnotationProbes, &probes) != nil {
			return false
		}
	}
	return true
}

// byWay finds a way by other seeds to a destination that is refused only because it is too far away. Without one, the
// shoot stays as the assessment says.
func (f *Finder) byWay(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, refused map[string][]preflight.Finding, stays drain.Assessment,
) drain.Assessment {
	seen := drain.ShootOf(shoot)
	by := f.movedBy(seen)
	permitted, taken := max(f.Permits[by].Hops, 1), seen.Taken(by)

	search := f.search(ctx, shoot, refused)
	if len(search.To) == 0 {
		return stays
	}
	search.Most = permitted - taken
	switch chain, err := search.Shortest(); {
	case err != nil:
		stays.Message += fmt.Sprintf("; %v", err)
		return stays
	case chain != nil:
		return along(chain)
	}
	// Not permitted, but possible: the operator decides.
	search.Most = hops.Max - taken
	if chain, err := search.Shortest(); err == nil && chain != nil {
		stays.Message += fmt.Sprintf(
			"; seed %s can be reached by way of %s: to permit that, annotate Seed %s with %s=%d", chain.To(),
			chain.Via(), by, drain.AnnotationMaxHops, len(chain)+taken)
	}
	return stays
}

// along returns that the shoot takes the first migration of the chain, as soon as all of it is known to be near.
func along(chain hops.Chain) drain.Assessment {
	out := drain.Assessment{Destination: chain[0].To, Final: chain.To(), Way: drain.Live}
	unmeasured := chain.NotMeasured()
	if len(unmeasured) == 0 {
		return out
	}
	var whys []string
	for _, hop := range unmeasured {
		out.Measure = append(out.Measure, drain.Between(hop.From, hop.To))
		whys = append(whys, hop.Why)
	}
	out.Waits, out.Reason = true, drain.ReasonNotMeasured
	out.Message = fmt.Sprintf("moves to seed %s by way of %s when the agents have measured all connections on the "+
		"way, which the drain asks them to (%s)", chain.To(), chain.Via(), strings.Join(whys, "; "))
	return out
}

// search returns the question for a chain of migrations of the shoot. On the way it takes seeds only that are fit for
// the shoot by all rules of the scheduler but the strategy, which says in which region a shoot is to stay.
func (f *Finder) search(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, refused map[string][]preflight.Finding,
) hops.Search {
	out := hops.Search{From: *shoot.Status.SeedName}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if preflight.OnlyTooFar(refused[name]) {
			out.To = append(out.To, name)
		}
	}
	for i := range f.Seeds {
		if seed := &f.Seeds[i]; seed.Name != out.From && !drain.Requested(seed) {
			out.By = append(out.By, seed.Name)
		}
	}
	admits := map[string]error{}
	for _, name := range out.To {
		// The scheduler has chosen them before they were refused.
		admits[name] = nil
	}
	out.Look = func(from, to string) hops.Hop {
		hop := HopOf(f.facts(shoot, from, f.seed(to)))
		if hop.State == hops.Unfit {
			return hop
		}
		err, known := admits[to]
		if !known {
			_, err = f.choose(ctx, shoot, string(schedulerconfigv1alpha1.MinimalDistance),
				[]gardencorev1beta1.Seed{*f.seed(to).Seed})
			admits[to] = err
		}
		if err != nil {
			hop.State, hop.Why = hops.Unfit, err.Error()
		}
		return hop
	}
	return out
}
