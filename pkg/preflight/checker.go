// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/steps"
)

// Options are what a Checker needs.
type Options struct {
	// Reader reads the garden. It should not be a cache.
	Reader client.Reader
	// OwnSeed is the name of the seed that the checker runs in.
	OwnSeed string
	// Gardenlet is the configuration of the gardenlet in that seed. When nil, the check that needs it is left out.
	Gardenlet *gardenletconfigv1alpha1.GardenletConfiguration
}

// Checker reads what the checks need and judges it.
type Checker struct {
	options Options
}

// New returns a Checker.
func New(options Options) *Checker {
	return &Checker{options: options}
}

// Check returns the findings of all checks for the shoot in a fixed order.
func (c *Checker) Check(ctx context.Context, shoot *gardencorev1beta1.Shoot) []Finding {
	return Evaluate(c.read(ctx, shoot))
}

func (c *Checker) read(ctx context.Context, shoot *gardencorev1beta1.Shoot) World {
	world := World{Shoot: shoot, OwnSeed: c.options.OwnSeed, Gardenlet: c.options.Gardenlet}

	source, destination, between := steps.Seeds(shoot)
	if !between {
		return world
	}
	world.Source = c.seed(ctx, source)
	world.Destination = c.seed(ctx, destination)

	if cloudProfile := cloudProfileName(shoot); cloudProfile != "" && !sameRegion(world) {
		world.RegionConfigMaps, world.RegionError = gardenerutils.GetRegionConfigMaps(ctx, c.options.Reader, v1beta1constants.GardenNamespace, cloudProfile)
	}
	return world
}

func (c *Checker) seed(ctx context.Context, name string) SeedView {
	seed := &gardencorev1beta1.Seed{}
	if err := c.options.Reader.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return SeedView{Name: name, Error: err}
	}
	return SeedView{Name: name, Seed: seed}
}
