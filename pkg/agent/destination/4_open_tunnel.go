// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/retry"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// tunnelProbes is how many requests have to come through the tunnel in a row, each on a new connection: there are
	// three replicas of the kube-apiserver, and each has its own way to the VPN server.
	tunnelProbes = 6
	// tunnelTimeout is for how long one attempt of a step waits for the tunnel.
	tunnelTimeout = 3 * time.Minute
)

// addTunnel connects the nodes to the VPN server of this seed before its first kube-apiserver starts, and returns the
// task after which they are connected. A kube-apiserver that does not reach the servers of aggregated APIs says so in
// the status of their APIServices, which those of the source read as well: they answer 503 then, until one of them has
// looked itself (the availability controller of kube-aggregator). So the temporary VPN client is brought to the shoot
// through the source's kube-apiserver, to which DNS leads until step 6.
func (d *destination) addTunnel(g *flow.Graph, m *migration.Migration, start *start, service flow.TaskID) flow.TaskID {
	b := start.botanist
	record := g.Add(flow.Task{
		Name: "Deploying the DNS record of the temporary VPN client",
		Fn: flows.Retry(func(ctx context.Context) error {
			record := d.vpnRecord(b)
			if err := record.Deploy(ctx); err != nil {
				return err
			}
			return record.Wait(ctx)
		}, d.Timings.RolloutTimeout),
		Dependencies: flow.NewTaskIDs(service),
	})
	deploy := g.Add(flow.Task{
		Name: "Deploying the temporary VPN client",
		Fn: flows.Retry(d.byDNS(b, func(ctx context.Context, shoot client.Client) error {
			return deployVPNClient(ctx, b, start.components, shoot)
		}), d.Timings.RolloutTimeout),
		Dependencies: flow.NewTaskIDs(record),
	})
	return g.Add(flow.Task{
		Name: "Waiting until the nodes are connected to the VPN server",
		Fn: d.byDNS(b, func(ctx context.Context, shoot client.Client) error {
			return d.waitForVPN(ctx, m, shoot)
		}),
		Dependencies: flow.NewTaskIDs(deploy),
	})
}

// deployVPNClient runs the temporary VPN client in the shoot.
func deployVPNClient(
	ctx context.Context, b *botanist.Botanist, components *overlap.Components, shoot client.Client,
) error {
	objects, err := components.VPN(ctx, vpnDomain(b)+".", b.Shoot.VPNHighAvailabilityNumberOfShootClients/2)
	if err != nil {
		return err
	}
	return overlap.Apply(ctx, shoot, objects)
}

// waitForVPN waits until the VPN server of this seed is ready, which it is when its clients are connected. Without a
// node there is none, and nothing to reach. It does not wait forever: without the tunnel, some requests to aggregated
// APIs fail in this step, but it is not over before the kube-apiserver reaches the nodes anyway (openTunnel).
func (d *destination) waitForVPN(ctx context.Context, m *migration.Migration, shoot client.Client) error {
	nodes, err := overlap.ReadyNodes(ctx, shoot)
	if len(nodes) > 0 {
		err = d.untilConnected(ctx, func(ctx context.Context) error {
			return d.checkVPNServer(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot))
		})
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	m.Log.Info("The nodes are not connected to the VPN server yet, some requests to aggregated APIs may fail",
		"reason", err.Error())
	return nil
}

// checkVPNServer returns an error unless all pods of the VPN server are ready.
func (d *destination) checkVPNServer(ctx context.Context, namespace string) error {
	const name = v1beta1constants.DeploymentNameVPNSeedServer
	pods := &corev1.PodList{}
	if err := d.SeedClientSet.APIReader().List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels{v1beta1constants.LabelApp: name}); err != nil {
		return fmt.Errorf("failed to list the pods of %s: %w", name, err)
	}
	for _, pod := range pods.Items {
		if !health.IsPodReady(&pod) {
			return fmt.Errorf("pod %s is not ready", pod.Name)
		}
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("%s has no pods", name)
	}
	return nil
}

// openTunnel lets the kube-apiserver of this seed reach nodes, pods and services of the shoot: it runs the temporary
// VPN client in the shoot, if it does not run yet, and waits until requests get through.
func (d *destination) openTunnel(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, components *overlap.Components,
) (steps.Outcome, error) {
	if err := m.Report(ctx, steps.ReasonWaitingForTunnel,
		"Connecting the nodes to the VPN server of the destination"); err != nil {
		return steps.Outcome{}, err
	}
	access, err := d.access(b)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := deployVPNClient(ctx, b, components, access.client); err != nil {
		return steps.Outcome{}, err
	}
	if err := d.waitForTunnel(ctx, access); err != nil {
		return steps.Waiting(d.Timings.PollInterval, steps.ReasonWaitingForTunnel,
			"The tunnel from the shoot to the destination is not connected: %s", err), nil
	}
	return steps.Done("The tunnel is connected"), nil
}

func (d *destination) waitForTunnel(ctx context.Context, access *shootAccess) error {
	return d.untilConnected(ctx, func(ctx context.Context) error { return checkTunnel(ctx, access) })
}

// untilConnected repeats the check until it succeeds, for as long as one attempt waits for the tunnel.
func (d *destination) untilConnected(ctx context.Context, check flow.TaskFn) error {
	return retry.UntilTimeout(ctx, d.Timings.PollInterval,
		min(tunnelTimeout, d.Timings.RolloutTimeout), func(ctx context.Context) (bool, error) {
			if err := check(ctx); err != nil {
				return retry.MinorError(err)
			}
			return retry.Ok()
		})
}

// byDNS returns a task with access to the shoot by its name (throughDNS), which is made again for each attempt.
func (d *destination) byDNS(
	b *botanist.Botanist, task func(ctx context.Context, shoot client.Client) error,
) flow.TaskFn {
	return func(ctx context.Context) error {
		shoot, err := d.throughDNS(b)
		if err != nil {
			return err
		}
		return task(ctx, shoot)
	}
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

// checkTunnel asks kubelets whether they are healthy, through the kube-apiserver and its way to the nodes. Without a
// node there is nothing to reach, and no place for a VPN client either.
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
