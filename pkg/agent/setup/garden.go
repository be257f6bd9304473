// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"

	"github.com/gardener/gardener/pkg/api/indexer"
	gardencore "github.com/gardener/gardener/pkg/apis/core"
	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// newGardenCluster returns access to the garden as a gardenlet has it. The agent uses the gardenlet's identity, and
// where the seed authorizer is in force, that identity may list and watch only what belongs to its seed: hence the
// selectors. Of the kinds that it may merely get by name, single objects are watched instead of all.
func newGardenCluster(ctx context.Context, options Options) (cluster.Cluster, error) {
	seedName := options.SeedName()
	gardenCluster, err := cluster.New(options.Access.Garden, func(opts *cluster.Options) {
		opts.Scheme = kubernetes.GardenScheme
		opts.Logger = options.Log
		opts.MapperProvider = apiutil.NewDynamicRESTMapper
		opts.Client.Cache = &client.CacheOptions{DisableFor: uncached()}
		opts.NewCache = func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
			opts.ByObject = ofSeed(seedName)
			single := map[client.Object]cache.NewCacheFunc{}
			for _, obj := range readByName() {
				single[obj] = kubernetes.SingleObjectCacheFunc(options.Log, kubernetes.GardenScheme, obj)
			}
			return kubernetes.AggregatorCacheFunc(kubernetes.NewRuntimeCache, single, kubernetes.GardenScheme)(config,
				opts)
		}
		opts.NewClient = newClient(seedName)
	})
	if err != nil {
		return nil, fmt.Errorf("failed to set up access to the garden: %w", err)
	}
	return gardenCluster, addIndexes(ctx, gardenCluster.GetFieldIndexer())
}

// uncached are the kinds that are read without a cache.
func uncached() []client.Object {
	return []client.Object{
		&corev1.Event{},
		&eventsv1.Event{},
		// Of these a seed may see what belongs to its shoots only. When a shoot leaves, their watches end some time
		// later and are refused from then on, but what they have brought stays in the cache. A shoot that comes back
		// would be restored from the ShootState with which it came the last time.
		&corev1.ConfigMap{},
		&gardencorev1beta1.InternalSecret{},
		&gardencorev1beta1.ShootState{},
	}
}

// ofSeed are the kinds of which the cache holds what belongs to the seed.
func ofSeed(seedName string) map[client.Object]cache.ByObject {
	var (
		labelled      = labels.SelectorFromSet(labels.Set{v1beta1constants.LabelPrefixSeedName + seedName: "true"})
		seedNamespace = gardenerutils.ComputeGardenNamespace(seedName)
	)
	return map[client.Object]cache.ByObject{
		&gardencorev1beta1.Shoot{}:            {Label: labelled},
		&gardencorev1beta1.Seed{}:             {Label: labelled},
		&seedmanagementv1alpha1.ManagedSeed{}: {Label: labelled},
		&gardencorev1beta1.ControllerInstallation{}: {
			Field: fields.SelectorFromSet(fields.Set{gardencore.SeedRefName: seedName}),
		},
		&corev1.Secret{}:         {Namespaces: map[string]cache.Config{seedNamespace: {}}},
		&corev1.ServiceAccount{}: {Namespaces: map[string]cache.Config{seedNamespace: {}}},
	}
}

// readByName are the kinds of which the cache holds the single objects that somebody has asked for.
func readByName() []client.Object {
	return []client.Object{
		&corev1.Namespace{},
		&coordinationv1.Lease{},
		&gardencorev1.ControllerDeployment{},
		&gardencorev1beta1.CloudProfile{},
		&gardencorev1beta1.NamespacedCloudProfile{},
		&gardencorev1beta1.ExposureClass{},
		&gardencorev1beta1.Project{},
		&gardencorev1beta1.SecretBinding{}, //nolint:staticcheck // Shoots may still refer to one.
		&securityv1alpha1.CredentialsBinding{},
		&securityv1alpha1.WorkloadIdentity{},
	}
}

// newClient reads secrets and service accounts outside of the seed's namespace directly: they are not in the cache.
func newClient(seedName string) client.NewClientFunc {
	seedNamespace := gardenerutils.ComputeGardenNamespace(seedName)
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		cached, err := client.New(config, options)
		if err != nil {
			return nil, err
		}
		options.Cache = nil
		direct, err := client.New(config, options)
		if err != nil {
			return nil, err
		}
		return &kubernetes.FallbackClient{
			Client: cached,
			Reader: direct,
			KindToNamespaces: map[string]sets.Set[string]{
				"Secret":         sets.New(seedNamespace),
				"ServiceAccount": sets.New(seedNamespace),
			},
		}, nil
	}
}

func addIndexes(ctx context.Context, fields client.FieldIndexer) error {
	for _, add := range []func(context.Context, client.FieldIndexer) error{
		indexer.AddShootSeedName,
		indexer.AddShootStatusSeedName,
		indexer.AddBackupBucketSeedName,
		indexer.AddBackupEntrySeedName,
		indexer.AddBackupEntryBucketName,
		indexer.AddControllerInstallationSeedRefName,
		indexer.AddControllerInstallationRegistrationRefName,
		indexer.AddManagedSeedShootName,
	} {
		if err := add(ctx, fields); err != nil {
			return fmt.Errorf("failed to add an index to the cache of the garden: %w", err)
		}
	}
	return nil
}

// gardenClusterIdentity reads the name that the garden gives itself; it goes into the names of the shoot's extensions.
func gardenClusterIdentity(ctx context.Context, reader client.Reader) (string, error) {
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: v1beta1constants.ClusterIdentity, Namespace: metav1.NamespaceSystem},
	}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(configMap), configMap); err != nil {
		return "", fmt.Errorf("failed to read ConfigMap %s of the garden: %w", client.ObjectKeyFromObject(configMap),
			err)
	}
	identity, ok := configMap.Data[v1beta1constants.ClusterIdentity]
	if !ok || identity == "" {
		return "", fmt.Errorf("failed to find key %q in ConfigMap %s of the garden", v1beta1constants.ClusterIdentity,
			client.ObjectKeyFromObject(configMap))
	}
	return identity, nil
}
