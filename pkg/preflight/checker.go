// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"strings"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/apis/operations"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Options are what a Checker needs. All of them are required, but for ForbidsWorkers.
type Options struct {
	// Reader reads the garden. It should not be a cache.
	Reader client.Reader
	// OwnSeed is the name of the seed that the checker runs in.
	OwnSeed string
	// Gardenlet is the configuration of the gardenlet in that seed.
	Gardenlet *gardenletconfigv1alpha1.GardenletConfiguration
	// Version is the Gardener version that the agent is built with.
	Version string
	// Protocols are what the agent speaks.
	Protocols steps.Protocols
	// Etcds looks at the etcds of the shoot in that seed.
	Etcds func(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]EtcdView, error)
	// ForbidsWorkers reports that the agent is configured not to migrate shoots with workers.
	ForbidsWorkers bool
	// Machines looks at the machines of the shoot in that seed.
	Machines func(ctx context.Context, shoot *gardencorev1beta1.Shoot) (MachinesView, error)
	// Running reads the Shoot as the gardenlet in that seed has last rolled it out.
	Running func(ctx context.Context, shoot *gardencorev1beta1.Shoot) (*gardencorev1beta1.Shoot, error)
	// Rollout looks at the Deployment of the gardenlet in that seed.
	Rollout func(ctx context.Context) (RolloutView, error)
	// TLSEndsAtGateway reads whether the ingress gateway of that seed ends the TLS of the shoot's clients.
	TLSEndsAtGateway func(ctx context.Context, shoot *gardencorev1beta1.Shoot) (bool, error)
	// Extensions reads which types of extensions the shoot has, with those that are enabled for all shoots.
	Extensions func(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]string, error)
	// Clock is the clock.
	Clock clock.PassiveClock
}

// Checker reads what the checks need and judges it.
type Checker struct {
	options Options
}

// New returns a Checker. It fails if an option is missing, because a check that lacks what it looks at would pass.
func New(options Options) (*Checker, error) {
	var missing []string
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"Reader", options.Reader != nil},
		{"OwnSeed", options.OwnSeed != ""},
		{"Gardenlet", options.Gardenlet != nil},
		{"Version", options.Version != ""},
		{"Protocols", options.Protocols != (steps.Protocols{})},
		{"Etcds", options.Etcds != nil},
		{"Machines", options.Machines != nil},
		{"Running", options.Running != nil},
		{"Rollout", options.Rollout != nil},
		{"TLSEndsAtGateway", options.TLSEndsAtGateway != nil},
		{"Extensions", options.Extensions != nil},
		{"Clock", options.Clock != nil},
	} {
		if !option.set {
			missing = append(missing, option.name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("failed to set up the preflight checks: these options are missing: %s",
			strings.Join(missing, ", "))
	}
	return &Checker{options: options}, nil
}

// Check returns the findings of all checks for the shoot in a fixed order.
func (c *Checker) Check(ctx context.Context, shoot *gardencorev1beta1.Shoot) []Finding {
	return Evaluate(c.readAll(ctx, shoot))
}

// CheckStep returns the findings of the guards before the step in a fixed order.
func (c *Checker) CheckStep(ctx context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step) []Finding {
	return EvaluateStep(c.read(ctx, shoot), step)
}

// Before tells with which reason and message the step must not begin; both are empty if it may. It makes all checks
// before the first step of the role that the seed has, and those of the guards before every other. The warnings are
// what is wrong without holding the step, and what was requested meanwhile and waits for the end of the migration.
func (c *Checker) Before(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step,
) (reason steps.Reason, message string, warnings []string) {
	var findings []Finding
	if role, ok := steps.RoleOf(shoot, c.options.OwnSeed); ok && step.Entry && step.Owner == role {
		findings = c.Check(ctx, shoot)
	} else {
		findings = c.CheckStep(ctx, shoot, step)
	}
	for _, warning := range Warnings(findings) {
		warnings = append(warnings, warning.String())
	}
	warnings = append(warnings, c.inFlight(ctx, shoot)...)
	reason, message = Verdict(findings)
	return reason, message, warnings
}

// During tells with which reason and message the step, which has begun, has to hold; both are empty if it may continue.
// It looks at the garden only, so that it may be asked often.
func (c *Checker) During(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, step steps.Step,
) (reason steps.Reason, message string) {
	return Verdict(EvaluateDuring(c.readSeeds(ctx, shoot), step))
}

// Rival tells by what a gardenlet is known that may carry out the shoot's migration itself; empty if there is none. The
// agent then stands back, before it has written anything.
func (c *Checker) Rival(ctx context.Context, shoot *gardencorev1beta1.Shoot) string {
	return rival(c.readSeeds(ctx, shoot))
}

// readSeeds reads what is in the garden of the facts that the guards look at.
func (c *Checker) readSeeds(ctx context.Context, shoot *gardencorev1beta1.Shoot) Facts {
	facts := Facts{Shoot: shoot, OwnSeed: c.options.OwnSeed, Gardenlet: c.options.Gardenlet, Version: c.options.Version,
		Protocols: c.options.Protocols, ForbidsWorkers: c.options.ForbidsWorkers}
	if source, destination, between := steps.Seeds(shoot); between {
		facts.Source = c.seed(ctx, source)
		facts.Destination = c.seed(ctx, destination)
	}
	return facts
}

// read reads what the guards look at.
func (c *Checker) read(ctx context.Context, shoot *gardencorev1beta1.Shoot) Facts {
	facts := c.readSeeds(ctx, shoot)
	if _, _, between := steps.Seeds(shoot); !between {
		return facts
	}
	facts.EtcdsRead = true
	facts.Etcds, facts.EtcdsError = c.options.Etcds(ctx, shoot)
	facts.Now = c.options.Clock.Now()
	return facts
}

// readAll reads what all checks look at.
func (c *Checker) readAll(ctx context.Context, shoot *gardencorev1beta1.Shoot) Facts {
	facts := c.read(ctx, shoot)
	if _, _, between := steps.Seeds(shoot); !between {
		return facts
	}
	if cloudProfile := cloudProfileName(shoot); cloudProfile != "" && !sameRegion(facts) {
		facts.RegionConfigMaps, facts.RegionError = gardenerutils.GetRegionConfigMaps(ctx, c.options.Reader,
			v1beta1constants.GardenNamespace, cloudProfile)
	}
	isSource := facts.ownRole() == steps.Source
	if isSource {
		facts.RunningRead = true
		facts.Running, facts.RunningError = c.options.Running(ctx, shoot)
	}
	if isSource && goesWithWorkers(facts) {
		facts.MachinesRead, facts.TLSEndsRead = true, true
		facts.Machines, facts.MachinesError = c.options.Machines(ctx, shoot)
		facts.TLSEndsAtGateway, facts.TLSEndsError = c.options.TLSEndsAtGateway(ctx, shoot)
	}
	if shoot.Spec.ExposureClassName != nil {
		facts.ExposureClass, facts.ExposureClassError = ReadExposureClass(ctx, c.options.Reader, shoot)
	}
	facts.ExtensionsRead = true
	facts.Extensions, facts.ExtensionsError = c.options.Extensions(ctx, shoot)
	facts.RolloutRead = true
	facts.Rollout, facts.RolloutError = c.options.Rollout(ctx)
	facts.Bastions, facts.BastionsError = c.bastions(ctx, shoot)
	facts.ManagedSeeds, facts.ManagedSeedsError = c.managedSeeds(ctx, shoot)
	return facts
}

func (c *Checker) seed(ctx context.Context, name string) SeedView {
	seed := &gardencorev1beta1.Seed{}
	if err := c.options.Reader.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return SeedView{Name: name, Error: err}
	}
	return SeedView{Name: name, Seed: seed}
}

// ReadExposureClass reads the ExposureClass that the shoot asks for; it has to ask for one.
func ReadExposureClass(
	ctx context.Context, garden client.Reader, shoot *gardencorev1beta1.Shoot,
) (*gardencorev1beta1.ExposureClass, error) {
	exposureClass := &gardencorev1beta1.ExposureClass{}
	if err := garden.Get(ctx, client.ObjectKey{Name: *shoot.Spec.ExposureClassName}, exposureClass); err != nil {
		return nil, err
	}
	return exposureClass, nil
}

// bastions lists the shoot's Bastions in the own seed. The seed authorizer lets a gardenlet list no others, and both
// agents look.
func (c *Checker) bastions(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]string, error) {
	list := &operationsv1alpha1.BastionList{}
	if err := c.options.Reader.List(ctx, list, client.InNamespace(shoot.Namespace),
		client.MatchingFields{operations.BastionSeedName: c.options.OwnSeed}); err != nil {
		return nil, err
	}
	var names []string
	for _, bastion := range list.Items {
		if bastion.Spec.ShootRef.Name == shoot.Name {
			names = append(names, bastion.Name)
		}
	}
	return names, nil
}

// managedSeeds lists the ManagedSeeds that refer to the shoot. There are none outside of the garden namespace, and the
// seed authorizer lets a gardenlet list those only whose shoot is in its seed: it is the source that finds one.
func (c *Checker) managedSeeds(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]string, error) {
	if shoot.Namespace != v1beta1constants.GardenNamespace {
		return nil, nil
	}
	list := &seedmanagementv1alpha1.ManagedSeedList{}
	if err := c.options.Reader.List(ctx, list, client.InNamespace(shoot.Namespace),
		client.MatchingLabels{v1beta1constants.LabelPrefixSeedName + c.options.OwnSeed: "true"}); err != nil {
		return nil, err
	}
	var names []string
	for _, managedSeed := range list.Items {
		if managedSeed.Spec.Shoot != nil && managedSeed.Spec.Shoot.Name == shoot.Name {
			names = append(names, managedSeed.Name)
		}
	}
	return names, nil
}
