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

// Fleet are the shoots that the test works with.
type Fleet struct {
	// Source and Destination are the seeds.
	Source, Destination string
	// Moving are the names of those that can go live: the landscape's own and two more. Hibernated can go classically,
	// Single stays.
	Moving             []string
	Hibernated, Single string

	// made are those that are there for the test only.
	made []*shoot.Shoot
}

// NewFleet returns the fleet around the landscape's own shoot, which must be at rest in one of the seeds: that is the
// one to drain. It creates nothing.
func NewFleet(
	landscape *config.Config, own *gardencorev1beta1.Shoot, report func(format string, args ...any),
) (*Fleet, error) {
	source, err := driver.AtRest(own)
	if err != nil {
		return nil, err
	}
	destination, err := driver.OtherSeed(landscape, source)
	if err != nil {
		return nil, err
	}
	fleet := &Fleet{Source: source, Destination: destination, Hibernated: "drain-asleep", Single: "drain-single",
		Moving: []string{own.Name, "drain-one", "drain-two"}}
	for _, s := range []*shoot.Shoot{
		{Name: fleet.Moving[1]}, {Name: fleet.Moving[2]}, {Name: fleet.Hibernated, Hibernated: true},
		{Name: fleet.Single, Single: true},
	} {
		s.Config, s.Seed, s.Report = landscape, source, report
		fleet.made = append(fleet.made, s)
	}
	return fleet, nil
}

// Up creates what is missing, one shoot after the other since the machine is small, and checks that all are in the
// source.
func (f *Fleet) Up(ctx context.Context, garden client.Client) error {
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
func (f *Fleet) check(shoots []gardencorev1beta1.Shoot) error {
	expected := map[string]bool{f.Hibernated: true, f.Single: true}
	for _, name := range f.Moving {
		expected[name] = true
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
func (f *Fleet) Down(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range f.made {
		group.Go(func() error { return s.Down(ctx) })
	}
	return group.Wait()
}
