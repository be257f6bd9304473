// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// startKubeAPIServer runs the kube-apiserver in the destination beside the source's. Both work on the same etcd
// cluster. No client knows of it yet, so it is probed by its gateway's address under the shoot's name.
func (d *destination) startKubeAPIServer(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if steps.ForceShrinkRequested(m.Shoot) {
		if outcome, err := d.shrinkEtcd(ctx, m); err != nil || !outcome.Finished() {
			return outcome, err
		}
	}

	start, err := d.prepareStart(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := flows.Run(ctx, m, steps.ReasonDeployingKubeAPIServer,
		d.kubeAPIServerGraph(m, start.botanist, start.published)); err != nil {
		return steps.Outcome{}, err
	}
	if err := d.waitUntilServing(ctx, m, start.botanist); err != nil {
		return steps.Outcome{}, err
	}
	address := start.botanist.APIServerAddress
	if start.components != nil {
		if outcome, err := d.openTunnel(ctx, m, start.botanist, start.components); err != nil || !outcome.Finished() {
			return outcome, err
		}
		return steps.Done("The kube-apiserver in the destination is ready, takes writes through its gateway at %s "+
			"and reaches the nodes through its VPN", address), nil
	}
	return steps.Done("The kube-apiserver in the destination is ready and takes writes through its gateway at %s",
		address), nil
}

// start is what the kube-apiserver is started with.
type start struct {
	botanist *botanist.Botanist
	// published is the address that it advertises inside of a shoot with workers.
	published *advertisement
	// components are those of which a shoot with workers gets twins; nil without workers.
	components *overlap.Components
}

func (d *destination) prepareStart(ctx context.Context, m *migration.Migration) (*start, error) {
	var (
		out     = &start{published: &advertisement{}}
		workers = !v1beta1helper.IsWorkerless(m.Shoot)
		options []botanist.Option
		err     error
	)
	if workers {
		namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
		if out.published, err = d.readAdvertisement(ctx, namespace); err != nil {
			return nil, err
		}
		options = append(options, botanist.WithTemporaryVPNClients)
	}
	needsMoreTime, err := d.needsMoreTime(ctx, m)
	if err != nil {
		return nil, err
	}
	if needsMoreTime {
		options = append(options, botanist.WithSeedClientSet(withMoreTime))
	}
	if out.botanist, err = d.botanist(ctx, m, options...); err != nil {
		return nil, err
	}
	if workers {
		out.components, err = overlap.NewComponents(out.botanist)
	}
	return out, err
}

// waitUntilServing waits until the kube-apiserver answers through the gateway, which takes a moment to learn of its new
// route.
func (d *destination) waitUntilServing(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	if err := m.Report(ctx, steps.ReasonProbingKubeAPIServer,
		"Probing the kube-apiserver through the gateway of the destination"); err != nil {
		return err
	}
	return retry.UntilTimeout(ctx, d.Timings.PollInterval, time.Minute, func(ctx context.Context) (bool, error) {
		if err := d.probe(ctx, m.Clock, b); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	})
}

// kubeAPIServerGraph returns the flow that rolls the kube-apiserver out and exposes it. Of a shoot with workers it also
// makes the way to the nodes.
//
// Clients of etcd are led to its front before the kube-apiserver connects for the first time: a connection stays where
// it is.
func (d *destination) kubeAPIServerGraph(
	m *migration.Migration, b *botanist.Botanist, published *advertisement,
) *flow.Graph {
	var (
		g       = flow.NewGraph("rollout of the kube-apiserver")
		timeout = d.Timings.RolloutTimeout
		workers = withWorkers(b)
		base    = d.addBase(g, b)
		before  = flow.NewTaskIDs(base.secrets)

		restoreExtensions = g.Add(flow.Task{
			Name: "Restoring extensions before kube-apiserver",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.DeployExtensionsBeforeKubeAPIServer(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(base.secrets, base.resources),
		})
		extensionsReady = g.Add(flow.Task{
			Name: "Waiting until extensions before kube-apiserver are ready",
			Fn: func(ctx context.Context) error {
				return b.Shoot.Components.Extensions.Extension.WaitBeforeKubeAPIServer(ctx)
			},
			Dependencies: flow.NewTaskIDs(restoreExtensions),
		})
	)
	before.Insert(extensionsReady, d.addFront(g, m, base.namespace))
	if workers {
		before.Insert(d.addWayToNodes(g, b, published, base.secrets))
	}
	deploy := d.addKubeAPIServer(g, b, kubeAPIServerRollout{
		published: published, wait: d.untilRolledOutOrRestarted(b), dependencies: before,
	})
	_ = g.Add(flow.Task{
		Name: "Exposing the kube-apiserver at the ingress gateway",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.DeployKubeAPIServerSNI(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(deploy),
	})
	if workers {
		_ = g.Add(flow.Task{
			Name: "Deploying the DNS record of the temporary VPN client",
			Fn: flows.Retry(func(ctx context.Context) error {
				record := d.vpnRecord(b)
				if err := record.Deploy(ctx); err != nil {
					return err
				}
				return record.Wait(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deploy),
		})
	}
	return g
}

// addFront adds the fronts of the etcds and returns the task after which clients of etcd are led to them.
func (d *destination) addFront(g *flow.Graph, m *migration.Migration, namespace flow.TaskID) flow.TaskID {
	timeout := d.Timings.RolloutTimeout
	deploy := g.Add(flow.Task{
		Name: "Deploying the front of the etcds",
		Fn: flows.Retry(func(ctx context.Context) error {
			return d.Fronts.Deploy(ctx, m)
		}, timeout),
		Dependencies: flow.NewTaskIDs(namespace),
	})
	ready := g.Add(flow.Task{
		Name: "Waiting until the front of the etcds is ready",
		Fn: func(ctx context.Context) error {
			return d.Fronts.Wait(ctx, m)
		},
		Dependencies: flow.NewTaskIDs(deploy),
	})
	return g.Add(flow.Task{
		Name: "Leading the clients of the etcds to the front",
		Fn: flows.Retry(func(ctx context.Context) error {
			return d.Fronts.Lead(ctx, m)
		}, timeout),
		Dependencies: flow.NewTaskIDs(ready),
	})
}

// addWayToNodes adds what the kube-apiserver of a shoot with workers needs before it starts: the address that clients
// inside of the shoot know, and the VPN server.
func (d *destination) addWayToNodes(
	g *flow.Graph, b *botanist.Botanist, published *advertisement, secrets flow.TaskID,
) flow.TaskIDs {
	timeout := d.Timings.RolloutTimeout
	learnAddress := g.Add(flow.Task{
		Name: "Asking the source for its address inside of the shoot",
		Fn: flows.Retry(func(ctx context.Context) error {
			return d.learnAdvertisement(ctx, b, published)
		}, timeout),
		Dependencies: flow.NewTaskIDs(secrets),
	})
	keepAddress := g.Add(flow.Task{
		Name: "Keeping the address inside of the shoot published",
		Fn: flows.Retry(func(ctx context.Context) error {
			return d.keepPublished(ctx, b)
		}, timeout),
		Dependencies: flow.NewTaskIDs(learnAddress),
	})
	// Nobody waits for it to become ready: it does when clients have connected, and those from the shoot come later.
	deployVPNServer := g.Add(flow.Task{
		Name: "Deploying the VPN server",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.DeployVPNServer(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(secrets),
	})
	return flow.NewTaskIDs(keepAddress, deployVPNServer)
}

// kubeAPIServerRollout is how a flow deploys the kube-apiserver.
type kubeAPIServerRollout struct {
	// published is the address that it advertises inside of a shoot with workers; nil for the one that its service
	// gives it.
	published *advertisement
	// wait waits until it is rolled out.
	wait flow.TaskFn
	// dependencies are what the flow does before.
	dependencies flow.TaskIDs
}

// addKubeAPIServer adds the kube-apiserver with its service and returns the task after which it is ready. The service
// comes first on the same botanist: it finds the address to advertise and the gateway's address. Components that only
// run with a kube-apiserver learn from this deployment how many replicas they get.
func (d *destination) addKubeAPIServer(g *flow.Graph, b *botanist.Botanist, rollout kubeAPIServerRollout) flow.TaskID {
	service := d.addKubeAPIServerService(g, b, rollout.dependencies)
	deploy := g.Add(flow.Task{
		Name: "Deploying the kube-apiserver",
		Fn: flows.Retry(func(ctx context.Context) error {
			// The certificate with which the kube-apiserver comes to etcd is made with the etcds, in another flow: the
			// secrets manager finds it in the namespace and knows it from here on.
			if _, err := gardeneretcd.GenerateClientCertificate(ctx, b.SecretsManager); err != nil {
				return fmt.Errorf("failed to look up the client certificate of etcd: %w", err)
			}
			rollout.published.apply(b)
			return b.DeployKubeAPIServer(ctx)
		}, d.Timings.RolloutTimeout),
		Dependencies: flow.NewTaskIDs(service, rollout.dependencies),
	})
	return g.Add(flow.Task{
		Name:         "Waiting until the kube-apiserver is rolled out",
		Fn:           rollout.wait,
		Dependencies: flow.NewTaskIDs(deploy),
	})
}

func untilRolledOut(b *botanist.Botanist) flow.TaskFn {
	return func(ctx context.Context) error {
		return b.Shoot.Components.ControlPlane.KubeAPIServer.Wait(ctx)
	}
}

func (d *destination) addKubeAPIServerService(
	g *flow.Graph, b *botanist.Botanist, dependencies flow.TaskIDs,
) flow.TaskID {
	deploy := g.Add(flow.Task{
		Name: "Deploying the service of the kube-apiserver",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeAPIServerService.Deploy(ctx)
		}, d.Timings.RolloutTimeout),
		Dependencies: dependencies,
	})
	return g.Add(flow.Task{
		Name: "Waiting until the service of the kube-apiserver has an address",
		Fn: func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeAPIServerService.Wait(ctx)
		},
		Dependencies: flow.NewTaskIDs(deploy),
	})
}
