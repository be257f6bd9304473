// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package plan judges whether a shoot can be migrated live before anything is asked for. Evaluate is pure; Reader reads
// what it judges. The checks are those of pkg/preflight, which the agents make as well.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// Names of the checks that only a plan makes. Scripts may rely on the values.
const (
	// FreeCapacity passes if the destination has room for one more shoot.
	FreeCapacity preflight.Name = "FreeCapacity"
	// GatePolicies passes if the policies of the gate are there. Whether they are in force can be proved only with a
	// shoot that is on its way; the agents do so before the first step.
	GatePolicies preflight.Name = "GatePolicies"
	// AgentsReady passes if an agent is ready in both seeds.
	AgentsReady preflight.Name = "AgentsReady"
	// NotUnderWay fails if the shoot is on its way to another seed already.
	NotUnderWay preflight.Name = "NotUnderWay"
)

// Input is what a plan is made from. It can be recorded as YAML.
type Input struct {
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
	// PermitsWorkers is what the user says: that the agents permit shoots with workers.
	PermitsWorkers bool `json:"permitsWorkers,omitempty"`
	// MissingPolicies are the objects of the gate that are not there.
	MissingPolicies []string `json:"missingPolicies,omitempty"`
	// Unreadable tells why a check can not be made by the user.
	Unreadable map[preflight.Name]string `json:"unreadable,omitempty"`
	// Etcds are the etcds in the source as their members describe them; empty if the members were not asked. They are
	// not recorded.
	Etcds []preflight.EtcdView `json:"-"`
	// EtcdsUnasked tells why the members could not be asked.
	EtcdsUnasked string `json:"etcdsUnasked,omitempty"`
	// Views are the seeds as far as the user has access to them.
	Views []summary.Seed `json:"views,omitempty"`
}

// Check is the result of one check.
type Check struct {
	// Name is the check.
	Name preflight.Name `json:"name"`
	// Status is Pass, Fail or Unknown.
	Status preflight.Status `json:"status"`
	// Evidence tells what was seen.
	Evidence string `json:"evidence"`
	// Remedy tells what to do if it did not pass.
	Remedy string `json:"remedy,omitempty"`
	// Deferred reports that it could not be made from here and is made by the agents before the migration begins. It
	// does not speak against the plan.
	Deferred bool `json:"deferred,omitempty"`
}

// Candidate is a seed that the shoot could move to.
type Candidate struct {
	// Seed is its name, Region its region.
	Seed   string `json:"seed"`
	Region string `json:"region"`
	// Shoots and Allocatable are how many it has and can have; nil if that is not known or limited.
	Shoots      *int   `json:"shoots,omitempty"`
	Allocatable *int64 `json:"allocatable,omitempty"`
	// Fit reports that nothing speaks against it.
	Fit bool `json:"fit"`
	// Obstacles are the names of the checks that do.
	Obstacles []preflight.Name `json:"obstacles,omitempty"`
}

// Step is a step that will run.
type Step struct {
	// Condition, Owner and Title are those of the step table.
	Condition string     `json:"condition"`
	Owner     steps.Role `json:"owner"`
	Title     string     `json:"title"`
	// ExpectedSeconds is how long it takes on the landscape of the repository.
	ExpectedSeconds float64 `json:"expectedSeconds"`
	// DeadlineSeconds is how long it may take.
	DeadlineSeconds float64 `json:"deadlineSeconds"`
	// Abortable and PointOfNoReturn are those of the step table.
	Abortable       bool `json:"abortable,omitempty"`
	PointOfNoReturn bool `json:"pointOfNoReturn,omitempty"`
}

// Plan is what would happen.
type Plan struct {
	// Namespace and Shoot name the shoot.
	Namespace string `json:"namespace"`
	Shoot     string `json:"shoot"`
	// Source and Destination are the seeds. There is no destination if none was given and none is fit.
	Source      string `json:"source"`
	Destination string `json:"destination,omitempty"`
	// Candidates are the seeds that were compared if no destination was given.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Checks are the checks with the destination, or with the first candidate.
	Checks []Check `json:"checks"`
	// Steps are the steps that will run.
	Steps []Step `json:"steps"`
	// CanGo reports that nothing speaks against it.
	CanGo bool `json:"canGo"`
	// Next is the next command.
	Next string `json:"next"`
}

// Evaluate makes the plan. Without a destination it looks for one.
func Evaluate(in Input, destination string) (Plan, error) {
	source := ptr.Deref(in.Shoot.Status.SeedName, "")
	out := Plan{Namespace: in.Shoot.Namespace, Shoot: in.Shoot.Name, Source: source, Steps: expected()}
	if source == "" {
		//nolint:staticcheck // It begins with a kind.
		return out, fmt.Errorf("Shoot %s/%s is in no seed yet; wait until it is created", in.Shoot.Namespace,
			in.Shoot.Name)
	}
	if _, err := in.seed(source); err != nil {
		return out, err
	}
	if destination == source {
		//nolint:staticcheck // It begins with a kind.
		return out, fmt.Errorf("Shoot %s/%s is in seed %s already; give another one with --to", in.Shoot.Namespace,
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
	out.CanGo = out.Destination != "" && len(obstacles(checks)) == 0
	out.Next = out.next(in)
	return out, nil
}

func (p Plan) next(in Input) string {
	target := fmt.Sprintf("%s -n %s", p.Shoot, p.Namespace)
	switch {
	case p.CanGo:
		permit := ""
		if in.PermitsWorkers && len(in.Shoot.Spec.Provider.Workers) > 0 {
			permit = " --permit-workers"
		}
		return fmt.Sprintf("kubectl livecpm start %s --to %s%s", target, p.Destination, permit)
	case stateOf(in) != summary.None && slices.Contains(obstacles(p.Checks), NotUnderWay):
		return "kubectl livecpm get " + target
	case p.Destination != "":
		return fmt.Sprintf("kubectl livecpm plan %s --to %s", target, p.Destination)
	}
	return "kubectl livecpm plan " + target
}

func stateOf(in Input) summary.State { return summary.Summarize(in.Shoot, in.Now.Time).State }

func expected() []Step {
	var out []Step
	for _, step := range steps.Table() {
		out = append(out, Step{
			Condition: step.String(), Owner: step.Owner, Title: step.Title,
			ExpectedSeconds: step.Expected.Seconds(), DeadlineSeconds: step.Deadline.Seconds(),
			Abortable: step.Abortable, PointOfNoReturn: step.PointOfNoReturn,
		})
	}
	return out
}

func (in Input) seed(name string) (*gardencorev1beta1.Seed, error) {
	for i := range in.Seeds {
		if in.Seeds[i].Name == name {
			return &in.Seeds[i], nil
		}
	}
	return nil, fmt.Errorf("there is no seed %s; `kubectl get seeds` lists them", name)
}

func (in Input) view(name string) *summary.Seed {
	for i := range in.Views {
		if in.Views[i].Name == name && in.Views[i].Unknown == "" {
			return &in.Views[i]
		}
	}
	return nil
}

// candidates compares the seeds that shoots are scheduled to. The best comes first: fit, in the same region, with room.
func (in Input) candidates(source string) []Candidate {
	own, _ := in.seed(source)
	var out []Candidate
	for i := range in.Seeds {
		seed := &in.Seeds[i]
		if seed.Name == source || !schedulable(seed) {
			continue
		}
		candidate := Candidate{Seed: seed.Name, Region: seed.Spec.Provider.Region}
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
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(
			last(!a.Fit, !b.Fit),
			last(a.Region != own.Spec.Provider.Region, b.Region != own.Spec.Provider.Region),
			cmp.Compare(len(a.Obstacles), len(b.Obstacles)),
			cmp.Compare(ptr.Deref(a.Shoots, 0), ptr.Deref(b.Shoots, 0)),
			strings.Compare(a.Seed, b.Seed),
		)
	})
	return out
}

// schedulable reports whether new shoots may go to the seed: an operator who has hidden it does not want more in it.
func schedulable(seed *gardencorev1beta1.Seed) bool {
	return seed.DeletionTimestamp == nil &&
		(seed.Spec.Settings == nil || seed.Spec.Settings.Scheduling == nil || seed.Spec.Settings.Scheduling.Visible)
}

func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func obstacles(checks []Check) []preflight.Name {
	var out []preflight.Name
	for _, check := range checks {
		if check.Status != preflight.Pass && !check.Deferred {
			out = append(out, check.Name)
		}
	}
	return out
}
