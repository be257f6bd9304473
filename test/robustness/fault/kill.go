// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	familyGatewayKill           = "gateway-kill"
	familyControllerManagerKill = "kube-controller-manager-kill"

	gatewayNamespace   = "istio-ingress"
	gatewayDeployment  = "istio-ingressgateway"
	gatewayContainer   = "istio-proxy"
	apiServerContainer = v1beta1constants.DeploymentNameKubeAPIServer
)

// kill ends the processes of containers, all at once, and replaces their pods: otherwise the kubelet would wait longer
// and longer before it starts a container again that is killed in every step.
type kill struct {
	fault

	choose chooser
}

// firstGateway chooses one of the two pods of a seed's ingress gateway.
func firstGateway(role steps.Role) chooser {
	return firstOf(role, gatewayNamespace, gatewayDeployment, gatewayContainer)
}

// gatewayKills take one of the two gateways of a seed, with all connections that pass it.
func gatewayKills() []Fault {
	faults := []Fault{}
	for _, role := range sides {
		faults = append(faults, &kill{fault{name: familyGatewayKill + "-" + string(role), family: familyGatewayKill,
			span: whole}, firstGateway(role)})
	}
	return faults
}

// controllerManagerKills take the shoot's kube-controller-manager of the source, for as long as it certainly runs. That
// of the destination starts at a moment that no reason tells.
func controllerManagerKills() []Fault {
	const name = v1beta1constants.DeploymentNameKubeControllerManager
	until := point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Boundary}
	return []Fault{&kill{fault{name: familyControllerManagerKill + "-source", family: familyControllerManagerKill,
		span: span{begin, until}}, firstOf(steps.Source, "", name, name)}}
}

// Inject implements Fault.
func (f *kill) Inject(ctx context.Context, targets *Targets) error {
	chosen, err := f.choose(ctx, targets)
	if err != nil {
		return err
	}
	// A deletion alone would be proven by an object that is gone, while the container still ends in good order.
	if _, err := targets.killContainers(ctx, chosen); err != nil {
		return err
	}
	for _, c := range chosen {
		if err := targets.deletePod(ctx, c.seed, c.pod, ptr.To[int64](0)); err != nil {
			return err
		}
	}
	return nil
}
