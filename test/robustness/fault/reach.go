// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/garden"
	"github.com/livecpm/livecpm/test/landscape/process"
)

// seedTimeout bounds each request to a seed.
const seedTimeout = 20 * time.Second

// NewTargets returns the daemons of the landscape, but no shoot yet (see Enter).
func NewTargets(landscape *config.Config, log func(format string, args ...any)) *Targets {
	return &Targets{
		Processes:    process.NewManager(landscape.State),
		Start:        starterOf(landscape),
		Proc:         "/proc",
		Signal:       unix.Kill,
		LoadBalancer: func(seed Seed) LoadBalancer { return LoadBalancerOf(landscape, seed.Name) },
		Buckets:      garden.BucketsOf(landscape),
		Processors:   runtime.NumCPU(),
		Burden:       burdenOf(landscape),
		Log:          log,
	}
}

// starterOf starts daemons as the landscape does, by the program that it has built.
func starterOf(landscape *config.Config) func(ctx context.Context, daemon string) error {
	return func(ctx context.Context, daemon string) error {
		if daemon != livecpmManager {
			return fmt.Errorf("nobody knows how to start daemon %s", daemon)
		}
		return garden.StartLivecpm(ctx, landscape, process.NewManager(landscape.State),
			filepath.Join(landscape.Bin(), daemon))
	}
}

// Enter makes the shoot the one that faults hit. It must be at rest on one seed, its source.
func (t *Targets) Enter(landscape *config.Config, gardenClient client.Client, shoot *gardencorev1beta1.Shoot) error {
	source, err := driver.AtRest(shoot)
	if err != nil {
		return err
	}
	t.Garden = gardenClient
	t.Namespace = shoot.Status.TechnicalID
	t.Etcd = ConnectEtcd(landscape, t.Namespace)
	t.Power = powerOf(landscape, t.Log)
	t.Seeds = map[steps.Role]Seed{}
	for _, seed := range landscape.Seeds {
		role := steps.Source
		if seed.Name != source {
			role = steps.Destination
		}
		cluster, err := driver.ConnectWithin(landscape, seed.Name, seedTimeout)
		if err != nil {
			return err
		}
		t.Seeds[role] = Seed{Name: seed.Name, Kube: cluster.Kube}
	}
	return nil
}

// ClearGarden lets the garden continue if a run that was killed has left it stopped. It needs no shoot, and comes
// before anything that asks the garden's API.
func (t *Targets) ClearGarden(ctx context.Context) error {
	return t.clear(ctx, func(f Fault) bool { return HidesGarden(f) })
}

// Clear ends all faults that a run that was killed may have left in force.
func (t *Targets) Clear(ctx context.Context) error {
	return t.clear(ctx, func(f Fault) bool { return f.Course().Lasts > 0 })
}

func (t *Targets) clear(ctx context.Context, which func(Fault) bool) error {
	var errs []error
	for _, f := range append(All(), OfNodes()...) {
		if !which(f) {
			continue
		}
		if err := f.Heal(ctx, t); err != nil {
			errs = append(errs, fmt.Errorf("failed to heal what an earlier %s may have left: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}
