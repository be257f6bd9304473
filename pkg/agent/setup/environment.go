// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package setup puts an agent together: access to garden and seed, what the actions need, and the controller with the
// actions of both roles. livecpm-agent and the drop-in gardenlet use it alike.
package setup

import (
	"context"
	"fmt"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/client/kubernetes/clientmap"
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
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/program"
)

// Options are what an agent is set up with.
type Options struct {
	// Log is the log.
	Log logr.Logger
	// Config is the agent's own configuration.
	Config *configv1alpha1.AgentConfiguration
	// GardenletConfig is the configuration of the gardenlet beside the agent.
	GardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration
	// Access is how to reach garden and seed. Who has set it up also watches its credentials.
	Access Access
	// Host is the kind of process that the agent runs in.
	Host agent.Host
	// SeedSide, if set, serves probes and metrics of the process. Without it the manager of the environment does,
	// unless the host does.
	SeedSide *SeedSide
}

// Access is how to reach the two clusters that an agent works with.
type Access struct {
	Garden, Seed *rest.Config
}

// Environment is what the agent's controllers and actions live in.
type Environment struct {
	Options
	// Manager is the manager of the seed.
	Manager manager.Manager
	// GardenCluster is the access to the garden.
	GardenCluster cluster.Cluster
	// GardenClusterIdentity is the name that the garden gives itself.
	GardenClusterIdentity string
	// SeedClientSet is the client set of the seed. Its client has no cache: actions read the world right after they
	// have changed it.
	SeedClientSet kubernetes.Interface
	// ShootClientMap gives clients for API servers of shoots that run in the seed.
	ShootClientMap clientmap.ClientMap
	// Identity is what the gardenlet beside the agent writes into status.gardener.
	Identity *gardencorev1beta1.Gardener
}

// NewEnvironment connects to the garden and the seed as the configuration says and prepares everything that actions
// need, in a process of its own. It starts nothing.
func NewEnvironment(
	ctx context.Context,
	log logr.Logger,
	config *configv1alpha1.AgentConfiguration,
	gardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration,
) (*Environment, error) {
	return newEnvironment(ctx, Options{Log: log, Config: config, GardenletConfig: gardenletConfig})
}

// newEnvironment completes the options with what the configuration says about garden and seed.
func newEnvironment(ctx context.Context, options Options) (*Environment, error) {
	log, config := options.Log, options.Config
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

	options.Host, options.Access = agent.HostPod, Access{Garden: gardenConfig, Seed: seedConfig}
	environment, err := NewEnvironmentFor(ctx, options)
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
	return environment, environment.add(runnables...)
}

// NewEnvironmentFor prepares everything that actions need for an agent in any host. It starts nothing.
func NewEnvironmentFor(ctx context.Context, options Options) (*Environment, error) {
	e := &Environment{Options: options}
	var err error
	managerOptions := agent.ManagerOptions(e.Log, e.Config, e.Host)
	if e.SeedSide != nil {
		managerOptions.HealthProbeBindAddress, managerOptions.Metrics.BindAddress = agent.NotServed, agent.NotServed
	}
	if e.Manager, err = manager.New(e.Access.Seed, managerOptions); err != nil {
		return nil, fmt.Errorf("failed to set up the manager: %w", err)
	}
	if e.GardenCluster, err = newGardenCluster(ctx, options); err != nil {
		return nil, err
	}
	if e.GardenClusterIdentity, err = gardenClusterIdentity(ctx, e.GardenCluster.GetAPIReader()); err != nil {
		return nil, err
	}
	if e.Identity, err = gardenerutils.DetermineIdentity(); err != nil {
		return nil, fmt.Errorf("failed to determine the agent's identity: %w", err)
	}
	if err := e.connect(); err != nil {
		return nil, err
	}

	runnables := []manager.Runnable{e.GardenCluster, e.ShootClientMap}
	if ptr.Deref(e.Config.LeaderElection.LeaderElect, true) {
		runnables = append(runnables, agent.NewStandby(e.Log, e.Manager, e.Config, e.Host))
	}
	if err := e.add(runnables...); err != nil {
		return nil, err
	}
	if err := program.AddProbes(e.Manager, e.GardenCluster.GetCache()); err != nil {
		return nil, err
	}
	return e, nil
}

// connect makes the clients of the seed and of the shoots in it.
func (e *Environment) connect() error {
	var err error
	if e.SeedClientSet, err = kubernetes.NewWithConfig(
		kubernetes.WithRESTConfig(e.Access.Seed),
		kubernetes.WithClientOptions(client.Options{Scheme: kubernetes.SeedScheme}),
		kubernetes.WithDisabledCachedClient(),
	); err != nil {
		return fmt.Errorf("failed to set up the client of seed %s: %w", e.SeedName(), err)
	}
	if e.ShootClientMap, err = clientmapbuilder.NewShootClientMapBuilder().
		WithGardenClient(e.GardenCluster.GetClient()).
		WithSeedClient(e.SeedClientSet.Client()).
		WithClientConnectionConfig(&e.GardenletConfig.ShootClientConnection.ClientConnectionConfiguration).
		Build(e.Log); err != nil {
		return fmt.Errorf("failed to set up the clients of shoots: %w", err)
	}
	return nil
}

func (e *Environment) add(runnables ...manager.Runnable) error {
	for _, runnable := range runnables {
		if err := e.Manager.Add(runnable); err != nil {
			return fmt.Errorf("failed to add a runnable to the manager: %w", err)
		}
	}
	return nil
}

// SeedName is the name of the seed that the agent runs in.
func (o Options) SeedName() string { return o.GardenletConfig.SeedConfig.Name }
