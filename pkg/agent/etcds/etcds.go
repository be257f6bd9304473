// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package etcds is the agent's access to a shoot's etcd clusters, for steps that work on them and for guards that look.
package etcds

import (
	"context"
	"crypto/tls"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/component/etcd/etcd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/botanist"
	"github.com/livecpm/livecpm/pkg/agent/required"
	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/joint"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/metrics"
	"github.com/livecpm/livecpm/pkg/migration"
)

// Options are what Etcds need. All of them are required, but for NewCluster and Front.
type Options struct {
	// SeedClient is a client of the agent's own seed. It must not be backed by a cache.
	SeedClient client.Client
	// SeedPods returns the pods of a namespace of that seed.
	SeedPods func(namespace string) joint.Pods
	// SeedName is the name of that seed.
	SeedName string
	// Clock is the clock of those who only look. Steps bring their own.
	Clock clock.Clock
	// NewCluster may be set to use other than real etcd clusters.
	NewCluster func(ctx context.Context, etcdRole string) (etcdclient.Cluster, error)
	// Front returns the front of a shoot's etcd in this seed, or nil if it has none; see joint.Config.
	Front func(ctx context.Context, m *migration.Migration, etcdRole string) (joint.Front, error)
}

// Etcds opens the etcd clusters of shoots from the agent's own seed.
type Etcds struct {
	options Options
}

// New returns Etcds.
func New(options Options) (*Etcds, error) {
	if err := required.Fields("the access to etcd", options, "NewCluster", "Front"); err != nil {
		return nil, err
	}
	return &Etcds{options: options}, nil
}

// Open returns access to the shoot's etcd clusters, with the certificates that the Etcds of this seed refer to. Close
// it after use.
func (e *Etcds) Open(m *migration.Migration) *joint.Joint {
	return joint.New(e.config(m))
}

// OpenWith does the same with certificates of a botanist whose secrets management has been initialized. That is needed
// in the destination before its Etcds exist.
func (e *Etcds) OpenWith(m *migration.Migration, b *botanist.Botanist) *joint.Joint {
	config := e.config(m)
	config.TLS = func(ctx context.Context, _ string) (*tls.Config, error) { return clientTLS(ctx, b) }
	return joint.New(config)
}

func (e *Etcds) config(m *migration.Migration) joint.Config {
	namespace := v1beta1helper.ControlPlaneNamespaceForShoot(m.Shoot)
	config := joint.Config{
		Log:             m.Log,
		Client:          e.options.SeedClient,
		Pods:            e.options.SeedPods(namespace),
		Namespace:       namespace,
		Role:            m.Role,
		Members:         naming.MembersOf(m.Shoot),
		SourceSeed:      m.SourceSeed,
		DestinationSeed: m.DestinationSeed,
		Clock:           m.Clock,
		NewCluster:      e.options.NewCluster,
		OnVoters: func(etcdRole string, voters int) {
			metrics.Voters(metrics.EtcdVoters{
				Namespace: m.Shoot.Namespace, Shoot: m.Shoot.Name, Etcd: etcdRole, Voters: voters, At: m.Clock.Now(),
			})
		},
	}
	if e.options.Front != nil {
		config.Front = func(ctx context.Context, etcdRole string) (joint.Front, error) {
			return e.options.Front(ctx, m, etcdRole)
		}
	}
	return config
}

func clientTLS(ctx context.Context, b *botanist.Botanist) (*tls.Config, error) {
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
