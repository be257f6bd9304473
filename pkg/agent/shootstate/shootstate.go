// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package shootstate writes the ShootState, by which the state of a control plane moves from seed to seed.
package shootstate

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	gardenershootstate "github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
)

// Options are what ShootStates need. All of them are required.
type Options struct {
	// GardenClient writes to the garden.
	GardenClient client.Client
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// SeedClient reads the agent's own seed. It must not be backed by a cache.
	SeedClient client.Client
	// GardenletConfig is the configuration of the gardenlet in that seed.
	GardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration
	// Clock is the clock.
	Clock clock.Clock
	// Lead is how far in the future the timestamp is written, so that no gardenlet replaces the state while the
	// migration lasts.
	Lead time.Duration
}

// ShootStates reads and writes the ShootStates of the shoots that the agent works on.
type ShootStates struct {
	options Options
}

// New returns ShootStates.
func New(options Options) (*ShootStates, error) {
	if err := required.Fields("the access to ShootStates", options); err != nil {
		return nil, err
	}
	return &ShootStates{options: options}, nil
}

// Replace writes the state of the shoot's control plane in this seed into its ShootState and reads it back. It takes
// the place of what was stored before, which is right as long as the control plane is complete.
//
// As soon as spec.seedName names the destination, the ShootState controller of the destination's gardenlet may replace
// the state by what it finds in its own seed, which is nothing. It only does so when its sync period has passed since
// the timestamp annotation; hence the timestamp is written ahead of time, and again in a hold (Keep).
func (s *ShootStates) Replace(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	return s.persist(ctx, shoot, replaced)
}

// Merge does the same as Replace for a control plane of which parts are gone from the seed: it adds and replaces
// entries one by one and keeps the others. It returns a Difference if something that was taken before is not there any
// more.
func (s *ShootStates) Merge(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	return s.persist(ctx, shoot, kept)
}

// former is what happens to entries that were stored before.
type former bool

const (
	replaced former = true
	kept     former = false
)

func (s *ShootStates) persist(ctx context.Context, shoot *gardencorev1beta1.Shoot, entries former) error {
	if err := s.write(ctx, shoot, aheadClock{Clock: s.options.Clock, lead: s.options.Lead}, entries); err != nil {
		return err
	}
	state := &gardencorev1beta1.ShootState{}
	if err := s.options.GardenAPIReader.Get(ctx, client.ObjectKeyFromObject(shoot), state); err != nil {
		return fmt.Errorf("failed to read back ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	if err := Check(state, s.options.Clock.Now()); err != nil {
		return err
	}
	if err := s.record(ctx, state, entries); err != nil {
		return err
	}
	return compare(state)
}

func (s *ShootStates) write(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, c clock.Clock, entries former,
) error {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
	if err := gardenershootstate.Deploy(ctx, c, s.options.GardenClient, s.options.SeedClient, shoot, namespace,
		bool(entries)); err != nil {
		return fmt.Errorf("failed to write ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return nil
}

type aheadClock struct {
	clock.Clock
	lead time.Duration
}

// Now returns a time that is ahead by the lead.
func (c aheadClock) Now() time.Time { return c.Clock.Now().Add(c.lead) }

// Renew makes of the ShootState what the gardenlet of this seed makes of it: a backup of now, whose next one is due
// after the ordinary period.
func (s *ShootStates) Renew(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	if err := s.write(ctx, shoot, s.options.Clock, replaced); err != nil {
		return err
	}
	state, err := s.read(ctx, shoot)
	if err != nil {
		return err
	}
	return s.record(ctx, state, replaced)
}

// Delete deletes the ShootState, as a gardenlet that keeps none does after a restoration.
func (s *ShootStates) Delete(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	if err := gardenershootstate.Delete(ctx, s.options.GardenClient, shoot); err != nil {
		return fmt.Errorf("failed to delete ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return nil
}

// Date makes the ShootState one of now, without another change. The destination's gardenlet restores from it, and after
// that its periodic backup is due when it always is.
func (s *ShootStates) Date(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	state, err := s.read(ctx, shoot)
	if err != nil {
		return err
	}
	return s.patch(ctx, state, func() { s.date(state, s.options.Clock.Now()) })
}

// Exists reports whether the shoot has a ShootState.
func (s *ShootStates) Exists(ctx context.Context, shoot *gardencorev1beta1.Shoot) (bool, error) {
	if _, err := s.read(ctx, shoot); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
}

// CheckMachines returns an error unless the ShootState has all of the shoot's machines.
func (s *ShootStates) CheckMachines(
	ctx context.Context, shoot *gardencorev1beta1.Shoot, machines []machinev1alpha1.Machine,
) error {
	state, err := s.read(ctx, shoot)
	if err != nil {
		return err
	}
	return CheckMachines(state, machines)
}

// Kept reports whether the gardenlet of this seed backs ShootStates up periodically. One that does not deletes the
// ShootState after a restoration.
func (s *ShootStates) Kept(ctx context.Context) (bool, error) {
	config := s.options.GardenletConfig
	seedName := config.SeedConfig.Name
	managed, err := gardenerutils.ClusterIsManagedByManagedSeed(ctx, s.options.GardenAPIReader, seedName)
	if err != nil {
		return false, fmt.Errorf("failed to find out whether seed %s is a managed seed: %w", seedName, err)
	}
	controllers := config.Controllers
	return !managed && controllers != nil && controllers.ShootState != nil &&
		ptr.Deref(controllers.ShootState.ConcurrentSyncs, 0) > 0, nil
}

func (s *ShootStates) read(
	ctx context.Context, shoot *gardencorev1beta1.Shoot,
) (*gardencorev1beta1.ShootState, error) {
	state := &gardencorev1beta1.ShootState{}
	key := client.ObjectKeyFromObject(shoot)
	if err := s.options.GardenAPIReader.Get(ctx, key, state); err != nil {
		return nil, fmt.Errorf("failed to read ShootState %s: %w", key, err)
	}
	return state, nil
}
