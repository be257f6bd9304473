// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package botanist makes Gardener's botanist, the library's access to one shoot's control plane in one seed.
package botanist

import (
	"context"
	"fmt"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/client/kubernetes/clientmap"
	gardenerextensions "github.com/gardener/gardener/pkg/extensions"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	gardenerbotanist "github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration"
)

// Botanist is Gardener's.
type Botanist = gardenerbotanist.Botanist

// Options are what a Factory needs. All of them are required.
type Options struct {
	// GardenClient writes to and may read from a cache of the garden.
	GardenClient client.Client
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// SeedClientSet is the client set of the agent's own seed. Its client must not be backed by a cache: actions read
	// the world right after they changed it.
	SeedClientSet kubernetes.Interface
	// ShootClientMap gives clients for the shoot's API server that runs in this seed.
	ShootClientMap clientmap.ClientMap
	// GardenletConfig is the configuration of the gardenlet beside the agent. Components deployed from it are the same
	// as the gardenlet's own, so nothing rolls at the hand-over.
	GardenletConfig *gardenletconfigv1alpha1.GardenletConfiguration
	// Identity is what the gardenlet beside the agent writes into status.gardener.
	Identity *gardencorev1beta1.Gardener
	// GardenClusterIdentity is the content of the garden's cluster-identity ConfigMap.
	GardenClusterIdentity string
	// AccessControl are the types of the extensions for access control; see Factory.AccessControl. It may be empty, but
	// not nil.
	AccessControl []string
}

// Factory makes botanists.
type Factory struct {
	options Options
}

// NewFactory returns a Factory.
func NewFactory(options Options) (*Factory, error) {
	if err := required.Fields("the construction of botanists", options); err != nil {
		return nil, err
	}
	return &Factory{options: options}, nil
}

// New returns Gardener's botanist for the shoot's control plane in the agent's own seed, whichever seed the shoot's
// specification names. It works on a deep copy of the shoot whose last operation is what the gardenlet of this seed
// would have set: {Migrate, Processing} in the source, {Restore, Processing} in the destination. The botanist's
// components read it to choose between deploying and restoring, and its type decides whether the ShootState is loaded.
// Nothing in the garden is changed by it. What only gardenlets may write there, its tasks compare instead
// (ReadOnlyPublished).
//
// A botanist lives for one attempt of one step only: what one task computes (addresses, secrets) is lost with it, so
// each flow runs the tasks that it depends on again.
func (f *Factory) New(
	ctx context.Context, m *migration.Migration, lastOperation gardencorev1beta1.LastOperationType, options ...Option,
) (*Botanist, error) {
	r := &request{log: m.Log, shoot: m.Shoot.DeepCopy(), seedClientSet: f.options.SeedClientSet}
	setLastOperation(r.shoot, lastOperation)
	for _, option := range options {
		option(r)
	}

	o, err := f.initialize(ctx, r)
	if err != nil {
		return nil, err
	}
	// The namespace's zone annotation decides which ingress gateway serves the shoot. In the destination the namespace
	// may not exist yet.
	o.SeedNamespaceObject = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Shoot.ControlPlaneNamespace}}
	if err := r.seedClientSet.APIReader().Get(ctx, client.ObjectKeyFromObject(o.SeedNamespaceObject),
		o.SeedNamespaceObject); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to read namespace %s: %w", o.Shoot.ControlPlaneNamespace, err)
	}
	if networking := r.shoot.Spec.Networking; networking != nil && networking.Nodes != nil {
		networks, err := shootpkg.ToNetworks(r.shoot, o.Shoot.IsWorkerless)
		if err != nil {
			return nil, fmt.Errorf("failed to compute networks of shoot %s: %w", client.ObjectKeyFromObject(r.shoot),
				err)
		}
		o.Shoot.Networks = networks
	}
	for _, adjust := range r.adjustments {
		adjust(o)
	}

	b, err := gardenerbotanist.New(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("failed to construct botanist for shoot %s: %w", client.ObjectKeyFromObject(r.shoot),
			err)
	}
	f.keepAccessControl(b, m)
	return b, nil
}

// request is what one botanist is made of, beyond what the Factory has.
type request struct {
	log           logr.Logger
	shoot         *gardencorev1beta1.Shoot
	seedClientSet kubernetes.Interface
	// adjustments change the operation before the botanist makes its components of it.
	adjustments []func(*gardeneroperation.Operation)
}

// initialize reads what the shoot refers to in the garden and returns the operation that a botanist works on.
func (f *Factory) initialize(ctx context.Context, r *request) (*gardeneroperation.Operation, error) {
	reader := f.options.GardenAPIReader
	project, _, err := gardenerutils.ProjectAndNamespaceFromReader(ctx, reader, r.shoot.Namespace)
	if err != nil {
		return nil, fmt.Errorf("failed to read project of namespace %s: %w", r.shoot.Namespace, err)
	}
	if project == nil {
		return nil, fmt.Errorf("failed to find project of namespace %s", r.shoot.Namespace)
	}
	cloudProfile, err := gardenerutils.GetCloudProfile(ctx, reader, r.shoot)
	if err != nil {
		return nil, fmt.Errorf("failed to read cloud profile of shoot %s: %w", client.ObjectKeyFromObject(r.shoot), err)
	}
	seed, err := ReadSeed(ctx, reader, f.options.GardenletConfig.SeedConfig.Name)
	if err != nil {
		return nil, err
	}
	var exposureClass *gardencorev1beta1.ExposureClass
	if name := r.shoot.Spec.ExposureClassName; name != nil {
		exposureClass = &gardencorev1beta1.ExposureClass{}
		if err := reader.Get(ctx, client.ObjectKey{Name: *name}, exposureClass); err != nil {
			return nil, fmt.Errorf("failed to read exposure class %s: %w", *name, err)
		}
	}

	o, err := gardeneroperation.Initialize(ctx, r.log, reader, ReadOnlyPublished(f.options.GardenClient),
		r.seedClientSet, f.options.ShootClientMap, f.options.GardenletConfig, f.options.Identity,
		f.options.GardenClusterIdentity, r.shoot, project, cloudProfile, seed, exposureClass)
	if err != nil {
		return nil, fmt.Errorf("failed to initialize operation for shoot %s: %w", client.ObjectKeyFromObject(r.shoot),
			err)
	}
	return o, nil
}

// Option changes what a botanist is made of.
type Option func(*request)

// WithTemporaryVPNClients makes VPN server and kube-apiserver count on temporary VPN clients behind the regular ones,
// as many as there are of those (overlap.Components.VPN).
func WithTemporaryVPNClients(r *request) {
	r.adjustments = append(r.adjustments, func(o *gardeneroperation.Operation) {
		o.Shoot.VPNHighAvailabilityNumberOfShootClients *= 2
	})
}

// WithSeedClientSet lets the botanist's components reach the seed through another client set, which is made of the
// ordinary one.
func WithSeedClientSet(wrap func(kubernetes.Interface) kubernetes.Interface) Option {
	return func(r *request) { r.seedClientSet = wrap(r.seedClientSet) }
}

// StayingIn makes the shoot one that stays in the seed, for a migration that is aborted: its components then name that
// seed as the shoot's.
func StayingIn(seedName string) Option {
	return func(r *request) { r.shoot.Spec.SeedName = &seedName }
}

// KeepLastOperation sets the last operation of the botanist's in-memory shoot again. Botanist functions that update the
// shoot's status in the garden adopt the server's status, and with it the last operation of the live migration, which
// makes components forget that they are restoring.
func KeepLastOperation(b *Botanist, lastOperation gardencorev1beta1.LastOperationType) {
	shoot := b.Shoot.GetInfo().DeepCopy()
	setLastOperation(shoot, lastOperation)
	b.Shoot.SetInfo(shoot)
}

func setLastOperation(shoot *gardencorev1beta1.Shoot, lastOperation gardencorev1beta1.LastOperationType) {
	shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:  lastOperation,
		State: gardencorev1beta1.LastOperationStateProcessing,
	}
}

// ReadSeed reads a seed from the garden.
func ReadSeed(ctx context.Context, garden client.Reader, name string) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := garden.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return nil, fmt.Errorf("failed to read seed %s: %w", name, err)
	}
	return seed, nil
}

// SyncCluster writes the Cluster resource that extensions of this seed read.
func SyncCluster(ctx context.Context, b *Botanist, shoot *gardencorev1beta1.Shoot) error {
	if err := gardenerextensions.SyncClusterResourceToSeed(ctx, b.SeedClientSet.Client(), b.Shoot.ControlPlaneNamespace,
		shoot, b.Shoot.CloudProfile, b.GetSeed()); err != nil {
		return fmt.Errorf("failed to write Cluster resource %s: %w", b.Shoot.ControlPlaneNamespace, err)
	}
	return nil
}
