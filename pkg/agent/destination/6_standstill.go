// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/etcd/quorum"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// standstill returns the outcome with which a step in which members leave the source has to hold here, if there is an
// obstacle and this is a safe point. From when the last member of the destination was asked for until those of the
// source are gone, there is none: a cluster might keep six voters for as long as the obstacle lasts.
func (d *destination) standstill(ctx context.Context, m *migration.Migration) (steps.Outcome, bool) {
	reason, message := m.Obstacle(ctx)
	if reason == "" {
		return steps.Outcome{}, false
	}
	moving, err := d.membersMove(ctx, m)
	switch {
	case err != nil:
		// The members may be on the move. What follows looks at them before each change, and holds by itself.
		m.Log.Info("Continuing, because it could not be told whether this is a safe point", "obstacle", message,
			"reason", err.Error())
		return steps.Outcome{}, false
	case moving:
		m.Log.Info("Continuing until the members of the source have left", "obstacle", message)
		return steps.Outcome{}, false
	}
	return steps.Waiting(0, reason, "%s", message), true
}

// membersMove reports whether the last member of the destination was asked for in a cluster, or has joined, and members
// of the source are left in one.
func (d *destination) membersMove(ctx context.Context, m *migration.Migration) (bool, error) {
	asked := false
	for _, etcdRole := range naming.EtcdRoles {
		etcd, err := d.readEtcd(ctx, m, etcdRole)
		if err != nil {
			return false, err
		}
		asked = asked || int(etcd.Spec.Replicas) >= naming.MembersOf(m.Shoot)
	}
	if !asked {
		return false, nil
	}
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	for _, etcdRole := range naming.EtcdRoles {
		seen, err := etcds.Observe(ctx, etcdRole)
		if err != nil {
			return false, fmt.Errorf("failed to look at %s: %w", naming.EtcdName(etcdRole), err)
		}
		if len(seen.Members.On(quorum.Source)) > 0 {
			return true, nil
		}
	}
	return false, nil
}
