// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerextensions "github.com/gardener/gardener/pkg/extensions"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Running reads the Shoot as the gardenlet of the agent's own seed has last rolled it out (preflight.Options.Running):
// what it has written into the Cluster resource. It is nil if the resource has none.
func (c *ControlPlane) Running(
	ctx context.Context, shoot *gardencorev1beta1.Shoot,
) (*gardencorev1beta1.Shoot, error) {
	name := v1beta1helper.ControlPlaneNamespaceForShoot(shoot)
	running, err := gardenerextensions.GetShoot(ctx, c.options.SeedClientSet.APIReader(), name)
	if err != nil {
		return nil, fmt.Errorf("failed to read the Shoot in Cluster %s: %w", name, err)
	}
	return running, nil
}

// TLSEndsAtGateway reads whether the ingress gateway of the agent's own seed ends the TLS of the shoot's clients
// (preflight.Options.TLSEndsAtGateway). What is deployed counts.
func (c *ControlPlane) TLSEndsAtGateway(ctx context.Context, shoot *gardencorev1beta1.Shoot) (bool, error) {
	var (
		routes = &istionetworkingv1beta1.VirtualService{}
		key    = client.ObjectKey{Namespace: v1beta1helper.ControlPlaneNamespaceForShoot(shoot),
			Name: v1beta1constants.DeploymentNameKubeAPIServer}
	)
	if err := c.options.SeedClientSet.APIReader().Get(ctx, key, routes); err != nil {
		return false, fmt.Errorf("failed to read VirtualService %s: %w", key, err)
	}
	return EndsTLS(routes), nil
}

// EndsTLS reports whether the routes to a kube-apiserver are for an ingress gateway that ends the TLS of clients: only
// such a one sees requests.
func EndsTLS(routes *istionetworkingv1beta1.VirtualService) bool { return len(routes.Spec.Http) > 0 }
