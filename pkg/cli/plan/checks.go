// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
)

const byAgents = "the agents look at it before the migration begins"

// check makes all checks with the shoot as it would be after the trigger.
func (in Input) check(source, destination string) ([]Check, error) {
	w, err := in.preflightWorld(source, destination)
	if err != nil {
		return nil, err
	}

	out := []Check{in.checkNotUnderWay(source, destination)}
	for _, finding := range preflight.Evaluate(w) {
		switch finding.Name {
		case preflight.Intent:
			// It is what start sets.
			continue
		case preflight.Workerless:
			if n := len(in.Shoot.Spec.Provider.Workers); n > 0 && finding.Status == preflight.Pass {
				out = append(out,
					deferred(preflight.Workerless,
						fmt.Sprintf("only the configuration of the agents reports whether they permit the %d "+
							"worker pools", n)),
					deferred(preflight.Machines, "only the machines in the source tell"),
				)
				continue
			}
		case steps.EtcdSpace, steps.EtcdIntegrity, steps.EtcdSize, steps.EtcdDefragmentation:
			if len(in.Etcds) == 0 {
				// What etcd-druid reports does not tell.
				continue
			}
		}
		check := Check{Name: finding.Name, Status: finding.Status, Evidence: finding.Evidence, Remedy: finding.Remedy}
		if why, ok := in.Unreadable[finding.Name]; ok && finding.Status == preflight.Unknown {
			check.Evidence, check.Remedy, check.Deferred = why, byAgents, true
		}
		out = append(out, check)
	}
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
		why := "only the members of the etcd tell"
		if in.EtcdsUnasked != "" {
			why = "the members could not be asked: " + in.EtcdsUnasked
		}
		out = append(out, deferred(name, why))
	}
	out = append(out, deferred(preflight.EtcdMemberNames, "only the configuration of the gardenlets tells"))
	return append(out, in.checkFreeCapacity(destination), in.checkGatePolicies(), in.checkAgents(source, destination)),
		nil
}

func deferred(name preflight.Name, why string) Check {
	return Check{Name: name, Status: preflight.Unknown, Evidence: why, Remedy: byAgents, Deferred: true}
}

func (in Input) why(seed string) string {
	for _, view := range in.Views {
		if view.Name == seed && view.Unknown != "" {
			return fmt.Sprintf("seed %s: %s", seed, view.Unknown)
		}
	}
	return fmt.Sprintf("nothing is known of seed %s", seed)
}

func (in Input) preflightWorld(source, destination string) (preflight.Facts, error) {
	triggered := in.Shoot.DeepCopy()
	metav1.SetMetaDataAnnotation(&triggered.ObjectMeta, steps.AnnotationIntent, "true")
	triggered.Spec.SeedName = &destination
	triggered.Generation++

	w := preflight.Facts{
		Shoot: triggered, OwnSeed: source, Now: in.Now.Time, PermitsWorkers: in.PermitsWorkers,
		Bastions: in.Bastions, BastionsError: in.unreadable(preflight.Bastions),
		ManagedSeeds: in.ManagedSeeds, ManagedSeedsError: in.unreadable(preflight.NotASeed),
		RegionError: in.unreadable(preflight.RegionDistance),
	}
	for i := range in.Regions {
		w.RegionConfigMaps = append(w.RegionConfigMaps, &in.Regions[i])
	}
	for name, view := range map[string]*preflight.SeedView{source: &w.Source, destination: &w.Destination} {
		seed, err := in.seed(name)
		if err != nil {
			return w, err
		}
		*view = preflight.SeedView{Name: name, Seed: seed}
	}
	if len(in.Etcds) > 0 {
		w.EtcdsRead, w.Etcds = true, in.Etcds
	} else if view := in.view(source); view != nil {
		w.EtcdsRead = true
		w.Etcds = etcdViews(view.Etcds)
		if len(w.Etcds) == 0 {
			w.EtcdsError = fmt.Errorf("seed %s has no Etcd of the shoot", source)
		}
	}
	return w, nil
}

func (in Input) unreadable(name preflight.Name) error {
	if why, ok := in.Unreadable[name]; ok {
		return errors.New(why)
	}
	return nil
}

// etcdViews are the etcds as far as etcd-druid reports on them.
func etcdViews(etcds []summary.Etcd) []preflight.EtcdView {
	var out []preflight.EtcdView
	for _, etcd := range etcds {
		view := preflight.EtcdView{Name: etcd.Name, MemberNamePrefix: etcd.MemberNamePrefix,
			DefragmentationSchedule: etcd.DefragmentationSchedule}
		for _, member := range etcd.Members {
			problem := ""
			if member.Status != "Ready" {
				problem = fmt.Sprintf("etcd-druid reports it as %s", member.Status)
			}
			view.Members = append(view.Members, preflight.EtcdMemberView{Name: member.Name, Problem: problem})
		}
		out = append(out, view)
	}
	return out
}

func (in Input) checkNotUnderWay(source, destination string) Check {
	check := Check{Name: NotUnderWay, Status: preflight.Pass,
		Evidence: fmt.Sprintf("the shoot is in seed %s and stays there until it is started", source)}
	switch state := stateOf(in); {
	case state == summary.Aborted && in.Shoot.Spec.SeedName != nil && *in.Shoot.Spec.SeedName == destination:
		check.Evidence = "an earlier migration was aborted and can begin again"
	case state == summary.Aborted && in.Shoot.Spec.SeedName != nil && *in.Shoot.Spec.SeedName != source:
		check.Status = preflight.Fail
		check.Evidence = fmt.Sprintf("an aborted migration to seed %s is not closed", *in.Shoot.Spec.SeedName)
		check.Remedy = "set the seed back with `kubectl livecpm abort --stay`, or start to the same seed again"
	case state == summary.Classic:
		check.Status, check.Evidence, check.Remedy = preflight.Fail, "the shoot is migrated classically",
			"let that complete"
	case !state.Final():
		check.Status, check.Evidence, check.Remedy = preflight.Fail,
			fmt.Sprintf("a live migration is under way: %s", state), "watch it with `kubectl livecpm get`"
	}
	return check
}

func (in Input) checkFreeCapacity(destination string) Check {
	if why, ok := in.Unreadable[FreeCapacity]; ok {
		return Check{Name: FreeCapacity, Status: preflight.Unknown, Evidence: why,
			Remedy: "gardener-apiserver does not look at it either; ask who operates the seed", Deferred: true}
	}
	seed, err := in.seed(destination)
	if err != nil {
		return deferred(FreeCapacity, err.Error())
	}
	used := in.ShootsPerSeed[destination]
	allocatable, limited := seed.Status.Allocatable[gardencorev1beta1.ResourceShoots]
	switch {
	case !limited:
		return Check{Name: FreeCapacity, Status: preflight.Pass,
			Evidence: fmt.Sprintf("seed %s has %d shoots and no limit", destination, used)}
	case int64(used) >= allocatable.Value():
		return Check{Name: FreeCapacity, Status: preflight.Fail,
			Evidence: fmt.Sprintf("seed %s has %d of at most %d shoots", destination, used, allocatable.Value()),
			Remedy:   "choose another destination"}
	}
	return Check{Name: FreeCapacity, Status: preflight.Pass,
		Evidence: fmt.Sprintf("seed %s has %d of at most %d shoots", destination, used, allocatable.Value())}
}

func (in Input) checkGatePolicies() Check {
	if why, ok := in.Unreadable[GatePolicies]; ok {
		return deferred(GatePolicies, why)
	}
	if len(in.MissingPolicies) > 0 {
		return Check{Name: GatePolicies, Status: preflight.Fail,
			Evidence: "not in the garden: " + strings.Join(in.MissingPolicies, ", "),
			Remedy:   "install the chart livecpm-garden"}
	}
	return Check{Name: GatePolicies, Status: preflight.Pass,
		Evidence: "policy and binding are there; whether they are in force is proved with the shoot before " +
			"the first step"}
}

func (in Input) checkAgents(source, destination string) Check {
	var ready, missing []string
	for _, name := range []string{source, destination} {
		view := in.view(name)
		switch {
		case view == nil || view.Agent == nil:
			return Check{Name: AgentsReady, Status: preflight.Unknown, Evidence: in.why(name),
				Remedy: "without an agent nothing happens after the start", Deferred: true}
		case view.Agent.Ready == 0:
			missing = append(missing, name)
		}
		ready = append(ready, fmt.Sprintf("%s: %d of %d", name, view.Agent.Ready, view.Agent.Desired))
	}
	if len(missing) > 0 {
		return Check{Name: AgentsReady, Status: preflight.Fail,
			Evidence: "no agent is ready in " + strings.Join(missing, " and "),
			Remedy:   "install or fix the chart livecpm-agent there"}
	}
	return Check{Name: AgentsReady, Status: preflight.Pass, Evidence: strings.Join(ready, ", ") + " replicas are ready"}
}
