// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerextensions "github.com/gardener/gardener/pkg/extensions"
	gardeneroperation "github.com/gardener/gardener/pkg/gardenlet/operation"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"
	shootpkg "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration"
)

// NewBotanist returns Gardener's botanist for the shoot's control plane in the agent's own seed, whichever seed the
// shoot's specification names. It works on a deep copy of the shoot whose last operation is what the gardenlet of this
// seed would have set: {Migrate, Processing} in the source, {Restore, Processing} in the destination. The botanist's
// components read it to choose between deploying and restoring, and its type decides whether the ShootState is loaded.
// Nothing in the garden is changed by it. What only gardenlets may write there, its tasks compare instead
// (ReadOnlyPublished).
//
// A botanist lives for one attempt of one step only: what one task computes (addresses, secrets) is lost with it, so
// each flow runs the tasks that it depends on again.
func (d *Deps) NewBotanist(
	ctx context.Context, log logr.Logger, shoot *gardencorev1beta1.Shoot,
	lastOperation gardencorev1beta1.LastOperationType, options ...BotanistOption,
) (*botanist.Botanist, error) {
	shoot = shoot.DeepCopy()
	setLastOperation(shoot, lastOperation)

	project, _, err := gardenerutils.ProjectAndNamespaceFromReader(ctx, d.GardenAPIReader, shoot.Namespace)
	if err != nil {
		return nil, fmt.Errorf("failed to read project of namespace %s: %w", shoot.Namespace, err)
	}
	if project == nil {
		return nil, fmt.Errorf("failed to find project of namespace %s", shoot.Namespace)
	}

	cloudProfile, err := gardenerutils.GetCloudProfile(ctx, d.GardenAPIReader, shoot)
	if err != nil {
		return nil, fmt.Errorf("failed to read cloud profile of shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}

	seed, err := d.Seed(ctx, d.SeedName())
	if err != nil {
		return nil, err
	}

	var exposureClass *gardencorev1beta1.ExposureClass
	if name := shoot.Spec.ExposureClassName; name != nil {
		exposureClass = &gardencorev1beta1.ExposureClass{}
		if err := d.GardenAPIReader.Get(ctx, client.ObjectKey{Name: *name}, exposureClass); err != nil {
			return nil, fmt.Errorf("failed to read exposure class %s: %w", *name, err)
		}
	}

	o, err := gardeneroperation.Initialize(ctx, log, d.GardenAPIReader, ReadOnlyPublished(d.GardenClient),
		d.SeedClientSet, d.ShootClientMap,
		d.GardenletConfig, d.Identity, d.GardenClusterIdentity, shoot, project, cloudProfile, seed, exposureClass)
	if err != nil {
		return nil, fmt.Errorf("failed to initialize operation for shoot %s: %w", client.ObjectKeyFromObject(shoot),
			err)
	}

	// The namespace's zone annotation decides which ingress gateway serves the shoot. In the destination the namespace
	// may not exist yet.
	o.SeedNamespaceObject = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Shoot.ControlPlaneNamespace}}
	if err := d.SeedClientSet.APIReader().Get(ctx, client.ObjectKeyFromObject(o.SeedNamespaceObject),
		o.SeedNamespaceObject); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to read namespace %s: %w", o.Shoot.ControlPlaneNamespace, err)
	}

	if networking := shoot.Spec.Networking; networking != nil && networking.Nodes != nil {
		networks, err := shootpkg.ToNetworks(shoot, o.Shoot.IsWorkerless)
		if err != nil {
			return nil, fmt.Errorf("failed to compute networks of shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
		}
		o.Shoot.Networks = networks
	}

	for _, option := range options {
		option(o)
	}
	b, err := botanist.New(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("failed to construct botanist for shoot %s: %w", client.ObjectKeyFromObject(shoot), err)
	}
	return b, nil
}

// BotanistOption changes what a botanist is made of, before it makes its components of it.
type BotanistOption func(*gardeneroperation.Operation)

// WithTemporaryVPNClients makes VPN server and kube-apiserver count on temporary VPN clients behind the regular ones,
// as many as there are of those (overlap.Components.VPN).
func WithTemporaryVPNClients(o *gardeneroperation.Operation) {
	o.Shoot.VPNHighAvailabilityNumberOfShootClients *= 2
}

// Staying returns the shoot of a migration that is aborted as one that is to stay where it is: its components then name
// the source as its seed.
func Staying(m *migration.Migration) *gardencorev1beta1.Shoot {
	shoot := m.Shoot.DeepCopy()
	shoot.Spec.SeedName = &m.SourceSeed
	return shoot
}

// KeepLastOperation sets the last operation of the botanist's in-memory shoot again. Botanist functions that update the
// shoot's status in the garden adopt the server's status, and with it the last operation of the live migration, which
// makes components forget that they are restoring.
func KeepLastOperation(b *botanist.Botanist, lastOperation gardencorev1beta1.LastOperationType) {
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

// Seed reads a seed from the garden.
func (d *Deps) Seed(ctx context.Context, name string) (*gardencorev1beta1.Seed, error) {
	seed := &gardencorev1beta1.Seed{}
	if err := d.GardenAPIReader.Get(ctx, client.ObjectKey{Name: name}, seed); err != nil {
		return nil, fmt.Errorf("failed to read seed %s: %w", name, err)
	}
	return seed, nil
}

// SyncCluster writes the Cluster resource that extensions of this seed read.
func SyncCluster(ctx context.Context, b *botanist.Botanist, shoot *gardencorev1beta1.Shoot) error {
	if err := gardenerextensions.SyncClusterResourceToSeed(ctx, b.SeedClientSet.Client(), b.Shoot.ControlPlaneNamespace,
		shoot, b.Shoot.CloudProfile, b.GetSeed()); err != nil {
		return fmt.Errorf("failed to write Cluster resource %s: %w", b.Shoot.ControlPlaneNamespace, err)
	}
	return nil
}
