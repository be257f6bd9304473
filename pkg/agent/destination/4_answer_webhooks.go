// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"

	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
)

// addWebhooks adds what answers the webhooks of the resource manager, which acts in the source until step 7. Clients
// come in step 6, so this step waits until it answers. It needs the kube-apiserver to start, and rights there, which
// are written through the gateway.
func (d *destination) addWebhooks(g *flow.Graph, start *start, kubeAPIServerReady, exposed flow.TaskIDer) {
	timeout := d.Timings.RolloutTimeout
	permit := g.Add(flow.Task{
		Name: "Letting what answers webhooks read in the shoot",
		Fn: flows.Retry(d.inShoot(start.botanist, func(ctx context.Context, access *shootAccess) error {
			return webhooks.Permit(ctx, access.client)
		}), timeout),
		Dependencies: flow.NewTaskIDs(exposed),
	})
	deploy := g.Add(flow.Task{
		Name: "Deploying what answers the webhooks of the resource manager",
		Fn: flows.Retry(func(ctx context.Context) error {
			return start.webhooks.Deploy(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(kubeAPIServerReady),
	})
	_ = g.Add(flow.Task{
		Name: "Waiting until the webhooks of the resource manager are answered",
		Fn: flows.Retry(func(ctx context.Context) error {
			return start.webhooks.Check(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(permit, deploy),
	})
}

// addWebhooksRemoval adds the end of addWebhooks. The resource manager of this seed answers by then.
func (d *destination) addWebhooksRemoval(g *flow.Graph, b *botanist.Botanist, exposed flow.TaskIDer) {
	timeout := d.Timings.RolloutTimeout
	remove := g.Add(flow.Task{
		Name: "Removing what answers webhooks beside the resource manager",
		Fn: flows.Retry(func(ctx context.Context) error {
			return webhooks.Remove(ctx, d.SeedClientSet.Client(), b.Shoot.ControlPlaneNamespace)
		}, timeout),
	})
	_ = g.Add(flow.Task{
		Name: "Withdrawing its rights in the shoot",
		Fn: flows.Retry(d.inShoot(b, func(ctx context.Context, access *shootAccess) error {
			return webhooks.Revoke(ctx, access.client)
		}), timeout),
		Dependencies: flow.NewTaskIDs(remove, exposed),
	})
}
