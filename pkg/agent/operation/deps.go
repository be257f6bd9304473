// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package operation holds what both roles of a live migration share: the dependencies the agent hands to its actions,
// the construction of Gardener's botanist for a shoot in the agent's own seed, and small reads of the world.
package operation

import (
	"context"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/client/kubernetes/clientmap"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
)

// Deps is what the agent constructs once and hands to the actions of both roles.
type Deps struct {
	// GardenClient writes to and may read from a cache of the garden.
	GardenClient client.Client
	// GardenAPIReader reads the garden without a cache: every decision of an action is taken on what it returns.
	GardenAPIReader client.Reader
	// SeedClientSet is the client set of the agent's own seed. Its client must not be backed by a cache: actions read
	// the world right after they changed it.
	SeedClientSet kubernetes.Interface
	// ShootClientMap gives clients for the shoot's API server that runs in this seed.
	ShootClientMap clientmap.ClientMap
	// GardenletConfig is the configuration of the gardenlet beside the agent. Components deployed from it are the same
	// as the gardenlet's own, so nothing rolls at the hand-over.
	GardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration
	// Identity is what the gardenlet beside the agent writes into status.gardener.
	Identity *gardencorev1beta1.Gardener
	// GardenClusterIdentity is the content of the garden's cluster-identity ConfigMap.
	GardenClusterIdentity string
	// Clock is the agent's clock.
	Clock clock.Clock
	// Recorder records events at the Shoot in the garden.
	Recorder events.EventRecorder
	// RelayImage is the image of the relay pods.
	RelayImage string
	// Timings are the configurable periods of the flows; see DefaultTimings.
	Timings Timings
	// Resolvers are DNS servers ("host:port") that must show a moved record before its TTL starts to count. When empty,
	// the authoritative servers of the record's zone are looked up and asked.
	Resolvers []string
	// PermitsWorkers reports whether shoots with workers are migrated; see LiveMigrationController.Workers.
	PermitsWorkers bool
	// NewCluster may be set to use other than real etcd clusters.
	NewCluster func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error)
}

// Timings are the configurable periods of the flows.
type Timings struct {
	// PollInterval is the pause between two looks at a world that is expected to change soon.
	PollInterval time.Duration
	// DNSMargin is waited in addition to a DNS record's TTL before the old address counts as forgotten.
	DNSMargin time.Duration
	// DrainTimeout is how long the source's API server continues after the etcds have moved, so that requests on
	// connections from before the switch of DNS can finish. It is stopped afterwards in any case.
	DrainTimeout time.Duration
	// ShootStateLead is how far in the future the ShootState's timestamp is written, so that no gardenlet replaces the
	// state while the migration lasts.
	ShootStateLead time.Duration
	// JoinTimeout bounds one attempt of joining the destination's etcd members.
	JoinTimeout time.Duration
	// RolloutTimeout bounds one attempt of waiting for a component to become ready.
	RolloutTimeout time.Duration
}

// DefaultTimings are used where the agent's configuration says nothing.
func DefaultTimings() Timings {
	return Timings{
		PollInterval:   2 * time.Second,
		DNSMargin:      30 * time.Second,
		DrainTimeout:   time.Minute,
		ShootStateLead: 24 * time.Hour,
		JoinTimeout:    15 * time.Minute,
		RolloutTimeout: 10 * time.Minute,
	}
}

// SeedName is the name of the seed that the agent runs in.
func (d *Deps) SeedName() string {
	return d.GardenletConfig.SeedConfig.Name
}
