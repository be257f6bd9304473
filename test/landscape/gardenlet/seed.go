// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	extensionsv1alpha1helper "github.com/gardener/gardener/pkg/api/extensions/v1alpha1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/extensions/dnsrecord"
	"github.com/gardener/gardener/pkg/component/garden/backupbucket"
	"github.com/gardener/gardener/pkg/controllerutils"
	predicateutils "github.com/gardener/gardener/pkg/controllerutils/predicate"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
)

const (
	gardenLeaseNamespace = gardencorev1beta1.GardenerSeedLeaseNamespace
	// ingressRecord is upstream's name for the DNSRecord of the seed's ingress domain.
	ingressRecord = "seed-ingress"
)

// seedReconciler does what of the left-out Seed reconciler's work concerns the garden or the seed's extensions: the
// backup bucket, the ingress domain's DNS record, and the Seed's status: who manages it, the versions, its identity,
// its capacity and the last operation. Others read them: the admission compares status.gardener.version, the botanist
// needs status.clusterIdentity.
type seedReconciler struct {
	Identity *gardencorev1beta1.Gardener
	Config   *gardenletconfigv1alpha1.GardenletConfiguration
	Seed     kubernetes.Interface

	garden     client.Client
	expiration *metav1.Time
}

// AddToManager adds the reconciler to the manager.
func (r *seedReconciler) AddToManager(mgr manager.Manager, garden cluster.Cluster) error {
	r.garden = garden.GetClient()
	certificate, err := kubernetesutils.ClientCertificateFromRESTConfig(garden.GetConfig())
	if err != nil {
		return fmt.Errorf("failed to read client certificate for the garden: %w", err)
	}
	r.expiration = &metav1.Time{Time: certificate.Leaf.NotAfter}

	return builder.ControllerManagedBy(mgr).
		Named("seed").
		WatchesRawSource(source.Kind[client.Object](
			garden.GetCache(),
			&gardencorev1beta1.Seed{},
			&handler.EnqueueRequestForObject{},
			predicateutils.HasName(r.Config.SeedConfig.Name),
			predicate.GenerationChangedPredicate{},
		)).
		Complete(r)
}

// Reconcile brings bucket, record and status up to date.
func (r *seedReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := r.garden.Get(ctx, request.NamespacedName, seed); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if seed.DeletionTimestamp != nil {
		return reconcile.Result{},
			client.IgnoreNotFound(controllerutils.RemoveFinalizers(ctx, r.garden, seed, gardencorev1beta1.GardenerName))
	}
	if err := controllerutils.AddFinalizers(ctx, r.garden, seed, gardencorev1beta1.GardenerName); err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to add finalizer to seed %q: %w", seed.Name, err)
	}
	identity, err := r.clusterIdentity(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}

	if err := r.deployBackupBucket(ctx, seed); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.deployIngressRecord(ctx, seed); err != nil {
		return reconcile.Result{}, err
	}

	before := seed.DeepCopy()
	status := &seed.Status
	status.Gardener = r.Identity
	version := r.Seed.Version()
	status.KubernetesVersion = &version
	status.ClientCertificateExpirationTimestamp = r.expiration
	status.ObservedGeneration = seed.Generation
	if status.ClusterIdentity == nil {
		status.ClusterIdentity = &identity
	}
	if r.Config.Resources != nil {
		status.Capacity, status.Allocatable = r.Config.Resources.Capacity, allocatable(r.Config.Resources)
	}
	if last := status.LastOperation; last == nil || last.State != gardencorev1beta1.LastOperationStateSucceeded {
		status.LastOperation = &gardencorev1beta1.LastOperation{
			Type:           gardencorev1beta1.LastOperationTypeReconcile,
			State:          gardencorev1beta1.LastOperationStateSucceeded,
			Progress:       100,
			Description:    "The landscape has installed what this seed's shoots need.",
			LastUpdateTime: metav1.NewTime(time.Now().UTC().Truncate(time.Second)),
		}
	}
	if equality.Semantic.DeepEqual(before.Status, seed.Status) {
		return reconcile.Result{RequeueAfter: r.Config.Controllers.Seed.SyncPeriod.Duration}, nil
	}
	if err := r.garden.Status().Patch(ctx, seed, client.StrategicMergeFrom(before)); err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to patch status of seed %q: %w", seed.Name, err)
	}
	return reconcile.Result{RequeueAfter: r.Config.Controllers.Seed.SyncPeriod.Duration}, nil
}

// deployBackupBucket writes the BackupBucket that the shoots of this seed keep their backups in.
func (r *seedReconciler) deployBackupBucket(ctx context.Context, seed *gardencorev1beta1.Seed) error {
	if seed.Spec.Backup == nil {
		return nil
	}
	if err := backupbucket.New(logf.FromContext(ctx), r.garden, &backupbucket.Values{
		Name:          string(seed.UID),
		Config:        seed.Spec.Backup,
		DefaultRegion: seed.Spec.Provider.Region,
		Seed:          seed,
		Clock:         clock.RealClock{},
	}, backupbucket.DefaultInterval, backupbucket.DefaultTimeout).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy BackupBucket of seed %q: %w", seed.Name, err)
	}
	return nil
}

// deployIngressRecord writes the DNS record for the seed's ingress domain, which points to the ingress gateway.
func (r *seedReconciler) deployIngressRecord(ctx context.Context, seed *gardencorev1beta1.Seed) error {
	provider := seed.Spec.DNS.Provider
	if provider == nil || seed.Spec.Ingress == nil {
		return nil
	}
	gateway := r.Config.SNI.Ingress
	address, err := kubernetesutils.GetLoadBalancerIngress(ctx, r.Seed.Client(),
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: *gateway.Namespace, Name: *gateway.ServiceName}})
	if err != nil {
		return fmt.Errorf("failed to find address of the ingress gateway: %w", err)
	}
	credentials, err := kubernetesutils.GetCredentialsByObjectReference(ctx, r.garden, *provider.CredentialsRef)
	if err != nil {
		return fmt.Errorf("failed to read DNS credentials of seed %q: %w", seed.Name, err)
	}
	if err := dnsrecord.New(logf.FromContext(ctx), r.Seed.Client(), &dnsrecord.Values{
		Name:                         ingressRecord,
		SecretName:                   ingressRecord,
		Namespace:                    v1beta1constants.GardenNamespace,
		Type:                         provider.Type,
		DNSName:                      "*." + seed.Spec.Ingress.Domain,
		RecordType:                   extensionsv1alpha1helper.GetDNSRecordType(address),
		Values:                       []string{address},
		ReconcileOnlyOnChangeOrError: true,
		IPStack:                      gardenerutils.GetIPStackForSeed(seed),
	}, dnsrecord.DefaultInterval, dnsrecord.DefaultSevereThreshold, dnsrecord.DefaultTimeout,
		dnsrecord.CredentialsDeployerFromCredentials(credentials, seed)).Deploy(ctx); err != nil {
		return fmt.Errorf("failed to deploy DNSRecord of the ingress domain: %w", err)
	}
	return nil
}

// clusterIdentity is what the seed says of itself, or the UID of its kube-system namespace.
func (r *seedReconciler) clusterIdentity(ctx context.Context) (string, error) {
	configMap := &corev1.ConfigMap{}
	seedReader := r.Seed.APIReader()
	err := seedReader.Get(ctx,
		types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: v1beta1constants.ClusterIdentity}, configMap)
	if err == nil {
		return configMap.Data[v1beta1constants.ClusterIdentity], nil
	}
	if !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("failed to read cluster identity of the seed: %w", err)
	}
	namespace := &corev1.Namespace{}
	if err := seedReader.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("failed to read namespace %q of the seed: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

func allocatable(resources *gardenletconfigv1alpha1.ResourcesConfiguration) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, quantity := range resources.Capacity {
		free := quantity.DeepCopy()
		if reserved, ok := resources.Reserved[name]; ok {
			free.Sub(reserved)
		}
		list[name] = free
	}
	return list
}
