// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// restart replaces all pods of a component of the seed.
type restart struct {
	fault

	role       steps.Role
	deployment string
}

const familyGardenletRestart = "gardenlet-restart"

// gardenletRestarts: a gardenlet that starts sets every operation in progress that it finds to Aborted.
func gardenletRestarts() []Fault {
	return restarts(familyGardenletRestart, v1beta1constants.DeploymentNameGardenlet)
}

func restarts(family, deployment string) []Fault {
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults,
			&restart{fault{name: family + "-" + string(role), family: family, span: whole}, role, deployment})
	}
	return faults
}

// Inject implements Fault.
func (f *restart) Inject(ctx context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		pods, err := podsOf(ctx, seed, gardenNamespace, f.deployment)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if err := targets.deletePod(ctx, seed, client.ObjectKeyFromObject(&pod), nil); err != nil {
				return err
			}
		}
		return nil
	})
}
