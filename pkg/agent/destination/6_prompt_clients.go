// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/overload"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// etcd may answer at once where its clients have to wait: a kube-apiserver that gets no processor is slow by itself,
// and the next move would make its requests wait still longer. From when DNS has moved, all clients are here. So what
// they wait for is measured the way that they come, before each of the last members joins and before leadership comes
// here. Each etcd has five voters then, and nothing is in danger.

// clientPatience is how long moves wait in all for a kube-apiserver that is too slow. It has causes that do not pass,
// such as a webhook in the shoot that takes seconds, and these must not keep a migration from its end.
const clientPatience = 2 * time.Minute

// clients knows how long clients wait for the kube-apiserver of this seed.
type clients struct {
	log   logr.Logger
	clock clock.Clock
	ask   waitingTime

	// lock is held while they are asked: both etcds come for the answer.
	lock sync.Mutex
	// slow is why the last answer was too slow, or nil, and asked is when that was.
	slow  error
	asked time.Time
	// since is when moves began to wait; zero before.
	since time.Time
}

// check returns an overload.Error as long as a move has to wait, and nil if it need not or must not wait any longer.
// Another failure than slowness is no reason to wait: moves of etcd do not make it worse, and may be what it needs.
func (c *clients) check(ctx context.Context) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	now := c.clock.Now()
	if c.slow != nil && now.Sub(c.asked) < overloadPause {
		return c.slow
	}
	err := c.ask.check(ctx)
	c.slow, c.asked = nil, c.clock.Now()
	if !overload.Is(err) {
		if err != nil {
			c.log.Info("Failed to measure how long clients wait", "reason", err.Error())
		}
		return nil
	}
	if c.since.IsZero() {
		c.since = now
	}
	if waited := c.asked.Sub(c.since); waited >= clientPatience {
		c.log.Info("Not waiting any longer for the kube-apiserver, some requests may fail", "waited", waited.String(),
			"reason", err.Error())
		return nil
	}
	c.slow = err
	return err
}

// beforeLastMembers is the last safe moment before members join after which those of the source have to leave.
// It returns the outcome with which the step holds here, or nil if the members may join. An overload would make the
// time with six voters longer. For a kube-apiserver that is slow it waits itself, because an outcome would make the
// next attempt look for the way of clients again, which is work for the same seed. Who has no kube-apiserver yet opens
// none.
//
// From then on leadership waits for clients as well.
func (d *destination) beforeLastMembers(
	ctx context.Context, m *migration.Migration, etcds *joint.Joint, open openClients,
) (*steps.Outcome, error) {
	var served *clients
	for {
		if outcome, held := d.standstill(ctx, m); held {
			// What joins now must not be kept waiting.
			return &outcome, nil
		}
		err := etcds.CheckPrompt(ctx)
		if err == nil {
			err = etcds.CheckDefragmentation(ctx)
		}
		if err != nil {
			outcome, err := notYet(err)
			return &outcome, err
		}
		if open == nil {
			return nil, nil
		}
		if served == nil {
			// A member that was asked for becomes a voter when it is ready.
			if moving, err := d.membersMove(ctx, m); err != nil || moving {
				return nil, err
			}
			if served, err = open(ctx, m); err != nil {
				return nil, err
			}
		}
		err = served.check(ctx)
		if err == nil {
			etcds.Clients = served.check
			return nil, nil
		}
		_ = m.ReportPutOff(ctx, fmt.Errorf("the last members do not join yet: %w", err))
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("failed to wait until clients are served soon: %w: %w", ctx.Err(), err)
		case <-m.Clock.After(overloadPause):
		}
	}
}

// notYet returns the outcome with which the step holds before the last members join, if the error only puts that off.
func notYet(err error) (steps.Outcome, error) {
	if reason, putOff := migration.PutOff(err); putOff {
		return steps.Waiting(overloadPause, reason, "The last members do not join yet: %s", err), nil
	}
	return steps.Outcome{}, err
}

// openClients looks for the way that clients take.
type openClients func(ctx context.Context, m *migration.Migration) (*clients, error)

// openGateway is the way through the gateway of this seed.
func (d *destination) openGateway(ctx context.Context, m *migration.Migration) (*clients, error) {
	b, err := d.botanist(ctx, m)
	if err != nil {
		return nil, err
	}
	// It takes seconds, and no member joins yet: what the condition says remains true.
	silent := func(context.Context, string) error { return nil }
	if err := flows.RunReporting(ctx, m, d.wayOfClientsGraph(b), silent); err != nil {
		return nil, err
	}
	return &clients{log: m.Log, clock: m.Clock, ask: func(ctx context.Context) (time.Duration, error) {
		return d.probeTimed(ctx, m.Clock, b)
	}}, nil
}

// wayOfClientsGraph returns the flow after which the botanist knows the gateway's address and the secrets to pass it.
func (d *destination) wayOfClientsGraph(b *botanist.Botanist) *flow.Graph {
	g := flow.NewGraph("look for the way of clients")
	d.addWayOfClients(g, b)
	return g
}

// addWayOfClients adds what a probe through the gateway needs, and returns the last task of it.
func (d *destination) addWayOfClients(g *flow.Graph, b *botanist.Botanist) flow.TaskID {
	base := d.addBase(g, b)
	return d.addKubeAPIServerService(g, b, flow.NewTaskIDs(base.secrets, base.resources))
}
