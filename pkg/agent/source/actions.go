// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package source holds what the agent in the source seed does in a live migration: it prepares the source's etcd for
// members of the destination, releases extensions and DNS records, retires its etcd members when it is asked to, and
// cleans the seed up.
package source

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/etcds"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/agent/tunnel"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Options are what the source's part is made of. All of them are required, but for PermitsWorkers.
type Options struct {
	// Botanists makes Gardener's botanists.
	Botanists *botanist.Factory
	// Backups knows the backup entries.
	Backups *backups.Backups
	// Snapshots tells whether the etcds are backed up.
	Snapshots *backups.Snapshots
	// ShootStates writes the ShootState.
	ShootStates *shootstate.ShootStates
	// Tunnel is the way to the destination.
	Tunnel *tunnel.Tunnel
	// Etcds opens the etcd clusters.
	Etcds *etcds.Etcds
	// ControlPlane stops and removes what runs in this seed.
	ControlPlane *controlplane.ControlPlane
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// SeedClientSet is the client set of the agent's own seed. Its client must not be backed by a cache.
	SeedClientSet kubernetes.Interface
	// SeedName is the name of that seed.
	SeedName string
	// Timings are the periods of the flows.
	Timings flows.Timings
	// PermitsWorkers reports whether shoots with workers are migrated; see LiveMigrationController.Workers.
	PermitsWorkers bool
}

type source struct {
	Options
	// look comes to the ingress gateway as a client would, and fails unless it is turned away; see checkClosed.
	look func(ctx context.Context, address, host string) error
	// ingressOf returns the shoot's way through the ingress gateway; see newIngress.
	ingressOf func(ctx context.Context, m *migration.Migration) (*ingress, error)
}

// NewActions returns the source's part in a live migration. It fails if something is missing that a step works with.
func NewActions(options Options) (migration.Actions, error) {
	if err := required.Fields("the source's part in live migrations", options, "PermitsWorkers"); err != nil {
		return migration.Actions{}, err
	}
	s := &source{Options: options, look: checkClosed}
	s.ingressOf = s.newIngress
	return migration.Actions{
		Steps: map[gardencorev1beta1.ConditionType]migration.Action{
			gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin: migration.ActionFunc(
				s.prepare),
			gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer: migration.ActionFunc(
				s.migrateExtensions),
			gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords: migration.ActionFunc(
				s.releaseDNSRecords),
			gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup: migration.ActionFunc(
				s.cleanUp),
		},
		Assists: map[gardencorev1beta1.ConditionType]migration.Action{
			gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete: migration.ActionFunc(s.moveEtcd),
			// Only if the operator has asked for it; see steps.AnnotationForceShrink. DNS has not moved then, and
			// clients that were told to leave would come back.
			gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady: migration.ActionFunc(s.retireMembers),
		},
		Always:    migration.ActionFunc(s.sync),
		Snapshots: options.Snapshots.Of,
		Abort:     migration.ActionFunc(s.abort),
		Abandon:   migration.ActionFunc(s.abandon),
	}, nil
}

// sync keeps up to date what may change at any time: the addresses of the relay's pods, the configuration of etcd's
// members, and how many of them may be evicted.
func (s *source) sync(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	outcome, err := s.Tunnel.Sync(ctx, m)
	if err != nil {
		return outcome, err
	}
	s.keepInitialCluster(ctx, m)
	s.keepShootState(ctx, m)
	s.keepBudgets(ctx, m)
	return outcome, nil
}

// keepInitialCluster repeats what the first step has done to the configuration of etcd's members, as long as there are
// members here. Only a member that loses its data needs it, so nothing else waits for it if it fails.
func (s *source) keepInitialCluster(ctx context.Context, m *migration.Migration) {
	at := steps.Index(m.Step.Condition)
	moving := steps.Index(gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	if at <= 0 || at > moving || steps.WithGap(m.Shoot) && at < moving {
		return
	}
	if err := s.widenInitialCluster(ctx, m); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to keep the destination's members in the configuration of the etcds")
	}
}

// keepBudgets lets evictions in this seed take no member that the joint cluster needs. Before the second step it is not
// joint, and the budgets are those of etcd-druid. Nothing waits for it if it fails: a budget that could not be written
// is tried again on the next pass.
func (s *source) keepBudgets(ctx context.Context, m *migration.Migration) {
	if steps.Index(m.Step.Condition) <= 0 {
		return
	}
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.KeepBudgets(ctx); err != nil && ctx.Err() == nil {
		m.Log.Error(err, "Failed to keep the disruption budgets of the etcds")
	}
}

// widenInitialCluster lets members of the source that lose their data join again beside those of the destination.
func (s *source) widenInitialCluster(ctx context.Context, m *migration.Migration) error {
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	return etcds.WidenInitialCluster(ctx)
}
