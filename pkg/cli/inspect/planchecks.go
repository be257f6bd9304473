// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
)

const byAgents = "the agents check this before the migration begins"

// check makes all checks with the shoot as it would be after the start.
func (in PlanInput) check(source, destination string) ([]view.Check, error) {
	w, err := in.preflightWorld(source, destination)
	if err != nil {
		return nil, err
	}

	out := []view.Check{in.judgeNotUnderWay(source, destination)}
	for _, finding := range preflight.Evaluate(w) {
		switch finding.Name {
		case preflight.Intent:
			// It is what start sets.
			continue
		case preflight.WorkersInDestination:
			// It is made for shoots with workers.
			out = append(out, deferred(preflight.Machines, "only the machines in the source seed show this"))
		case preflight.SpecReconciled:
			if finding.Status == preflight.Pass {
				// The checks of single parts (preflight.KubernetesVersion and so on) need the same.
				out = append(out, deferred(preflight.SpecReconciled,
					"only the Cluster resource in the source seed shows whether all of it is rolled out"))
				continue
			}
		case steps.EtcdSpace, steps.EtcdIntegrity, steps.EtcdSize, steps.EtcdDefragmentation:
			if len(in.Etcds) == 0 {
				// What etcd-druid reports does not say.
				continue
			}
		}
		check := view.Check{Name: finding.Name, Status: view.Status(finding.Status), Evidence: finding.Evidence,
			Remedy: finding.Remedy}
		if why, ok := in.Unreadable[finding.Name]; ok && finding.Status == preflight.Unknown {
			check.Evidence, check.Remedy, check.Deferred = why, byAgents, true
		}
		out = append(out, check)
	}
	out = append(out, in.judgeProtocol(w, source)...)
	for _, name := range []preflight.Name{preflight.EtcdMemberPrefix, steps.EtcdQuorum, steps.EtcdHealth} {
		if !w.EtcdsRead {
			out = append(out, deferred(name, in.why(source)))
		}
	}
	for _, name := range []preflight.Name{steps.EtcdSpace, steps.EtcdIntegrity, steps.EtcdDefragmentation,
		steps.EtcdSize} {
		if len(in.Etcds) > 0 {
			break
		}
		why := "only the etcd members know this"
		if in.EtcdsUnasked != "" {
			why = "the members could not be asked: " + in.EtcdsUnasked
		}
		out = append(out, deferred(name, why))
	}
	out = append(out, deferred(preflight.EtcdMemberNames, "only the configuration of the gardenlets shows this"))
	return append(out, in.tellFormerTTL(), in.judgeFreeCapacity(destination), in.judgeGatePolicies(),
		in.judgeAgents(source, destination)), nil
}

// judgeProtocol returns what is left to the agents as long as that of the source has published nothing.
func (in PlanInput) judgeProtocol(w preflight.Facts, source string) []view.Check {
	if w.Protocols != (steps.Protocols{}) {
		return nil
	}
	return []view.Check{deferred(steps.AgentProtocol,
		fmt.Sprintf("the agent of seed %s has not published what it speaks", source))}
}

func deferred(name preflight.Name, why string) view.Check {
	return view.Check{Name: name, Status: view.Unknown, Evidence: why, Remedy: byAgents, Deferred: true}
}

func (in PlanInput) why(seed string) string {
	for _, seen := range in.Views {
		if seen.Name == seed && seen.Unknown != "" {
			return fmt.Sprintf("seed %s: %s", seed, seen.Unknown)
		}
	}
	return fmt.Sprintf("nothing is known about seed %s", seed)
}

func (in PlanInput) preflightWorld(source, destination string) (preflight.Facts, error) {
	triggered := in.Shoot.DeepCopy()
	steps.Intend(triggered)
	if ptr.Deref(triggered.Spec.SeedName, "") != destination {
		// gardener-apiserver counts it when it is set, and not again for an aborted migration that begins again.
		triggered.Spec.SeedName = &destination
		triggered.Generation++
	}

	w := preflight.Facts{
		Shoot: triggered, OwnSeed: source, Now: in.Now.Time,
		Planned: ptr.Deref(in.Shoot.Spec.SeedName, "") != destination, Probed: in.Probed,
		Bastions: in.Bastions, BastionsError: in.unreadable(preflight.Bastions),
		ManagedSeeds: in.ManagedSeeds, ManagedSeedsError: in.unreadable(preflight.NotASeed),
		HostedSeeds:   preflight.HostedSeeds(in.Shoot, in.Seeds),
		RegionError:   in.unreadable(preflight.RegionDistance),
		ExposureClass: in.ExposureClass, ExposureClassError: in.unreadable(preflight.ExposureClass),
	}
	for i := range in.Regions {
		w.RegionConfigMaps = append(w.RegionConfigMaps, &in.Regions[i])
	}
	for name, to := range map[string]*preflight.SeedView{source: &w.Source, destination: &w.Destination} {
		seed, err := in.seed(name)
		if err != nil {
			return w, err
		}
		*to = preflight.SeedView{Name: name, Seed: seed}
	}
	w.Protocols = w.Source.Protocols()
	if len(in.Etcds) > 0 {
		w.EtcdsRead, w.Etcds = true, in.Etcds
	} else if seen := in.seen(source); seen != nil {
		w.EtcdsRead = true
		w.Etcds = etcdViews(seen.Etcds)
		if len(w.Etcds) == 0 {
			w.EtcdsError = fmt.Errorf("seed %s has no Etcd of the shoot", source)
		}
	}
	return w, nil
}

func (in PlanInput) unreadable(name preflight.Name) error {
	if why, ok := in.Unreadable[name]; ok {
		return errors.New(why)
	}
	return nil
}

// etcdViews are the etcds as far as etcd-druid reports on them.
func etcdViews(etcds []summary.Etcd) []preflight.EtcdView {
	var out []preflight.EtcdView
	for _, etcd := range etcds {
		to := preflight.EtcdView{Name: etcd.Name, MemberNamePrefix: etcd.MemberNamePrefix,
			DefragmentationSchedule: etcd.DefragmentationSchedule}
		for _, member := range etcd.Members {
			problem := ""
			if member.Status != "Ready" {
				problem = fmt.Sprintf("etcd-druid reports it as %s", member.Status)
			}
			to.Members = append(to.Members, preflight.EtcdMemberView{Name: member.Name, Problem: problem})
		}
		out = append(out, to)
	}
	return out
}

func (in PlanInput) judgeNotUnderWay(source, destination string) view.Check {
	check := view.Check{Name: CheckNotUnderWay, Status: view.Pass,
		Evidence: fmt.Sprintf("the shoot is in seed %s, and no migration is in flight", source)}
	switch state := stateOf(in); {
	case state == summary.Aborted && in.Shoot.Spec.SeedName != nil && *in.Shoot.Spec.SeedName == destination:
		check.Evidence = "an earlier migration was aborted and can begin again"
	case state == summary.Aborted && in.Shoot.Spec.SeedName != nil && *in.Shoot.Spec.SeedName != source:
		check.Status = view.Fail
		check.Evidence = fmt.Sprintf("an aborted migration to seed %s is not closed", *in.Shoot.Spec.SeedName)
		check.Remedy = "set the seed back with `kubectl livecpm abort --stay`, or start the migration to the same " +
			"seed again"
	case state == summary.Classic:
		check.Status, check.Evidence, check.Remedy = view.Fail, "a classic migration is in flight",
			"wait until it completes"
	case !state.Final():
		check.Status, check.Evidence, check.Remedy = view.Fail,
			fmt.Sprintf("a live migration is in flight: %s", state), "watch it with `kubectl livecpm get`"
	}
	return check
}

func (in PlanInput) judgeFreeCapacity(destination string) view.Check {
	if why, ok := in.Unreadable[CheckFreeCapacity]; ok {
		return view.Check{Name: CheckFreeCapacity, Status: view.Unknown, Evidence: why,
			Remedy: "gardener-apiserver does not check this either; ask the operator of the seed", Deferred: true}
	}
	seed, err := in.seed(destination)
	if err != nil {
		return deferred(CheckFreeCapacity, err.Error())
	}
	used := in.ShootsPerSeed[destination]
	allocatable, limited := seed.Status.Allocatable[gardencorev1beta1.ResourceShoots]
	switch {
	case !limited:
		return view.Check{Name: CheckFreeCapacity, Status: view.Pass,
			Evidence: fmt.Sprintf("seed %s has %s and no limit", destination, conditions.Count(used, "shoot"))}
	case int64(used) >= allocatable.Value():
		return view.Check{Name: CheckFreeCapacity, Status: view.Fail,
			Evidence: fmt.Sprintf("seed %s has %d of at most %d shoots", destination, used, allocatable.Value()),
			Remedy:   "choose another destination"}
	}
	return view.Check{Name: CheckFreeCapacity, Status: view.Pass,
		Evidence: fmt.Sprintf("seed %s has %d of at most %d shoots", destination, used, allocatable.Value())}
}

func (in PlanInput) judgeGatePolicies() view.Check {
	if why, ok := in.Unreadable[CheckGatePolicies]; ok {
		return deferred(CheckGatePolicies, why)
	}
	if len(in.MissingPolicies) > 0 {
		return view.Check{Name: CheckGatePolicies, Status: view.Fail,
			Evidence: "not in the garden: " + strings.Join(in.MissingPolicies, ", "),
			Remedy:   "install the chart livecpm-garden"}
	}
	return view.Check{Name: CheckGatePolicies, Status: view.Pass,
		Evidence: "policy and binding exist; the agents prove that they are in force before the first step"}
}

func (in PlanInput) judgeAgents(source, destination string) view.Check {
	var ready, missing []string
	for _, name := range []string{source, destination} {
		seed := in.seen(name)
		switch {
		case seed == nil || seed.Agent == nil:
			return view.Check{Name: CheckAgentsReady, Status: view.Unknown, Evidence: in.why(name),
				Remedy: "without an agent, nothing happens after the start", Deferred: true}
		case seed.Agent.Ready == 0:
			missing = append(missing, name)
		}
		ready = append(ready, fmt.Sprintf("%s: %d of %d", name, seed.Agent.Ready, seed.Agent.Desired))
	}
	if len(missing) > 0 {
		return view.Check{Name: CheckAgentsReady, Status: view.Fail,
			Evidence: "no agent is ready in " + strings.Join(missing, " and "),
			Remedy:   "install or fix the chart livecpm-agent there"}
	}
	return view.Check{Name: CheckAgentsReady, Status: view.Pass,
		Evidence: strings.Join(ready, ", ") + " replicas are ready"}
}
