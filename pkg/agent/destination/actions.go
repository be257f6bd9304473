// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package destination holds what the agent in the destination seed does in a live migration: it joins etcd members of
// its own, starts the kube-apiserver, switches DNS, completes the etcd cluster and the control plane, and hands the
// shoot over to the gardenlet beside it.
package destination

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/etcds"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/front"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	"github.com/livecpm/livecpm/pkg/dns"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Options are what the destination's part is made of. All of them are required.
type Options struct {
	// Botanists makes Gardener's botanists.
	Botanists *botanist.Factory
	// Backups knows the backup entries.
	Backups *backups.Backups
	// Snapshots tells whether the etcds are backed up.
	Snapshots *backups.Snapshots
	// ShootStates reads and writes the ShootState.
	ShootStates *shootstate.ShootStates
	// Tunnel is the way to the source.
	Tunnel *tunnel.Tunnel
	// Fronts are what the kube-apiserver reaches the etcd clusters through.
	Fronts *front.Fronts
	// Etcds opens the etcd clusters.
	Etcds *etcds.Etcds
	// ControlPlane removes what runs in this seed if the migration is aborted.
	ControlPlane *controlplane.ControlPlane
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// NameServers says where DNS leads.
	NameServers dns.NameServers
	// SeedClientSet is the client set of the agent's own seed. Its client must not be backed by a cache.
	SeedClientSet kubernetes.Interface
	// SeedName is the name of that seed.
	SeedName string
	// Identity is what the gardenlet beside the agent writes into status.gardener.
	Identity *gardencorev1beta1.Gardener
	// Timings are the periods of the flows.
	Timings flows.Timings
}

type destination struct {
	Options
	// access returns access to the shoot through the gateway of this seed; see throughGateway.
	access func(b *botanist.Botanist) (*shootAccess, error)
	// answers returns an error unless the kube-apiserver here takes writes through the gateway; see probe.
	answers func(ctx context.Context, clock clock.PassiveClock, b *botanist.Botanist) error
	// alone returns an error unless clients are led to this seed and served there; see servesAlone.
	alone func(ctx context.Context, m *migration.Migration) error
	// open opens the way on which clients reach the kube-apiserver here; see openGateway.
	open openClients
}

// NewActions returns the destination's part in a live migration. It fails if something is missing that a step works
// with.
func NewActions(options Options) (migration.Actions, error) {
	if err := required.Fields("the destination's part in live migrations", options); err != nil {
		return migration.Actions{}, err
	}
	d := &destination{Options: options}
	d.access, d.answers, d.alone, d.open = d.throughGateway, d.probe, d.servesAlone, d.openGateway
	return migration.Actions{
		Steps: map[gardencorev1beta1.ConditionType]migration.Action{
			gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined: migration.ActionFunc(d.joinPeers),
			gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady: migration.ActionFunc(
				d.startKubeAPIServer),
			gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete: d.fronted(d.moveEtcd),
			gardencorev1beta1.ShootLiveMigrationMigrationCompleted:    d.fronted(d.complete),
		},
		Assists: map[gardencorev1beta1.ConditionType]migration.Action{
			gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin: migration.ActionFunc(d.prepareAhead),
			gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup:             d.fronted(d.assistCleanup),
		},
		Always:        migration.ActionFunc(d.sync),
		Snapshots:     options.Snapshots.Of,
		Abort:         migration.ActionFunc(d.abort),
		AbandonSource: d.fronted(d.abandonSource),
		Clear:         migration.ActionFunc(d.clear),
		HandOver:      d.handOver,
	}, nil
}

// sync keeps up to date what may change at any time: the addresses of the relay's pods, where the services of etcd lead
// to, how many of its members may be evicted, and what members need that lose their data while all restart.
func (d *destination) sync(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	outcome, err := d.Tunnel.Sync(ctx, m)
	if err != nil {
		return outcome, err
	}
	d.keepShootState(ctx, m)
	d.keepBudgets(ctx, m)
	d.keepRolledCluster(ctx, m)
	return outcome, d.Fronts.Sync(ctx, m)
}

// keepBudgets lets evictions in this seed take no member that the joint cluster needs, and lets them take one that it
// does not need. Nothing waits for it if it fails: a budget that could not be written is tried again on the next pass.
func (d *destination) keepBudgets(ctx context.Context, m *migration.Migration) {
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.KeepBudgets(ctx); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to keep the disruption budgets of the etcds")
	}
}

// keepRolledCluster lets a member join again that loses its data while a restart of the members is held: between the
// steps in which they restart, or by whatever holds the last one. Nothing waits for it if it fails.
func (d *destination) keepRolledCluster(ctx context.Context, m *migration.Migration) {
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.KeepRolledCluster(ctx); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to keep the peer URLs of the members in their configuration")
	}
}

// fronted returns the action with the fronts kept before the etcds while it runs: it makes etcd-druid reconcile their
// Etcds, which leads clients to the members. What the frame does besides an action comes too seldom for that: who
// connects meanwhile stays there.
func (d *destination) fronted(action migration.ActionFunc) migration.ActionFunc {
	return func(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
		var outcome steps.Outcome
		err := d.Fronts.Keep(ctx, m, func(ctx context.Context) error {
			var err error
			outcome, err = action(ctx, m)
			return err
		})
		return outcome, err
	}
}
