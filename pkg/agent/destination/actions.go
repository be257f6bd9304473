// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package destination holds what the agent in the destination seed does in a live migration: it joins etcd members of
// its own, starts the kube-apiserver, switches DNS, completes the etcd cluster and the control plane, and hands the
// shoot over to the gardenlet beside it.
package destination

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
)

type destination struct {
	deps        *operation.Deps
	nameServers operation.NameServers
	// access returns access to the shoot through the gateway of this seed; see throughGateway.
	access func(b *botanist.Botanist) (*shootAccess, error)
}

// NewActions returns the destination's part in a live migration.
func NewActions(deps *operation.Deps) migration.Actions {
	d := &destination{deps: deps, nameServers: operation.NewNameServers(deps.Resolvers)}
	d.access = d.throughGateway
	return migration.Actions{
		Steps: map[gardencorev1beta1.ConditionType]migration.Action{
			gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined: migration.ActionFunc(d.joinPeers),
			gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady: migration.ActionFunc(
				d.startKubeAPIServer),
			gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete: migration.ActionFunc(d.moveEtcd),
			gardencorev1beta1.ShootLiveMigrationMigrationCompleted:    migration.ActionFunc(d.complete),
		},
		Always:   migration.ActionFunc(deps.SyncExposure),
		Abort:    migration.ActionFunc(d.abort),
		HandOver: d.handOver,
	}
}

func (d *destination) deployExposure(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	e, err := d.deps.Exposure(ctx, m, b)
	if err != nil {
		return err
	}
	return e.Deploy(ctx)
}

func (d *destination) waitForExposure(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	e, err := d.deps.Exposure(ctx, m, b)
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}
