// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel is the way between the seeds of a migration, as the agent deploys it in its own seed and keeps it.
package tunnel

import (
	"context"
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/required"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// Options are what a Tunnel needs. All of them are required, but for PullSecrets.
type Options struct {
	// GardenAPIReader reads the garden without a cache.
	GardenAPIReader client.Reader
	// SeedClient is a client of the agent's own seed. It must not be backed by a cache.
	SeedClient client.Client
	// RelayImage is the image of the relay pods.
	RelayImage string
	// PullSecrets are the Secrets with which the image is pulled.
	PullSecrets exposure.PullSecrets
}

// Tunnel makes the exposure of shoots' etcd members in the agent's own seed.
type Tunnel struct {
	options Options
}

// New returns a Tunnel.
func New(options Options) (*Tunnel, error) {
	if err := required.Fields("the tunnel between the seeds", options, "PullSecrets"); err != nil {
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
	values.Istio = gateway(b)

	secret, err := exposure.GenerateTLS(ctx, b.SecretsManager, values.Namespace, values.Domain)
	if err != nil {
		return nil, err
	}
	values.TLSSecretName = secret.Name

	return exposure.New(m.Log, t.options.SeedClient, values), nil
}

// gateway is the default ingress gateway of the seed. The shoot may have another one, by its ExposureClass or because
// its namespace is pinned to a zone. That one may be open to an internal network only, and no name below the seed's
// ingress domain leads there. The gardenlet gives the address of the default one to the wildcard record of that domain,
// under this name whatever its configuration says (upstream's newIstio and
// deployNginxIngressAndWaitForIstioServiceAndGetDNSComponent).
func gateway(b *botanist.Botanist) exposure.Istio {
	return exposure.Istio{Namespace: b.WildcardIstioNamespace(),
		ServiceName: v1beta1constants.DefaultSNIIngressServiceName, Labels: b.WildcardIstioLabels()}
}

// Deployed returns the exposure for everything but its deployment. That must not depend on the garden, and on the other
// seed least of all: it may be lost, and its Seed deleted.
func (t *Tunnel) Deployed(m *migration.Migration) exposure.Interface {
	return exposure.New(m.Log, t.options.SeedClient, t.deployedValues(m))
}

func (t *Tunnel) deployedValues(m *migration.Migration) exposure.Values {
	return exposure.Values{
		Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot), Role: m.Role, Clock: m.Clock,
		PullSecrets: t.options.PullSecrets, PlainPeers: steps.WithGap(m.Shoot),
	}
}

func (t *Tunnel) values(ctx context.Context, m *migration.Migration) (exposure.Values, error) {
	own, err := botanist.ReadSeed(ctx, t.options.GardenAPIReader, seedOf(m, m.Role))
	if err != nil {
		return exposure.Values{}, err
	}
	peer, err := botanist.ReadSeed(ctx, t.options.GardenAPIReader, seedOf(m, m.Role.Peer()))
	if err != nil {
		return exposure.Values{}, err
	}
	values := t.deployedValues(m)
	values.Domain, values.PeerDomain = exposure.IngressDomain(own), exposure.IngressDomain(peer)
	return values, nil
}

func seedOf(m *migration.Migration, role steps.Role) string {
	if role == steps.Source {
		return m.SourceSeed
	}
	return m.DestinationSeed
}

// Sync keeps the addresses of the relay's pods up to date. It runs on every pass of both roles: a relay pod
// that was restarted has a new address. Between the passes, and while there are none, the Keeper does the same.
func (t *Tunnel) Sync(ctx context.Context, m *migration.Migration) (steps.Outcome, error) {
	if err := t.Deployed(m).Sync(ctx); err != nil {
		return steps.Outcome{}, fmt.Errorf("failed to bring the addresses of the relay up to date: %w", err)
	}
	return steps.Outcome{}, nil
}

// LeaveMembers lets no name of an etcd member in the destination lead to the relay any more, and returns for how long
// caches may still do so; see exposure.Interface. The way of the source's kube-apiserver to the etcds stays.
func (t *Tunnel) LeaveMembers(ctx context.Context, m *migration.Migration) (time.Duration, error) {
	settled, err := t.Deployed(m).LeaveMembers(ctx)
	if err != nil {
		return 0, fmt.Errorf("failed to take the relay out of the names of the etcd members: %w", err)
	}
	return settled, nil
}

// Destroy removes the exposure from this seed and waits until it is gone.
func (t *Tunnel) Destroy(ctx context.Context, m *migration.Migration) error {
	return t.remove(ctx, m, exposure.Interface.Destroy)
}

// Withdraw does the same, but leaves the members of the seed the policy by which they reach each other on the peer
// ports of the migration, and the fronts of etcds the Secrets with which their image is pulled. Destroy removes that as
// well, once the members have left these ports.
func (t *Tunnel) Withdraw(ctx context.Context, m *migration.Migration) error {
	return t.remove(ctx, m, exposure.Interface.Withdraw)
}

func (t *Tunnel) remove(
	ctx context.Context, m *migration.Migration, remove func(exposure.Interface, context.Context) error,
) error {
	deployed := t.Deployed(m)
	if err := remove(deployed, ctx); err != nil {
		return fmt.Errorf("failed to remove the exposure between the seeds: %w", err)
	}
	return deployed.WaitCleanup(ctx)
}
