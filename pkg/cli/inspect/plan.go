// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// Names of the checks that only a plan makes. Scripts may rely on the values.
const (
	// CheckFreeCapacity passes if the destination has room for one more shoot.
	CheckFreeCapacity preflight.Name = "FreeCapacity"
	// CheckGatePolicies passes if the policies of the gate are there. Whether they are in force can be proved only with
	// a shoot that is on its way; the agents do so before the first step.
	CheckGatePolicies preflight.Name = "GatePolicies"
	// CheckAgentsReady passes if an agent is ready in both seeds.
	CheckAgentsReady preflight.Name = "AgentsReady"
	// CheckNotUnderWay fails if the shoot is on its way to another seed already.
	CheckNotUnderWay preflight.Name = "NotUnderWay"
)

// PlanInput is what a plan is made from. It can be recorded as YAML.
type PlanInput struct {
	// Now is the time of the look.
	Now metav1.Time `json:"now"`
	// Shoot is the shoot.
	Shoot *gardencorev1beta1.Shoot `json:"shoot"`
	// Seeds are all seeds of the garden.
	Seeds []gardencorev1beta1.Seed `json:"seeds"`
	// ShootsPerSeed is how many shoots are in or on their way to each seed; nil if that is not known.
	ShootsPerSeed map[string]int `json:"shootsPerSeed,omitempty"`
	// Regions are the ConfigMaps with region distances.
	Regions []corev1.ConfigMap `json:"regions,omitempty"`
	// Bastions and ManagedSeeds are the names of those that refer to the shoot.
	Bastions     []string `json:"bastions,omitempty"`
	ManagedSeeds []string `json:"managedSeeds,omitempty"`
	// ExposureClass is the one that the shoot asks for; nil if it asks for none.
	ExposureClass *gardencorev1beta1.ExposureClass `json:"exposureClass,omitempty"`
	// Probed reports that a probe of the connection between the seeds was asked for, and has ended or was given up.
	Probed bool `json:"probed,omitempty"`
	// ProbeTimedOut says what that probe was waited for in vain; empty if it has ended.
	ProbeTimedOut string `json:"probeTimedOut,omitempty"`
	// MissingPolicies are the objects of the gate that are not there.
	MissingPolicies []string `json:"missingPolicies,omitempty"`
	// Unreadable says why the user cannot make a check.
	Unreadable map[preflight.Name]string `json:"unreadable,omitempty"`
	// Etcds are the etcds in the source as their members describe them; empty if the members were not asked. They are
	// not recorded.
	Etcds []preflight.EtcdView `json:"-"`
	// EtcdsUnasked says why the members could not be asked.
	EtcdsUnasked string `json:"etcdsUnasked,omitempty"`
	// Past are the migrations that were recorded; empty if there are none, or if the user may not read them.
	Past []history.Record `json:"past,omitempty"`
	// TTLs are what name servers say about the shoot's DNS records.
	TTLs []RecordTTL `json:"ttls,omitempty"`
	// Views are the seeds as far as the user has access to them.
	Views []summary.Seed `json:"views,omitempty"`
}

// Plan judges whether the shoot is ready to migrate to the destination, before anything is asked for. Without a
// destination it looks for one. The checks are those of pkg/preflight, which the agents make as well.
func Plan(in PlanInput, destination string) (view.Plan, error) {
	source := ptr.Deref(in.Shoot.Status.SeedName, "")
	out := view.Plan{Namespace: in.Shoot.Namespace, Shoot: in.Shoot.Name, Source: source}
	in.expect(&out, destination)
	if source == "" {
		//nolint:staticcheck // It begins with a kind.
		return out, fmt.Errorf("Shoot %s/%s is not in a seed yet; wait until it is created", in.Shoot.Namespace,
			in.Shoot.Name)
	}
	if _, err := in.seed(source); err != nil {
		return out, err
	}
	if destination == source {
		//nolint:staticcheck // It begins with a kind.
		return out, fmt.Errorf("Shoot %s/%s is already in seed %s; give another seed with --to", in.Shoot.Namespace,
			in.Shoot.Name, source)
	}

	if destination == "" {
		out.Candidates = in.candidates(source)
		if len(out.Candidates) == 0 {
			return out, fmt.Errorf("there is no seed other than %s to which shoots can be scheduled", source)
		}
		destination = out.Candidates[0].Seed
		if out.Candidates[0].Fit {
			out.Destination = destination
		}
	} else {
		out.Destination = destination
	}

	checks, err := in.check(source, destination)
	if err != nil {
		return out, err
	}
	out.Checks = checks
	in.expect(&out, destination)
	out.ProbeTimedOut = in.ProbeTimedOut
	out.CanGo = out.Destination != "" && len(obstacles(checks)) == 0
	if !out.CanGo {
		if out.Detour, err = in.detour(out, destination); err != nil {
			return out, err
		}
	}
	out.Next = next(out, in)
	return out, nil
}

// OnlyProbeMissing reports whether nothing but a result of the probe of the connection is in the way.
func OnlyProbeMissing(p view.Plan) bool {
	return !slices.ContainsFunc(p.Checks, func(check view.Check) bool {
		missing := check.Name == preflight.SeedConnection && check.Status == view.Unknown
		return check.Hinders() && !missing
	})
}

func next(p view.Plan, in PlanInput) string {
	target := fmt.Sprintf("%s -n %s", p.Shoot, p.Namespace)
	switch {
	case p.CanGo:
		return in.command("start", p.Destination)
	case p.Detour != nil && p.Detour.Measure != "":
		return p.Detour.Measure
	case p.Detour != nil && len(p.Detour.Hops) > 0:
		return in.command("plan", p.Detour.Hops[0].Destination)
	case stateOf(in) != summary.None && slices.Contains(obstacles(p.Checks), CheckNotUnderWay):
		return "kubectl livecpm get " + target
	case p.Destination != "":
		return fmt.Sprintf("kubectl livecpm plan %s --to %s", target, p.Destination)
	}
	return "kubectl livecpm plan " + target
}

func stateOf(in PlanInput) summary.State { return summary.Summarize(in.Shoot, in.Now.Time).State }

// facts returns what is known of how long a migration of the shoot between the seeds takes.
func (in PlanInput) facts(source, destination string) expected.Facts {
	facts := expected.NewLandscape(in.Seeds, in.Past).Facts(in.Shoot, source, destination)
	for _, record := range in.TTLs {
		facts.TTL = max(facts.TTL, record.TTL.Duration)
	}
	for _, etcd := range in.Etcds {
		for _, member := range etcd.Members {
			facts.Database = max(facts.Database, member.DBSize)
		}
	}
	return facts
}

// expect writes into the plan how long the steps take on the way to the destination.
func (in PlanInput) expect(out *view.Plan, destination string) {
	all := in.facts(out.Source, destination).Plan()
	out.Steps, out.ExpectedSeconds, out.Basis = nil, all.Seconds, all.Basis
	for i, step := range steps.Table() {
		out.Steps = append(out.Steps, view.PlannedStep{
			Condition: step.String(), Owner: step.Owner, Title: step.Title,
			ExpectedSeconds: all.Steps[i].Seconds, WaitSeconds: all.Steps[i].WaitSeconds,
			Basis: all.Steps[i].Basis, Samples: all.Steps[i].Samples,
			DeadlineSeconds: step.Deadline.Seconds(),
			Abortable:       step.Abortable, PointOfNoReturn: step.PointOfNoReturn,
		})
	}
}

func (in PlanInput) seed(name string) (*gardencorev1beta1.Seed, error) {
	for i := range in.Seeds {
		if in.Seeds[i].Name == name {
			return &in.Seeds[i], nil
		}
	}
	return nil, fmt.Errorf("there is no seed %s; `kubectl get seeds` lists them", name)
}

func (in PlanInput) seen(name string) *summary.Seed {
	for i := range in.Views {
		if in.Views[i].Name == name && in.Views[i].Unknown == "" {
			return &in.Views[i]
		}
	}
	return nil
}

// candidates compares the seeds that shoots are scheduled to. The best comes first: suitable, in the same region, with
// room.
func (in PlanInput) candidates(source string) []view.Candidate {
	own, _ := in.seed(source)
	var out []view.Candidate
	for i := range in.Seeds {
		seed := &in.Seeds[i]
		if seed.Name == source || !schedulable(seed) {
			continue
		}
		candidate := view.Candidate{Seed: seed.Name, Region: seed.Spec.Provider.Region}
		if in.ShootsPerSeed != nil {
			candidate.Shoots = ptr.To(in.ShootsPerSeed[seed.Name])
		}
		if allocatable, ok := seed.Status.Allocatable[gardencorev1beta1.ResourceShoots]; ok {
			candidate.Allocatable = ptr.To(allocatable.Value())
		}
		// The seed is among them, so it can be checked.
		checks, _ := in.check(source, seed.Name)
		candidate.Obstacles = obstacles(checks)
		candidate.Fit = len(candidate.Obstacles) == 0
		out = append(out, candidate)
	}
	slices.SortStableFunc(out, func(a, b view.Candidate) int {
		return cmp.Or(
			preferred(a, b, func(c view.Candidate) bool { return c.Fit }),
			preferred(a, b, func(c view.Candidate) bool { return c.Region == own.Spec.Provider.Region }),
			cmp.Compare(len(a.Obstacles), len(b.Obstacles)),
			cmp.Compare(ptr.Deref(a.Shoots, 0), ptr.Deref(b.Shoots, 0)),
			strings.Compare(a.Seed, b.Seed),
		)
	})
	return out
}

// schedulable reports whether new shoots may be placed in the seed: an operator who has hidden it wants no more there.
func schedulable(seed *gardencorev1beta1.Seed) bool {
	return seed.DeletionTimestamp == nil &&
		(seed.Spec.Settings == nil || seed.Spec.Settings.Scheduling == nil || seed.Spec.Settings.Scheduling.Visible)
}

// preferred orders two candidates: the one with the property comes first.
func preferred(a, b view.Candidate, has func(view.Candidate) bool) int {
	switch {
	case has(a) == has(b):
		return 0
	case has(a):
		return -1
	}
	return 1
}

func obstacles(checks []view.Check) []preflight.Name {
	var out []preflight.Name
	for _, check := range checks {
		if check.Hinders() {
			out = append(out, check.Name)
		}
	}
	return out
}
