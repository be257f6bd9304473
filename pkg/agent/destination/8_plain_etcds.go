// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
)

// deployPlainEtcds gives both etcds the specification that the gardenlet gives them. It is only right when no member of
// the source is left: their peer URLs then move from the port of the migration to the ordinary one.
func (d *destination) deployPlainEtcds(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	etcds := d.Etcds.OpenWith(m, b)
	defer func() { _ = etcds.Close() }()

	for _, etcdRole := range naming.EtcdRoles {
		world, err := etcds.Observe(ctx, etcdRole)
		if err != nil {
			return fmt.Errorf("failed to look at %s: %w", naming.EtcdName(etcdRole), err)
		}
		if others := len(world.Members) - len(world.Members.On(quorum.Destination)); others > 0 {
			return fmt.Errorf("failed to deploy %s: %d members of the source are still in its member list",
				naming.EtcdName(etcdRole), others)
		}
	}
	if err := etcds.PrepareRoll(ctx); err != nil {
		return m.ReportPutOff(ctx, err)
	}
	// Not by the botanist's own task: in the restore phase it may decide to begin with one member.
	if err := backups.ConfigureEtcd(ctx, b); err != nil {
		return err
	}
	if err := flow.Parallel(b.Shoot.Components.ControlPlane.EtcdMain.Deploy,
		b.Shoot.Components.ControlPlane.EtcdEvents.Deploy)(ctx); err != nil {
		return fmt.Errorf("failed to deploy the etcds: %w", err)
	}
	return nil
}

// leaveMigrationPorts removes what is left of the exposure, the policy that permits the peer ports of the migration,
// as soon as no member needs it: all run with the ordinary specification. Until then it says what is missing. Without
// the policy, members that still listen on the port of the migration could not be reached where policies are judged by
// the packet, and a member that restarts could not reach them anywhere.
func (d *destination) leaveMigrationPorts(ctx context.Context, m *migration.Migration) (missing string, err error) {
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if plain, missing, err := etcds.CheckPlain(ctx); err != nil || !plain {
		return missing, err
	}
	return "", d.Tunnel.Destroy(ctx, m)
}

// waitUntilEtcdsRolled lets the members restart with the specification of deployPlainEtcds, one by one. Only then does
// it wait for what etcd-druid says of them, which is suspended until then.
func (d *destination) waitUntilEtcdsRolled(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	etcds := d.Etcds.OpenWith(m, b)
	defer func() { _ = etcds.Close() }()

	ctx, cancel := context.WithTimeout(ctx, d.Timings.RolloutTimeout)
	defer cancel()
	if err := etcds.AccompanyRoll(ctx, m.Report); err != nil {
		return fmt.Errorf("failed to restart the members of the etcds: %w", err)
	}
	return b.WaitUntilEtcdsReady(ctx)
}
