// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"

	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/etcds"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/front"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

// Rooms are what the actions of both roles work with.
type Rooms struct {
	// Botanists makes Gardener's botanists.
	Botanists *botanist.Factory
	// Backups knows the backup entries.
	Backups *backups.Backups
	// ShootStates reads and writes ShootStates.
	ShootStates *shootstate.ShootStates
	// Tunnel is the way between the seeds.
	Tunnel *tunnel.Tunnel
	// Fronts are the fronts of etcds.
	Fronts *front.Fronts
	// Etcds opens etcd clusters.
	Etcds *etcds.Etcds
	// ControlPlane works on what runs in the seed.
	ControlPlane *controlplane.ControlPlane
}

// NewRooms gives each room what it needs of the environment.
func NewRooms(e *Environment) (*Rooms, error) {
	var (
		rooms                          = &Rooms{}
		errs                           [7]error
		gardenClient, garden           = e.GardenCluster.GetClient(), e.GardenCluster.GetAPIReader()
		seedClient, seedName, realTime = e.SeedClientSet.Client(), e.SeedName(), clock.RealClock{}
	)
	rooms.Botanists, errs[0] = botanist.NewFactory(botanist.Options{
		GardenClient: gardenClient, GardenAPIReader: garden, SeedClientSet: e.SeedClientSet,
		ShootClientMap: e.ShootClientMap, GardenletConfig: e.GardenletConfig, Identity: e.Identity,
		GardenClusterIdentity: e.GardenClusterIdentity,
	})
	rooms.Backups, errs[1] = backups.New(backups.Options{
		GardenAPIReader: garden, SeedClientSet: e.SeedClientSet, SeedName: seedName,
	})
	rooms.ShootStates, errs[2] = shootstate.New(shootstate.Options{
		GardenClient: gardenClient, GardenAPIReader: garden, SeedClient: seedClient,
		GardenletConfig: e.GardenletConfig, Clock: realTime, Lead: e.Config.Flows.ShootStateLead.Duration,
	})
	rooms.Tunnel, errs[3] = tunnel.New(tunnel.Options{
		GardenAPIReader: garden, SeedClient: seedClient, SeedName: seedName, RelayImage: e.Config.Relay.Image,
	})
	rooms.Fronts, errs[4] = front.New(front.Options{
		SeedClient: seedClient, Image: e.Config.Relay.Image, NewSteering: newSteering,
	})
	rooms.Etcds, errs[5] = etcds.New(etcds.Options{
		SeedClient: seedClient, SeedName: seedName, Clock: realTime, Front: rooms.Fronts.Open,
	})
	rooms.ControlPlane, errs[6] = controlplane.New(controlplane.Options{
		SeedClientSet: e.SeedClientSet, Timings: timings(e.Config), DestroyTunnel: rooms.Tunnel.Destroy,
	})
	return rooms, errors.Join(errs[:]...)
}

func timings(config *configv1alpha1.AgentConfiguration) flows.Timings {
	return flows.Timings{
		PollInterval:   config.Flows.PollInterval.Duration,
		DNSMargin:      config.DNS.Margin.Duration,
		DrainTimeout:   config.Flows.DrainTimeout.Duration,
		GatewayDrain:   config.Flows.GatewayDrain.Duration,
		JoinTimeout:    config.Etcd.JoinTimeout.Duration,
		RolloutTimeout: config.Flows.RolloutTimeout.Duration,
	}
}
