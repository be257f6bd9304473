// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"fmt"

	"github.com/gardener/gardener/pkg/features"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/dns"
	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// AddControllers adds the agent's controllers, with the actions of both roles, to the manager of the environment.
func AddControllers(e *Environment) error {
	rooms, err := NewRooms(e)
	if err != nil {
		return err
	}
	actions, err := newActions(e, rooms)
	if err != nil {
		return err
	}
	checker, err := preflight.New(preflight.Options{
		Reader:    e.GardenCluster.GetAPIReader(),
		OwnSeed:   e.SeedName(),
		Gardenlet: e.GardenletConfig,
		// As the agent deploys Gardener's components, it has to be built with the version of the gardenlet beside it.
		Version:          version.Get().GitVersion,
		Etcds:            rooms.Etcds.Views,
		Workers:          permitsWorkers(e),
		Machines:         rooms.ControlPlane.Machines,
		Running:          rooms.ControlPlane.Running,
		TLSEndsAtGateway: rooms.ControlPlane.TLSEndsAtGateway,
		Clock:            clock.RealClock{},
	})
	if err != nil {
		return err
	}
	reconciler, err := agent.New(agent.Options{
		GardenClient:    e.GardenCluster.GetClient(),
		GardenAPIReader: e.GardenCluster.GetAPIReader(),
		Recorder:        e.GardenCluster.GetEventRecorder("livecpm-agent"),
		Clock:           clock.RealClock{},
		SeedName:        e.SeedName(),
		Config:          e.Config.Controllers.LiveMigration,
		Actions:         actions,
		Gate:            gate.New(e.GardenCluster.GetClient(), e.GardenCluster.GetAPIReader()),
		Preflight:       checker,
	})
	if err != nil {
		return err
	}
	if err := reconciler.AddToManager(e.Manager, e.GardenCluster); err != nil {
		return fmt.Errorf("failed to add the controller for live migrations: %w", err)
	}
	return e.add(NewPublisher(e))
}

// NewPublisher returns what tells the agents of other seeds about this one.
func NewPublisher(e *Environment) *agent.Publisher {
	return &agent.Publisher{
		Log: e.Log, Reader: e.GardenCluster.GetAPIReader(), Writer: e.GardenCluster.GetClient(), SeedName: e.SeedName(),
		// The gates of this process are those of the gardenlet's configuration.
		TLSTermination: features.DefaultFeatureGate.Enabled(features.IstioTLSTermination),
		Clock:          clock.RealClock{},
	}
}

func newActions(e *Environment, rooms *Rooms) (map[steps.Role]migration.Actions, error) {
	ofSource, err := source.NewActions(source.Options{
		Botanists:      rooms.Botanists,
		Backups:        rooms.Backups,
		ShootStates:    rooms.ShootStates,
		Tunnel:         rooms.Tunnel,
		Etcds:          rooms.Etcds,
		ControlPlane:   rooms.ControlPlane,
		SeedClientSet:  e.SeedClientSet,
		SeedName:       e.SeedName(),
		Timings:        timings(e.Config),
		PermitsWorkers: permitsWorkers(e),
	})
	if err != nil {
		return nil, err
	}
	ofDestination, err := destination.NewActions(destination.Options{
		Botanists:     rooms.Botanists,
		Backups:       rooms.Backups,
		ShootStates:   rooms.ShootStates,
		Tunnel:        rooms.Tunnel,
		Fronts:        rooms.Fronts,
		Etcds:         rooms.Etcds,
		ControlPlane:  rooms.ControlPlane,
		NameServers:   dns.NewNameServers(e.Config.DNS.Resolvers),
		SeedClientSet: e.SeedClientSet,
		SeedName:      e.SeedName(),
		Identity:      e.Identity,
		Timings:       timings(e.Config),
	})
	if err != nil {
		return nil, err
	}
	return map[steps.Role]migration.Actions{steps.Source: ofSource, steps.Destination: ofDestination}, nil
}

func permitsWorkers(e *Environment) bool {
	return ptr.Deref(e.Config.Controllers.LiveMigration.Workers, false)
}
