// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"

	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// Exposure returns the exposure of the shoot's etcd members in this seed, ready to be deployed. The botanist's secrets
// management must have been initialized: in the source it makes the relay's CA, in the destination it has found it in
// the ShootState.
func (d *Deps) Exposure(ctx context.Context, m *migration.Migration, b *botanist.Botanist) (exposure.Interface, error) {
	values, err := d.exposureValues(ctx, m)
	if err != nil {
		return nil, err
	}
	values.Image = d.RelayImage
	values.Istio = exposure.Istio{Namespace: b.IstioNamespace(), ServiceName: b.IstioServiceName(),
		Labels: b.IstioLabels()}

	secret, err := exposure.GenerateTLS(ctx, b.SecretsManager, values.Namespace, values.Domain)
	if err != nil {
		return nil, err
	}
	values.TLSSecretName = secret.Name

	return exposure.New(m.Log, d.SeedClientSet.Client(), values), nil
}

// DeployedExposure returns the exposure for everything but its deployment: it needs neither secrets nor the gateway.
func (d *Deps) DeployedExposure(ctx context.Context, m *migration.Migration) (exposure.Interface, error) {
	values, err := d.exposureValues(ctx, m)
	if err != nil {
		return nil, err
	}
	return exposure.New(m.Log, d.SeedClientSet.Client(), values), nil
}

func (d *Deps) exposureValues(ctx context.Context, m *migration.Migration) (exposure.Values, error) {
	seeds := map[steps.Role]*gardencorev1beta1.Seed{}
	for role, name := range map[steps.Role]string{steps.Source: m.SourceSeed, steps.Destination: m.DestinationSeed} {
		seed, err := d.Seed(ctx, name)
		if err != nil {
			return exposure.Values{}, err
		}
		seeds[role] = seed
	}

	dns, err := exposure.DNSFromSeed(ctx, d.GardenAPIReader, seeds[m.Role])
	if err != nil {
		return exposure.Values{},
			fmt.Errorf("failed to tell how DNS records of seed %s are made: %w", d.SeedName(), err)
	}
	return exposure.Values{
		Namespace:  v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Role:       m.Role,
		Domain:     exposure.IngressDomain(seeds[m.Role]),
		PeerDomain: exposure.IngressDomain(seeds[m.Role.Peer()]),
		DNS:        dns,
	}, nil
}

// SyncExposure keeps the addresses of the relay's pods up to date. It runs on every pass of both roles: a relay pod
// that was restarted has a new address.
func (d *Deps) SyncExposure(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	deployed, err := d.DeployedExposure(ctx, m)
	if err != nil {
		return steps.Outcome{}, err
	}
	if err := deployed.Sync(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to bring the addresses of the relay up to date: %w", err)
	}
	return steps.Outcome{}, nil
}

// DestroyExposure removes the exposure from this seed and waits until it is gone.
func (d *Deps) DestroyExposure(ctx context.Context, m *migration.Migration) error {
	deployed, err := d.DeployedExposure(ctx, m)
	if err != nil {
		return err
	}
	if err := deployed.Destroy(ctx); err != nil {
		return fmt.Errorf("failed to remove the exposure between the seeds: %w", err)
	}
	return deployed.WaitCleanup(ctx)
}
