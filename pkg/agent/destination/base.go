// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/utils/flow"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/migration"
)

func (d *destination) botanist(
	ctx context.Context, m *migration.Migration, options ...botanist.Option,
) (*botanist.Botanist, error) {
	return d.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeRestore, options...)
}

// base is the part of a restoration that every flow of the destination begins with. It is repeated by each, because a
// botanist keeps secrets and addresses in memory only.
type base struct {
	namespace flow.TaskID
	secrets   flow.TaskID
	resources flow.TaskID
}

func (d *destination) addBase(g *flow.Graph, b *botanist.Botanist) base {
	var (
		timeout = d.Timings.RolloutTimeout

		// Extension controllers read the Cluster. It says {Restore, Processing}, as it does in a classic restoration.
		syncCluster = g.Add(flow.Task{
			Name: "Writing the Cluster resource",
			Fn: flows.Retry(func(ctx context.Context) error {
				return botanist.SyncCluster(ctx, b, b.Shoot.GetInfo())
			}, timeout),
		})
		deployNamespace = g.Add(flow.Task{
			Name: "Deploying the shoot's namespace",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.DeployControlPlaneNamespace(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(syncCluster),
		})
		reconcileIstio = g.Add(flow.Task{
			Name: "Reconciling the load balancing inside of the seed",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.ReconcileIstioInternalLoadBalancingConfigMap(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deployNamespace),
		})
		initializeSecrets = g.Add(flow.Task{
			Name: "Restoring secrets and initializing secrets management",
			Fn: flows.Retry(func(ctx context.Context) error {
				if err := b.InitializeSecretsManagement(ctx); err != nil {
					return fmt.Errorf("failed to initialize secrets management: %w", err)
				}
				return nil
			}, timeout),
			Dependencies: flow.NewTaskIDs(deployNamespace, reconcileIstio),
		})
		// The provider's webhooks look for it when control plane components are deployed.
		deployCloudProviderSecret = g.Add(flow.Task{
			Name: "Deploying the secret of the cloud provider",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.DeployCloudProviderSecret(ctx)
			}, timeout),
			SkipIf:       !withWorkers(b) || b.Shoot.Credentials == nil,
			Dependencies: flow.NewTaskIDs(deployNamespace),
		})
		deployReferencedResources = g.Add(flow.Task{
			Name: "Deploying referenced resources",
			Fn: flows.Retry(func(ctx context.Context) error {
				return b.DeployReferencedResources(ctx)
			}, timeout),
			Dependencies: flow.NewTaskIDs(deployNamespace, deployCloudProviderSecret),
		})
	)
	return base{namespace: deployNamespace, secrets: initializeSecrets, resources: deployReferencedResources}
}
