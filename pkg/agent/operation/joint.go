// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"crypto/tls"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/gardener/gardener/pkg/gardenlet/operation/botanist"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration"
)

// Joint returns access to the shoot's etcd clusters. Close it after use. Its certificates are those that the Etcds of
// this seed refer to; a botanist with an initialized secrets management takes their place when it is given, which is
// needed in the destination before its Etcds exist.
func (d *Deps) Joint(m *migration.Migration, b *botanist.Botanist) *joint.Joint {
	config := joint.Config{
		Log:             m.Log,
		Client:          d.SeedClientSet.Client(),
		Namespace:       v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot),
		Role:            m.Role,
		SourceSeed:      m.SourceSeed,
		DestinationSeed: m.DestinationSeed,
		Clock:           m.Clock,
		NewCluster:      d.NewCluster,
		OnVoters: func(etcdRole string, voters int) {
			metrics.Voters(metrics.EtcdVoters{
				Namespace: m.Shoot.Namespace, Shoot: m.Shoot.Name, Etcd: etcdRole, Voters: voters, At: m.Clock.Now(),
			})
		},
	}
	if b != nil {
		config.TLS = func(ctx context.Context, _ string) (*tls.Config, error) { return etcdClientTLS(ctx, b) }
	}
	return joint.New(config)
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
	return etcdclient.TLSFromSecrets(ca, certificate)
}
