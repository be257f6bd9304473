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
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// startKubeAPIServer runs the kube-apiserver in the destination beside the source's. Both work on the same etcd
// cluster. No client knows of it yet, so it is probed by its gateway's address under the shoot's name.
func (d *destination) startKubeAPIServer(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if steps.ForceShrinkRequested(m.Shoot) {
		if outcome, held := d.standstill(ctx, m); held {
			return outcome, nil
		}
		// Its members change next.
		if missing, err := d.druidAwaited(ctx, m); err != nil {
			return steps.Outcome{}, err
		} else if missing != "" {
			return steps.Waiting(d.Timings.PollInterval, steps.ReasonJoiningLastEtcdMember,
				"The last members do not join yet: etcd-druid does not report %s", missing), nil
		}
		if outcome, err := d.shrinkEtcd(ctx, m); err != nil || !outcome.Finished() {
			return outcome, err
		}
	}
	if outcome, held := d.standstill(ctx, m); held {
		return outcome, nil
	}

	// A botanist reads the ShootState when it is made.
	if outcome, err := d.restorable(ctx, m.Shoot); err != nil || !outcome.Finished() {
		return outcome, err
	}
	start, err := d.prepareStart(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	d.lookForShortTTL(ctx, m, start.botanist)
	if err := flows.Run(ctx, m, steps.ReasonDeployingKubeAPIServer,
		d.kubeAPIServerGraph(m, start)); err != nil {
		return steps.Outcome{}, err
	}
	d.lookForShortTTL(ctx, m, start.botanist)
	return d.serve(ctx, m, start)
}

// serve waits until the kube-apiserver, which is rolled out and exposed, answers as it will to clients, and until that
// of a shoot with workers reaches the nodes.
func (d *destination) serve(ctx context.Context, m *migration.Migration, start *start) (steps.Outcome, error) {
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
	// webhooks answers the webhooks of the resource manager of a shoot with workers; nil without workers, where there
	// are none with the failure policy Fail.
	webhooks *webhooks.Server
	// accessControl are the types of the shoot's extensions for access control, which are in force before it starts.
	accessControl []string
	// first says whether the first replica starts alone.
	first *firstReplica
}

func (d *destination) prepareStart(ctx context.Context, m *migration.Migration) (*start, error) {
	var (
		out     = &start{published: &advertisement{}, first: &firstReplica{}}
		workers = !v1beta1helper.IsWorkerless(m.Shoot)
		options = []botanist.Option{botanist.WithSeedClientSet(out.first.clientSet)}
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
	out.accessControl = d.Botanists.AccessControl(out.botanist)
	if workers {
		if out.components, err = overlap.NewComponents(out.botanist); err != nil {
			return nil, err
		}
		out.webhooks, err = webhooks.New(out.botanist, m.Clock)
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
		if err := d.answers(ctx, m.Clock, b); err != nil {
			return retry.MinorError(err)
		}
		return retry.Ok()
	})
}

// kubeAPIServerGraph returns the flow that rolls the kube-apiserver out and exposes it. Of a shoot with workers it also
// makes the way to the nodes.
//
// Clients of etcd are led to its front before the kube-apiserver connects for the first time: a connection stays where
// it is. Extensions for access control are in force before anything can be reached.
func (d *destination) kubeAPIServerGraph(m *migration.Migration, start *start) *flow.Graph {
	var (
		g        = flow.NewGraph("rollout of the kube-apiserver")
		b        = start.botanist
		timeout  = d.Timings.RolloutTimeout
		workers  = withWorkers(b)
		base     = d.addBase(g, b)
		restored = d.addEarlyExtensions(g, start, base)
		before   = flow.NewTaskIDs(base.secrets, restored, d.addFront(g, m, base.namespace))
	)
	if workers {
		before.Insert(d.addWayToNodes(g, b, start.published, base.secrets))
	}
	rollout := kubeAPIServerRollout{
		published: start.published, first: start.first, wait: d.untilRolledOutOrRestarted(b), dependencies: before,
	}
	if workers {
		rollout.afterService = func(service flow.TaskID) flow.TaskID { return d.addTunnel(g, m, start, service) }
	}
	deploy := d.addKubeAPIServer(g, b, rollout)
	exposed := g.Add(flow.Task{
		Name: "Exposing the kube-apiserver at the ingress gateway",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.DeployKubeAPIServerSNI(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(deploy),
	})
	d.addReadinessOfEtcds(g, m, b)
	if workers {
		d.addWebhooks(g, start, deploy, exposed)
	}
	return g
}

// addReadinessOfEtcds adds the wait for what etcd-druid says of the etcds. It looks at them from time to time, while
// their members have joined long before, so the wait costs nothing beside the rollout of the kube-apiserver. The steps
// that follow change the Etcds, and must find etcd-druid done with them. Where members have moved before (see
// druidAwaited), it has been waited for. Etcds whose only members join later have nothing to be ready.
func (d *destination) addReadinessOfEtcds(g *flow.Graph, m *migration.Migration, b *botanist.Botanist) {
	_ = g.Add(flow.Task{
		Name: "Waiting until etcd-druid reports the etcds as ready",
		Fn: func(ctx context.Context) error {
			return b.WaitUntilEtcdsReady(ctx)
		},
		SkipIf: steps.ForceShrinkRequested(m.Shoot) || steps.WithGap(m.Shoot),
	})
}

// druidAwaited returns which of the Etcds etcd-druid does not report as ready, and why; empty if it reports both. It is
// also empty from when the last member of one of them was asked for: nothing may keep members waiting that move.
func (d *destination) druidAwaited(ctx context.Context, m *migration.Migration) (string, error) {
	var missing string
	for _, etcdRole := range naming.EtcdRoles {
		etcd, err := d.readEtcd(ctx, m, etcdRole)
		if err != nil {
			return "", err
		}
		if etcd.Spec.Replicas >= naming.MembersPerSeed {
			return "", nil
		}
		if err := gardeneretcd.CheckEtcdObject(etcd); err != nil && missing == "" {
			missing = fmt.Sprintf("%s as ready: %s", etcd.Name, err)
		}
	}
	return missing, nil
}

// addEarlyExtensions adds the extensions that are restored before the kube-apiserver, and returns the task after which
// they are ready. Those for access control are in force then, and have found the gateway that they need.
func (d *destination) addEarlyExtensions(g *flow.Graph, start *start, base base) flow.TaskID {
	var (
		b      = start.botanist
		before = flow.NewTaskIDs(base.secrets, base.resources)
	)
	if len(start.accessControl) > 0 {
		before.Insert(d.addGatewayWithoutRoute(g, b, base.namespace))
	}
	restore := g.Add(flow.Task{
		Name: "Restoring extensions before kube-apiserver",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.DeployExtensionsBeforeKubeAPIServer(ctx)
		}, d.Timings.RolloutTimeout),
		Dependencies: before,
	})
	ready := g.Add(flow.Task{
		Name: "Waiting until extensions before kube-apiserver are ready",
		Fn: func(ctx context.Context) error {
			return b.Shoot.Components.Extensions.Extension.WaitBeforeKubeAPIServer(ctx)
		},
		Dependencies: flow.NewTaskIDs(restore),
	})
	if len(start.accessControl) > 0 {
		return d.addWaitForAccessControl(g, start, ready)
	}
	return ready
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
	// The kube-apiservers of both seeds stop, gracefully or not, before the destination has an address of its own.
	keepAddress := g.Add(flow.Task{
		Name:         "Keeping the address inside of the shoot published",
		Fn:           flows.Retry(d.byDNS(b, overlap.KeepEndpoints), timeout),
		Dependencies: flow.NewTaskIDs(learnAddress),
	})
	// It becomes ready when clients have connected, which addTunnel waits for.
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
	// first says whether the first replica starts alone; nil where all replicas start at once.
	first *firstReplica
	// wait waits until it is rolled out.
	wait flow.TaskFn
	// afterService adds what needs the address of its service and has to be done before it starts; nil for nothing.
	afterService func(service flow.TaskID) flow.TaskID
	// dependencies are what the flow does before.
	dependencies flow.TaskIDs
}

// addKubeAPIServer adds the kube-apiserver with its service and returns the task after which it is ready. The service
// comes first on the same botanist: it finds the address to advertise and the gateway's address. Components that only
// run with a kube-apiserver learn from this deployment how many replicas they get.
func (d *destination) addKubeAPIServer(g *flow.Graph, b *botanist.Botanist, rollout kubeAPIServerRollout) flow.TaskID {
	service := d.addKubeAPIServerService(g, b, rollout.dependencies)
	before := flow.NewTaskIDs(service, rollout.dependencies)
	if rollout.afterService != nil {
		before.Insert(rollout.afterService(service))
	}
	if rollout.first != nil {
		before.Insert(d.addFirstKubeAPIServer(g, b, rollout, before.Copy()))
	}
	needed := func(context.Context) (bool, error) {
		if rollout.first != nil {
			rollout.first.alone.Store(false)
		}
		return true, nil
	}
	deploy := g.Add(flow.Task{
		Name:         "Deploying the kube-apiserver",
		Fn:           d.deployingKubeAPIServer(b, rollout, needed),
		Dependencies: before,
	})
	return g.Add(flow.Task{
		Name:         "Waiting until the kube-apiserver is rolled out",
		Fn:           rollout.wait,
		Dependencies: flow.NewTaskIDs(deploy),
	})
}

// deployingKubeAPIServer returns the task that deploys the kube-apiserver as it is wanted, if it is needed.
func (d *destination) deployingKubeAPIServer(
	b *botanist.Botanist, rollout kubeAPIServerRollout, needed func(context.Context) (bool, error),
) flow.TaskFn {
	return flows.Retry(func(ctx context.Context) error {
		if needed, err := needed(ctx); err != nil || !needed {
			return err
		}
		// The certificate with which the kube-apiserver comes to etcd is made with the etcds, in another flow: the
		// secrets manager finds it in the namespace and knows it from here on.
		if _, err := gardeneretcd.GenerateClientCertificate(ctx, b.SecretsManager); err != nil {
			return fmt.Errorf("failed to look up the client certificate of etcd: %w", err)
		}
		rollout.published.apply(b)
		return b.DeployKubeAPIServer(ctx)
	}, d.Timings.RolloutTimeout)
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
