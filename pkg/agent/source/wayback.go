// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/utils/flow"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/flows"
	"github.com/livecpm/livecpm/pkg/agent/overlap"
	"github.com/livecpm/livecpm/pkg/agent/overlap/webhooks"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// The way back from steps 3 to 5. The destination has withdrawn or was abandoned by then: nobody else acts on what is
// taken back here.

// undone are the steps that an abort has to undo. The conditions say which have begun: a step's begins before its first
// act, and an abort takes back only those of the first two steps. Operators reset them in a recovery, so the seed is
// asked as well where it can tell.
type undone struct {
	// kubeAPIServer and dnsRecords are the fourth and the fifth step. For the extensions of the third one the seed is
	// asked in any case.
	kubeAPIServer, dnsRecords bool
}

func undoneOf(conditions []gardencorev1beta1.Condition) undone {
	return undone{
		kubeAPIServer: steps.ConditionBegun(conditions,
			gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady),
		dnsRecords: steps.ConditionBegun(conditions, gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords),
	}
}

// lacksDNSRecords reads whether the seed lacks a DNSRecord that the shoot needs, which only step 5 takes away.
func (s *source) lacksDNSRecords(ctx context.Context, m *migration.Migration, b *botanist.Botanist) (bool, error) {
	present, err := s.dnsRecords(ctx, m.Shoot)
	if err != nil {
		return false, err
	}
	wanted := 0
	for _, needed := range []bool{b.NeedsExternalDNS(), b.NeedsInternalDNS(), b.NeedsIngressDNS()} {
		if needed {
			wanted++
		}
	}
	return len(present) < wanted, nil
}

// takeExtensionsBack restores the extensions that step 3 has handed over, if it has, from the state that was saved when
// they were migrated last: here in step 3, or in the destination when it withdrew. Extensions whose migration was
// interrupted are migrated to the end first: their newest state is in the seed, and a restoration takes what is in the
// ShootState.
func (s *source) takeExtensionsBack(ctx context.Context, m *migration.Migration) error {
	migrating, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeMigrate,
		botanist.StayingIn(m.SourceSeed))
	if err != nil {
		return err
	}
	here, err := s.extensionsAreHere(ctx, m, migrating)
	if err != nil {
		return err
	}
	if !here {
		if err := flows.Run(ctx, m, steps.ReasonAborting, s.extensionsGraph(m, migrating)); err != nil {
			return err
		}
	}
	if here && !steps.ConditionBegun(steps.Conditions(m.Shoot),
		gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer) {
		return nil
	}
	// A botanist reads the ShootState when it is made.
	b, err := s.Botanists.New(ctx, m, gardencorev1beta1.LastOperationTypeRestore, botanist.StayingIn(m.SourceSeed))
	if err != nil {
		return err
	}
	if !here {
		if err := b.DeployExtensionsBeforeKubeAPIServer(ctx); err != nil {
			return fmt.Errorf("failed to restore the extensions before the kube-apiserver: %w", err)
		}
	}
	if err := b.Shoot.Components.Extensions.Extension.WaitBeforeKubeAPIServer(ctx); err != nil {
		return fmt.Errorf("failed to wait for the extensions before the kube-apiserver: %w", err)
	}
	return nil
}

// extensionsAreHere reads whether the extensions before the kube-apiserver are in this seed as before step 3.
func (s *source) extensionsAreHere(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist,
) (bool, error) {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	list := &extensionsv1alpha1.ExtensionList{}
	if err := s.SeedClientSet.Client().List(ctx, list, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("failed to list the extensions in namespace %s: %w", namespace, err)
	}
	all := b.Shoot.Components.Extensions.Extension.Extensions()
	for name, wanted := range all {
		if !neededBeforeKubeAPIServer(all, &wanted.Extension) {
			continue
		}
		if !slices.ContainsFunc(list.Items, func(present extensionsv1alpha1.Extension) bool {
			return present.Name == wanted.Name && staysHere(&present)
		}) {
			m.Log.Info("Taking an extension back", "extension", name)
			return false, nil
		}
	}
	return true, nil
}

// staysHere reports whether the extension is neither on its way out of the seed nor only half on its way into it. If
// its last operation has failed, it was so before, or its restoration is repeated by its controller.
func staysHere(object *extensionsv1alpha1.Extension) bool {
	switch object.Annotations[v1beta1constants.GardenerOperation] {
	case v1beta1constants.GardenerOperationMigrate, v1beta1constants.GardenerOperationWaitForState:
		return false
	case v1beta1constants.GardenerOperationRestore:
		return object.DeletionTimestamp == nil
	}
	last := object.Status.LastOperation
	return object.DeletionTimestamp == nil && last != nil && last.Type != gardencorev1beta1.LastOperationTypeMigrate
}

// clearShoot removes what the destination has written into a shoot with workers in step 4: the temporary VPN client,
// the rights of what answers webhooks, and what keeps the shared address of the kube-apiservers published. It goes
// through the kube-apiserver of this seed.
func (s *source) clearShoot(ctx context.Context, b *botanist.Botanist) error {
	if err := b.InitializeDesiredShootClients(ctx); err != nil {
		return fmt.Errorf("failed to connect to the shoot: %w", err)
	}
	if b.ShootClientSet == nil {
		return errors.New("failed to connect to the shoot: its kube-apiserver in this seed is not running")
	}
	// Its own client reads from a cache, which may not know of what was deleted.
	shoot, err := client.New(b.ShootClientSet.RESTConfig(), client.Options{Scheme: kubernetes.ShootScheme})
	if err != nil {
		return fmt.Errorf("failed to make a client for the shoot: %w", err)
	}
	for _, twin := range []string{overlap.VPN, overlap.APIServerProxy} {
		if err := overlap.Destroy(ctx, shoot, twin); err != nil {
			return err
		}
		if err := overlap.CheckGone(ctx, shoot, twin); err != nil {
			return err
		}
	}
	if err := webhooks.Revoke(ctx, shoot); err != nil {
		return err
	}
	return overlap.ReleaseEndpoints(ctx, shoot)
}

// addWayBack adds what undoes steps 4 and 5 and returns the tasks after which that is done.
func (s *source) addWayBack(
	g *flow.Graph, m *migration.Migration, b *botanist.Botanist, facts abortFacts,
) flow.TaskIDs {
	timeout := s.Timings.RolloutTimeout
	shootCleared := g.Add(flow.Task{
		Name: "Removing what the destination has written into the shoot",
		Fn: flows.Retry(func(ctx context.Context) error {
			return s.clearShoot(ctx, b)
		}, timeout),
		SkipIf: !facts.undone.kubeAPIServer || !facts.workers,
	})
	address := g.Add(flow.Task{
		Name: "Looking up the address of the ingress gateway",
		Fn: func(ctx context.Context) error {
			return b.Shoot.Components.ControlPlane.KubeAPIServerService.Wait(ctx)
		},
		SkipIf: !facts.undone.dnsRecords,
	})
	records := g.Add(flow.Task{
		Name: "Deploying the DNS records of the source again",
		Fn: flows.Retry(func(ctx context.Context) error {
			return s.deployDNSRecords(ctx, b)
		}, timeout),
		SkipIf:       !facts.undone.dnsRecords,
		Dependencies: flow.NewTaskIDs(address),
	})
	ttls := g.Add(flow.Task{
		Name: "Giving the DNS records of the source their TTL back",
		Fn: flows.Retry(func(ctx context.Context) error {
			return s.giveTTLsBack(ctx, m)
		}, timeout),
		Dependencies: flow.NewTaskIDs(records),
	})
	return flow.NewTaskIDs(shootCleared, ttls)
}

// deployDNSRecords makes the source the writer of the shoot's DNS records again. They are as step 5 has left them: the
// destination writes them in step 6 only.
func (s *source) deployDNSRecords(ctx context.Context, b *botanist.Botanist) error {
	if b.APIServerAddress == "" {
		return errors.New("failed to deploy the DNS records: the address of the ingress gateway is not known")
	}
	return flow.Parallel(
		b.DeployOrDestroyExternalDNSRecord, b.DeployOrDestroyInternalDNSRecord, b.DeployOrDestroyIngressDNSRecord,
	)(ctx)
}
