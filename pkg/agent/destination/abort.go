// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/flow"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// abort takes everything of the shoot out of this seed again. The etcd members come first: as long as one of them is in
// the member list it counts for the quorum of the source.
func (d *destination) abort(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if err := d.withdrawMembers(ctx, m); err != nil {
		return steps.Outcome{}, err
	}
	started, err := d.kubeAPIServerBegun(ctx, m.Shoot)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := d.removeShoot(ctx, m, abortFacts{kubeAPIServer: started}); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Nothing of the shoot is left in seed %s", d.SeedName), nil
}

// clear takes everything of the shoot out of this seed after the source has ended the migration without it. The etcd
// members here are none any more: they are stopped as what they are, pods that belong to nobody. Nothing is asked of
// the members in the source, which do not know these.
func (d *destination) clear(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if err := d.refuseWhole(ctx, m.Shoot); err != nil {
		return steps.Outcome{}, err
	}
	if err := d.removeShoot(ctx, m, abortFacts{kubeAPIServer: true, abandoned: true}); err != nil {
		return steps.Outcome{}, err
	}
	return steps.Done("Nothing of the shoot is left in seed %s, which was abandoned", d.SeedName), nil
}

// refuseWhole returns an error if this seed has what no destination has before step 7: a control plane with
// controllers, or machines. The seed was the source of an earlier migration then, and was abandoned as that. Its
// machines, and what its resource manager has written into the shoot, are those of the shoot that runs elsewhere: a
// flow that deletes the namespace could delete them.
func (d *destination) refuseWhole(ctx context.Context, shoot *gardencorev1beta1.Shoot) error {
	left, err := d.ControlPlane.Left(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
		controlplane.Controllers...)
	if err != nil {
		return err
	}
	machines, err := d.ControlPlane.Machines(ctx, shoot)
	if err != nil {
		return err
	}
	if count := len(machines.Machines) + len(machines.Deployments); left == "" && count > 0 {
		left = fmt.Sprintf("there are %d objects of machines", count)
	}
	if left != "" {
		return fmt.Errorf("seed %s has a control plane of the Shoot from when it was abandoned as the source, and its "+
			"agent does not delete that, because machines and what is in the shoot could go with it: %s. Clear it by "+
			"hand ("+pages.Recovery+"), and remove the annotation %s", d.SeedName, left,
			steps.AnnotationLeftBehind)
	}
	return nil
}

// removeShoot runs the flow of an abort. It finds out by itself which facts the seed shows.
func (d *destination) removeShoot(ctx context.Context, m *migration.Migration, facts abortFacts) error {
	namespace := &corev1.Namespace{}
	found, err := controlplane.Exists(ctx, d.SeedClientSet.APIReader(),
		client.ObjectKey{Name: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)}, namespace)
	if err != nil {
		return err
	}
	b, err := d.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate, botanist.StayingIn(m.SourceSeed))
	if err != nil {
		return err
	}
	facts.hasBackup = backups.Enabled(b)
	facts.terminating = !found || namespace.DeletionTimestamp != nil
	return flows.Run(ctx, m, steps.ReasonAborting, d.abortGraph(m, b, facts))
}

func (d *destination) withdrawMembers(ctx context.Context, m *migration.Migration) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timings.JoinTimeout)
	defer cancel()

	etcds := d.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	if err := etcds.Withdraw(ctx, m.Report); err != nil {
		return fmt.Errorf("failed to take the etcd members of the destination out of the clusters: %w", err)
	}
	return nil
}

// abortFacts are what the flow of an abort depends on.
type abortFacts struct {
	hasBackup bool
	// terminating reports whether the shoot's namespace is being deleted or gone: only the garbage collection works
	// on it then.
	terminating bool
	// kubeAPIServer reports whether the step has begun in which the early extensions are restored and the
	// kube-apiserver starts.
	kubeAPIServer bool
	// abandoned reports whether the migration was ended without this seed. What it has belongs to nobody then: the
	// source has restored the extensions, and the backup entry is its own again.
	abandoned bool
}

// kubeAPIServerBegun reports whether the destination may have a kube-apiserver, or extensions that act before it. The
// condition says so, which an abort does not take back. Operators reset it in a recovery, so the seed is asked as well.
func (d *destination) kubeAPIServerBegun(ctx context.Context, shoot *gardencorev1beta1.Shoot) (bool, error) {
	if steps.ConditionBegun(steps.Conditions(shoot),
		gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady) {
		return true, nil
	}
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
	found, err := controlplane.Exists(ctx, d.SeedClientSet.APIReader(), client.ObjectKey{Namespace: namespace,
		Name: v1beta1constants.DeploymentNameKubeAPIServer}, &appsv1.Deployment{})
	if err != nil || found {
		return found, err
	}
	extensions := &extensionsv1alpha1.ExtensionList{}
	if err := d.SeedClientSet.APIReader().List(ctx, extensions, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("failed to list the extensions in namespace %s: %w", namespace, err)
	}
	return len(extensions.Items) > 0, nil
}

func (d *destination) abortGraph(m *migration.Migration, b *botanist.Botanist, facts abortFacts) *flow.Graph {
	var (
		g       = flow.NewGraph("abort in the destination")
		timeout = d.Timings.RolloutTimeout

		releaseBackupEntry = g.Add(flow.Task{
			Name: "Releasing the backup entry to the source",
			Fn: flows.Retry(func(ctx context.Context) error {
				if facts.abandoned {
					return d.Backups.Discard(ctx, b.Shoot.BackupEntryName)
				}
				return d.returnBackupEntry(ctx, m, b)
			}, timeout),
			SkipIf: !facts.hasBackup,
		})
		removal = controlplane.Removal{
			Migration: m, Botanist: b, Terminating: facts.terminating,
			BeforeNamespace: flow.NewTaskIDs(releaseBackupEntry),
		}
	)
	if facts.kubeAPIServer && !facts.terminating {
		stopped := d.addStop(g, b)
		removal.BeforeEtcds = flow.NewTaskIDs(stopped)
		// Extensions that restrict who may reach the kube-apiserver go after its route.
		notExposed := d.addTakingFromGateway(g, b, stopped)
		removal.BeforeNamespace.Insert(d.addRelease(g, m, facts, notExposed))
	}
	d.ControlPlane.AddRemoval(g, removal)
	return g
}

// addStop adds the end of the kube-apiserver. No client knows of it before step 6.
func (d *destination) addStop(g *flow.Graph, b *botanist.Botanist) flow.TaskID {
	return g.Add(flow.Task{
		Name: "Stopping the kube-apiserver of the destination",
		Fn: func(ctx context.Context) error {
			if err := d.ControlPlane.DeleteDeployments(ctx, b.Shoot.ControlPlaneNamespace,
				v1beta1constants.DeploymentNameKubeAPIServer); err != nil {
				return err
			}
			return b.DeleteKubeAPIServer(ctx)
		},
	})
}

// addRelease adds the way of the early extensions back to the source: their newest state is here. If the source has
// restored them without it, the state is nobody's.
func (d *destination) addRelease(
	g *flow.Graph, m *migration.Migration, facts abortFacts, after flow.TaskIDer,
) flow.TaskID {
	early := controlplane.EarlyExtensions{
		Log: m.Log, Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		// There are no others before the last step.
		Needed: func(extensionsv1alpha1.Object) bool { return true },
		After:  flow.NewTaskIDs(after),
	}
	if !facts.abandoned {
		early.Persist = func(ctx context.Context) error { return d.ShootStates.Merge(ctx, m.Shoot) }
	}
	return d.ControlPlane.AddEarlyExtensions(g, early)
}

// addTakingFromGateway adds the removal of what leads to the kube-apiserver: its route at the ingress gateway, and the
// name under which the temporary VPN client of a shoot with workers comes. The client itself is in the shoot, where the
// source removes it.
func (d *destination) addTakingFromGateway(g *flow.Graph, b *botanist.Botanist, after flow.TaskIDer) flow.TaskID {
	timeout := d.Timings.RolloutTimeout
	exposure := g.Add(flow.Task{
		Name: "Removing the kube-apiserver from the ingress gateway",
		Fn: flows.Retry(func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeAPIServerSNI.Destroy(ctx)
		}, timeout),
		Dependencies: flow.NewTaskIDs(after),
	})
	return g.Add(flow.Task{
		Name: "Deleting the DNS record of the temporary VPN client",
		Fn: flows.Retry(func(ctx context.Context) error {
			record := d.vpnRecord(b)
			if err := record.Destroy(ctx); err != nil {
				return err
			}
			return record.WaitCleanup(ctx)
		}, timeout),
		SkipIf:       !withWorkers(b),
		Dependencies: flow.NewTaskIDs(exposure),
	})
}

// returnBackupEntry releases the backup entry as the source did: the entry names the other seed, and then the
// gardenlet of this one migrates it. The backups stay where they are.
func (d *destination) returnBackupEntry(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	entry, err := b.Shoot.Components.BackupEntry.Get(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("failed to read backup entry: %w", err)
	}
	if ptr.Deref(entry.Status.SeedName, "") == m.SourceSeed {
		// The source has not released it, or has it again. If it was about to, that is for the source to take back.
		return d.Backups.RemoveMigrated(ctx, entry.Name)
	}
	if ptr.Deref(entry.Spec.SeedName, "") != m.SourceSeed {
		// Otherwise the gardenlet of the source would carry the request out, on the bucket of this seed.
		if requested, ok := entry.Annotations[v1beta1constants.GardenerOperation]; ok {
			return fmt.Errorf("operation %q of backup entry %s has not been picked up yet", requested, entry.Name)
		}
		if err := b.Shoot.Components.BackupEntry.Migrate(ctx); err != nil {
			return fmt.Errorf("failed to release backup entry %s: %w", entry.Name, err)
		}
	}
	if err := backups.CheckReleased(entry, m.SourceSeed); err != nil {
		return err
	}
	return d.Backups.RemoveMigrated(ctx, entry.Name)
}
