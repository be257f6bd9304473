// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// kubeAPIServerDeletion deletes a pod of the shoot's kube-apiserver, as the eviction from a node does.
type kubeAPIServerDeletion struct {
	fault

	role steps.Role
}

const familyAPIServerDelete = "apiserver-delete"

// kubeAPIServerSpans say from when to when each side has the shoot's kube-apiserver.
var kubeAPIServerSpans = map[steps.Role]span{
	steps.Source:      {begin, point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary}},
	steps.Destination: {point{gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords, Boundary}, end},
}

func kubeAPIServerDeletions() []Fault {
	const family = familyAPIServerDelete
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults,
			&kubeAPIServerDeletion{fault{name: family + "-" + string(role), family: family,
				span: kubeAPIServerSpans[role]}, role})
	}
	return faults
}

// Inject implements Fault.
func (f *kubeAPIServerDeletion) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		pods, err := podsOf(ctx, seed, targets.Namespace, v1beta1constants.DeploymentNameKubeAPIServer)
		if err != nil {
			return err
		}
		return targets.deletePod(ctx, seed, client.ObjectKeyFromObject(&pods[0]), nil)
	})
}
