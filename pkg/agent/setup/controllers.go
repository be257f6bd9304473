// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"fmt"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/source"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// AddControllers adds the agent's controllers, with the actions of both roles, to the manager of the environment.
func AddControllers(
	environment *Environment, config *configv1alpha1.AgentConfiguration,
	gardenlet *gardenletconfigv1alpha1.GardenletConfiguration,
) error {
	deps := environment.Deps

	checker, err := preflight.New(preflight.Options{
		Reader:    deps.GardenAPIReader,
		OwnSeed:   deps.SeedName(),
		Gardenlet: gardenlet,
		// As the agent deploys Gardener's components, it has to be built with the version of the gardenlet beside it.
		Version:  version.Get().GitVersion,
		Etcds:    deps.EtcdViews,
		Workers:  deps.PermitsWorkers,
		Machines: deps.MachinesView,
		Clock:    deps.Clock,
	})
	if err != nil {
		return err
	}
	reconciler, err := agent.New(agent.Options{
		GardenClient:    deps.GardenClient,
		GardenAPIReader: deps.GardenAPIReader,
		Recorder:        deps.Recorder,
		Clock:           clock.RealClock{},
		SeedName:        deps.SeedName(),
		Config:          config.Controllers.LiveMigration,
		Actions: map[steps.Role]migration.Actions{
			steps.Source:      source.NewActions(deps),
			steps.Destination: destination.NewActions(deps),
		},
		Gate:      gate.New(deps.GardenClient, deps.GardenAPIReader),
		Preflight: checker,
	})
	if err != nil {
		return err
	}
	if err := reconciler.AddToManager(environment.Manager, environment.GardenCluster); err != nil {
		return fmt.Errorf("failed to add the controller for live migrations: %w", err)
	}
	return nil
}
