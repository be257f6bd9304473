// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"

	"github.com/livecpm/livecpm/pkg/etcdcluster"
	"github.com/livecpm/livecpm/pkg/jointetcd"
	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration"
)

// syncPeriod is how often the addresses of the relay are brought up to date while an action waits for etcd members.
const syncPeriod = 5 * time.Second

// Joint returns access to the shoot's etcd clusters. Close it after use. Its certificates are those that the Etcds of
// this seed refer to; a botanist with an initialized secrets management takes their place when it is given, which is
// needed in the destination before its Etcds exist.
func (d *Deps) Joint(m *migration.Migration, b *botanist.Botanist) *jointetcd.Joint {
	config := jointetcd.Config{
		Log:             m.Log,
		Client:          d.SeedClientSet.Client(),
		Namespace:       v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Role:            m.Role,
		SourceSeed:      m.SourceSeed,
		DestinationSeed: m.DestinationSeed,
		Clock:           m.Clock,
		OnVoters: func(etcdRole string, voters int) {
			metrics.Voters(m.Shoot.Namespace, m.Shoot.Name, etcdRole, voters, m.Clock.Now())
		},
	}
	if b != nil {
		config.TLS = func(ctx context.Context, _ string) (*tls.Config, error) { return etcdClientTLS(ctx, b) }
	}
	return jointetcd.New(config)
}

func etcdClientTLS(ctx context.Context, b *botanist.Botanist) (*tls.Config, error) {
	ca, found := b.SecretsManager.Get(v1beta1constants.SecretNameCAETCD)
	if !found {
		return nil, fmt.Errorf("failed to find secret %s", v1beta1constants.SecretNameCAETCD)
	}
	certificate, err := etcd.GenerateClientCertificate(ctx, b.SecretsManager)
	if err != nil {
		return nil, fmt.Errorf("failed to generate the client certificate of etcd: %w", err)
	}
	return etcdcluster.TLSFromSecrets(ca, certificate)
}

// KeepExposureInSync brings the addresses of the relay up to date in the background until the returned function is
// called: an action that waits for etcd members keeps the pass, and with it the ordinary synchronization, from ending,
// and it may wait for nothing else than a new address of the relay.
func (d *Deps) KeepExposureInSync(ctx context.Context, m *migration.Migration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)

	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-m.Clock.After(syncPeriod):
			}
			if _, err := d.SyncExposure(ctx, m); err != nil && ctx.Err() == nil {
				m.Log.Error(err, "Failed to keep the exposure in sync")
			}
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}
