// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/gardener/gardener/pkg/api/indexer"
	gardencore "github.com/gardener/gardener/pkg/apis/core"
	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/apis/operations"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/controllerutils"
	"github.com/gardener/gardener/pkg/utils"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
)

// newGardenCluster connects to the garden with the same narrow cache as upstream's gardenlet: objects of the own seed
// are watched, single objects of everybody are watched one by one, and secrets of other namespaces are read uncached.
func (g *gardenlet) newGardenCluster() (cluster.Cluster, error) {
	config, err := kubernetes.RESTConfigFromClientConnectionConfiguration(
		&g.config.GardenClientConnection.ClientConnectionConfiguration, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to read client configuration of the garden: %w", err)
	}

	seedNamespace := gardenerutils.ComputeGardenNamespace(g.config.SeedConfig.Name)
	garden, err := cluster.New(config, func(opts *cluster.Options) {
		opts.Scheme = kubernetes.GardenScheme
		opts.Logger = g.log
		opts.MapperProvider = apiutil.NewDynamicRESTMapper
		opts.Client.Cache = &client.CacheOptions{DisableFor: uncached()}
		opts.NewCache = g.newGardenCache
		opts.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
			direct := options
			direct.Cache = nil
			reader, err := client.New(config, direct)
			if err != nil {
				return nil, err
			}
			cached, err := client.New(config, options)
			if err != nil {
				return nil, err
			}
			return &kubernetes.FallbackClient{Client: cached, Reader: reader,
				KindToNamespaces: map[string]sets.Set[string]{
					"Secret":         sets.New(seedNamespace),
					"ServiceAccount": sets.New(seedNamespace),
				}}, nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("failed to create cluster object of the garden: %w", err)
	}
	return garden, nil
}

// newGardenCache returns the cache of the garden.
func (g *gardenlet) newGardenCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	seedName := g.config.SeedConfig.Name
	seedNamespace := gardenerutils.ComputeGardenNamespace(seedName)
	ofSeed := cache.ByObject{
		Label: labels.SelectorFromSet(labels.Set{v1beta1constants.LabelPrefixSeedName + seedName: "true"}),
	}
	inSeedNamespace := cache.ByObject{Namespaces: map[string]cache.Config{seedNamespace: {}}}

	opts.ByObject = map[client.Object]cache.ByObject{
		&gardencorev1beta1.Seed{}:             ofSeed,
		&gardencorev1beta1.Shoot{}:            ofSeed,
		&seedmanagementv1alpha1.ManagedSeed{}: ofSeed,
		&gardencorev1beta1.ControllerInstallation{}: {
			Field: fields.OneTermEqualSelector(gardencore.SeedRefName, seedName),
		},
		&operationsv1alpha1.Bastion{}: {
			Field: fields.OneTermEqualSelector(operations.BastionSeedName, seedName),
		},
		&corev1.Secret{}:         inSeedNamespace,
		&corev1.ServiceAccount{}: inSeedNamespace,
		&seedmanagementv1alpha1.Gardenlet{}: {
			Field:      fields.OneTermEqualSelector(metav1.ObjectNameField, seedName),
			Namespaces: map[string]cache.Config{v1beta1constants.GardenNamespace: {}},
		},
	}
	singles := map[client.Object]cache.NewCacheFunc{}
	for _, obj := range []client.Object{
		&corev1.ConfigMap{}, &corev1.Namespace{}, &coordinationv1.Lease{}, &certificatesv1.CertificateSigningRequest{},
		&gardencorev1.ControllerDeployment{}, &gardencorev1beta1.CloudProfile{},
		&gardencorev1beta1.NamespacedCloudProfile{},
		&gardencorev1beta1.ExposureClass{}, &gardencorev1beta1.InternalSecret{}, &gardencorev1beta1.Project{},
		&gardencorev1beta1.SecretBinding{}, //nolint:staticcheck // upstream's gardenlet still reads them
		&gardencorev1beta1.ShootState{},
		&securityv1alpha1.CredentialsBinding{}, &securityv1alpha1.WorkloadIdentity{},
	} {
		singles[obj] = kubernetes.SingleObjectCacheFunc(g.log, kubernetes.GardenScheme, obj)
	}
	return kubernetes.AggregatorCacheFunc(kubernetes.NewRuntimeCache, singles, kubernetes.GardenScheme)(config, opts)
}

// addFieldIndexes adds the indexes by which the controllers list.
func addFieldIndexes(ctx context.Context, i client.FieldIndexer) error {
	for _, add := range []func(context.Context, client.FieldIndexer) error{
		indexer.AddBackupEntryBucketName,
		indexer.AddControllerInstallationRegistrationRefName,
		indexer.AddBastionShootName,
		indexer.AddManagedSeedShootName,
		indexer.AddShootSeedName,
		indexer.AddShootStatusSeedName,
		indexer.AddBackupBucketSeedName,
		indexer.AddBackupEntrySeedName,
		indexer.AddControllerInstallationSeedRefName,
	} {
		if err := add(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// registerSeed writes the configured Seed to the garden and waits for the namespace that gardener-controller-manager
// makes for it.
func (g *gardenlet) registerSeed(ctx context.Context, c client.Client) error {
	seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: g.config.SeedConfig.Name}}
	if _, err := controllerutils.GetAndCreateOrMergePatch(ctx, c, seed, func() error {
		seed.Annotations = utils.MergeStringMaps(seed.Annotations, g.config.SeedConfig.Annotations)
		seed.Labels = utils.MergeStringMaps(
			map[string]string{v1beta1constants.GardenRole: v1beta1constants.GardenRoleSeed}, g.config.SeedConfig.Labels)
		seed.Spec = g.config.SeedConfig.Spec
		return nil
	}); err != nil {
		return fmt.Errorf("failed to register seed %q: %w", seed.Name, err)
	}

	namespace := gardenerutils.ComputeGardenNamespace(seed.Name)
	if err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, 30*time.Second,
		true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
			return err == nil, client.IgnoreNotFound(ignoreForbidden(err))
		}); err != nil {
		return fmt.Errorf("failed to find namespace %q in the garden: %w", namespace, err)
	}
	return nil
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
