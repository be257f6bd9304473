// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/preflight"
)

// Machines reads the machines of the shoot in the agent's own seed (preflight.Options.Machines).
func (c *ControlPlane) Machines(ctx context.Context, shoot *gardencorev1beta1.Shoot) (preflight.MachinesView, error) {
	var (
		namespace   = v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
		deployments = &machinev1alpha1.MachineDeploymentList{}
		machines    = &machinev1alpha1.MachineList{}
	)
	for _, list := range []client.ObjectList{deployments, machines} {
		if err := c.options.SeedClientSet.APIReader().List(ctx, list, client.InNamespace(namespace)); err != nil {
			return preflight.MachinesView{}, fmt.Errorf("failed to list %T in namespace %s: %w", list, namespace, err)
		}
	}
	return preflight.MachinesView{Deployments: deployments.Items, Machines: machines.Items}, nil
}
