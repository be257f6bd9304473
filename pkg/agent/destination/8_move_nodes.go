// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"time"

	vpnshoot "github.com/gardener/gardener/pkg/component/networking/vpn/shoot"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/managedresources"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// settle makes the shoot's inside an ordinary one of this seed, after resource manager and controllers have been
// started here: first the regular VPN client moves, then the address changes. It can be repeated from any point.
func (d *destination) settle(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, a *advertisement,
) error {
	// VPN server, VPN clients and kube-apiserver without the temporary client and with the own address, as the
	// gardenlet has them.
	plain, err := d.botanist(ctx, m)
	if err != nil {
		return err
	}
	if a.address != "" {
		components, err := overlap.NewComponents(b)
		if err != nil {
			return err
		}
		move := nodesMove{
			destination: d, botanist: b, plain: plain, components: components, advertisement: a,
		}
		if err := flows.Run(ctx, m, steps.ReasonMovingNodes, move.graph()); err != nil {
			return err
		}
		if err := d.forgetAdvertisement(ctx, b.Shoot.ControlPlaneNamespace); err != nil {
			return err
		}
	}
	return flows.Run(ctx, m, steps.ReasonMovingNodes, d.settleGraph(plain))
}

// nodesMove is what has to be done while the kube-apiserver still publishes the source's address and counts on
// temporary VPN clients: the nodes serve the destination's address as well, and the regular VPN client takes the place
// of the temporary one.
type nodesMove struct {
	*destination
	// botanist has the temporary VPN clients, plain has not.
	botanist, plain *botanist.Botanist
	components      *overlap.Components
	advertisement   *advertisement
}

func (n *nodesMove) graph() *flow.Graph {
	g := flow.NewGraph("preparation of the nodes")
	base := n.addBase(g, n.plain)
	n.addSecondProxy(g, base.secrets)
	n.addVPNClient(g, base.secrets)
	return g
}

// addSecondProxy adds the apiserver-proxy that serves the destination's address, unless that is the source's as well.
func (n *nodesMove) addSecondProxy(g *flow.Graph, dependencies ...flow.TaskIDer) {
	timeout := n.Timings.RolloutTimeout
	apply := g.Add(flow.Task{
		Name: "Deploying a second apiserver-proxy for the destination's address",
		Fn: flows.Retry(n.inShoot(n.botanist, func(ctx context.Context, access *shootAccess) error {
			objects, err := n.components.APIServerProxy(ctx, n.advertisement.own)
			if err != nil {
				return err
			}
			return overlap.Apply(ctx, access.client, objects)
		}), timeout),
		SkipIf:       !n.advertisement.moves(),
		Dependencies: flow.NewTaskIDs(dependencies...),
	})
	_ = g.Add(flow.Task{
		Name: "Waiting until every node serves the destination's address",
		Fn: flows.Retry(n.inShoot(n.botanist, func(ctx context.Context, access *shootAccess) error {
			return overlap.CheckOnEveryNode(ctx, access.client, overlap.APIServerProxy)
		}), timeout),
		SkipIf:       !n.advertisement.moves(),
		Dependencies: flow.NewTaskIDs(apply),
	})
}

// addVPNClient adds the move of the regular VPN client, and the end of the temporary one.
func (n *nodesMove) addVPNClient(g *flow.Graph, dependencies ...flow.TaskIDer) {
	timeout := n.Timings.RolloutTimeout
	component := func() vpnshoot.Interface { return n.plain.Shoot.Components.SystemComponents.VPNShoot }
	deploy := g.Add(flow.Task{
		Name: "Moving the regular VPN client",
		Fn: flows.Retry(func(ctx context.Context) error {
			return overlap.DeployVPNClient(ctx, n.plain, component())
		}, timeout),
		Dependencies: flow.NewTaskIDs(dependencies...),
	})
	moved := flows.Retry(func(ctx context.Context) error {
		return component().Wait(ctx)
	}, timeout)
	running := g.Add(flow.Task{
		Name:         "Waiting until the regular VPN client runs beside the temporary one",
		Fn:           n.untilClientRuns(moved),
		Dependencies: flow.NewTaskIDs(deploy),
	})
	_ = g.Add(flow.Task{
		Name: "Waiting until the regular VPN client has moved",
		Fn: func(ctx context.Context) error {
			if n.highlyAvailable() {
				return nil // The temporary one had to stay until then.
			}
			return moved(ctx)
		},
		Dependencies: flow.NewTaskIDs(running),
	})
	destroyTemporary := g.Add(flow.Task{
		Name: "Removing the temporary VPN client",
		Fn: flows.Retry(func(ctx context.Context) error {
			return n.destroyTwin(ctx, n.botanist, overlap.VPN)
		}, timeout),
		Dependencies: flow.NewTaskIDs(running),
	})
	_ = g.Add(flow.Task{
		Name:         "Waiting until the tunnel is connected without the temporary VPN client",
		Fn:           flows.Retry(n.inShoot(n.botanist, checkTunnel), timeout),
		Dependencies: flow.NewTaskIDs(destroyTemporary),
	})
	_ = g.Add(flow.Task{
		Name: "Deleting the DNS record of the temporary VPN client",
		Fn: flows.Retry(func(ctx context.Context) error {
			record := n.vpnRecord(n.botanist)
			if err := record.Destroy(ctx); err != nil {
				return err
			}
			return record.WaitCleanup(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(destroyTemporary),
	})
}

// clientInterval is how often the move of the only client of a VPN is looked at.
const clientInterval = 500 * time.Millisecond

// untilClientRuns waits for the moment from which the temporary VPN client is in the way. In a VPN that is not highly
// available the two take the one place of the server from each other, every few seconds, and cut what goes through the
// tunnel each time. Otherwise both are connected for as long as it takes, and moved is waited for.
func (n *nodesMove) untilClientRuns(moved flow.TaskFn) flow.TaskFn {
	check := n.inShoot(n.botanist, func(ctx context.Context, access *shootAccess) error {
		return overlap.CheckVPNClient(ctx, n.SeedClientSet.Client(), access.client,
			n.botanist.Shoot.ControlPlaneNamespace)
	}).RetryUntilTimeout(clientInterval, n.Timings.RolloutTimeout)
	return func(ctx context.Context) error {
		if n.highlyAvailable() {
			return moved(ctx)
		}
		return check(ctx)
	}
}

// highlyAvailable reports whether the VPN has places for the temporary client beside the regular one.
func (n *nodesMove) highlyAvailable() bool { return n.plain.Shoot.VPNHighAvailabilityEnabled }

// settleGraph gives kube-apiserver, apiserver-proxy and VPN server the form that the gardenlet gives them. The second
// apiserver-proxy serves the new address until the regular one does on all nodes.
func (d *destination) settleGraph(plain *botanist.Botanist) *flow.Graph {
	var (
		g       = flow.NewGraph("change of the address inside of the shoot")
		timeout = d.Timings.RolloutTimeout
		base    = d.addBase(g, plain)

		kubeAPIServerReady = d.addKubeAPIServer(g, plain, kubeAPIServerRollout{
			wait: untilRolledOut(plain), dependencies: flow.NewTaskIDs(base.secrets, base.resources),
		})
		deploySNI = g.Add(flow.Task{
			Name: "Exposing the kube-apiserver at the ingress gateway",
			Fn: flows.Retry(func(ctx context.Context) error {
				return plain.DeployKubeAPIServerSNI(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(kubeAPIServerReady),
		})
		deployVPNServer = g.Add(flow.Task{
			Name: "Giving the VPN server its ordinary specification",
			Fn: flows.Retry(func(ctx context.Context) error {
				return plain.DeployVPNServer(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(kubeAPIServerReady),
		})
		_ = g.Add(flow.Task{
			Name:         "Waiting until the tunnel is connected with all in its ordinary form",
			Fn:           flows.Retry(d.inShoot(plain, checkTunnel), timeout),
			Dependencies: flow.NewTaskIDs(deployVPNServer, deploySNI),
		})
	)
	d.addProxy(g, plain, deploySNI)
	d.addWebhooksRemoval(g, plain, deploySNI)
	return g
}

// addProxy adds the change of the address inside of the shoot: when only the destination's is published, the regular
// apiserver-proxy releases the source's, node by node.
func (d *destination) addProxy(g *flow.Graph, plain *botanist.Botanist, exposed flow.TaskID) {
	timeout := d.Timings.RolloutTimeout
	addressMoved := g.Add(flow.Task{
		Name: "Waiting until only the destination's address is published inside of the shoot",
		Fn: flows.Retry(d.inShoot(plain, func(ctx context.Context, access *shootAccess) error {
			return checkPublished(ctx, access.client, plain.APIServerClusterIP)
		}), timeout),
		Dependencies: flow.NewTaskIDs(exposed),
	})
	deploy := g.Add(flow.Task{
		Name: "Deploying the apiserver-proxy",
		Fn: flows.Retry(func(ctx context.Context) error {
			return plain.DeployAPIServerProxy(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(addressMoved),
	})
	ready := g.Add(flow.Task{
		Name: "Waiting until the apiserver-proxy serves the destination's address on every node",
		Fn: flows.Retry(func(ctx context.Context) error {
			return managedresources.WaitUntilHealthyAndNotProgressing(ctx, plain.SeedClientSet.Client(),
				plain.Shoot.ControlPlaneNamespace, overlap.ManagedResourceAPIServerProxy)
		}, timeout),
		Dependencies: flow.NewTaskIDs(deploy),
	})
	_ = g.Add(flow.Task{
		Name: "Removing the second apiserver-proxy",
		Fn: flows.Retry(func(ctx context.Context) error {
			return d.destroyTwin(ctx, plain, overlap.APIServerProxy)
		}, timeout),
		Dependencies: flow.NewTaskIDs(ready),
	})
	// From here on there are kube-apiservers of one seed only, as before.
	_ = g.Add(flow.Task{
		Name: "Releasing the addresses published inside of the shoot",
		Fn: flows.Retry(d.inShoot(plain, func(ctx context.Context, access *shootAccess) error {
			return overlap.ReleaseEndpoints(ctx, access.client)
		}), timeout),
		Dependencies: flow.NewTaskIDs(ready),
	})
}

func (d *destination) destroyTwin(ctx context.Context, b *botanist.Botanist, name string) error {
	access, err := d.access(b)
	if err != nil {
		return err
	}
	if err := overlap.Destroy(ctx, access.client, name); err != nil {
		return err
	}
	return overlap.CheckGone(ctx, access.client, name)
}
