// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/gardenlet/operation"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/agent/probe"
)

var _ = Describe("GatewayOf", func() {
	It("should be the one that Gardener takes for the wildcard record", func() {
		config := &gardenletconfigv1alpha1.GardenletConfiguration{SNI: &gardenletconfigv1alpha1.SNI{
			Ingress: &gardenletconfigv1alpha1.SNIIngress{Namespace: new("istio-other"),
				ServiceName: new("another-name"), Labels: map[string]string{"istio": "other"}}}}
		gateway, err := probe.GatewayOf(config)
		Expect(err).NotTo(HaveOccurred())
		upstream := &operation.Operation{Config: config}
		Expect(gateway.Namespace).To(Equal(upstream.WildcardIstioNamespace()))
		Expect(gateway.Labels).To(Equal(upstream.WildcardIstioLabels()))
		Expect(gateway.ServiceName).To(Equal("istio-ingressgateway"))
	})

	It("should not be guessed", func() {
		_, err := probe.GatewayOf(&gardenletconfigv1alpha1.GardenletConfiguration{})
		Expect(err).To(MatchError("the gardenlet's configuration has no sni.ingress.namespace"))
	})
})
