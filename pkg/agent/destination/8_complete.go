// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils/flow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// complete makes the control plane in the destination an ordinary one: plain etcds, all components and extensions, a
// full snapshot in the destination's bucket, and nothing left of the migration. Nothing of the shoot runs in the source
// when it begins.
func (d *destination) complete(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	lastOperation, err := d.lastOperationForCompletion(ctx, m.Shoot)
	if err != nil {
		return steps.Outcome{}, err
	}
	if lastOperation == gardencorev1beta1.LastOperationTypeRestore {
		if outcome, err := d.prepareRestoration(ctx, m); err != nil || !outcome.Finished() {
			return outcome, err
		}
	}
	var (
		published *advertisement
		options   []botanist.Option
	)
	if !v1beta1helper.IsWorkerless(m.Shoot) {
		if published, err = d.readAdvertisement(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)); err != nil {
			return steps.Outcome{}, err
		}
		if published.address != "" {
			// Nothing may roll before the nodes are prepared for it.
			options = append(options, botanist.WithTemporaryVPNClients)
		}
	}
	b, err := d.Botanists.New(ctx, m, lastOperation, options...)
	if err != nil {
		return steps.Outcome{}, err
	}
	facts, err := d.factsOf(ctx, m, b)
	if err != nil {
		return steps.Outcome{}, err
	}
	facts.published = published

	if err := flows.Run(ctx, m, steps.ReasonDeployingControlPlane, d.completeGraph(m, b, facts)); err != nil {
		return steps.Outcome{}, err
	}
	if facts.workers {
		if err := d.settle(ctx, m, b, published); err != nil {
			return steps.Outcome{}, err
		}
		if outcome, err := d.dateForGardenlet(ctx, m.Shoot); err != nil || !outcome.Finished() {
			return outcome, err
		}
	}

	return d.finish(ctx, m, b, facts)
}

// prepareRestoration makes the ShootState fit to restore from, for as long as attempts of this step may take. Of a
// shoot with workers, this step restores nothing from it: the controllers start whatever it holds, and it is compared
// before the gardenlet gets it.
func (d *destination) prepareRestoration(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if err := d.ShootStates.Keep(ctx, m.Shoot, nil); err != nil && !shootstate.IsDifference(err) {
		return steps.Outcome{}, err
	}
	if !v1beta1helper.IsWorkerless(m.Shoot) {
		return steps.Done("The gardenlet restores"), nil
	}
	return d.restorable(ctx, m.Shoot)
}

// finish checks what has to be so before the shoot is handed over.
func (d *destination) finish(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist, facts facts,
) (steps.Outcome, error) {
	if err := m.Report(ctx, steps.ReasonHandingOver, "Checking the preconditions of the hand-over"); err != nil {
		return steps.Outcome{}, err
	}
	if facts.hasBackup {
		if err := d.Backups.CheckHere(ctx, b); err != nil {
			return steps.Outcome{}, err
		}
	}
	if missing, err := d.leaveMigrationPorts(ctx, m); err != nil {
		return steps.Outcome{}, err
	} else if missing != "" {
		return steps.Waiting(d.Timings.PollInterval, steps.ReasonRollingEtcd,
			"The etcds do not yet run with their ordinary specification: %s", missing), nil
	}
	concerns := []string{facts.left.String()}
	if facts.hasBackup {
		missing, err := d.waitUntilBackupsReported(ctx, m, b)
		if err != nil {
			return steps.Outcome{}, err
		}
		concerns = append(concerns, missing)
	}
	return d.handedOver(m, concerns), nil
}

// handedOver returns the outcome of the migration, with what somebody should look at.
func (d *destination) handedOver(m *migration.Migration, concerns []string) steps.Outcome {
	message := fmt.Sprintf("The control plane runs in seed %s and is handed over to its gardenlet", d.SeedName)
	for _, concern := range concerns {
		if concern != "" {
			m.Log.Info("Handing over with something to look at", "concern", concern)
			message += "; " + concern
		}
	}
	return steps.Done("%s", message)
}

// backupReportBound is how long the hand-over waits for what etcd-druid says of the backups. It looks every 15 seconds.
const backupReportBound = 3 * time.Minute

// waitUntilBackupsReported returns what is missing until etcd-druid reports the backups as ready, when the bound is
// over. A full snapshot is in the bucket by then: a report that stays away is no reason to keep the shoot without an
// owner.
func (d *destination) waitUntilBackupsReported(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist,
) (string, error) {
	return d.Backups.WaitUntilReported(ctx, b.Shoot.ControlPlaneNamespace, backups.ReportWait{
		Clock: m.Clock, Interval: d.Timings.PollInterval, Bound: backupReportBound,
		Trigger: func(ctx context.Context) error { return backups.SnapshotDelta(ctx, b) },
		Report: func(ctx context.Context, missing string) error {
			return m.Report(ctx, steps.ReasonHandingOver, "Waiting for the status of the backups: "+missing)
		},
	})
}

// lastOperationForCompletion returns Restore, unless a former attempt of this step has come to its end and has deleted
// the ShootState. Everything is restored then and can only be reconciled.
func (d *destination) lastOperationForCompletion(
	ctx context.Context, shoot *gardencorev1beta1.Shoot,
) (gardencorev1beta1.LastOperationType, error) {
	exists, err := d.ShootStates.Exists(ctx, shoot)
	if err != nil {
		return "", err
	}
	if !exists {
		return gardencorev1beta1.LastOperationTypeReconcile, nil
	}
	return gardencorev1beta1.LastOperationTypeRestore, nil
}

// factsOf finds out what the flow depends on, but for the published address.
func (d *destination) factsOf(ctx context.Context, m *migration.Migration, b *botanist.Botanist) (facts, error) {
	keepsShootState, err := d.ShootStates.Kept(ctx)
	if err != nil {
		return facts{}, err
	}
	out := facts{
		hasBackup:          backups.Enabled(b),
		hasManagedIssuer:   v1beta1helper.HasManagedIssuer(m.Shoot),
		keepsShootState:    keepsShootState,
		wantsObservability: b.WantsObservabilityComponents(),
		workers:            !v1beta1helper.IsWorkerless(m.Shoot),
		left:               &leftovers{},
	}
	if out.hasBackup {
		if out.formerBucket, err = d.Backups.BucketOf(ctx, m.SourceSeed); err != nil {
			return facts{}, err
		}
	}
	return out, nil
}

// facts are what the flow of the last step depends on.
type facts struct {
	// formerBucket is the bucket of the source's backups; empty if there is none.
	formerBucket       string
	hasBackup          bool
	hasManagedIssuer   bool
	keepsShootState    bool
	wantsObservability bool
	// workers reports whether the shoot has workers. Then only what the nodes need of the control plane is restored
	// here, and the rest by the gardenlet after the hand-over, from the ShootState.
	workers bool
	// published is the address that the kube-apiserver of a shoot with workers advertises inside of it.
	published *advertisement
	// left is what the flow leaves behind.
	left *leftovers
}

// completeGraph returns the flow of the last step. Of a shoot with workers it restores what the nodes need, and leaves
// the rest to the gardenlet, which restores it after the hand-over as it does in a classic migration.
func (d *destination) completeGraph(m *migration.Migration, b *botanist.Botanist, facts facts) *flow.Graph {
	c := &completion{
		Graph: flow.NewGraph("completion of the control plane"), destination: d, migration: m, botanist: b,
		facts: facts,
	}
	c.addControlPlane()
	if facts.workers {
		c.addEndWithWorkers()
	} else {
		c.addEndWithoutWorkers()
	}
	return c.Graph
}

// completion puts the flow of the last step together.
type completion struct {
	*flow.Graph
	*destination
	migration *migration.Migration
	botanist  *botanist.Botanist
	facts     facts

	// What later parts of the flow wait for.
	etcdsDeployed, etcdsRolled, frontRemoved     flow.TaskID
	kubeAPIServerReady, exposed                  flow.TaskID
	resourceManagerReady, controllerManagerReady flow.TaskID
}

// add adds a task that is repeated until it succeeds.
func (c *completion) add(name string, fn flow.TaskFn, dependencies ...flow.TaskIDer) flow.TaskID {
	return c.addTask(flow.Task{Name: name, Fn: fn, Dependencies: flow.NewTaskIDs(dependencies...)})
}

func (c *completion) addTask(task flow.Task) flow.TaskID {
	task.Fn = flows.Retry(task.Fn, c.Timings.RolloutTimeout)
	return c.Add(task)
}

// addControlPlane adds what every shoot gets: plain etcds, the kube-apiserver on them, and the controllers.
func (c *completion) addControlPlane() {
	b, base := c.botanist, c.addBase(c.Graph, c.botanist)

	// The relay listens on the port that the etcds move to; it would catch connections between the members. The policy
	// of the members' ports stays until all of them have moved (leaveMigrationPorts).
	withdrawExposure := c.add("Removing the exposure between the seeds", func(ctx context.Context) error {
		return c.Tunnel.Withdraw(ctx, c.migration)
	})
	// Their members restart one after the other, which takes longer than all the rest together. Only the hand-over
	// waits for the end of it.
	c.etcdsDeployed = c.add("Giving the etcds their ordinary specification", func(ctx context.Context) error {
		return c.deployPlainEtcds(ctx, c.migration, b)
	}, base.secrets, withdrawExposure)
	c.etcdsRolled = c.Add(flow.Task{
		Name: "Waiting until the etcds have been rolled",
		Fn: func(ctx context.Context) error {
			return c.waitUntilEtcdsRolled(ctx, c.migration, b)
		},
		Dependencies: flow.NewTaskIDs(c.etcdsDeployed),
	})
	c.addRemovalOfFront()
	// It serves while a member restarts, as it does in any restart of a highly available etcd.
	c.kubeAPIServerReady = c.addKubeAPIServer(c.Graph, b, kubeAPIServerRollout{
		published: c.facts.published, wait: untilRolledOut(b),
		dependencies: flow.NewTaskIDs(base.secrets, base.resources, c.etcdsDeployed),
	})
	c.exposed = c.add("Exposing the kube-apiserver at the ingress gateway", func(ctx context.Context) error {
		return b.DeployKubeAPIServerSNI(ctx)
	}, c.kubeAPIServerReady)

	deployResourceManager := c.add("Deploying the resource manager", func(ctx context.Context) error {
		return b.DeployGardenerResourceManager(ctx)
	}, c.kubeAPIServerReady)
	c.resourceManagerReady = c.add("Waiting until the resource manager is ready", c.untilResourceManagerReady(b),
		deployResourceManager)
	deployControllerManager := c.add("Deploying the kube-controller-manager", func(ctx context.Context) error {
		return b.DeployKubeControllerManager(ctx)
	}, c.kubeAPIServerReady)
	c.controllerManagerReady = c.add("Waiting until the kube-controller-manager is ready",
		func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeControllerManager.Wait(ctx)
		}, deployControllerManager)
}

// untilResourceManagerReady waits for the resource manager alone: what answers webhooks beside it goes only then.
func (d *destination) untilResourceManagerReady(b *botanist.Botanist) flow.TaskFn {
	return func(ctx context.Context) error {
		return webhooks.WaitForRegular(ctx, d.SeedClientSet.Client(), b.Shoot.ControlPlaneNamespace)
	}
}

// addRemovalOfFront adds the end of the fronts: no member restarts any more, so the kube-apiserver can reach the etcds
// as it does in any control plane. Its connections end one by one.
func (c *completion) addRemovalOfFront() {
	ledBack := c.add("Leading the clients of the etcds back to the members", func(ctx context.Context) error {
		return c.Fronts.LeadBack(ctx, c.migration)
	}, c.etcdsRolled)
	c.frontRemoved = c.add("Removing the front of the etcds", func(ctx context.Context) error {
		return c.Fronts.Remove(ctx, c.migration)
	}, ledBack)
}

// addEndWithWorkers adds what is left for a shoot with workers.
func (c *completion) addEndWithWorkers() {
	deployScheduler := c.add("Deploying the kube-scheduler", func(ctx context.Context) error {
		return c.botanist.Shoot.Components.ControlPlane.KubeScheduler.Deploy(ctx)
	}, c.kubeAPIServerReady)
	c.addFormerBackups()
	c.addForgetting(flow.NewTaskIDs(c.exposed, c.resourceManagerReady, c.controllerManagerReady, deployScheduler))
}

// addEndWithoutWorkers adds what is left for a shoot without workers: the whole restoration.
func (c *completion) addEndWithoutWorkers() {
	deployAccess := c.add("Deploying Gardener's access to the shoot", func(ctx context.Context) error {
		return c.botanist.Shoot.Components.GardenerAccess.Deploy(ctx)
	}, c.resourceManagerReady)
	shootClients := c.add("Connecting to the shoot", func(ctx context.Context) error {
		return c.botanist.InitializeDesiredShootClients(ctx)
	}, deployAccess, c.exposed)
	syncIssuer := c.addTask(flow.Task{
		Name: "Publishing the keys of the service account issuer",
		Fn: func(ctx context.Context) error {
			return c.botanist.SyncPublicServiceAccountKeys(ctx)
		},
		SkipIf:       !c.facts.hasManagedIssuer,
		Dependencies: flow.NewTaskIDs(shootClients),
	})

	extensionsReady, staleExtensionsGone := c.addExtensions(shootClients)
	restored := flow.NewTaskIDs(c.exposed, c.controllerManagerReady, syncIssuer, extensionsReady, staleExtensionsGone,
		c.addShootSystem(shootClients, extensionsReady), c.addObservability(shootClients))
	formerBackupsDeleted := c.addFormerBackups()
	dnsForgotten := c.addForgetting(restored)

	// It changes the shoot's status in the garden, and then the botanist takes over the status of the server: nothing
	// that restores may come after it.
	updateAddresses := c.add("Updating the advertised addresses", func(ctx context.Context) error {
		return c.botanist.UpdateAdvertisedAddresses(ctx)
	}, restored, c.frontRemoved, formerBackupsDeleted, dnsForgotten)
	// The very last one: where no ShootState is kept, its absence says that everything else is done.
	c.add("Renewing the ShootState", func(ctx context.Context) error {
		if !c.facts.keepsShootState {
			return c.ShootStates.Delete(ctx, c.migration.Shoot)
		}
		return c.ShootStates.Renew(ctx, c.migration.Shoot)
	}, updateAddresses)
}

// addExtensions adds the extensions after the kube-apiserver. It returns when they are ready, and when those are gone
// that the shoot no longer wants.
func (c *completion) addExtensions(shootClients flow.TaskID) (ready, staleGone flow.TaskID) {
	restore := c.add("Restoring extensions after kube-apiserver", func(ctx context.Context) error {
		return c.botanist.DeployExtensionsAfterKubeAPIServer(ctx)
	}, shootClients)
	ready = c.Add(flow.Task{
		Name: "Waiting until extensions after kube-apiserver are ready",
		Fn: func(ctx context.Context) error {
			return c.botanist.Shoot.Components.Extensions.Extension.WaitAfterKubeAPIServer(ctx)
		},
		Dependencies: flow.NewTaskIDs(restore),
	})
	deleteStale := c.add("Deleting stale extensions", func(ctx context.Context) error {
		return c.botanist.Shoot.Components.Extensions.Extension.DeleteStaleResources(ctx)
	}, shootClients)
	staleGone = c.add("Waiting until stale extensions are deleted", func(ctx context.Context) error {
		return c.botanist.Shoot.Components.Extensions.Extension.WaitCleanupStaleResources(ctx)
	}, deleteStale)
	return ready, staleGone
}

// addShootSystem adds what Gardener keeps in the shoot.
func (c *completion) addShootSystem(shootClients, extensionsReady flow.TaskID) flow.TaskIDs {
	deployNamespaces := c.add("Deploying the namespaces in the shoot", func(ctx context.Context) error {
		return c.botanist.Shoot.Components.SystemComponents.Namespaces.Deploy(ctx)
	}, c.resourceManagerReady)
	namespacesReady := c.add("Waiting until the namespaces in the shoot are ready", func(ctx context.Context) error {
		return c.botanist.Shoot.Components.SystemComponents.Namespaces.Wait(ctx)
	}, deployNamespaces)
	return flow.NewTaskIDs(
		c.add("Deploying system resources into the shoot", func(ctx context.Context) error {
			return c.botanist.DeployShootSystem(ctx)
		}, shootClients, extensionsReady, namespacesReady),
		c.add("Deploying the cluster identity into the shoot", func(ctx context.Context) error {
			return c.botanist.DeployClusterIdentity(ctx)
		}, c.resourceManagerReady),
		c.add("Populating static manifests from the seed into the shoot", func(ctx context.Context) error {
			return c.botanist.PopulateStaticManifestsFromSeedToShoot(ctx)
		}, namespacesReady),
	)
}

// addObservability adds logging and monitoring.
func (c *completion) addObservability(shootClients flow.TaskID) flow.TaskID {
	b := c.botanist
	deployLogging := c.add("Deploying the logging stack", func(ctx context.Context) error {
		return b.DeployLogging(ctx)
	}, c.resourceManagerReady)
	deployMonitoring := c.add("Deploying the monitoring stack", func(ctx context.Context) error {
		return flow.Sequential(b.DeployAlertManager, b.DeployPrometheus, b.ReconcileBlackboxExporterControlPlane,
			b.DeployPlutono)(ctx)
	}, shootClients, deployLogging)
	monitoringReady := c.addTask(flow.Task{
		Name: "Waiting until the monitoring stack is ready",
		Fn: func(ctx context.Context) error {
			return flow.Parallel(b.WaitForAlertManager, b.WaitForPrometheus, b.WaitForPlutono)(ctx)
		},
		SkipIf:       !c.facts.wantsObservability,
		Dependencies: flow.NewTaskIDs(deployMonitoring),
	})
	return c.add("Deploying the authentication of the monitoring stack", func(ctx context.Context) error {
		return b.Shoot.Components.ControlPlane.IstioBasicAuthServer.Deploy(ctx)
	}, monitoringReady)
}

// addForgetting adds the removal of what was remembered of the DNS switch.
func (c *completion) addForgetting(dependencies flow.TaskIDs) flow.TaskID {
	return c.add("Removing the annotations of the DNS switch", func(ctx context.Context) error {
		return c.forgetDNS(ctx, c.botanist.Shoot.ControlPlaneNamespace)
	}, dependencies)
}

// handOver gives the shoot to the gardenlet of this seed. Without workers, the whole restoration is done, so the shoot
// appears as restored and only waits for an ordinary reconciliation, which the frame asks for afterwards. With workers,
// it appears as one that the source's gardenlet has released: the gardenlet restores infrastructure, workers and all
// else from the ShootState, and gardener-apiserver wakes it up for that.
func (d *destination) handOver(m *migration.Migration, shoot *gardencorev1beta1.Shoot) error {
	if shoot.Spec.SeedName == nil || *shoot.Spec.SeedName != d.SeedName {
		return fmt.Errorf("failed to hand over shoot %s/%s: its specification does not name seed %s", shoot.Namespace,
			shoot.Name, d.SeedName)
	}

	lastOperation := gardencorev1beta1.LastOperationTypeRestore
	if !v1beta1helper.IsWorkerless(shoot) {
		lastOperation = gardencorev1beta1.LastOperationTypeMigrate
	}
	seedName := d.SeedName
	shoot.Status.SeedName = &seedName
	shoot.Status.Gardener = *d.Identity
	shoot.Status.RetryCycleStartTime = nil
	shoot.Status.LastErrors = nil
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           lastOperation,
		State:          gardencorev1beta1.LastOperationStateSucceeded,
		Progress:       100,
		Description:    conditions.HandOverDescription(m.SourceSeed),
		LastUpdateTime: metav1.NewTime(m.Clock.Now().UTC()),
	}
	return nil
}
