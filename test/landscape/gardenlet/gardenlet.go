// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	clientmapbuilder "github.com/gardener/gardener/pkg/client/kubernetes/clientmap/builder"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/gardenlet/bootstrappers"
	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
)

// gardenlet is one run of the process.
type gardenlet struct {
	log    logr.Logger
	config *gardenletconfigv1alpha1.GardenletConfiguration
	cancel context.CancelFunc

	manager manager.Manager
	health  gardenerhealthz.Manager
}

// run starts the manager of the seed; the rest waits for the leader's lease, as upstream's does.
func (g *gardenlet) run(ctx context.Context) error {
	var err error
	if g.manager, err = g.newManager(); err != nil {
		return err
	}
	if err := g.addProbes(); err != nil {
		return err
	}

	// The runner holds back what needs the garden until the bootstrap part has passed. Both run under the leader's
	// lease.
	if err := g.manager.Add(&controllerutils.ControlledRunner{
		Manager: g.manager,
		BootstrapRunnables: []manager.Runnable{
			&bootstrappers.SeedConfigChecker{SeedClient: g.manager.GetClient(), SeedConfig: g.config.SeedConfig},
		},
		ActualRunnables: []manager.Runnable{manager.RunnableFunc(g.startGarden)},
	}); err != nil {
		return fmt.Errorf("failed to add runnables to manager: %w", err)
	}
	return g.manager.Start(ctx)
}

// newManager returns the manager of the seed.
func (g *gardenlet) newManager() (manager.Manager, error) {
	restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(
		&g.config.SeedClientConnection.ClientConnectionConfiguration, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to read client configuration of the seed: %w", err)
	}

	election := g.config.LeaderElection
	grace := 5 * time.Second
	mgr, err := manager.New(restConfig, manager.Options{
		Logger:                  g.log,
		Scheme:                  kubernetes.SeedScheme,
		GracefulShutdownTimeout: &grace,
		Controller: controllerconfig.Controller{
			CacheSyncTimeout: g.config.Controllers.CacheSyncTimeout.Duration,
		},
		HealthProbeBindAddress: address(g.config.Server.HealthProbes),
		Metrics:                metricsserver.Options{BindAddress: address(g.config.Server.Metrics)},

		LeaderElection:                *election.LeaderElect,
		LeaderElectionResourceLock:    election.ResourceLock,
		LeaderElectionID:              election.ResourceName,
		LeaderElectionNamespace:       election.ResourceNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &election.LeaseDuration.Duration,
		RenewDeadline:                 &election.RenewDeadline.Duration,
		RetryPeriod:                   &election.RetryPeriod.Duration,

		MapperProvider: apiutil.NewDynamicRESTMapper,
		Client:         client.Options{Cache: &client.CacheOptions{DisableFor: uncached()}},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to create manager: %w", err)
	}
	return mgr, nil
}

// addProbes adds what the probes ask for.
func (g *gardenlet) addProbes() error {
	// The gardenlet is healthy as long as it renews the Seed's lease.
	seedController := g.config.Controllers.Seed
	g.health = gardenerhealthz.NewPeriodicHealthz(clock.RealClock{},
		time.Duration(*seedController.LeaseResyncSeconds**seedController.LeaseResyncMissThreshold)*time.Second)
	g.health.Set(true)
	if err := g.manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := g.manager.AddHealthzCheck("periodic-health", gardenerhealthz.CheckerFunc(g.health)); err != nil {
		return err
	}
	return g.manager.AddReadyzCheck("runtime-informer-sync",
		gardenerhealthz.NewCacheSyncHealthz(g.manager.GetCache()))
}

// startGarden connects to the garden, registers the Seed and starts the controllers.
func (g *gardenlet) startGarden(ctx context.Context) error {
	garden, err := g.newGardenCluster()
	if err != nil {
		return err
	}
	if err := bootstrappers.VerifyGardenerVersion(ctx, g.log, garden.GetAPIReader()); err != nil {
		return fmt.Errorf("failed to verify version of gardener: %w", err)
	}
	if err := addFieldIndexes(ctx, garden.GetFieldIndexer()); err != nil {
		return fmt.Errorf("failed to add field indexes: %w", err)
	}
	if err := g.manager.Add(garden); err != nil {
		return fmt.Errorf("failed to add garden cluster to manager: %w", err)
	}
	syncCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if !garden.GetCache().WaitForCacheSync(syncCtx) {
		return fmt.Errorf("failed to sync cache of the garden")
	}

	if err := g.registerSeed(ctx, garden.GetClient()); err != nil {
		return err
	}
	if err := abortProcessing(ctx, garden.GetClient()); err != nil {
		return err
	}

	seedClientSet, err := kubernetes.NewWithConfig(
		kubernetes.WithRESTConfig(g.manager.GetConfig()),
		kubernetes.WithRuntimeAPIReader(g.manager.GetAPIReader()),
		kubernetes.WithRuntimeClient(g.manager.GetClient()),
		kubernetes.WithRuntimeCache(g.manager.GetCache()),
	)
	if err != nil {
		return fmt.Errorf("failed to create client set of the seed: %w", err)
	}
	shootClients, err := clientmapbuilder.NewShootClientMapBuilder().
		WithGardenClient(garden.GetClient()).
		WithSeedClient(g.manager.GetClient()).
		WithClientConnectionConfig(&g.config.ShootClientConnection.ClientConnectionConfiguration).
		Build(g.log)
	if err != nil {
		return fmt.Errorf("failed to build client map of shoots: %w", err)
	}
	if err := controllerutils.AddAllRunnables(g.manager, g.health, shootClients); err != nil {
		return fmt.Errorf("failed to add runnables: %w", err)
	}
	return g.addControllers(ctx, garden, seedClientSet, shootClients)
}

// abortProcessing marks operations that a predecessor left half done, so that their reconcilers take them up again.
// Upstream's gardenlet does the same on each start.
func abortProcessing(ctx context.Context, c client.Client) error {
	shoots := &gardencorev1beta1.ShootList{}
	if err := c.List(ctx, shoots); err != nil {
		return fmt.Errorf("failed to list shoots: %w", err)
	}
	for i := range shoots.Items {
		shoot := &shoots.Items[i]
		if shoot.Status.LastOperation == nil ||
			shoot.Status.LastOperation.State != gardencorev1beta1.LastOperationStateProcessing {
			continue
		}
		patch := client.MergeFrom(shoot.DeepCopy())
		shoot.Status.LastOperation.State = gardencorev1beta1.LastOperationStateAborted
		if err := c.Status().Patch(ctx, shoot, patch); err != nil {
			return fmt.Errorf("failed to mark operation of shoot %q as aborted: %w", client.ObjectKeyFromObject(shoot),
				err)
		}
	}
	return nil
}

// uncached are kinds that change too often to be worth a watch.
func uncached() []client.Object { return []client.Object{&corev1.Event{}, &eventsv1.Event{}} }

func address(server *gardenletconfigv1alpha1.Server) string {
	return net.JoinHostPort(server.BindAddress, strconv.Itoa(server.Port))
}
