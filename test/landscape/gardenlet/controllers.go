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

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
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

// access is what the controllers work with.
type access struct {
	garden       cluster.Cluster
	seed         kubernetes.Interface
	shootClients clientmap.ClientMap
	// identity is that of this gardenlet, gardenIdentity that of the garden.
	identity       *gardencorev1beta1.Gardener
	gardenIdentity string
}

// controller is a controller of upstream's gardenlet.
type controller struct {
	name      string
	toManager func() error
}

// addControllers adds every controller of upstream's gardenlet but the Seed's main one, whose place seedReconciler
// takes.
func (g *gardenlet) addControllers(
	ctx context.Context, garden cluster.Cluster, seed kubernetes.Interface, shootClients clientmap.ClientMap,
) error {
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
	for _, add := range g.controllers(ctx, access{
		garden: garden, seed: seed, shootClients: shootClients, identity: identity,
		gardenIdentity: clusterIdentity.Data[v1beta1constants.ClusterIdentity],
	}) {
		if err := add.toManager(); err != nil {
			return fmt.Errorf("failed to add %s controller: %w", add.name, err)
		}
	}
	return nil
}

// controllers are the table of all controllers.
//
//nolint:funlen // A table of controllers.
func (g *gardenlet) controllers(ctx context.Context, a access) []controller {
	var (
		mgr       = g.manager
		cfg       = g.config
		own       = cfg.Controllers
		seedName  = cfg.SeedConfig.Name
		namespace = v1beta1constants.GardenNamespace
	)
	return []controller{
		{"BackupBucket", func() error {
			return (&backupbucket.Reconciler{Config: *own.BackupBucket, SeedName: seedName,
				GardenNamespace: namespace}).AddToManager(mgr, a.garden, mgr)
		}},
		{"BackupEntry", func() error {
			return (&backupentry.Reconciler{Config: *own.BackupEntry, SeedName: seedName,
				GardenNamespace: namespace}).AddToManager(mgr, a.garden, mgr)
		}},
		{"Bastion", func() error {
			return (&bastion.Reconciler{Config: *own.Bastion}).AddToManager(mgr, a.garden, mgr)
		}},
		{"ControllerInstallation", func() error {
			return controllerinstallation.AddToManager(ctx, mgr, a.garden, mgr, a.seed, *cfg, a.identity,
				a.gardenIdentity, false, nil, seedName, namespace)
		}},
		{"Gardenlet", func() error {
			return (&gardenletcontroller.Reconciler{Config: *cfg}).AddToManager(mgr, a.garden, a.seed)
		}},
		{"ManagedSeed", func() error {
			return (&managedseed.Reconciler{Config: *cfg, ShootClientMap: a.shootClients,
				GardenNamespaceSeed: namespace}).AddToManager(mgr, a.garden, mgr)
		}},
		{"NetworkPolicy", func() error {
			return networkpolicy.AddToManager(ctx, mgr, g.cancel, mgr, *own.NetworkPolicy,
				cfg.SeedConfig.Spec.Networks, nil)
		}},
		{"TokenRequestor", func() error {
			class := resourcesv1alpha1.ResourceManagerClassGarden
			return (&tokenrequestor.Reconciler{
				ConcurrentSyncs: ptr.Deref(own.TokenRequestorServiceAccount.ConcurrentSyncs, 0),
				Class:           &class,
				TargetNamespace: gardenerutils.ComputeGardenNamespace(seedName),
			}).AddToManager(mgr, mgr, a.garden)
		}},
		{"WorkloadIdentity TokenRequestor", func() error {
			return (&workloadidentity.Reconciler{Config: own.TokenRequestorWorkloadIdentity}).AddToManager(mgr,
				mgr, a.garden)
		}},
		{"Seed care", func() error {
			return (&seedcare.Reconciler{Config: *own.SeedCare, SeedName: seedName}).AddToManager(mgr, a.garden,
				mgr)
		}},
		{"Seed lease", func() error {
			leaseNamespace := gardenLeaseNamespace
			return seedlease.AddToManager(mgr, a.garden, a.seed.RESTClient(), *own.Seed, g.health, seedName, nil,
				&leaseNamespace)
		}},
		{"Seed", func() error {
			return (&seedReconciler{Identity: a.identity, Config: cfg, Seed: a.seed}).AddToManager(mgr, a.garden)
		}},
		{"Shoot", func() error {
			return shoot.AddToManager(ctx, mgr, a.garden, mgr, a.seed, a.shootClients, *cfg, a.identity,
				a.gardenIdentity, g.health, seedName, nil)
		}},
		{"VPAEvictionRequirements", func() error {
			return vpaevictionrequirements.AddToManager(ctx, mgr, g.cancel, *own.VPAEvictionRequirements, mgr)
		}},
	}
}
