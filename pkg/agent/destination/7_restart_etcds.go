// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// restartBound is how long one attempt accompanies the restart of the members in the step of the source. The last step
// does not begin meanwhile. It continues what is not done by then, and says what it waits for.
const restartBound = 2 * time.Minute

// assistCleanup is the destination's part in the step that cleans the source up: it starts its controllers, and then
// gives the etcds their ordinary specification. Neither needs anything of what the source still does.
func (d *destination) assistCleanup(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	outcome, err := d.startControllers(ctx, m)
	if err != nil {
		return outcome, err
	}
	m.Log.V(1).Info("Assisted the peer with the controllers", "message", outcome.Message)
	return d.restartEtcds(ctx, m)
}

// leaveNames lets no name of an etcd member here lead to the relay any more, as soon as those of the source are gone.
// Caches need their time to forget it, and the members must not restart before (restartEtcds). Nothing waits for that
// here.
func (d *destination) leaveNames(ctx context.Context, m *migration.Migration) {
	if _, err := d.Tunnel.LeaveMembers(ctx, m); err != nil && ctx.Err() == nil {
		m.Log.Info("Failed to take the relay out of the names of the etcd members; it is repeated when they restart",
			"reason", err.Error())
	}
}

// restartEtcds gives the etcds their ordinary specification while the source ends its kube-apiserver and what is left
// of the shoot there. Their members restart one by one for it, which takes as long.
//
//   - No member of the source is left, which is looked at once more (deployPlainEtcds), so the peer port of the
//     migration is of no use any more.
//   - No name of a member leads to the relay's peer port, which is the one that the members go back to, and no cache
//     knows one that did.
//   - The source's kube-apiserver comes to the etcds through the relay, as long as it runs, and by their client
//     services to the fronts here. So the relay stays until the last step, and a member that restarts is drained for
//     that kube-apiserver's requests as it is for those of the one here.
//   - It does not begin before a pause that an operator has asked for, nor with an obstacle: nothing here has to be
//     done before the last step.
//
// The last step does the same, begins with what it finds, and is the one that waits for the end of it.
func (d *destination) restartEtcds(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if steps.WithGap(m.Shoot) {
		// Nobody serves while an only member restarts. That is left for the last step, before which operators may
		// pause, and in which no kube-apiserver of the source comes to the etcds any more.
		return steps.Done("The only members of the etcds restart in the last step"), nil
	}
	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()

	begun, err := d.restartBegun(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if !begun {
		if outcome, err := d.beginRestart(ctx, m, etcds); err != nil || !outcome.Finished() {
			return outcome, err
		}
	}
	rolled, missing, err := etcds.CheckRolled(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	if rolled {
		return steps.Done("The members of the etcds run with their ordinary specification"), nil
	}
	m.Log.Info("Restarting the members of the etcds beside the cleanup of the source", "missing", missing)

	bounded, cancel := context.WithTimeout(ctx, restartBound)
	defer cancel()
	if err := etcds.AccompanyRoll(bounded, nil); err != nil {
		if errors.Is(bounded.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
			return steps.Waiting(d.Timings.PollInterval, steps.ReasonRollingEtcd,
				"The members of the etcds are still being restarted: %s", err), nil
		}
		return steps.Outcome{}, err
	}
	return steps.Done("The members of the etcds have been restarted with their ordinary specification"), nil
}

// restartBegun reports whether both Etcds have their ordinary specification. Their members restart for it then, or
// have done so.
func (d *destination) restartBegun(ctx context.Context, m *migration.Migration) (bool, error) {
	for _, etcdRole := range naming.EtcdRoles {
		etcd, err := d.readEtcd(ctx, m, etcdRole)
		if err != nil {
			return false, err
		}
		if etcd.Spec.Etcd.BootstrapWithExistingCluster != nil {
			return false, nil
		}
	}
	return true, nil
}

// beginRestart gives the etcds their ordinary specification, unless it has to wait for something.
func (d *destination) beginRestart(
	ctx context.Context, m *migration.Migration, etcds *joint.Joint,
) (steps.Outcome, error) {
	if last := steps.Last(); steps.PausedBefore(m.Shoot, last) {
		return steps.Waiting(0, steps.ReasonPaused,
			"The members of the etcds do not restart before step %s, before which the migration is to be paused",
			last), nil
	}
	if reason, message := m.Obstacle(ctx); reason != "" {
		return steps.Waiting(0, reason, "The members of the etcds do not restart yet: %s", message), nil
	}
	settles, err := d.Tunnel.LeaveMembers(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if settles > 0 {
		return steps.Waiting(settles, steps.ReasonRollingEtcd,
			"The members of the etcds do not restart yet: caches may lead to the relay for %s more", settles), nil
	}
	err = etcds.CheckPrompt(ctx)
	if err == nil {
		err = etcds.CheckDefragmentation(ctx)
	}
	if err == nil {
		err = d.deployOrdinaryEtcds(ctx, m)
	}
	if reason, putOff := migration.PutOff(err); putOff {
		return steps.Waiting(overloadPause, reason, "The members of the etcds do not restart yet: %s", err), nil
	}
	if err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Both etcds have their ordinary specification"), nil
}

func (d *destination) deployOrdinaryEtcds(ctx context.Context, m *migration.Migration) error {
	b, err := d.botanist(ctx, m)
	if err != nil {
		return err
	}
	return flows.Run(ctx, m, steps.ReasonRollingEtcd, d.restartGraph(m, b))
}

// restartGraph returns the flow that gives the etcds their ordinary specification. It repeats nothing by itself: the
// source may finish its step meanwhile, and the last step does the same.
func (d *destination) restartGraph(m *migration.Migration, b *botanist.Botanist) *flow.Graph {
	var (
		g    = flow.NewGraph("restart of the etcds")
		base = d.addBase(g, b)
	)
	_ = g.Add(flow.Task{
		Name: "Giving the etcds their ordinary specification",
		Fn: func(ctx context.Context) error {
			return d.deployPlainEtcds(ctx, m, b)
		},
		Dependencies: flow.NewTaskIDs(base.secrets),
	})
	return g
}
