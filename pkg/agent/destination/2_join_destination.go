// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/utils/flow"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// joiningMembers is how many members join before the kube-apiserver of the destination starts. With two, both seeds
// together have five voters, and the cluster of the source keeps its quorum if it loses the other seed, or any two
// members.
const joiningMembers = 2

// prepareAhead does what the preparation can do before the source has finished its first step, while that takes the
// full snapshot. It asks nothing of the backup entry, which the source has until then, and writes nothing into the
// Shoot. No member of an etcd joins: that is for the own step, which repeats all of this and finds it done.
func (d *destination) prepareAhead(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	b, err := d.botanist(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := flows.Run(ctx, m, steps.ReasonShootStatePersisted,
		d.prepareGraph(m, b, prepareFacts{ahead: true})); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("The destination is prepared as far as it can be before the source is"), nil
}

// joinPeers makes the destination ready for the control plane and joins two etcd members of each cluster, unless the
// etcds have one member only.
func (d *destination) joinPeers(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	b, err := d.botanist(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := flows.Run(ctx, m, steps.ReasonPreparingDestination,
		d.prepareGraph(m, b, prepareFacts{hasBackup: backups.Enabled(b)})); err != nil {
		return steps.Outcome{}, err
	}

	ctx, cancel := context.WithTimeout(ctx, d.Timings.JoinTimeout)
	defer cancel()

	etcds := d.Etcds.OpenWith(m, b)
	defer func() { _ = etcds.Close() }()

	if err := m.Report(ctx, steps.ReasonJoiningEtcdMembers, "Creating the etcds of the destination"); err != nil {
		return steps.Outcome{}, err
	}
	if err := backups.ConfigureEtcd(ctx, b); err != nil {
		return steps.Outcome{}, err
	}
	// The clusters are independent of each other: joining them at the same time halves the wait.
	if err := d.deployJoiningEtcds(ctx, m, b, etcds); err != nil {
		return steps.Outcome{}, err
	}
	if steps.WithGap(m.Shoot) {
		d.lookForShortTTL(ctx, m, b)
		return steps.Done("The etcds of the destination are set up. The member of each joins when clients have moved"),
			nil
	}
	// They are healthy voters when this returns. That etcd-druid says so as well takes longer, and is waited for in the
	// step that starts the kube-apiserver (addReadinessOfEtcds): nothing before needs it.
	if err := etcds.Join(ctx, joiningMembers, m.Report); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to join the etcd members of the destination: %w", err)
	}
	d.lookForShortTTL(ctx, m, b)
	return steps.Done("%d members of the destination have joined each etcd; both have 5 voters", joiningMembers), nil
}

// membersToJoin is how many members each etcd gets in this step. An only member does not join yet: its sidecar makes a
// second voter of it, beside which the one of the source cannot be missed. Until then there is no pod, but all else of
// the Etcd: services, and secrets that the front needs, which leads to the member of the source.
func membersToJoin(m *migration.Migration) int32 {
	if steps.WithGap(m.Shoot) {
		return 0
	}
	return joiningMembers
}

// deployJoiningEtcds creates the Etcds of the destination, or brings them up to date.
func (d *destination) deployJoiningEtcds(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, etcds *joint.Joint,
) error {
	var deploys []flow.TaskFn
	for etcdRole, upstream := range map[string]gardeneretcd.Interface{
		v1beta1constants.ETCDRoleMain:   b.Shoot.Components.ControlPlane.EtcdMain,
		v1beta1constants.ETCDRoleEvents: b.Shoot.Components.ControlPlane.EtcdEvents,
	} {
		// Once it exists, the Etcd keeps the bootstrap that it was created with. The source's member list is only what
		// it was expected to be before the first member of the destination was added.
		var bootstrap *druidcorev1alpha1.BootstrapWithExistingCluster
		if _, err := upstream.Get(ctx); apierrors.IsNotFound(err) {
			if bootstrap, err = etcds.Bootstrap(ctx, etcdRole); err != nil {
				return err
			}
		} else if err != nil {
			return fmt.Errorf("failed to read etcd %s: %w", naming.EtcdName(etcdRole), err)
		}

		component := joint.NewEtcd(m.Log, d.SeedClientSet.Client(), joint.JoiningEtcd{
			Namespace:      b.Shoot.ControlPlaneNamespace,
			SecretsManager: b.SecretsManager,
			Upstream:       upstream,
			Bootstrap:      bootstrap,
		})
		component.SetReplicas(new(membersToJoin(m)))
		deploys = append(deploys, func(ctx context.Context) error {
			if err := component.Deploy(ctx); err != nil {
				return fmt.Errorf("failed to deploy etcd %s: %w", naming.EtcdName(etcdRole), err)
			}
			return nil
		})
	}
	return flow.Parallel(deploys...)(ctx)
}

// prepareFacts are what the flow of the preparation depends on.
type prepareFacts struct {
	hasBackup bool
	// ahead reports whether the source has not finished its first step: the backup entry and the Shoot are its own.
	ahead bool
}

// prepareGraph sets up what the members of the destination need before they can join. Whatever can be ready before the
// first membership change is made ready here.
func (d *destination) prepareGraph(m *migration.Migration, b *botanist.Botanist, facts prepareFacts) *flow.Graph {
	var (
		g       = flow.NewGraph("preparation of the destination")
		timeout = d.Timings.RolloutTimeout

		_ = g.Add(flow.Task{
			Name: "Checking that the extensions of the shoot are ready in the destination",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.RequiredExtensionsReady(ctx)
			}, timeout),
		})
		base = d.addBase(g, b)
		_    = g.Add(flow.Task{
			Name: "Ensuring the shoot's cluster identity",
			Fn: flows.Retry(func(ctx context.Context) error {
				if err := b.EnsureShootClusterIdentity(ctx); err != nil {
					return err
				}
				botanist.KeepLastOperation(b, gardencorev1beta1.LastOperationTypeRestore)
				return nil
			}, timeout),
			SkipIf:       facts.ahead,
			Dependencies: flow.NewTaskIDs(base.secrets, base.resources),
		})
		// The backup secret is created in the shoot's namespace, so the namespace comes first.
		restoreBackupEntry = g.Add(flow.Task{
			Name: "Restoring the backup entry",
			Fn: flows.Retry(func(ctx context.Context) error {
				return d.restoreBackupEntry(ctx, b)
			}, timeout),
			SkipIf:       !facts.hasBackup,
			Dependencies: flow.NewTaskIDs(base.namespace),
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until the backup entry is restored",
			Fn: flows.Retry(func(ctx context.Context) error {
				return d.Backups.CheckHere(ctx, b)
			}, timeout),
			SkipIf:       !facts.hasBackup,
			Dependencies: flow.NewTaskIDs(restoreBackupEntry),
		})
		// The names of the source's members have to be known in the seed before an etcd of the destination is created.
		deployExposure = g.Add(flow.Task{
			Name: "Deploying the exposure between the seeds",
			Fn: flows.Retry(func(ctx context.Context) error {
				return d.Tunnel.Deploy(ctx, m, b)
			}, timeout),
			Dependencies: flow.NewTaskIDs(base.secrets),
		})
		_ = g.Add(flow.Task{
			Name: "Waiting until the exposure is ready",
			Fn: flow.TaskFn(func(ctx context.Context) error {
				return d.Tunnel.Wait(ctx, m, b)
			}).Timeout(timeout),
			Dependencies: flow.NewTaskIDs(deployExposure),
		})
	)
	return g
}

// restoreBackupEntry assigns the backup entry to this seed and its bucket, unless that has happened already.
func (d *destination) restoreBackupEntry(ctx context.Context, b *botanist.Botanist) error {
	if err := d.Backups.CheckHere(ctx, b); err == nil {
		return nil
	}
	return b.DeployBackupEntry(ctx)
}
