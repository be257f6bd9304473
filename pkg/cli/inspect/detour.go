// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/hops"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/placement"
)

// detour finds the way to the destination by way of other seeds. It returns nil if something else than the distance is
// in the way.
func (in PlanInput) detour(p view.Plan, destination string) (*view.Detour, error) {
	names := obstacles(p.Checks)
	w, err := in.preflightWorld(p.Source, destination)
	if err != nil {
		return nil, err
	}
	findings := slices.DeleteFunc(preflight.Evaluate(w),
		func(finding preflight.Finding) bool { return !slices.Contains(names, finding.Name) })
	if len(names) == 0 || len(findings) != len(names) || !preflight.OnlyTooFar(findings) {
		return nil, nil
	}

	search := hops.Search{From: p.Source, To: []string{destination}, Most: hops.Max, Look: in.hop}
	for i := range in.Seeds {
		if seed := &in.Seeds[i]; seed.Name != p.Source && seed.Name != destination && in.admits(seed) {
			search.By = append(search.By, seed.Name)
		}
	}
	chain, err := search.Shortest()
	if err != nil {
		return nil, err
	}
	out := &view.Detour{Hops: []view.DetourHop{}}
	for _, hop := range chain {
		takes := in.facts(hop.From, hop.To).Plan()
		out.Hops = append(out.Hops, view.DetourHop{Source: hop.From, Destination: hop.To, State: hop.State,
			Why: hop.Why, Distance: hop.Distance, RoundTripSeconds: hop.RoundTrip.Seconds(),
			ExpectedSeconds: takes.Seconds, Basis: takes.Basis})
		out.ExpectedSeconds += takes.Seconds
		out.Commands = append(out.Commands, in.command("start", hop.To)+" --watch")
	}
	if len(chain.NotMeasured()) > 0 {
		out.Measure = in.command("plan", destination) + " --probe"
	}
	return out, nil
}

// hop judges one migration on the way. What is known of the shoot's etcds and machines in its seed does not count
// there.
func (in PlanInput) hop(from, to string) hops.Hop {
	w, err := in.preflightWorld(from, to)
	if err != nil {
		return hops.Hop{From: from, To: to, State: hops.Unfit, Why: err.Error()}
	}
	w.OwnSeed, w.EtcdsRead, w.Etcds, w.EtcdsError = "", false, nil, nil
	w.Shoot.Status.SeedName = &from
	return placement.HopOf(w)
}

// admits reports whether the seed takes the shoot on the way: it takes new shoots and stays, and nothing that the Shoot
// and the Seed say speaks against it. What else gardener-apiserver asks for, it asks when the migration is started.
func (in PlanInput) admits(seed *gardencorev1beta1.Seed) bool {
	allocatable, limited := seed.Status.Allocatable[gardencorev1beta1.ResourceShoots]
	full := limited && in.ShootsPerSeed != nil && int64(in.ShootsPerSeed[seed.Name]) >= allocatable.Value()
	if full || !schedulable(seed) || drain.Requested(seed) ||
		!v1beta1helper.TaintsAreTolerated(seed.Spec.Taints, in.Shoot.Spec.Tolerations) {
		return false
	}
	if in.Shoot.Spec.SeedSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(&in.Shoot.Spec.SeedSelector.LabelSelector)
	return err == nil && selector.Matches(labels.Set(seed.Labels))
}

// command returns a command of the plugin for the shoot.
func (in PlanInput) command(name, destination string) string {
	return fmt.Sprintf("kubectl livecpm %s %s -n %s --to %s", name, in.Shoot.Name, in.Shoot.Namespace, destination)
}
