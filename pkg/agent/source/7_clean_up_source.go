// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/extension"
	"github.com/gardener/gardener/pkg/utils/flow"
	"github.com/gardener/gardener/pkg/utils/retry"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/backups"
	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/controlplane"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/overload"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

// remains is what is left of the shoot in this seed.
type remains struct {
	// namespace reports whether the shoot's namespace exists.
	namespace bool
	// terminating reports whether the namespace is being deleted. Only the garbage collection works on it then.
	terminating bool
	// kubeAPIServer reports whether the Deployment of the kube-apiserver exists and is not being deleted.
	kubeAPIServer bool
	// controllers says what is left of the controllers that must not run in two seeds; empty if nothing is.
	controllers string
	// cluster reports whether the Cluster resource exists.
	cluster bool
	// workers reports whether the shoot has workers.
	workers bool
	// clients is how the clients were drained in the step before.
	clients clientDrain
	// closed reports whether the way of clients through the ingress gateway is closed. Controllers have stopped then.
	closed bool
	// machinesReleased reports whether the machines are safe in the ShootState and their objects are being deleted
	// here. What is left of them then must not be saved again.
	machinesReleased bool
}

// gone reports whether the step is finished.
func (r remains) gone() bool { return !r.namespace && !r.cluster }

func (s *source) readRemains(ctx context.Context, namespace string) (remains, error) {
	var (
		reader = s.SeedClientSet.APIReader()
		out    remains

		ns         = &corev1.Namespace{}
		deployment = &appsv1.Deployment{}
	)

	found, err := controlplane.Exists(ctx, reader, client.ObjectKey{Name: namespace}, ns)
	if err != nil {
		return out, err
	}
	out.namespace = found
	out.clients = clientDrainOf(ns.Annotations)
	_, out.closed = ns.Annotations[annotationGatewayClosed]
	_, out.machinesReleased = ns.Annotations[annotationMachinesReleased]
	out.terminating = found && (ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating)

	if found, err = controlplane.Exists(ctx, reader,
		client.ObjectKey{Namespace: namespace,
			Name: v1beta1constants.DeploymentNameKubeAPIServer}, deployment); err != nil {
		return out, err
	}
	out.kubeAPIServer = found && deployment.DeletionTimestamp == nil
	if out.controllers, err = s.ControlPlane.Left(ctx, namespace, controlplane.Controllers...); err != nil {
		return out, err
	}

	if out.cluster, err = controlplane.Exists(ctx, reader, client.ObjectKey{Name: namespace},
		&extensionsv1alpha1.Cluster{}); err != nil {
		return out, err
	}
	return out, nil
}

// drainedAt is when the source's kube-apiserver may be stopped if its clients were not drained in the step before: the
// drain came too late, or nobody asked for it.
//
// DNS needs no more waiting here: the step before was only finished after the old records had left all caches, so since
// then new connections go to the destination. What is left are connections from before. Clients rarely
// close them. The ingress gateway makes them do it where it ends TLS (addClosing); elsewhere the kube-apiserver does
// when it ends gracefully: it lets requests finish, sends GOAWAY on HTTP/2 connections and closes idle ones. The period
// gives requests that take long the time to finish.
func drainedAt(conditions []gardencorev1beta1.Condition, drain time.Duration) (time.Time, error) {
	condition := v1beta1helper.GetCondition(conditions, gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	if condition == nil || condition.Status != gardencorev1beta1.ConditionTrue {
		return time.Time{}, fmt.Errorf("failed to find out when the clients have left: condition %s is not True",
			gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	}
	return condition.LastTransitionTime.Add(drain), nil
}

// clientsDue is until when the control plane stays because of its clients; the zero time if it need not, or if it has
// begun to stop. Who was told to leave in the step before has left; who has come since is drained when the way closes
// (addClosing).
func (s *source) clientsDue(m *migration.Migration, left remains) (time.Time, error) {
	conditions := steps.Conditions(m.Shoot)
	if !left.kubeAPIServer || left.clients.finished(m.Clock.Now(), s.Timings.GatewayDrain) ||
		steps.SourceClientsLeft(m.Shoot) ||
		steps.AssistDue(conditions, m.Step, m.Step.Owner.Peer()) {
		return time.Time{}, nil
	}
	return drainedAt(conditions, s.Timings.DrainTimeout)
}

// cleanUp stops the control plane in the source and removes everything that belongs to the shoot from the seed. What
// the control plane manages inside of the shoot stays.
func (s *source) cleanUp(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)

	left, err := s.readRemains(ctx, namespace)
	if err != nil {
		return steps.Outcome{}, err
	}
	if left.gone() {
		return steps.Done("Nothing of the shoot is left in seed %s", s.SeedName), nil
	}
	if steps.WithGap(m.Shoot) && left.kubeAPIServer && !left.terminating {
		if err := s.finishRetirement(ctx, m, stageOf(left)); err != nil {
			return steps.Outcome{}, err
		}
	}

	if due, err := s.clientsDue(m, left); err != nil {
		return steps.Outcome{}, err
	} else if rest := due.Sub(m.Clock.Now()); rest > 0 {
		wait := waits.Wait{For: waits.Clients, Until: due, Total: s.Timings.DrainTimeout}
		return steps.Waiting(min(rest, 10*time.Second), steps.ReasonWaitingForClientsToLeave, "%s", wait), nil
	}

	// The control plane here still works, so nothing is lost by a wait. Later, when its controllers have stopped, too
	// much is.
	if left.kubeAPIServer && !left.closed {
		if err := s.checkPrompt(ctx, m); overload.Is(err) {
			return steps.Waiting(overloadPause, steps.ReasonSeedOverloaded,
				"The source's control plane does not stop yet: %s", err), nil
		} else if err != nil {
			return steps.Outcome{}, err
		}
	}
	b, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate)
	if err != nil {
		return steps.Outcome{}, err
	}

	if err := announceMigration(ctx, b, left); err != nil {
		return steps.Outcome{}, err
	}
	left.workers = !b.Shoot.IsWorkerless
	server, err := newWebhookServer(m, b, left)
	if err != nil {
		return steps.Outcome{}, err
	}
	at := newStage(m, left)
	if err := flows.RunReporting(ctx, m, s.cleanupGraph(m, b, cleanupOf{left, at, server}), at.report); err != nil {
		return steps.Outcome{}, err
	}
	if left, err = s.readRemains(ctx, namespace); err != nil {
		return steps.Outcome{}, err
	}
	if !left.gone() {
		return steps.Waiting(s.Timings.PollInterval, stageOf(left), "Objects of the shoot are still in seed %s",
			s.SeedName), nil
	}
	return steps.Done("Nothing of the shoot is left in seed %s", s.SeedName), nil
}

// announceMigration lets the Cluster resource say that the shoot is being migrated, as the gardenlet does before it
// migrates a shoot (prepareOperation): extensions look there for what they are asked for. Until this step the control
// plane here runs as always, and so does the Cluster. One that has been deleted does not come back.
func announceMigration(ctx context.Context, b *botanist.Botanist, left remains) error {
	if !left.cluster {
		return nil
	}
	botanist.KeepLastOperation(b, gardencorev1beta1.LastOperationTypeMigrate)
	return botanist.SyncCluster(ctx, b, b.Shoot.GetInfo())
}

// overloadPause is how long an overloaded seed is left alone before it is asked again.
const overloadPause = 5 * time.Second

// checkPrompt returns an error unless the etcds, which are in the destination by now, answer within overload.Bound.
func (s *source) checkPrompt(ctx context.Context, m *migration.Migration) error {
	etcds := s.Etcds.Open(m)
	defer func() { _ = etcds.Close() }()
	return etcds.CheckPrompt(ctx)
}

// untilPrompt waits until the etcds answer soon: what the kube-apiserver has not answered when its graceful end is over
// is cut off. It waits for overload.Patience at most: too much of the source's control plane has gone already.
func (s *source) untilPrompt(ctx context.Context, m *migration.Migration) error {
	begin := m.Clock.Now()
	for {
		err := m.ReportPutOff(ctx, s.checkPrompt(ctx, m))
		if err == nil {
			return nil
		}
		if waited := m.Clock.Since(begin); waited >= overload.Patience {
			m.Log.Info("Stopping the kube-apiserver although some requests may fail", "waited", waited.String(),
				"reason", err.Error())
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to wait until the etcds answer soon: %w: %w", ctx.Err(), err)
		case <-m.Clock.After(overloadPause):
		}
	}
}

// cleanupOf is what one attempt of the cleanup begins with.
type cleanupOf struct {
	left  remains
	stage *stage
	// webhooks answers webhooks when the resource manager has stopped; nil if nobody has to.
	webhooks webhookServer
}

// cleanupGraph returns the flow that takes the shoot out of the seed. Of a shoot with workers it also releases the
// machines, and everything else that the provider manages.
func (s *source) cleanupGraph(m *migration.Migration, b *botanist.Botanist, of cleanupOf) *flow.Graph {
	c := &cleanup{
		Graph: flow.NewGraph("cleanup of the source seed"), cleanupOf: of,
		ingress: &ingress{source: s, migration: m, botanist: b,
			namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)},
		// Nothing can be created or restarted in a namespace that is being deleted.
		skip: !of.left.namespace || of.left.terminating,
	}
	managedResourcesGone := c.addManagedResources()
	extensionsGone := c.addExtensions(managedResourcesGone)
	kubeAPIServerStopped := c.addStop(extensionsGone)
	notExposed := c.add(flow.Task{
		Name:         "Removing the kube-apiserver from the ingress gateway",
		Fn:           c.removeFromGateway,
		Dependencies: flow.NewTaskIDs(kubeAPIServerStopped),
	})
	allExtensionsGone := c.addRemainingExtensions(kubeAPIServerStopped, notExposed)
	// No member of etcd is left here, so no snapshot follows. What says up to where they reach goes with the Etcd.
	revisionTold := c.addRetried(flow.Task{
		Name: "Telling the destination up to which revision the snapshots reach",
		Fn: func(ctx context.Context) error {
			return backups.TellRevision(ctx, c.botanist)
		},
	})
	s.ControlPlane.AddRemoval(c.Graph, controlplane.Removal{
		Migration: m, Botanist: b, Terminating: c.skip,
		BeforeEtcds:     flow.NewTaskIDs(kubeAPIServerStopped, revisionTold),
		BeforeNamespace: flow.NewTaskIDs(notExposed, allExtensionsGone, c.addWebhooksRemoval(kubeAPIServerStopped)),
	})
	return c.Graph
}

// cleanup puts the flow of the cleanup together.
type cleanup struct {
	*flow.Graph
	*ingress
	cleanupOf
	// skip leaves out what works in the namespace.
	skip bool
}

// add adds a task that works in the namespace.
func (c *cleanup) add(task flow.Task) flow.TaskID {
	task.SkipIf = task.SkipIf || c.skip
	return c.Add(task)
}

// addRetried adds a task that works in the namespace and is repeated until it succeeds.
func (c *cleanup) addRetried(task flow.Task) flow.TaskID {
	task.Fn = flows.Retry(task.Fn, c.Timings.RolloutTimeout)
	return c.add(task)
}

// addBounded adds a task that works in the namespace and waits by itself.
func (c *cleanup) addBounded(task flow.Task) flow.TaskID {
	task.Fn = task.Fn.Timeout(c.Timings.RolloutTimeout)
	return c.add(task)
}

// persist returns a task that saves the state of extensions. It replaces nothing that was saved before.
func (c *cleanup) persist(ctx context.Context) error {
	return c.ShootStates.Merge(ctx, c.migration.Shoot)
}

// deleteDeployments deletes the Deployments and waits until their last pod is gone.
func (c *cleanup) deleteDeployments(ctx context.Context, names ...string) error {
	return c.ControlPlane.DeleteDeployments(ctx, c.namespace, names...)
}

// addManagedResources adds the deletion of managed resources. What they stand for stays in the shoot.
func (c *cleanup) addManagedResources() flow.TaskID {
	keepObjects := c.addRetried(flow.Task{
		Name: "Keeping the objects of managed resources in the shoot",
		Fn: func(ctx context.Context) error {
			return c.botanist.KeepObjectsForManagedResources(ctx)
		},
	})
	deleteManagedResources := c.addRetried(flow.Task{
		Name: "Deleting managed resources",
		Fn: func(ctx context.Context) error {
			return c.botanist.DeleteManagedResources(ctx)
		},
		Dependencies: flow.NewTaskIDs(keepObjects),
	})
	return c.addBounded(flow.Task{
		Name: "Waiting until managed resources are deleted",
		Fn: func(ctx context.Context) error {
			return c.botanist.WaitUntilManagedResourcesDeleted(ctx)
		},
		Dependencies: flow.NewTaskIDs(deleteManagedResources),
	})
}

// addExtensions adds the migration of what has to be migrated while the kube-apiserver runs.
func (c *cleanup) addExtensions(managedResourcesGone flow.TaskID) flow.TaskIDs {
	extensions := func() extension.Interface { return c.botanist.Shoot.Components.Extensions.Extension }
	migrated := flow.NewTaskIDs(c.add(flow.Task{
		Name: "Migrating extensions while the kube-apiserver runs",
		Fn: func(ctx context.Context) error {
			if err := extensions().MigrateBeforeKubeAPIServer(ctx); err != nil {
				return err
			}
			return extensions().WaitMigrateBeforeKubeAPIServer(ctx)
		},
		Dependencies: flow.NewTaskIDs(managedResourcesGone),
	}))
	if c.left.workers {
		migrated.Insert(c.addWorkersMigration(managedResourcesGone))
	}
	saved := flow.NewTaskIDs(c.add(flow.Task{
		Name:         "Persisting the state of migrated extensions",
		Fn:           c.persist,
		SkipIf:       c.left.machinesReleased,
		Dependencies: migrated,
	}))
	if c.left.workers {
		saved.Insert(c.addWorkersDeletion(saved))
	}
	gone := flow.NewTaskIDs(c.add(flow.Task{
		Name: "Deleting migrated extensions",
		Fn: func(ctx context.Context) error {
			if err := extensions().DestroyBeforeKubeAPIServer(ctx); err != nil {
				return err
			}
			return extensions().WaitCleanupBeforeKubeAPIServer(ctx)
		},
		Dependencies: saved,
	}))
	if c.left.workers {
		gone.Insert(c.addControlPlaneDeletion(gone))
	}
	return gone
}

// addStop adds what ends with the kube-apiserver.
func (c *cleanup) addStop(extensionsGone flow.TaskIDs) flow.TaskID {
	managedResourcesGone := c.addBounded(flow.Task{
		Name: "Waiting until the managed resources of extensions are deleted",
		Fn: func(ctx context.Context) error {
			return c.botanist.WaitUntilShootManagedResourcesDeleted(ctx)
		},
		Dependencies: extensionsGone,
	})
	// The resource manager removes its finalizers from the secrets of managed resources a moment after it has released
	// the managed resources. Once it is stopped, nobody would, and the namespace would stay.
	secretsReleased := c.addBounded(flow.Task{
		Name: "Waiting until the resource manager has released its secrets",
		Fn: func(ctx context.Context) error {
			return waitUntilSecretsReleased(ctx, c.SeedClientSet.Client(), c.namespace,
				c.Timings.PollInterval)
		},
		Dependencies: flow.NewTaskIDs(managedResourcesGone),
	})
	// For a shoot with workers, the controllers that create machines were stopped before; see addWorkersMigration.
	stopControllers := c.add(flow.Task{
		Name: "Stopping the controllers of the shoot", Fn: c.stopControllers,
		Dependencies: flow.NewTaskIDs(secretsReleased, c.addWebhooks()),
	})
	// Where Envoy ends TLS, the controllers come to the kube-apiserver through the gateway too.
	closed := c.addClosing(flow.NewTaskIDs(stopControllers))
	return c.add(flow.Task{
		Name: "Stopping the kube-apiserver gracefully", Fn: c.stopKubeAPIServer,
		Dependencies: flow.NewTaskIDs(closed),
	})
}

// stopControllers stops all controllers that must not run in two seeds, and tells the destination when nothing is left
// of them.
func (c *cleanup) stopControllers(ctx context.Context) error {
	if err := c.deleteDeployments(ctx, controlplane.Controllers...); err != nil {
		return err
	}
	c.stage.enter(ctx, steps.ReasonSourceControllersStopped,
		"The controllers of the source have stopped; the destination may start its own ones")
	return nil
}

func (c *cleanup) stopKubeAPIServer(ctx context.Context) error {
	if c.left.kubeAPIServer {
		if err := c.untilPrompt(ctx, c.migration); err != nil {
			return err
		}
	}
	if err := c.deleteDeployments(ctx, v1beta1constants.DeploymentNameKubeAPIServer); err != nil {
		return err
	}
	c.stage.enter(ctx, steps.ReasonDeletingSourceResources,
		"The kube-apiserver of the source has stopped; what is left of the shoot is deleted")
	return c.botanist.DeleteKubeAPIServer(ctx)
}

// addRemainingExtensions adds the migration of what is migrated without a kube-apiserver. Extensions that restrict who
// may reach it (botanist.Factory.AccessControl) are among them, and go after the route.
func (c *cleanup) addRemainingExtensions(kubeAPIServerStopped, notExposed flow.TaskID) flow.TaskIDs {
	migrated := flow.NewTaskIDs(c.add(flow.Task{
		Name: "Migrating extensions after kube-apiserver",
		Fn: func(ctx context.Context) error {
			if err := c.botanist.Shoot.Components.Extensions.Extension.MigrateAfterKubeAPIServer(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.Extensions.Extension.WaitMigrateAfterKubeAPIServer(ctx)
		},
		Dependencies: flow.NewTaskIDs(kubeAPIServerStopped, notExposed),
	}))
	if c.left.workers {
		migrated.Insert(c.addInfrastructureMigration(kubeAPIServerStopped))
	}
	saved := c.add(flow.Task{
		Name:         "Persisting the state of extensions after kube-apiserver",
		Fn:           c.persist,
		Dependencies: migrated,
	})
	gone := flow.NewTaskIDs(c.add(flow.Task{
		Name: "Deleting all extensions",
		Fn: func(ctx context.Context) error {
			if err := c.botanist.Shoot.Components.Extensions.Extension.Destroy(ctx); err != nil {
				return err
			}
			return c.botanist.Shoot.Components.Extensions.Extension.WaitCleanup(ctx)
		},
		Dependencies: flow.NewTaskIDs(saved),
	}))
	if c.left.workers {
		gone.Insert(c.addInfrastructureDeletion(saved))
	}
	return gone
}

// resourceManagerFinalizers is how the finalizers of resource managers begin; each class has its own.
const resourceManagerFinalizers = "resources.gardener.cloud/"

func waitUntilSecretsReleased(ctx context.Context, c client.Client, namespace string, interval time.Duration) error {
	return retry.Until(ctx, interval, func(ctx context.Context) (bool, error) {
		secrets := &metav1.PartialObjectMetadataList{}
		secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
		if err := c.List(ctx, secrets, client.InNamespace(namespace)); err != nil {
			return retry.MinorError(fmt.Errorf("failed to list secrets in namespace %s: %w", namespace, err))
		}
		for _, secret := range secrets.Items {
			for _, finalizer := range secret.Finalizers {
				if strings.HasPrefix(finalizer, resourceManagerFinalizers) {
					return retry.MinorError(fmt.Errorf("secret %s/%s still has finalizer %s", namespace, secret.Name,
						finalizer))
				}
			}
		}
		return retry.Ok()
	})
}
