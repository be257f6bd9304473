// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/etcds"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/front"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// Rooms are what the actions of both roles work with.
type Rooms struct {
	// Botanists makes Gardener's botanists.
	Botanists *botanist.Factory
	// Backups knows the backup entries.
	Backups *backups.Backups
	// Snapshots tells whether etcds are backed up.
	Snapshots *backups.Snapshots
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
		errs                           [8]error
		gardenClient, garden           = e.GardenCluster.GetClient(), e.GardenCluster.GetAPIReader()
		seedClient, seedName, realTime = e.SeedClientSet.Client(), e.SeedName(), clock.RealClock{}
	)
	relayImage, err := exposure.Image(e.Config.Relay.Image)
	if err != nil {
		return nil, err
	}
	rooms.Botanists, errs[0] = botanist.NewFactory(botanist.Options{
		GardenClient: gardenClient, GardenAPIReader: garden, SeedClientSet: e.SeedClientSet,
		ShootClientMap: e.ShootClientMap, GardenletConfig: e.GardenletConfig, Identity: e.Identity,
		GardenClusterIdentity: e.GardenClusterIdentity,
		AccessControl:         e.Config.Controllers.LiveMigration.AccessControlExtensions,
	})
	rooms.Backups, errs[1] = backups.New(backups.Options{
		GardenAPIReader: garden, SeedClientSet: e.SeedClientSet, SeedName: seedName,
	})
	rooms.ShootStates, errs[2] = shootstate.New(shootstate.Options{
		GardenClient: gardenClient, GardenAPIReader: garden, SeedClient: seedClient,
		GardenletConfig: e.GardenletConfig, Clock: realTime, Lead: e.Config.Flows.ShootStateLead.Duration,
	})
	rooms.Tunnel, errs[3] = tunnel.New(tunnel.Options{
		GardenAPIReader: garden, SeedClient: seedClient, RelayImage: relayImage, PullSecrets: pullSecretsOf(e.Config),
	})
	rooms.Fronts, errs[4] = front.New(front.Options{
		SeedClient: seedClient, Image: relayImage, PullSecrets: pullSecretsOf(e.Config),
		NewSteering: newSteering,
	})
	rooms.Etcds, errs[5] = etcds.New(etcds.Options{
		SeedClient: seedClient, SeedName: seedName, Clock: realTime, Front: rooms.Fronts.Open,
		SeedPods: func(namespace string) joint.Pods { return e.SeedClientSet.Kubernetes().CoreV1().Pods(namespace) },
	})
	rooms.ControlPlane, errs[6] = controlplane.New(controlplane.Options{
		SeedClientSet: e.SeedClientSet, Timings: timings(e), Clock: realTime,
		DestroyTunnel: rooms.Tunnel.Destroy,
	})
	rooms.Snapshots, errs[7] = backups.NewSnapshots(backups.SnapshotsOptions{Backups: rooms.Backups, Clock: realTime})
	return rooms, errors.Join(errs[:]...)
}

func pullSecretsOf(config *configv1alpha1.AgentConfiguration) exposure.PullSecrets {
	var out exposure.PullSecrets
	for _, ref := range config.Relay.ImagePullSecrets {
		out = append(out, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	}
	return out
}

func timings(e *Environment) flows.Timings {
	config := e.Config
	return flows.Timings{
		PollInterval:   config.Flows.PollInterval.Duration,
		DNSMargin:      config.DNS.Margin.Duration,
		ShortTTL:       config.DNS.ShortTTL.Duration,
		RecordTTL:      flows.RecordTTL(e.GardenletConfig),
		DrainTimeout:   config.Flows.DrainTimeout.Duration,
		GatewayDrain:   config.Flows.GatewayDrain.Duration,
		JoinTimeout:    config.Etcd.JoinTimeout.Duration,
		RolloutTimeout: config.Flows.RolloutTimeout.Duration,

		NameServerPatience: flows.DefaultTimings().NameServerPatience,
	}
}
