// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

const (
	// KeeperPeriod is how often the agent looks at the relays of its seed. A pod that replaces another one needs as
	// long to start.
	KeeperPeriod = 2 * time.Second
	// keepTimeout bounds the work for one relay: those of other shoots must not wait for it.
	keepTimeout = 10 * time.Second
)

// KeeperOptions are what a Keeper needs. All of them are required.
type KeeperOptions struct {
	// Log is the log.
	Log logr.Logger
	// SeedClient is a client of the agent's own seed. It must not be backed by a cache.
	SeedClient client.Client
	// Clock is the clock.
	Clock clock.WithTicker
	// Period is the pause between two looks; see KeeperPeriod.
	Period time.Duration
}

// Keeper keeps the addresses of relay pods up to date from the seed's state alone. It needs neither Shoots nor
// migrations: it works for every relay that it finds in the seed, as long as the relay is there. So members of etcd
// find each other also when relay pods move while the garden cannot be reached.
//
// It is a runnable of a manager, for the agent that leads. It is safe beside everything else that the agent does.
type Keeper struct {
	options KeeperOptions
	// failures are what was logged last, by namespace, so that the same is not logged again and again.
	failures map[string]string
}

// NewKeeper returns a Keeper.
func NewKeeper(options KeeperOptions) (*Keeper, error) {
	if err := required.Fields("the keeper of relays", options); err != nil {
		return nil, err
	}
	return &Keeper{options: options, failures: map[string]string{}}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (k *Keeper) Start(ctx context.Context) error {
	ticker := k.options.Clock.NewTicker(k.options.Period)
	defer ticker.Stop()
	for {
		k.keep(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// keep looks once at all relays. What fails for one is tried again with the next look, and keeps nothing from the
// others.
func (k *Keeper) keep(ctx context.Context) {
	listCtx, cancel := context.WithTimeout(ctx, keepTimeout)
	relays, err := exposure.ListDeployed(listCtx, k.options.SeedClient)
	cancel()
	k.failed(ctx, "", err)
	for i := range relays {
		syncCtx, cancel := context.WithTimeout(ctx, keepTimeout)
		err := exposure.SyncDeployed(syncCtx, k.options.SeedClient, k.options.Clock, &relays[i])
		cancel()
		k.failed(ctx, relays[i].Namespace, err)
	}
}

// failed logs a failure, and when it is over, unless the same was logged last.
func (k *Keeper) failed(ctx context.Context, namespace string, err error) {
	if ctx.Err() != nil {
		return
	}
	log, former := k.options.Log.WithValues("namespace", namespace), k.failures[namespace]
	switch {
	case err == nil && former != "":
		log.Info("The addresses of relays are kept up to date again", "former", former)
		delete(k.failures, namespace)
	case err != nil && former != fmt.Sprint(err):
		log.Error(err, "Failed to keep the addresses of relays up to date")
		k.failures[namespace] = fmt.Sprint(err)
	}
}
