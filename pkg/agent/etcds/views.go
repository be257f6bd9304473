// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package etcds

import (
	"context"
	"fmt"
	"time"

	druidcorev1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	etcdclient "github.com/livecpm/livecpm/pkg/etcd/client"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// inspectionTimeout bounds the questions to the members of one etcd, which are asked at the same time.
const inspectionTimeout = 5 * time.Second

// Views looks at the shoot's etcds as the guards need it (preflight.Options.Etcds). In the destination an etcd that
// does not exist yet is left out; the step that creates it looks at the members of the source itself, through the
// relay.
func (e *Etcds) Views(ctx context.Context, shoot *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
	role, ok := steps.RoleOf(shoot, e.options.SeedName)
	if !ok {
		return nil, fmt.Errorf("failed to look at the etcds of Shoot %s: seed %s has no part in a migration of it",
			client.ObjectKeyFromObject(shoot), e.options.SeedName)
	}
	source, destination, _ := steps.Seeds(shoot)
	clusters := e.Open(&migration.Migration{
		Log: logf.FromContext(ctx), Shoot: shoot, Role: role, SourceSeed: source, DestinationSeed: destination,
		Clock: e.options.Clock,
	})
	defer clusters.Close()

	var views []preflight.EtcdView
	for _, etcdRole := range naming.EtcdRoles {
		etcd := &druidcorev1alpha1.Etcd{}
		key := client.ObjectKey{Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
			Name: naming.EtcdName(etcdRole)}
		if err := e.options.SeedClient.Get(ctx, key, etcd); err != nil {
			if apierrors.IsNotFound(err) && role == steps.Destination {
				continue
			}
			return nil, fmt.Errorf("failed to get Etcd %s: %w", key, err)
		}
		cluster, err := clusters.OpenReader(ctx, etcdRole)
		if err != nil {
			return nil, err
		}
		inspection, err := etcdclient.Inspect(ctx, cluster, inspectionTimeout)
		views = append(views, preflight.EtcdViewOf(etcd, inspection, err))
		_ = cluster.Close()
	}
	return views, nil
}
