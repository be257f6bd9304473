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
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/livecpm/livecpm/pkg/adoption"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/credentials"
	"github.com/livecpm/livecpm/pkg/operation"
)

// notServed is the address with which controller-runtime serves nothing.
const notServed = "0"

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

// NewEnvironment connects to the garden and the seed as the configuration says and prepares everything that actions need, in a
// process of its own. It starts nothing.
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

	environment, err := NewEnvironmentFor(ctx, log, Access{Garden: gardenConfig, Seed: seedConfig}, config, gardenletConfig, HostPod)
	if err != nil {
		return nil, err
	}

	watcher, err := credentials.NewWatcher(config.GardenClientConnection.Kubeconfig, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	runnables := []manager.Runnable{watcher}
	if config.Gardenlet.Source != nil {
		runnables = append(runnables, adoption.NewKeeper(log, environment.Manager.GetAPIReader(), config, clock.RealClock{}))
	}
	for _, runnable := range runnables {
		if err := environment.Manager.Add(runnable); err != nil {
			return nil, fmt.Errorf("failed to add a runnable to the manager: %w", err)
		}
	}
	return environment, nil
}

// ManagerOptions are the options of an agent's manager. All agents of a seed take the same lease, wherever they run, so that
// only one of them is at work. Within a gardenlet's process, the gardenlet serves probes and metrics.
func ManagerOptions(log logr.Logger, config *configv1alpha1.AgentConfiguration, host Host) manager.Options {
	options := manager.Options{
		Logger:                  log,
		Scheme:                  kubernetes.SeedScheme,
		MapperProvider:          apiutil.NewDynamicRESTMapper,
		GracefulShutdownTimeout: ptr.To(5 * time.Second),
		// The priority queue can block for ever when it is shut down: https://github.com/kubernetes-sigs/controller-runtime/issues/3538,
		// mended in v0.25. The agent would hold its lease for the whole grace period before the next one can take over.
		Controller:             controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
		HealthProbeBindAddress: config.Server.HealthProbes.Address(),
		Metrics:                metricsserver.Options{BindAddress: config.Server.Metrics.Address()},

		LeaderElection:                ptr.Deref(config.LeaderElection.LeaderElect, true),
		LeaderElectionResourceLock:    config.LeaderElection.ResourceLock,
		LeaderElectionID:              config.LeaderElection.ResourceName,
		LeaderElectionNamespace:       config.LeaderElection.ResourceNamespace,
		LeaderElectionLabels:          map[string]string{LabelHost: string(host)},
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &config.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:                 &config.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:                   &config.LeaderElection.RetryPeriod.Duration,
	}
	if host == HostGardenlet {
		options.HealthProbeBindAddress, options.Metrics.BindAddress = notServed, notServed
	}
	return options
}

// NewEnvironmentFor prepares everything that actions need for an agent in the given host, with access to garden and seed that
// somebody else has set up and looks after. It starts nothing.
func NewEnvironmentFor(
	ctx context.Context,
	log logr.Logger,
	access Access,
	config *configv1alpha1.AgentConfiguration,
	gardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration,
	host Host,
) (*Environment, error) {
	mgr, err := manager.New(access.Seed, ManagerOptions(log, config, host))
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
		runnables = append(runnables, NewStandby(log, mgr, config, host))
	}
	for _, runnable := range runnables {
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
