// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// Shoots are the shoots in the seed that a test drains.
type Shoots struct {
	// Source and Destination are the seeds.
	Source, Destination string

	// own is the name of the landscape's own shoot, made are those that are there for the test only.
	own  string
	made []*shoot.Shoot
}

// newShoots returns the landscape's own shoot, which must be at rest in one of the seeds: that is the one to drain. The
// others are to be made there. It creates nothing.
func newShoots(
	landscape *config.Config, own *gardencorev1beta1.Shoot, report func(format string, args ...any),
	others ...*shoot.Shoot,
) (Shoots, error) {
	source, err := driver.AtRest(own)
	if err != nil {
		return Shoots{}, err
	}
	destination, err := driver.OtherSeed(landscape, source)
	if err != nil {
		return Shoots{}, err
	}
	for _, s := range others {
		s.Config, s.Seed, s.Report = landscape, source, report
	}
	return Shoots{Source: source, Destination: destination, own: own.Name, made: others}, nil
}

// Fleet are the shoots whose drain is cancelled and resumed.
type Fleet struct {
	Shoots
	// Moving are the names of those that can go live: the landscape's own and two more. Hibernated can go classically,
	// Single stays.
	Moving             []string
	Hibernated, Single string
}

// NewFleet returns the fleet around the landscape's own shoot, which must be at rest in one of the seeds: that is the
// one to drain. It creates nothing.
func NewFleet(
	landscape *config.Config, own *gardencorev1beta1.Shoot, report func(format string, args ...any),
) (*Fleet, error) {
	fleet := &Fleet{Hibernated: "drain-asleep", Single: "drain-single",
		Moving: []string{own.Name, "drain-one", "drain-two"}}
	var err error
	fleet.Shoots, err = newShoots(landscape, own, report, &shoot.Shoot{Name: fleet.Moving[1]},
		&shoot.Shoot{Name: fleet.Moving[2]}, &shoot.Shoot{Name: fleet.Hibernated, Hibernated: true},
		&shoot.Shoot{Name: fleet.Single, Single: true})
	return fleet, err
}

// Up creates what is missing, one shoot after the other since the machine is small, and checks that all are in the
// source.
func (f *Shoots) Up(ctx context.Context, garden client.Client) error {
	for _, s := range f.made {
		if err := s.Up(ctx); err != nil {
			return err
		}
	}
	shoots := &gardencorev1beta1.ShootList{}
	if err := garden.List(ctx, shoots, client.InNamespace(shoot.Namespace)); err != nil {
		return fmt.Errorf("failed to list the Shoots: %w", err)
	}
	return f.check(shoots.Items)
}

// check tells which shoots the test cannot work with.
func (f *Shoots) check(shoots []gardencorev1beta1.Shoot) error {
	expected := map[string]bool{f.own: true}
	for _, s := range f.made {
		expected[s.Name] = true
	}
	var errs []error
	for _, object := range shoots {
		if !expected[object.Name] {
			if ptr.Deref(object.Status.SeedName, "") == f.Source {
				errs = append(errs, fmt.Errorf("shoot %s is in seed %s and none of the test's; move or delete it",
					object.Name, f.Source))
			}
			continue
		}
		delete(expected, object.Name)
		if spec, status := ptr.Deref(object.Spec.SeedName, ""),
			ptr.Deref(object.Status.SeedName, ""); spec != f.Source || status != f.Source {
			errs = append(errs, fmt.Errorf("shoot %s is not at rest in seed %s (spec.seedName %q, status.seedName "+
				"%q); it is left over from an earlier run: delete it", object.Name, f.Source, spec, status))
		}
	}
	for name := range expected {
		errs = append(errs, fmt.Errorf("there is no shoot %s", name))
	}
	return errors.Join(errs...)
}

// Down deletes what is there for the test only.
func (f *Shoots) Down(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range f.made {
		group.Go(func() error { return s.Down(ctx) })
	}
	return group.Wait()
}
