// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package setup puts an agent together: access to garden and seed, what the actions need, and the controller with the
// actions of both roles. livecpm-agent and the drop-in gardenlet use it alike.
package setup

import (
	"context"
	"fmt"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	clientmapbuilder "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/builder"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
	"github.com/livecpm/livecpm/pkg/agent/operation"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/program"
)

// Environment is what the agent's controllers and actions live in.
type Environment struct {
	// Manager is the manager of the seed.
	Manager manager.Manager
	// GardenCluster is the access to the garden.
	GardenCluster cluster.Cluster
	// Deps is what the actions get.
	Deps *operation.Deps
}

// Access is how to reach the two clusters that an agent works with.
type Access struct {
	Garden, Seed *rest.Config
}

// NewEnvironment connects to the garden and the seed as the configuration says and prepares everything that actions
// need, in a process of its own. It starts nothing.
func NewEnvironment(
	ctx context.Context,
	log logr.Logger,
	config *configv1alpha1.AgentConfiguration,
	gardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration,
) (*Environment, error) {
	gardenConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.GardenClientConnection, nil,
		kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the garden: %w", err)
	}
	seedConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.SeedClientConnection, nil,
		kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the seed: %w", err)
	}

	environment, err := NewEnvironmentFor(ctx, log, Access{Garden: gardenConfig, Seed: seedConfig}, config,
		gardenletConfig, agent.HostPod)
	if err != nil {
		return nil, err
	}

	watcher, err := program.NewCredentialsWatcher(config.GardenClientConnection.Kubeconfig, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	runnables := []manager.Runnable{watcher}
	if config.Gardenlet.Source != nil {
		runnables = append(runnables,
			gardenletconfig.NewKeeper(log, environment.Manager.GetAPIReader(), config, clock.RealClock{}))
	}
	for _, runnable := range runnables {
		if err := environment.Manager.Add(runnable); err != nil {
			return nil, fmt.Errorf("failed to add a runnable to the manager: %w", err)
		}
	}
	return environment, nil
}

// NewEnvironmentFor prepares everything that actions need for an agent in the given host, with access to garden and
// seed that somebody else has set up and looks after. It starts nothing.
func NewEnvironmentFor(
	ctx context.Context,
	log logr.Logger,
	access Access,
	config *configv1alpha1.AgentConfiguration,
	gardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration,
	host agent.Host,
) (*Environment, error) {
	mgr, err := manager.New(access.Seed, agent.ManagerOptions(log, config, host))
	if err != nil {
		return nil, fmt.Errorf("failed to set up the manager: %w", err)
	}

	seedName := gardenletConfig.SeedConfig.Name
	gardenCluster, err := newGardenCluster(ctx, log, access.Garden, seedName)
	if err != nil {
		return nil, err
	}
	identity, err := gardenClusterIdentity(ctx, gardenCluster.GetAPIReader())
	if err != nil {
		return nil, err
	}
	gardener, err := gardenerutils.DetermineIdentity()
	if err != nil {
		return nil, fmt.Errorf("failed to determine the agent's identity: %w", err)
	}

	// Actions read the world right after they have changed it: no cache.
	seedClientSet, err := kubernetes.NewWithConfig(
		kubernetes.WithRESTConfig(access.Seed),
		kubernetes.WithClientOptions(client.Options{Scheme: kubernetes.SeedScheme}),
		kubernetes.WithDisabledCachedClient(),
	)
	if err != nil {
		return nil, fmt.Errorf("failed to set up the client of seed %s: %w", seedName, err)
	}
	shootClientMap, err := clientmapbuilder.NewShootClientMapBuilder().
		WithGardenClient(gardenCluster.GetClient()).
		WithSeedClient(seedClientSet.Client()).
		WithClientConnectionConfig(&gardenletConfig.ShootClientConnection.ClientConnectionConfiguration).
		Build(log)
	if err != nil {
		return nil, fmt.Errorf("failed to set up the clients of shoots: %w", err)
	}

	runnables := []manager.Runnable{gardenCluster, shootClientMap}
	if ptr.Deref(config.LeaderElection.LeaderElect, true) {
		runnables = append(runnables, agent.NewStandby(log, mgr, config, host))
	}
	for _, runnable := range runnables {
		if err := mgr.Add(runnable); err != nil {
			return nil, fmt.Errorf("failed to add a runnable to the manager: %w", err)
		}
	}
	if err := program.AddProbes(mgr, gardenCluster.GetCache()); err != nil {
		return nil, err
	}

	return &Environment{
		Manager:       mgr,
		GardenCluster: gardenCluster,
		Deps: &operation.Deps{
			GardenClient:          gardenCluster.GetClient(),
			GardenAPIReader:       gardenCluster.GetAPIReader(),
			SeedClientSet:         seedClientSet,
			ShootClientMap:        shootClientMap,
			GardenletConfig:       gardenletConfig,
			Identity:              gardener,
			GardenClusterIdentity: identity,
			Clock:                 clock.RealClock{},
			Recorder:              gardenCluster.GetEventRecorder("livecpm-agent"),
			RelayImage:            config.Relay.Image,
			Timings:               timings(config),
			Resolvers:             config.DNS.Resolvers,
			PermitsWorkers:        ptr.Deref(config.Controllers.LiveMigration.Workers, false),
		},
	}, nil
}

func timings(config *configv1alpha1.AgentConfiguration) operation.Timings {
	return operation.Timings{
		PollInterval:   config.Flows.PollInterval.Duration,
		DNSMargin:      config.DNS.Margin.Duration,
		DrainTimeout:   config.Flows.DrainTimeout.Duration,
		ShootStateLead: config.Flows.ShootStateLead.Duration,
		JoinTimeout:    config.Etcd.JoinTimeout.Duration,
		RolloutTimeout: config.Flows.RolloutTimeout.Duration,
	}
}
