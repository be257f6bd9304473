// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package placement finds the seed that a shoot can move to when its seed is drained, or what keeps it. The controller
// manager decides by it, and the plugin shows beforehand what it would decide.
package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	schedulerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/scheduler/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	schedulershoot "github.com/gardener/gardener/pkg/scheduler/controller/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

var (
	// ofDestination are the checks that depend on where the shoot goes: another seed may pass them.
	ofDestination = []preflight.Name{
		preflight.ProviderType, steps.GardenletVersion, steps.DestinationSeedHealth, preflight.RegionDistance,
		preflight.Backup, preflight.InternalDomain, preflight.DefaultDomain, preflight.DNSAccess, preflight.Exposure,
		preflight.ExposureClass, preflight.IPFamilies, preflight.ClusterDNS, preflight.SeedConnection,
		preflight.TLSTermination, preflight.AccessControl, preflight.ExtensionsInstalled, preflight.BackupsArrive,
		preflight.WorkersInDestination,
	}
	// callForClassic are the checks that let a shoot go classically, where that is permitted.
	callForClassic = []preflight.Name{preflight.HighAvailability, preflight.NotHibernated}
	// ofLiveOnly are the checks that a classic migration does not need. It does need gardenlets of the same version:
	// gardener-controller-manager holds it until they are (health.CheckSeedForMigration in Gardener v1.150).
	ofLiveOnly = []preflight.Name{
		preflight.HighAvailability, preflight.NotHibernated, preflight.Workers, preflight.WorkersInDestination,
		preflight.RegionDistance, preflight.DNSAccess, preflight.Exposure,
		preflight.IPFamilies, preflight.ClusterDNS, preflight.SeedConnection, preflight.TLSTermination,
		preflight.AccessControl, preflight.ExtensionsInstalled, preflight.BackupsArrive,
	}
)

// Finder finds destinations. It lives for one look.
type Finder struct {
	// Client reads what is asked about single shoots.
	Client client.Client
	// Namespace is the garden namespace.
	Namespace string
	// Strategy is the strategy of the scheduler.
	Strategy string
	// Now is the time of the look.
	Now time.Time
	// Seeds and Shoots are those of the look, with what was written since.
	Seeds  []gardencorev1beta1.Seed
	Shoots []gardencorev1beta1.Shoot
	// Permits tells which ways other than the live one the operators of the seeds permit, by seed.
	Permits map[string]drain.Permits

	// read reports that what follows was read.
	read                                bool
	bastions                            map[client.ObjectKey][]string
	managedSeeds                        map[client.ObjectKey][]string
	regions                             []*corev1.ConfigMap
	exposureClasses                     map[string]*gardencorev1beta1.ExposureClass
	bastionsErr, managedErr, regionsErr error
	exposureClassesErr                  error
}

// Find finds a destination for the shoot, or what keeps it.
func (f *Finder) Find(ctx context.Context, shoot *gardencorev1beta1.Shoot) drain.Assessment {
	source := *shoot.Status.SeedName
	if changing, ok := hibernationChanges(shoot, f.PermitsOf(shoot)); ok {
		return changing
	}
	f.readOnce(ctx)

	anywhere := preflight.SeedView{Name: "another", Error: errors.New("not chosen yet")}
	obstacles := without(f.obstacles(shoot, source, anywhere), ofDestination)
	way := f.way(shoot, obstacles)
	if way.IsClassic() {
		obstacles = without(obstacles, ofLiveOnly)
	}
	if len(obstacles) > 0 {
		reason, message := preflight.Verdict(obstacles)
		return drain.Assessment{Reason: drain.Reason(reason), Message: message}
	}

	refused := map[string][]preflight.Finding{}
	for {
		destination, err := f.schedule(ctx, shoot, source, refused)
		if err != nil {
			reason, message := verdict(err, refused)
			stays := drain.Assessment{Reason: reason, Message: message}
			if way != drain.Live {
				// On the way by other seeds there would be a gap in each migration.
				return stays
			}
			return f.byWay(ctx, shoot, refused, stays)
		}
		there := preflight.SeedView{Name: destination.Name, Seed: destination}
		obstacles := only(f.obstacles(shoot, source, there), ofDestination)
		if way.IsClassic() {
			obstacles = without(obstacles, ofLiveOnly)
		}
		if len(obstacles) == 0 {
			return f.unlessWakeUpDue(shoot, drain.Assessment{Destination: destination.Name, Way: way})
		}
		refused[destination.Name] = obstacles
	}
}

// way returns the first way that the shoot permits, in the order of drain.Way. Whether it goes that way depends on the
// obstacles that the way does not get round.
func (f *Finder) way(shoot *gardencorev1beta1.Shoot, obstacles []preflight.Finding) drain.Way {
	permits := f.PermitsOf(shoot)
	switch {
	case len(obstacles) == 0 && steps.WithGap(shoot):
		return drain.LiveWithGap
	case len(obstacles) == 0:
		return drain.Live
	case hibernated(shoot) && !permits.HibernatedStay:
		return drain.ClassicWhileHibernated
	case permits.Fallback && classicDue(shoot, obstacles):
		return drain.Classic
	}
	return drain.Live
}

// classicDue reports whether the shoot is one of those that may go classically: it is not highly available, or
// fully hibernated.
func classicDue(shoot *gardencorev1beta1.Shoot, obstacles []preflight.Finding) bool {
	return slices.ContainsFunc(
		obstacles, func(finding preflight.Finding) bool { return slices.Contains(callForClassic, finding.Name) }) &&
		v1beta1helper.HibernationIsEnabled(shoot) == shoot.Status.IsHibernated
}

// verdict tells why no seed is left. If all that were refused have a reason in common, that is the reason.
func verdict(err error, refused map[string][]preflight.Finding) (drain.Reason, string) {
	if len(refused) == 0 {
		return drain.ReasonNoCandidate, fmt.Sprintf("the scheduler finds no other seed: %v", err)
	}
	var (
		all   []preflight.Finding
		texts []string
	)
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		all = append(all, refused[name]...)
		texts = append(texts, name+": "+strings.Join(preflight.Sentences(refused[name]), "; "))
	}
	reason, _ := preflight.Verdict(all)
	if reason == steps.ReasonPrerequisitesNotMet {
		return drain.ReasonNoCandidate, strings.Join(texts, "; ")
	}
	return drain.Reason(reason), strings.Join(texts, "; ")
}

// PermitsOf returns which ways the operator of the seed whose drain moves the shoot permits.
func (f *Finder) PermitsOf(shoot *gardencorev1beta1.Shoot) drain.Permits {
	return f.Permits[f.movedBy(drain.ShootOf(shoot))]
}

// movedBy returns the seed whose drain moves the shoot.
func (f *Finder) movedBy(shoot drain.Shoot) string {
	return shoot.MovedBy(func(name string) bool {
		seed := f.seed(name).Seed
		return seed != nil && drain.Requested(seed)
	})
}

// obstacles returns what speaks against the live migration to the destination.
func (f *Finder) obstacles(
	shoot *gardencorev1beta1.Shoot, source string, destination preflight.SeedView,
) []preflight.Finding {
	return preflight.Obstacles(preflight.Evaluate(f.facts(shoot, source, destination)))
}

// facts returns what is known of a live migration between the seeds that is not started yet.
func (f *Finder) facts(
	shoot *gardencorev1beta1.Shoot, source string, destination preflight.SeedView,
) preflight.Facts {
	// As it will be once the move is started. Nothing below the fields that are set is touched.
	moved := *shoot
	moved.Annotations = maps.Clone(shoot.Annotations)
	steps.Intend(&moved)
	moved.Spec.SeedName, moved.Status.SeedName = &destination.Name, &source

	key := client.ObjectKeyFromObject(shoot)
	return preflight.Facts{
		Shoot: &moved, Source: f.seed(source), Destination: destination, Planned: true, Now: f.Now,
		RegionError:      f.regionsErr,
		RegionConfigMaps: gardenerutils.FindRegionConfigMaps(f.regions, cloudProfileName(shoot)),
		Bastions:         f.bastions[key], BastionsError: f.bastionsErr,
		ManagedSeeds: f.managedSeeds[key], ManagedSeedsError: f.managedErr,
		ExposureClass:      f.exposureClasses[ptr.Deref(shoot.Spec.ExposureClassName, "")],
		ExposureClassError: f.exposureClassesErr,
		HostedSeeds:        preflight.HostedSeeds(shoot, f.Seeds),
	}
}

// only returns the findings of the given checks.
func only(findings []preflight.Finding, names []preflight.Name) []preflight.Finding {
	return slices.DeleteFunc(
		findings, func(finding preflight.Finding) bool { return !slices.Contains(names, finding.Name) })
}

// without returns the findings of all other checks.
func without(findings []preflight.Finding, names []preflight.Name) []preflight.Finding {
	return slices.DeleteFunc(
		findings, func(finding preflight.Finding) bool { return slices.Contains(names, finding.Name) })
}

func (f *Finder) seed(name string) preflight.SeedView {
	for i := range f.Seeds {
		if f.Seeds[i].Name == name {
			return preflight.SeedView{Name: name, Seed: &f.Seeds[i]}
		}
	}
	return preflight.SeedView{Name: name, Error: errors.New("there is no such seed")}
}

// schedule lets gardener-scheduler's own code choose among the seeds that are neither drained nor refused.
func (f *Finder) schedule(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, source string, refused map[string][]preflight.Finding,
) (*gardencorev1beta1.Seed, error) {
	candidates := make([]gardencorev1beta1.Seed, 0, len(f.Seeds))
	for _, seed := range f.Seeds {
		if _, no := refused[seed.Name]; !no && seed.Name != source && !drain.Requested(&seed) {
			candidates = append(candidates, seed)
		}
	}
	return f.choose(ctx, shoot, f.Strategy, candidates)
}

// choose lets gardener-scheduler's own code choose among the candidates.
func (f *Finder) choose(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, strategy string, candidates []gardencorev1beta1.Seed,
) (*gardencorev1beta1.Seed, error) {
	scheduler := &schedulershoot.Reconciler{
		Client: &schedulerView{Client: f.Client, seeds: candidates, shoots: f.Shoots},
		Config: &schedulerconfigv1alpha1.ShootSchedulerConfiguration{
			Strategy: schedulerconfigv1alpha1.CandidateDeterminationStrategy(strategy),
		},
		GardenNamespace: f.Namespace,
	}
	return scheduler.DetermineSeed(ctx, logr.Discard(), shoot)
}

// readOnce reads what speaks against moves of single shoots, for all of them together.
func (f *Finder) readOnce(ctx context.Context) {
	if f.read {
		return
	}
	f.read = true
	f.bastions, f.managedSeeds = map[client.ObjectKey][]string{}, map[client.ObjectKey][]string{}

	bastions := &operationsv1alpha1.BastionList{}
	f.bastionsErr = f.Client.List(ctx, bastions)
	for _, bastion := range bastions.Items {
		key := client.ObjectKey{Namespace: bastion.Namespace, Name: bastion.Spec.ShootRef.Name}
		f.bastions[key] = append(f.bastions[key], bastion.Name)
	}
	managedSeeds := &seedmanagementv1alpha1.ManagedSeedList{}
	f.managedErr = f.Client.List(ctx, managedSeeds, client.InNamespace(f.Namespace))
	for _, managedSeed := range managedSeeds.Items {
		if managedSeed.Spec.Shoot != nil {
			key := client.ObjectKey{Namespace: managedSeed.Namespace, Name: managedSeed.Spec.Shoot.Name}
			f.managedSeeds[key] = append(f.managedSeeds[key], managedSeed.Name)
		}
	}
	regions := &corev1.ConfigMapList{}
	f.regionsErr = f.Client.List(ctx, regions, client.InNamespace(f.Namespace),
		client.MatchingLabels{v1beta1constants.SchedulingPurpose: v1beta1constants.SchedulingPurposeRegionConfig})
	for i := range regions.Items {
		f.regions = append(f.regions, &regions.Items[i])
	}
	exposureClasses := &gardencorev1beta1.ExposureClassList{}
	f.exposureClasses = map[string]*gardencorev1beta1.ExposureClass{}
	f.exposureClassesErr = f.Client.List(ctx, exposureClasses)
	for i := range exposureClasses.Items {
		f.exposureClasses[exposureClasses.Items[i].Name] = &exposureClasses.Items[i]
	}
}

func cloudProfileName(shoot *gardencorev1beta1.Shoot) string {
	if reference := gardenerutils.BuildV1beta1CloudProfileReference(shoot); reference != nil {
		return reference.Name
	}
	return ""
}

// schedulerView is a client that shows the scheduler some seeds only, and all shoots without copying them. The
// scheduler changes neither.
type schedulerView struct {
	client.Client
	seeds  []gardencorev1beta1.Seed
	shoots []gardencorev1beta1.Shoot
}

// List returns the seeds and shoots of the view, and everything else from the client.
func (v *schedulerView) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *gardencorev1beta1.SeedList:
		list.Items = v.seeds
	case *gardencorev1beta1.ShootList:
		list.Items = v.shoots
	default:
		return v.Client.List(ctx, list, options...)
	}
	return nil
}
