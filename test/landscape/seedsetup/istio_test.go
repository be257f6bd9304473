// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package seedsetup_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener/pkg/features"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener/imagevector"

	. "github.com/livecpm/livecpm/test/landscape/seedsetup"
)

var _ = Describe("Istio", func() {
	It("should have istiod ask nothing of Envoy that only Istio's build can do", func() {
		image, err := IstiodImage("/tools")
		Expect(err).NotTo(HaveOccurred())
		found, err := imagevector.Containers().FindImage(imagevector.ContainerImageNameIstioIstiod)
		Expect(err).NotTo(HaveOccurred())
		Expect(image.Refs).To(ConsistOf(found.String()))
		Expect(image.Env).To(ConsistOf("PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false"))
	})

	It("should take the filter that Envoy lacks out of HTTP and TCP, in all gateways", func() {
		filter := &istionetworkingv1alpha3.EnvoyFilter{}
		Expect(yaml.Unmarshal([]byte(EnvoyFilters), filter)).To(Succeed())
		Expect(filter.Namespace).To(Equal("istio-system"), "where filters are for all namespaces")
		Expect(filter.Spec.WorkloadSelector).To(BeNil())
		var kinds []string
		for _, patch := range filter.Spec.ConfigPatches {
			kinds = append(kinds, patch.ApplyTo.String())
			Expect(patch.Patch.Operation.String()).To(Equal("REMOVE"))
			chain := patch.Match.GetListener().FilterChain.Filter
			Expect([]string{chain.Name, chain.GetSubFilter().GetName()}).To(ContainElement("istio.stats"))
		}
		Expect(kinds).To(ConsistOf("HTTP_FILTER", "NETWORK_FILTER"))
	})

	It("should open the port of the older way to the VPN only while Gardener has it", func() {
		gate := string(features.RemoveHTTPProxyLegacyPort)
		DeferCleanup(features.DefaultFeatureGate.SetFromMap,
			map[string]bool{gate: features.DefaultFeatureGate.Enabled(features.RemoveHTTPProxyLegacyPort)})
		Expect(features.DefaultFeatureGate.SetFromMap(map[string]bool{gate: false})).To(Succeed())
		Expect(GatewayPorts()).To(ContainElement(HaveField("Port", BeEquivalentTo(8132))))
		Expect(features.DefaultFeatureGate.SetFromMap(map[string]bool{gate: true})).To(Succeed())
		Expect(GatewayPorts()).NotTo(ContainElement(HaveField("Port", BeEquivalentTo(8132))))
		Expect(GatewayPorts()).To(HaveLen(2))
	})
})
