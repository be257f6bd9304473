// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const (
	// SeedSideLeaseSuffix is what the lease of the seed side has in its name behind that of the agent's lease. It is a
	// lease of its own: who has reached the garden shall lead migrations, and somebody shall keep the relays even if
	// nobody has.
	SeedSideLeaseSuffix = "-relays"
	// connectPeriod is the pause between two attempts to reach the garden.
	connectPeriod = 10 * time.Second
)

// errNotReached is why an agent is not ready that has not reached the garden yet.
var errNotReached = errors.New("the garden has not been reached since the agent has started; the log says why")

// SeedSide is what an agent does with its seed alone. It runs from the agent's start on, also while the garden cannot
// be reached, and answers the probes of an agent in a pod of its own.
type SeedSide struct {
	manager manager.Manager
	// environment is set when the garden has been reached.
	environment atomic.Pointer[Environment]
}

// NewSeedSide prepares the seed side of an agent in the host. It starts nothing, and asks nobody.
func NewSeedSide(
	log logr.Logger, config *configv1alpha1.AgentConfiguration, seed *rest.Config, host agent.Host,
) (*SeedSide, error) {
	config = config.DeepCopy()
	config.LeaderElection.ResourceName = SeedSideLease(config)
	s := &SeedSide{}
	var err error
	if s.manager, err = manager.New(seed, agent.ManagerOptions(log, config, host)); err != nil {
		return nil, fmt.Errorf("failed to set up the manager of the seed side: %w", err)
	}
	seedClient, err := client.New(seed, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return nil, fmt.Errorf("failed to set up the client of the seed side: %w", err)
	}
	keeper, err := tunnel.NewKeeper(tunnel.KeeperOptions{
		Log: log.WithName("relays"), SeedClient: seedClient, Clock: clock.RealClock{}, Period: tunnel.KeeperPeriod,
	})
	if err != nil {
		return nil, err
	}
	if err := s.manager.Add(keeper); err != nil {
		return nil, fmt.Errorf("failed to add the keeper of relays to the manager: %w", err)
	}
	if err := s.manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("failed to add the liveness check: %w", err)
	}
	if err := s.manager.AddReadyzCheck("garden-cache", s.Ready); err != nil {
		return nil, fmt.Errorf("failed to add the readiness check: %w", err)
	}
	return s, nil
}

// SeedSideLease returns the name of the lease that the seed sides of a seed take.
func SeedSideLease(config *configv1alpha1.AgentConfiguration) string {
	return config.LeaderElection.ResourceName + SeedSideLeaseSuffix
}

// Start runs the seed side until the context ends.
func (s *SeedSide) Start(ctx context.Context) error { return s.manager.Start(ctx) }

// Ready is the check of the agent's readiness: a replica is ready when the cache of the garden is filled, because only
// then it takes over quickly.
func (s *SeedSide) Ready(request *http.Request) error {
	environment := s.environment.Load()
	if environment == nil {
		return errNotReached
	}
	return gardenerhealthz.NewCacheSyncHealthz(environment.GardenCluster.GetCache())(request)
}

// NewEnvironment does the same as the function of that name, with the log and the configurations of the options, for an
// agent whose probes and metrics the seed side serves.
func (s *SeedSide) NewEnvironment(ctx context.Context, options Options) (*Environment, error) {
	options.SeedSide = s
	return newEnvironment(ctx, options)
}

// Connect tries to make the environment until it succeeds, and lets the check of the readiness know of it. Most of all,
// that takes a garden that answers. It returns nil if the context ends before. An agent that ended instead would be
// started again by its kubelet, with growing pauses, and the relays would not be kept in the meantime.
func (s *SeedSide) Connect(
	ctx context.Context, log logr.Logger, c clock.Clock, attempt func() (*Environment, error),
) *Environment {
	for {
		environment, err := attempt()
		if err == nil {
			s.environment.Store(environment)
			return environment
		}
		log.Error(err, "The agent cannot take part in migrations yet and tries again; it keeps the relays of its seed")
		select {
		case <-ctx.Done():
			return nil
		case <-c.After(connectPeriod):
		}
	}
}
