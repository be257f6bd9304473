// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"fmt"

	"github.com/gardener/gardener/imagevector"
	"github.com/gardener/gardener/pkg/features"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/dryrun"
	"github.com/livecpm/livecpm/pkg/agent/probe"
	"github.com/livecpm/livecpm/pkg/agent/source"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/preflight/gate"
	"github.com/livecpm/livecpm/pkg/release"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
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
		Protocols:        steps.OwnProtocols(),
		Etcds:            rooms.Etcds.Views,
		ForbidsWorkers:   !permitsWorkers(e),
		Machines:         rooms.ControlPlane.Machines,
		Running:          rooms.ControlPlane.Running,
		Rollout:          rooms.ControlPlane.GardenletRollout,
		TLSEndsAtGateway: rooms.ControlPlane.TLSEndsAtGateway,
		Extensions:       rooms.Botanists.Extensions,
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
	publishers, err := NewPublishers(e)
	if err != nil {
		return err
	}
	prober, err := newProber(e)
	if err != nil {
		return err
	}
	return e.add(append(publishers, prober)...)
}

// NewPublishers returns what tells the agents of other seeds about this one.
func NewPublishers(e *Environment) ([]manager.Runnable, error) {
	canary, err := dryrun.NewCanary(dryrun.CanaryOptions{
		SeedClient: e.SeedClientSet.Client(), Namespace: e.Config.LeaderElection.ResourceNamespace,
		Lookup: dryrun.ClusterLookup, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	access, err := dryrun.NewDNSAccess(dryrun.DNSAccessOptions{
		Garden: e.GardenCluster.GetAPIReader(), Shoots: e.GardenCluster.GetClient(), SeedName: e.SeedName(),
		NameServers: dns.NewNameServers(e.Config.DNS.Resolvers), Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	extensions, err := dryrun.NewExtensions(dryrun.ExtensionsOptions{
		Garden: e.GardenCluster.GetClient(), SeedName: e.SeedName(), Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	arriving, err := dryrun.NewBackups(dryrun.BackupsOptions{
		Garden: e.GardenCluster.GetAPIReader(), Seed: e.SeedClientSet.APIReader(), Reported: backups.Reported,
		SeedName: e.SeedName(), Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	relayImage, err := exposure.Image(e.Config.Relay.Image)
	if err != nil {
		return nil, err
	}
	var out []manager.Runnable
	for _, facts := range [][]agent.Fact{
		{
			// The gates of this process are those of the gardenlet's configuration.
			agent.TLSTermination(features.DefaultFeatureGate.Enabled(features.IstioTLSTermination)),
			agent.ExposureClassHandlers(preflight.HandlerNames(e.GardenletConfig)),
			agent.Protocols(steps.OwnProtocols()),
			agent.AccessControl(e.Config.Controllers.LiveMigration.AccessControlExtensions),
			agent.Workers(permitsWorkers(e)),
			agent.Build(seedfacts.Agent{Release: release.Version(), Gardener: version.Get().GitVersion,
				Relay: relayImage, Waits: timings(e).Waits()}),
		},
		{{Annotation: seedfacts.AnnotationClusterDNS, Value: canary.Fact}},
		{{Annotation: seedfacts.AnnotationDNSAccess, Value: access.Fact}},
		{{Annotation: seedfacts.AnnotationExtensions, Value: extensions.Fact}},
		{{Annotation: seedfacts.AnnotationBackups, Value: arriving.Fact}},
	} {
		out = append(out, &agent.Publisher{
			Log: e.Log, Reader: e.GardenCluster.GetAPIReader(), Writer: e.GardenCluster.GetClient(),
			SeedName: e.SeedName(), Facts: facts, Clock: clock.RealClock{},
		})
	}
	return out, nil
}

// newProber returns what probes the connections to other seeds.
func newProber(e *Environment) (*probe.Prober, error) {
	image, err := exposure.Image(e.Config.Relay.Image)
	if err != nil {
		return nil, err
	}
	gateway, err := probe.GatewayOf(e.GardenletConfig)
	if err != nil {
		return nil, err
	}
	return probe.New(probe.Options{
		Log: e.Log.WithName("probe"), Garden: e.GardenCluster.GetAPIReader(),
		GardenClient: e.GardenCluster.GetClient(), SeedClient: e.SeedClientSet.Client(), SeedName: e.SeedName(),
		RelayImage: image, PullSecrets: pullSecretsOf(e.Config), Gateway: gateway, Measure: answer.Measure,
		Images: probe.Images{Vector: imagevector.Containers(), SeedVersion: e.SeedClientSet.Version,
			Gardener: version.Get().GitVersion},
		Clock: clock.RealClock{},
		Off:   !ptr.Deref(e.Config.Controllers.LiveMigration.Probe, false),
	})
}

func newActions(e *Environment, rooms *Rooms) (map[steps.Role]migration.Actions, error) {
	ofSource, err := source.NewActions(source.Options{
		Botanists:       rooms.Botanists,
		Backups:         rooms.Backups,
		Snapshots:       rooms.Snapshots,
		ShootStates:     rooms.ShootStates,
		Tunnel:          rooms.Tunnel,
		Etcds:           rooms.Etcds,
		ControlPlane:    rooms.ControlPlane,
		GardenAPIReader: e.GardenCluster.GetAPIReader(),
		SeedClientSet:   e.SeedClientSet,
		SeedName:        e.SeedName(),
		Timings:         timings(e),
		PermitsWorkers:  permitsWorkers(e),
	})
	if err != nil {
		return nil, err
	}
	ofDestination, err := destination.NewActions(destination.Options{
		Botanists:       rooms.Botanists,
		Backups:         rooms.Backups,
		Snapshots:       rooms.Snapshots,
		ShootStates:     rooms.ShootStates,
		Tunnel:          rooms.Tunnel,
		Fronts:          rooms.Fronts,
		Etcds:           rooms.Etcds,
		ControlPlane:    rooms.ControlPlane,
		GardenAPIReader: e.GardenCluster.GetAPIReader(),
		NameServers:     dns.NewNameServers(e.Config.DNS.Resolvers),
		SeedClientSet:   e.SeedClientSet,
		SeedName:        e.SeedName(),
		Identity:        e.Identity,
		Timings:         timings(e),
	})
	if err != nil {
		return nil, err
	}
	return map[steps.Role]migration.Actions{steps.Source: ofSource, steps.Destination: ofDestination}, nil
}

func permitsWorkers(e *Environment) bool {
	return ptr.Deref(e.Config.Controllers.LiveMigration.Workers, false)
}
