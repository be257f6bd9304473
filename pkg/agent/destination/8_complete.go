// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	"github.com/gardener/gardener/pkg/utils/flow"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/operation"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// complete makes the control plane in the destination an ordinary one: plain etcds, all components and extensions, a
// full snapshot in the destination's bucket, and nothing left of the migration. Nothing of the shoot runs in the source
// any more when it begins.
func (d *destination) complete(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	keepsShootState, err := d.deps.KeepsShootState(ctx)
	if err != nil {
		return steps.Outcome{}, err
	}
	lastOperation, err := d.lastOperationForCompletion(ctx, m.Shoot)
	if err != nil {
		return steps.Outcome{}, err
	}
	var (
		workers   = !v1beta1helper.IsWorkerless(m.Shoot)
		published *advertisement
		options   []operation.BotanistOption
	)
	if workers {
		if published, err = d.readAdvertisement(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)); err != nil {
			return steps.Outcome{}, err
		}
		if published.address != "" {
			// Nothing may roll before the nodes are prepared for it.
			options = append(options, operation.WithTemporaryVPNClients)
		}
	}
	b, err := d.deps.NewBotanist(ctx, m.Log, m.Shoot, lastOperation, options...)
	if err != nil {
		return steps.Outcome{}, err
	}
	hasBackup := operation.HasBackup(b)

	sourceSeed, err := d.deps.Seed(ctx, m.SourceSeed)
	if err != nil {
		return steps.Outcome{}, err
	}
	formerBucket := ""
	if hasBackup && sourceSeed.Spec.Backup != nil {
		formerBucket = string(sourceSeed.UID)
	}

	if err := operation.RunFlow(ctx, m, steps.ReasonDeployingControlPlane, d.completeGraph(m, b, facts{
		formerBucket:       formerBucket,
		hasBackup:          hasBackup,
		hasManagedIssuer:   v1beta1helper.HasManagedIssuer(m.Shoot),
		keepsShootState:    keepsShootState,
		wantsObservability: b.WantsObservabilityComponents(),
		workers:            workers,
		published:          published,
	})); err != nil {
		return steps.Outcome{}, err
	}
	if workers {
		if err := d.settle(ctx, m, b, published); err != nil {
			return steps.Outcome{}, err
		}
		// The gardenlet restores from it.
		if err := d.deps.DateShootState(ctx, m.Shoot); err != nil {
			return steps.Outcome{}, err
		}
	}

	if err := m.Report(ctx, steps.ReasonHandingOver, "Checking the preconditions of the hand-over"); err != nil {
		return steps.Outcome{}, err
	}
	if hasBackup {
		if err := d.deps.CheckBackupEntryHere(ctx, b); err != nil {
			return steps.Outcome{}, err
		}
	}
	etcds := d.deps.Joint(m, nil)
	defer func() { _ = etcds.Close() }()
	if plain, missing, err := etcds.CheckPlain(ctx); err != nil {
		return steps.Outcome{}, err
	} else if !plain {
		return steps.Waiting(d.deps.Timings.PollInterval, steps.ReasonRollingEtcd,
			"The etcds have not settled with their ordinary specification: %s", missing), nil
	}
	return steps.Done("The control plane runs in seed %s and is handed over to its gardenlet", d.deps.SeedName()), nil
}

// lastOperationForCompletion returns Restore, unless a former attempt of this step has come to its end and has deleted
// the ShootState. Everything is restored then and can only be reconciled.
func (d *destination) lastOperationForCompletion(
	ctx context.Context, shoot *gardencorev1beta1.Shoot,
) (gardencorev1beta1.LastOperationType, error) {
	if err := d.deps.GardenAPIReader.Get(ctx, client.ObjectKeyFromObject(shoot),
		&gardencorev1beta1.ShootState{}); err != nil {
		if apierrors.IsNotFound(err) {
			return gardencorev1beta1.LastOperationTypeReconcile, nil
		}
		return "", fmt.Errorf("failed to read ShootState %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return gardencorev1beta1.LastOperationTypeRestore, nil
}

// facts are what the flow of the last step depends on.
type facts struct {
	// formerBucket is the bucket of the source's backups; empty if there is none.
	formerBucket       string
	hasBackup          bool
	hasManagedIssuer   bool
	keepsShootState    bool
	wantsObservability bool
	// workers tells that the shoot has workers. Then only what the nodes need of the control plane is restored here,
	// and the rest by the gardenlet after the hand-over, from the ShootState.
	workers bool
	// published is the address that the kube-apiserver of a shoot with workers advertises inside of it.
	published *advertisement
}

func (d *destination) completeGraph(m *migration.Migration, b *botanist.Botanist, facts facts) *flow.Graph {
	var (
		g       = flow.NewGraph("completion of the control plane")
		timeout = d.deps.Timings.RolloutTimeout
		// What the gardenlet restores after the hand-over, as it does in a classic migration.
		byGardenlet = facts.workers
		add         = func(name string, fn flow.TaskFn, skip bool, dependencies ...flow.TaskIDer) flow.TaskID {
			return g.Add(flow.Task{Name: name, Fn: operation.Retry(fn, timeout), SkipIf: skip,
				Dependencies: flow.NewTaskIDs(dependencies...)})
		}

		base = d.addBase(g, b)

		// The relay listens on the port that the etcds move to; it would catch connections between the members.
		destroyExposure = add("Removing the exposure between the seeds", func(ctx context.Context) error {
			return d.deps.DestroyExposure(ctx, m)
		}, false)
		// Their members restart one after the other, which takes longer than all the rest together. Only the hand-over
		// waits for the end of it.
		deployEtcds = add("Giving the etcds their ordinary specification", func(ctx context.Context) error {
			return d.deployPlainEtcds(ctx, m, b)
		}, false, base.secrets, destroyExposure)
		waitUntilEtcdsReady = g.Add(flow.Task{
			Name: "Waiting until the etcds have been rolled",
			Fn: func(ctx context.Context) error {
				return d.waitUntilEtcdsRolled(ctx, m, b)
			},
			Dependencies: flow.NewTaskIDs(deployEtcds),
		})
		// It serves while a member restarts, as it does in any restart of a highly available etcd.
		kubeAPIServerReady = d.addKubeAPIServer(g, b, facts.published, untilRolledOut(b),
			flow.NewTaskIDs(base.secrets, base.resources, deployEtcds))
		deploySNI = add("Exposing the kube-apiserver at the ingress gateway", func(ctx context.Context) error {
			return b.DeployKubeAPIServerSNI(ctx)
		}, false, kubeAPIServerReady)

		deployResourceManager = add("Deploying the resource manager", func(ctx context.Context) error {
			return b.DeployGardenerResourceManager(ctx)
		}, false, kubeAPIServerReady)
		resourceManagerReady = add("Waiting until the resource manager is ready", func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.ResourceManager.Wait(ctx)
		}, false, deployResourceManager)
		deployControllerManager = add("Deploying the kube-controller-manager", func(ctx context.Context) error {
			return b.DeployKubeControllerManager(ctx)
		}, false, kubeAPIServerReady)
		deployScheduler = add("Deploying the kube-scheduler", func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeScheduler.Deploy(ctx)
		}, !facts.workers, kubeAPIServerReady)
		controllerManagerReady = add(
			"Waiting until the kube-controller-manager is ready", func(ctx context.Context) error {
				return b.Shoot.Components.ControlPlane.KubeControllerManager.Wait(ctx)
			}, false, deployControllerManager)

		deployGardenerAccess = add("Deploying Gardener's access to the shoot", func(ctx context.Context) error {
			return b.Shoot.Components.GardenerAccess.Deploy(ctx)
		}, byGardenlet, resourceManagerReady)
		initializeShootClients = add("Connecting to the shoot", func(ctx context.Context) error {
			return b.InitializeDesiredShootClients(ctx)
		}, byGardenlet, deployGardenerAccess, deploySNI)
		syncIssuer = add("Publishing the keys of the service account issuer", func(ctx context.Context) error {
			return b.SyncPublicServiceAccountKeys(ctx)
		}, !facts.hasManagedIssuer || byGardenlet, initializeShootClients)

		restoreExtensions = add("Restoring extensions after kube-apiserver", func(ctx context.Context) error {
			return b.DeployExtensionsAfterKubeAPIServer(ctx)
		}, byGardenlet, initializeShootClients)
		extensionsReady = g.Add(flow.Task{
			Name: "Waiting until extensions after kube-apiserver are ready",
			Fn: func(ctx context.Context) error {
				return b.Shoot.Components.Extensions.Extension.WaitAfterKubeAPIServer(ctx)
			},
			SkipIf:       byGardenlet,
			Dependencies: flow.NewTaskIDs(restoreExtensions),
		})
		deleteStaleExtensions = add("Deleting stale extensions", func(ctx context.Context) error {
			return b.Shoot.Components.Extensions.Extension.DeleteStaleResources(ctx)
		}, byGardenlet, initializeShootClients)
		staleExtensionsGone = add("Waiting until stale extensions are deleted", func(ctx context.Context) error {
			return b.Shoot.Components.Extensions.Extension.WaitCleanupStaleResources(ctx)
		}, byGardenlet, deleteStaleExtensions)

		deployShootNamespaces = add("Deploying the namespaces in the shoot", func(ctx context.Context) error {
			return b.Shoot.Components.SystemComponents.Namespaces.Deploy(ctx)
		}, byGardenlet, resourceManagerReady)
		shootNamespacesReady = add(
			"Waiting until the namespaces in the shoot are ready", func(ctx context.Context) error {
				return b.Shoot.Components.SystemComponents.Namespaces.Wait(ctx)
			}, byGardenlet, deployShootNamespaces)
		deployShootSystem = add("Deploying system resources into the shoot", func(ctx context.Context) error {
			return b.DeployShootSystem(ctx)
		}, byGardenlet, initializeShootClients, extensionsReady, shootNamespacesReady)
		deployClusterIdentity = add("Deploying the cluster identity into the shoot", func(ctx context.Context) error {
			return b.DeployClusterIdentity(ctx)
		}, byGardenlet, resourceManagerReady)
		populateManifests = add(
			"Populating static manifests from the seed into the shoot", func(ctx context.Context) error {
				return b.PopulateStaticManifestsFromSeedToShoot(ctx)
			}, byGardenlet, shootNamespacesReady)

		deployLogging = add("Deploying the logging stack", func(ctx context.Context) error {
			return b.DeployLogging(ctx)
		}, byGardenlet, resourceManagerReady)
		deployMonitoring = add("Deploying the monitoring stack", func(ctx context.Context) error {
			return flow.Sequential(b.DeployAlertManager, b.DeployPrometheus, b.ReconcileBlackboxExporterControlPlane,
				b.DeployPlutono)(ctx)
		}, byGardenlet, initializeShootClients, deployLogging)
		monitoringReady = add("Waiting until the monitoring stack is ready", func(ctx context.Context) error {
			return flow.Parallel(b.WaitForAlertManager, b.WaitForPrometheus, b.WaitForPlutono)(ctx)
		}, !facts.wantsObservability || byGardenlet, deployMonitoring)
		deployBasicAuth = add("Deploying the authentication of the monitoring stack", func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.IstioBasicAuthServer.Deploy(ctx)
		}, byGardenlet, monitoringReady)

		restored = flow.NewTaskIDs(deploySNI, controllerManagerReady, deployScheduler, syncIssuer, extensionsReady,
			staleExtensionsGone, deployShootSystem,
			deployClusterIdentity, populateManifests, deployBasicAuth)

		// The deletion of the source's backups takes a while and waits for it, so it is not left to the end of the
		// restart. The sidecar of the leader takes it, and the leader is the last one to restart.
		snapshot = add("Taking a full snapshot into the bucket of the destination", func(ctx context.Context) error {
			return operation.SnapshotEtcd(ctx, b)
		}, !facts.hasBackup, deployEtcds)
		// A backup of the source would outlive the shoot there. It goes the way that it goes in a classic migration:
		// through a backup entry of its own that is managed by this seed.
		deleteFormerBackups = add("Deleting the backups in the bucket of the source", func(ctx context.Context) error {
			return operation.DeleteBackups(ctx, b, facts.formerBucket)
		}, facts.formerBucket == "", snapshot)
		forgetDNS = add("Removing what was remembered of the switch of DNS", func(ctx context.Context) error {
			return d.forgetDNS(ctx, b.Shoot.ControlPlaneNamespace)
		}, false, restored)
		// It changes the shoot's status in the garden, and then the botanist takes over the status of the server:
		// nothing that restores may come after it.
		updateAddresses = add("Updating the advertised addresses", func(ctx context.Context) error {
			return b.UpdateAdvertisedAddresses(ctx)
		}, byGardenlet, restored, waitUntilEtcdsReady, deleteFormerBackups, forgetDNS)
		// The very last one: where no ShootState is kept, its absence says that everything else is done.
		_ = add("Renewing the ShootState", func(ctx context.Context) error {
			return d.deps.RenewShootState(ctx, m.Shoot, b.Shoot.ControlPlaneNamespace, facts.keepsShootState)
		}, byGardenlet, updateAddresses)
	)
	return g
}

// handOver gives the shoot to the gardenlet of this seed. Without workers, the whole restoration is done, so the shoot
// appears as restored and only waits for an ordinary reconciliation, which the frame asks for afterwards. With workers,
// it appears as one that the source's gardenlet has released: the gardenlet restores infrastructure, workers and all
// else from the ShootState, and gardener-apiserver wakes it up for that.
func (d *destination) handOver(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
	if shoot.Spec.SeedName == nil || *shoot.Spec.SeedName != d.deps.SeedName() {
		return fmt.Errorf("failed to hand over shoot %s/%s: its specification does not name seed %s", shoot.Namespace,
			shoot.Name, d.deps.SeedName())
	}

	lastOperation := gardencorev1beta1.LastOperationTypeRestore
	if !v1beta1helper.IsWorkerless(shoot) {
		lastOperation = gardencorev1beta1.LastOperationTypeMigrate
	}
	seedName := d.deps.SeedName()
	shoot.Status.SeedName = &seedName
	shoot.Status.Gardener = *d.deps.Identity
	shoot.Status.RetryCycleStartTime = nil
	shoot.Status.LastErrors = nil
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           lastOperation,
		State:          gardencorev1beta1.LastOperationStateSucceeded,
		Progress:       100,
		Description:    "Control plane of the shoot was migrated live from seed " + m.SourceSeed + ".",
		LastUpdateTime: metav1.NewTime(m.Clock.Now().UTC()),
	}
	return nil
}
