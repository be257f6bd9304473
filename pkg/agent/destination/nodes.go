// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	"github.com/gardener/gardener/pkg/utils/retry"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// What a shoot with workers needs beyond one without: clients inside of it go to the kube-apiserver by an address that
// an apiserver-proxy on each node serves, and the kube-apiserver comes to nodes, pods and services through the VPN.
//
// Each seed has an address of its own. A kube-apiserver publishes its address in the shoot (Service
// default/kubernetes), to which all clients there are led at random as soon as there are two. So the destination's
// takes the source's address (step 4) until a second apiserver-proxy serves its own one on all nodes (step 8). Then it
// takes its own, the regular apiserver-proxy follows, and the second one goes. At no time an address is published that
// nobody serves, nor none at all (package endpoints).
//
// The VPN server of the destination gets a client of its own in the shoot (step 4), before any webhook is called from
// there. The regular one stays with the source until its key is replaced by the destination's (step 8).

// annotationAdvertisedAddress stands on the shoot's namespace in the destination as long as its kube-apiserver
// publishes the source's address, and tells which. An agent that takes over must not have it publish another one before
// the nodes serve that.
const annotationAdvertisedAddress = "livecpm.gardener.cloud/advertised-address"

const (
	// tunnelProbes is how many requests have to come through the tunnel in a row, each on a new connection: there are
	// three replicas of the kube-apiserver, and each has its own way to the VPN server.
	tunnelProbes = 6
	// tunnelPatience is for how long one attempt of a step waits for the tunnel.
	tunnelPatience = 3 * time.Minute
)

// withWorkers reports whether the botanist's shoot has workers.
func withWorkers(b *botanist.Botanist) bool {
	return b.Operation != nil && b.Shoot != nil && !b.Shoot.IsWorkerless
}

// advertisement is the address that the destination's kube-apiserver publishes inside of the shoot.
type advertisement struct {
	// address is the source's; empty if the destination publishes its own.
	address string
	// own is that of the destination. It is known once the service of the kube-apiserver is there.
	own string
}

// apply makes the botanist deploy what depends on the address with the one that is to be published.
func (a *advertisement) apply(b *botanist.Botanist) {
	if a == nil || a.address == "" {
		return
	}
	if a.own == "" {
		a.own = b.APIServerClusterIP
	}
	b.APIServerClusterIP = a.address
}

// moves reports whether the address changes at all. Seeds may have services of the same address, as far as it shows in
// the shoot.
func (a *advertisement) moves() bool { return !sameAddress(a.own, a.address) }

// sameAddress compares addresses that may be written in different ways.
func sameAddress(a, b string) bool {
	return net.ParseIP(a) != nil && net.ParseIP(a).Equal(net.ParseIP(b))
}

// readAdvertisement reads what is published from the shoot's namespace.
func (d *destination) readAdvertisement(ctx context.Context, name string) (*advertisement, error) {
	namespace := &corev1.Namespace{}
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	return &advertisement{address: namespace.Annotations[annotationAdvertisedAddress]}, nil
}

// learnAdvertisement asks the source's kube-apiserver under which address it is known inside of the shoot, and
// remembers it.
func (d *destination) learnAdvertisement(ctx context.Context, b *botanist.Botanist, a *advertisement) error {
	if a.address != "" {
		return nil
	}
	if !b.ShootUsesDNS() {
		return errors.New("failed to learn the address of the kube-apiserver inside of the shoot: without an " +
			"internal and an external domain the nodes have no apiserver-proxy, " +
			"and clients inside of the shoot would lose the kube-apiserver; migrate classically")
	}
	shoot, err := d.throughDNS(b)
	if err != nil {
		return err
	}
	address, err := publishedAddress(ctx, shoot)
	if err != nil {
		return err
	}

	namespace := &corev1.Namespace{}
	name := b.Shoot.ControlPlaneNamespace
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return fmt.Errorf("failed to read namespace %s: %w", name, err)
	}
	if err := d.remember(ctx, namespace, annotationAdvertisedAddress, address); err != nil {
		return err
	}
	a.address = address
	return nil
}

// keepPublished has the shared address stay published whichever of the kube-apiservers ends: those of both seeds do, in
// good order or not, until the destination has one of its own.
func (d *destination) keepPublished(ctx context.Context, b *botanist.Botanist) error {
	shoot, err := d.throughDNS(b)
	if err != nil {
		return err
	}
	return overlap.KeepEndpoints(ctx, shoot)
}

// throughDNS returns access to the shoot by its name, which leads to the source until step 6.
func (d *destination) throughDNS(b *botanist.Botanist) (client.Client, error) {
	config, err := d.shootConfig(b)
	if err != nil {
		return nil, err
	}
	return newShootClient(config)
}

// forgetAdvertisement makes every later deployment of the kube-apiserver publish the destination's own address.
func (d *destination) forgetAdvertisement(ctx context.Context, name string) error {
	return d.forget(ctx, name, annotationAdvertisedAddress)
}

// publishedAddress returns the one address behind the Service default/kubernetes.
func publishedAddress(ctx context.Context, shoot client.Client) (string, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := shoot.List(ctx, list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}); err != nil {
		return "", fmt.Errorf("failed to read the EndpointSlices of Service default/kubernetes: %w", err)
	}
	addresses := sets.New[string]()
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			addresses.Insert(endpoint.Addresses...)
		}
	}
	if addresses.Len() != 1 {
		return "",
			fmt.Errorf("the Service default/kubernetes of the shoot has the addresses %v instead of one: stale ones "+
				"expire within a minute; if they do not, see which kube-apiservers work on its etcd",
				sets.List(addresses))
	}
	return sets.List(addresses)[0], nil
}

// checkPublished returns an error unless the address is the only one behind the Service default/kubernetes.
func checkPublished(ctx context.Context, shoot client.Client, address string) error {
	published, err := publishedAddress(ctx, shoot)
	if err != nil {
		return err
	}
	if !sameAddress(published, address) {
		return fmt.Errorf("the kube-apiserver is published as %s inside of the shoot instead of %s", published, address)
	}
	return nil
}

// openTunnel lets the kube-apiserver of this seed reach nodes, pods and services of the shoot: it runs the temporary
// VPN client in the shoot and waits until requests get through.
func (d *destination) openTunnel(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, components *overlap.Components,
) (steps.Outcome, error) {
	if err := m.Report(ctx, steps.ReasonWaitingForTunnel,
		"Connecting the nodes to the VPN server of the destination"); err != nil {
		return steps.Outcome{}, err
	}
	objects, err := components.VPN(ctx, vpnDomain(b)+".", b.Shoot.VPNHighAvailabilityNumberOfShootClients/2)
	if err != nil {
		return steps.Outcome{}, err
	}
	access, err := d.access(b)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := overlap.Apply(ctx, access.client, objects); err != nil {
		return steps.Outcome{}, err
	}
	if err := d.waitForTunnel(ctx, access); err != nil {
		return steps.Waiting(d.Timings.PollInterval, steps.ReasonWaitingForTunnel,
			"The tunnel from the shoot to the destination does not stand: %s", err), nil
	}
	return steps.Done("The tunnel stands"), nil
}

func (d *destination) waitForTunnel(ctx context.Context, access *shootAccess) error {
	return retry.UntilTimeout(ctx, d.Timings.PollInterval,
		min(tunnelPatience, d.Timings.RolloutTimeout), func(ctx context.Context) (bool, error) {
			if err := checkTunnel(ctx, access); err != nil {
				return retry.MinorError(err)
			}
			return retry.Ok()
		})
}

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
		if err := flows.Run(ctx, m, steps.ReasonMovingNodes,
			d.overlapGraph(b, plain, components, a)); err != nil {
			return err
		}
		if err := d.forgetAdvertisement(ctx, b.Shoot.ControlPlaneNamespace); err != nil {
			return err
		}
	}
	return flows.Run(ctx, m, steps.ReasonMovingNodes, d.settleGraph(plain))
}

// overlapGraph is what has to be done while the kube-apiserver still publishes the source's address and counts on
// temporary VPN clients: the nodes serve the destination's address as well, and the regular VPN client takes the place
// of the temporary one.
func (d *destination) overlapGraph(
	b, plain *botanist.Botanist, components *overlap.Components, a *advertisement,
) *flow.Graph {
	g := flow.NewGraph("preparation of the nodes")
	base := d.addBase(g, plain)
	d.addOverlap(g, b, plain, components, a, flow.NewTaskIDs(base.secrets))
	return g
}

func (d *destination) addOverlap(
	g *flow.Graph, b, plain *botanist.Botanist, components *overlap.Components, a *advertisement,
	dependencies flow.TaskIDs,
) {
	var (
		timeout = d.Timings.RolloutTimeout

		applyProxy = g.Add(flow.Task{
			Name: "Deploying a second apiserver-proxy for the destination's address",
			Fn: flows.Retry(d.inShoot(b, func(ctx context.Context, access *shootAccess) error {
				objects, err := components.APIServerProxy(ctx, a.own)
				if err != nil {
					return err
				}
				return overlap.Apply(ctx, access.client, objects)
			}), timeout),
			SkipIf:       !a.moves(),
			Dependencies: dependencies,
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until every node serves the destination's address",
			Fn: flows.Retry(d.inShoot(b, func(ctx context.Context, access *shootAccess) error {
				return overlap.CheckOnEveryNode(ctx, access.client, overlap.APIServerProxy)
			}), timeout),
			SkipIf:       !a.moves(),
			Dependencies: flow.NewTaskIDs(applyProxy),
		})
		deployVPNClient = g.Add(flow.Task{
			Name: "Moving the regular VPN client",
			Fn: flows.Retry(func(ctx context.Context) error {
				return overlap.DeployVPNClient(ctx, plain, plain.Shoot.Components.SystemComponents.VPNShoot)
			}, timeout),
			Dependencies: dependencies,
		})
		vpnClientReady = g.Add(flow.Task{
			Name: "Waiting until the regular VPN client has moved",
			Fn: flows.Retry(func(ctx context.Context) error {
				return plain.Shoot.Components.SystemComponents.VPNShoot.Wait(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deployVPNClient),
		})
		destroyTemporary = g.Add(flow.Task{
			Name: "Removing the temporary VPN client",
			Fn: flows.Retry(func(ctx context.Context) error {
				return d.destroyTwin(ctx, b, overlap.VPN)
			}, timeout),
			Dependencies: flow.NewTaskIDs(vpnClientReady),
		})
		_ = g.Add(flow.Task{
			Name:         "Waiting until the tunnel stands without the temporary VPN client",
			Fn:           flows.Retry(d.inShoot(b, checkTunnel), timeout),
			Dependencies: flow.NewTaskIDs(destroyTemporary),
		})
		_ = g.Add(flow.Task{
			Name: "Deleting the DNS record of the temporary VPN client",
			Fn: flows.Retry(func(ctx context.Context) error {
				record := d.vpnRecord(b)
				if err := record.Destroy(ctx); err != nil {
					return err
				}
				return record.WaitCleanup(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(destroyTemporary),
		})
	)
}

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
			Name:         "Waiting until the tunnel stands with all in its ordinary form",
			Fn:           flows.Retry(d.inShoot(plain, checkTunnel), timeout),
			Dependencies: flow.NewTaskIDs(deployVPNServer, deploySNI),
		})
		// The regular one releases the source's address node by node. Nobody may be led there any more.
		addressMoved = g.Add(flow.Task{
			Name: "Waiting until only the destination's address is published inside of the shoot",
			Fn: flows.Retry(d.inShoot(plain, func(ctx context.Context, access *shootAccess) error {
				return checkPublished(ctx, access.client, plain.APIServerClusterIP)
			}), timeout),
			Dependencies: flow.NewTaskIDs(deploySNI),
		})
		deployProxy = g.Add(flow.Task{
			Name: "Deploying the apiserver-proxy",
			Fn: flows.Retry(func(ctx context.Context) error {
				return plain.DeployAPIServerProxy(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(addressMoved),
		})
		proxyReady = g.Add(flow.Task{
			Name: "Waiting until the apiserver-proxy serves the destination's address on every node",
			Fn: flows.Retry(func(ctx context.Context) error {
				return managedresources.WaitUntilHealthyAndNotProgressing(ctx, plain.SeedClientSet.Client(),
					plain.Shoot.ControlPlaneNamespace, overlap.ManagedResourceAPIServerProxy)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deployProxy),
		})
		_ = g.Add(flow.Task{
			Name: "Removing the second apiserver-proxy",
			Fn: flows.Retry(func(ctx context.Context) error {
				return d.destroyTwin(ctx, plain, overlap.APIServerProxy)
			}, timeout),
			Dependencies: flow.NewTaskIDs(proxyReady),
		})
		// From here on there are kube-apiservers of one seed only, as before.
		_ = g.Add(flow.Task{
			Name: "Letting go of the addresses published inside of the shoot",
			Fn: flows.Retry(d.inShoot(plain, func(ctx context.Context, access *shootAccess) error {
				return overlap.ReleaseEndpoints(ctx, access.client)
			}), timeout),
			Dependencies: flow.NewTaskIDs(proxyReady),
		})
	)
	return g
}

// inShoot returns a task with access to the shoot, which is made again for each attempt.
func (d *destination) inShoot(
	b *botanist.Botanist, task func(ctx context.Context, access *shootAccess) error,
) flow.TaskFn {
	return func(ctx context.Context) error {
		access, err := d.access(b)
		if err != nil {
			return err
		}
		return task(ctx, access)
	}
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

// checkTunnel asks kubelets whether they are healthy, through the kube-apiserver and its way to the nodes. Without a
// node that is ready there is nothing to reach, and no place for a VPN client either.
func checkTunnel(ctx context.Context, access *shootAccess) error {
	nodes, err := overlap.ReadyNodes(ctx, access.client)
	if err != nil {
		return err
	}
	for i := range tunnelProbes {
		if len(nodes) == 0 {
			break
		}
		node := nodes[i%len(nodes)]
		if err := access.rest.Get().AbsPath("/api/v1/nodes", node, "proxy", "healthz").Do(ctx).Error(); err != nil {
			return fmt.Errorf("failed to reach the kubelet of node %s through the tunnel: %w", node, err)
		}
	}
	return nil
}
