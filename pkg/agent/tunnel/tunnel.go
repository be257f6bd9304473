// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel is the way between the seeds of a migration, as the agent deploys it in its own seed and keeps it.
package tunnel

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// Options are what a Tunnel needs. All of them are required.
type Options struct {
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// SeedClient is a client of the agent's own seed. It must not be backed by a cache.
	SeedClient client.Client
	// SeedName is the name of that seed.
	SeedName string
	// RelayImage is the image of the relay pods.
	RelayImage string
}

// Tunnel makes the exposure of shoots' etcd members in the agent's own seed.
type Tunnel struct {
	options Options
}

// New returns a Tunnel.
func New(options Options) (*Tunnel, error) {
	if err := required.Fields("the tunnel between the seeds", options); err != nil {
		return nil, err
	}
	return &Tunnel{options: options}, nil
}

// Deploy deploys the exposure of the shoot's etcd members in this seed. Initialize the botanist's secrets management
// before: in the source it makes the relay's CA, in the destination it finds it in the ShootState.
func (t *Tunnel) Deploy(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	e, err := t.exposure(ctx, m, b)
	if err != nil {
		return err
	}
	return e.Deploy(ctx)
}

// Wait waits until what Deploy has deployed is ready.
func (t *Tunnel) Wait(ctx context.Context, m *migration.Migration, b *botanist.Botanist) error {
	e, err := t.exposure(ctx, m, b)
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}

func (t *Tunnel) exposure(
	ctx context.Context, m *migration.Migration, b *botanist.Botanist,
) (exposure.Interface, error) {
	values, err := t.values(ctx, m)
	if err != nil {
		return nil, err
	}
	values.Image = t.options.RelayImage
	values.Istio = exposure.Istio{Namespace: b.IstioNamespace(), ServiceName: b.IstioServiceName(),
		Labels: b.IstioLabels()}

	secret, err := exposure.GenerateTLS(ctx, b.SecretsManager, values.Namespace, values.Domain)
	if err != nil {
		return nil, err
	}
	values.TLSSecretName = secret.Name

	return exposure.New(m.Log, t.options.SeedClient, values), nil
}

// Deployed returns the exposure for everything but its deployment: it needs neither secrets nor the gateway.
func (t *Tunnel) Deployed(ctx context.Context, m *migration.Migration) (exposure.Interface, error) {
	values, err := t.values(ctx, m)
	if err != nil {
		return nil, err
	}
	return exposure.New(m.Log, t.options.SeedClient, values), nil
}

func (t *Tunnel) values(ctx context.Context, m *migration.Migration) (exposure.Values, error) {
	seeds := map[steps.Role]*gardencorev1beta1.Seed{}
	for role, name := range map[steps.Role]string{steps.Source: m.SourceSeed, steps.Destination: m.DestinationSeed} {
		seed, err := botanist.ReadSeed(ctx, t.options.GardenAPIReader, name)
		if err != nil {
			return exposure.Values{}, err
		}
		seeds[role] = seed
	}

	dns, err := exposure.DNSFromSeed(ctx, t.options.GardenAPIReader, seeds[m.Role])
	if err != nil {
		return exposure.Values{},
			fmt.Errorf("failed to find out how DNS records of seed %s are made: %w", t.options.SeedName, err)
	}
	return exposure.Values{
		Namespace:  v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Role:       m.Role,
		Domain:     exposure.IngressDomain(seeds[m.Role]),
		PeerDomain: exposure.IngressDomain(seeds[m.Role.Peer()]),
		DNS:        dns,
	}, nil
}

// Sync keeps the addresses of the relay's pods up to date. It runs on every pass of both roles: a relay pod
// that was restarted has a new address.
func (t *Tunnel) Sync(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	deployed, err := t.Deployed(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := deployed.Sync(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to bring the addresses of the relay up to date: %w", err)
	}
	return steps.Outcome{}, nil
}

// Destroy removes the exposure from this seed and waits until it is gone.
func (t *Tunnel) Destroy(ctx context.Context, m *migration.Migration) error {
	return t.remove(ctx, m, exposure.Interface.Destroy)
}

// Withdraw does the same, but leaves the members of the seed the policy by which they reach each other on the peer
// ports of the migration. Destroy removes that as well, once they have left these ports.
func (t *Tunnel) Withdraw(ctx context.Context, m *migration.Migration) error {
	return t.remove(ctx, m, exposure.Interface.Withdraw)
}

func (t *Tunnel) remove(
	ctx context.Context, m *migration.Migration, remove func(exposure.Interface, context.Context) error,
) error {
	deployed, err := t.Deployed(ctx, m)
	if err != nil {
		return err
	}
	if err := remove(deployed, ctx); err != nil {
		return fmt.Errorf("failed to remove the exposure between the seeds: %w", err)
	}
	return deployed.WaitCleanup(ctx)
}
