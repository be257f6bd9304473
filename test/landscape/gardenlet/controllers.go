// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/client/kubernetes/clientmap"
	"github.com/gardener/gardener/pkg/controller/tokenrequestor"
	"github.com/gardener/gardener/pkg/gardenlet/controller/backupbucket"
	"github.com/gardener/gardener/pkg/gardenlet/controller/backupentry"
	"github.com/gardener/gardener/pkg/gardenlet/controller/bastion"
	"github.com/gardener/gardener/pkg/gardenlet/controller/controllerinstallation"
	gardenletcontroller "github.com/gardener/gardener/pkg/gardenlet/controller/gardenlet"
	"github.com/gardener/gardener/pkg/gardenlet/controller/managedseed"
	"github.com/gardener/gardener/pkg/gardenlet/controller/networkpolicy"
	seedcare "github.com/gardener/gardener/pkg/gardenlet/controller/seed/care"
	seedlease "github.com/gardener/gardener/pkg/gardenlet/controller/seed/lease"
	"github.com/gardener/gardener/pkg/gardenlet/controller/shoot"
	"github.com/gardener/gardener/pkg/gardenlet/controller/tokenrequestor/workloadidentity"
	"github.com/gardener/gardener/pkg/gardenlet/controller/vpaevictionrequirements"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
)

// addControllers adds every controller of upstream's gardenlet but the Seed's main one, whose place seedReconciler
// takes.
func (g *gardenlet) addControllers(
	ctx context.Context, garden cluster.Cluster, seed kubernetes.Interface, shootClients clientmap.ClientMap,
) error {
	var (
		mgr         = g.manager
		cfg         = g.config
		controllers = cfg.Controllers
		seedName    = cfg.SeedConfig.Name
		namespace   = v1beta1constants.GardenNamespace
	)

	identity, err := gardenerutils.DetermineIdentity()
	if err != nil {
		return fmt.Errorf("failed to determine identity: %w", err)
	}
	clusterIdentity := &corev1.ConfigMap{}
	if err := garden.GetClient().Get(ctx,
		client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: v1beta1constants.ClusterIdentity},
		clusterIdentity); err != nil {
		return fmt.Errorf("failed to read cluster identity of the garden: %w", err)
	}
	gardenIdentity := clusterIdentity.Data[v1beta1constants.ClusterIdentity]

	for _, add := range []struct {
		controller string
		toManager  func() error
	}{
		{"BackupBucket", func() error {
			return (&backupbucket.Reconciler{Config: *controllers.BackupBucket, SeedName: seedName,
				GardenNamespace: namespace}).AddToManager(mgr, garden, mgr)
		}},
		{"BackupEntry", func() error {
			return (&backupentry.Reconciler{Config: *controllers.BackupEntry, SeedName: seedName,
				GardenNamespace: namespace}).AddToManager(mgr, garden, mgr)
		}},
		{"Bastion", func() error {
			return (&bastion.Reconciler{Config: *controllers.Bastion}).AddToManager(mgr, garden, mgr)
		}},
		{"ControllerInstallation", func() error {
			return controllerinstallation.AddToManager(ctx, mgr, garden, mgr, seed, *cfg, identity, gardenIdentity,
				false, nil, seedName, namespace)
		}},
		{"Gardenlet", func() error {
			return (&gardenletcontroller.Reconciler{Config: *cfg}).AddToManager(mgr, garden, seed)
		}},
		{"ManagedSeed", func() error {
			return (&managedseed.Reconciler{Config: *cfg, ShootClientMap: shootClients,
				GardenNamespaceSeed: namespace}).AddToManager(mgr, garden, mgr)
		}},
		{"NetworkPolicy", func() error {
			return networkpolicy.AddToManager(ctx, mgr, g.cancel, mgr, *controllers.NetworkPolicy,
				cfg.SeedConfig.Spec.Networks, nil)
		}},
		{"TokenRequestor", func() error {
			class := resourcesv1alpha1.ResourceManagerClassGarden
			return (&tokenrequestor.Reconciler{
				ConcurrentSyncs: ptr.Deref(controllers.TokenRequestorServiceAccount.ConcurrentSyncs, 0),
				Class:           &class,
				TargetNamespace: gardenerutils.ComputeGardenNamespace(seedName),
			}).AddToManager(mgr, mgr, garden)
		}},
		{"WorkloadIdentity TokenRequestor", func() error {
			return (&workloadidentity.Reconciler{Config: controllers.TokenRequestorWorkloadIdentity}).AddToManager(mgr,
				mgr, garden)
		}},
		{"Seed care", func() error {
			return (&seedcare.Reconciler{Config: *controllers.SeedCare, SeedName: seedName}).AddToManager(mgr, garden,
				mgr)
		}},
		{"Seed lease", func() error {
			leaseNamespace := gardenLeaseNamespace
			return seedlease.AddToManager(mgr, garden, seed.RESTClient(), *controllers.Seed, g.health, seedName, nil,
				&leaseNamespace)
		}},
		{"Seed", func() error {
			return (&seedReconciler{Identity: identity, Config: cfg, Seed: seed}).AddToManager(mgr, garden)
		}},
		{"Shoot", func() error {
			return shoot.AddToManager(ctx, mgr, garden, mgr, seed, shootClients, *cfg, identity, gardenIdentity,
				g.health, seedName, nil)
		}},
		{"VPAEvictionRequirements", func() error {
			return vpaevictionrequirements.AddToManager(ctx, mgr, g.cancel, *controllers.VPAEvictionRequirements, mgr)
		}},
	} {
		if err := add.toManager(); err != nil {
			return fmt.Errorf("failed to add %s controller: %w", add.controller, err)
		}
	}
	return nil
}
