// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package source holds what the agent in the source seed does in a live migration: it prepares the source's etcd for
// members of the destination, releases extensions and DNS records, retires its etcd members when it is asked to, and
// cleans the seed up.
package source

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
)

type source struct {
	deps *operation.Deps
}

// NewActions returns the source's part in a live migration.
func NewActions(deps *operation.Deps) migration.Actions {
	s := &source{deps: deps}
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
			gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete: migration.ActionFunc(s.retireMembers),
			// Only if the operator has asked for it; see steps.AnnotationForceShrink.
			gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady: migration.ActionFunc(s.retireMembers),
		},
		Always: migration.ActionFunc(deps.SyncExposure),
		Abort:  migration.ActionFunc(s.abort),
	}
}

func (s *source) deployExposure(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	e, err := s.deps.Exposure(ctx, m, b)
	if err != nil {
		return err
	}
	return e.Deploy(ctx)
}

func (s *source) waitForExposure(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	e, err := s.deps.Exposure(ctx, m, b)
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}
