// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	clientmapbuilder "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/builder"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/credentials"
	"github.com/livecpm/livecpm/pkg/operation"
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

// NewEnvironment connects to the garden and the seed and prepares everything that actions need. It starts nothing.
func NewEnvironment(
	ctx context.Context,
	log logr.Logger,
	config *configv1alpha1.AgentConfiguration,
	gardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration,
) (*Environment, error) {
	gardenConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.GardenClientConnection, nil, kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the garden: %w", err)
	}
	seedConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&config.SeedClientConnection, nil, kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the seed: %w", err)
	}

	mgr, err := manager.New(seedConfig, manager.Options{
		Logger:                  log,
		Scheme:                  kubernetes.SeedScheme,
		MapperProvider:          apiutil.NewDynamicRESTMapper,
		GracefulShutdownTimeout: ptr.To(5 * time.Second),
		HealthProbeBindAddress:  config.Server.HealthProbes.Address(),
		Metrics:                 metricsserver.Options{BindAddress: config.Server.Metrics.Address()},

		LeaderElection:                ptr.Deref(config.LeaderElection.LeaderElect, true),
		LeaderElectionResourceLock:    config.LeaderElection.ResourceLock,
		LeaderElectionID:              config.LeaderElection.ResourceName,
		LeaderElectionNamespace:       config.LeaderElection.ResourceNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &config.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:                 &config.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:                   &config.LeaderElection.RetryPeriod.Duration,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to set up the manager: %w", err)
	}

	seedName := gardenletConfig.SeedConfig.Name
	gardenCluster, err := newGardenCluster(ctx, log, gardenConfig, seedName)
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
		kubernetes.WithRESTConfig(seedConfig),
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

	watcher, err := credentials.NewWatcher(config.GardenClientConnection.Kubeconfig, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	for _, runnable := range []manager.Runnable{gardenCluster, shootClientMap, watcher} {
		if err := mgr.Add(runnable); err != nil {
			return nil, fmt.Errorf("failed to add a runnable to the manager: %w", err)
		}
	}
	if err := addChecks(mgr, gardenCluster); err != nil {
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

// addChecks adds the probes. A replica is ready when the cache of the garden is filled: only then a leader change is
// quick. Whether the garden can be reached is not part of the liveness; a restart would not help.
func addChecks(mgr manager.Manager, gardenCluster cluster.Cluster) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("failed to add the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("garden-cache", cacheSynced(gardenCluster)); err != nil {
		return fmt.Errorf("failed to add the readiness check: %w", err)
	}
	return nil
}
