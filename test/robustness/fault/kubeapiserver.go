// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// kubeAPIServerDeletion deletes a pod of the shoot's kube-apiserver, as the eviction from a node does.
type kubeAPIServerDeletion struct {
	fault

	role steps.Role
}

func kubeAPIServerDeletions() []Fault {
	const family = "apiserver-delete"
	spans := map[steps.Role]span{
		steps.Source:      {begin, point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary}},
		steps.Destination: {point{gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords, Boundary}, end},
	}
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults,
			&kubeAPIServerDeletion{fault{name: family + "-" + string(role), family: family, span: spans[role]}, role})
	}
	return faults
}

// Inject implements Fault.
func (f *kubeAPIServerDeletion) Inject(ctx context.Context, world *World) error {
	return world.on([]steps.Role{f.role}, func(seed Seed) error {
		pods, err := podsOf(ctx, seed, world.Namespace, v1beta1constants.DeploymentNameKubeAPIServer)
		if err != nil {
			return err
		}
		return world.deletePod(ctx, seed, world.Namespace, pods[0].Name, nil)
	})
}
