// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	sharedcomponent "github.com/gardener/gardener/pkg/component/shared"

	"github.com/livecpm/livecpm/pkg/tunnel/exposure"
)

// GatewayOf returns the ingress gateway that migrations take: the one of the wildcard record of the seed's ingress
// domain (pkg/agent/tunnel). Gardener takes its namespace and labels from the gardenlet's configuration (upstream's
// WildcardIstioNamespace and WildcardIstioLabels), and gives its service a name of its own.
func GatewayOf(config *gardenletconfigv1alpha1.GardenletConfiguration) (exposure.Istio, error) {
	if config.SNI == nil || config.SNI.Ingress == nil || config.SNI.Ingress.Namespace == nil {
		return exposure.Istio{}, errors.New("the gardenlet's configuration has no sni.ingress.namespace")
	}
	return exposure.Istio{
		Namespace: *config.SNI.Ingress.Namespace, ServiceName: v1beta1constants.DefaultSNIIngressServiceName,
		Labels: sharedcomponent.GetIstioZoneLabels(config.SNI.Ingress.Labels, nil),
	}, nil
}
