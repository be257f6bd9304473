// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istioapinetworkingv1alpha3 "istio.io/api/networking/v1alpha3"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"

	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

var _ = Describe("#RemoveFilterChains", func() {
	remaining := func(selector map[string]string, operation istioapinetworkingv1alpha3.EnvoyFilter_Patch_Operation,
		sni string) []string {
		table := &gateway.Table{Routes: []gateway.Route{{SNI: "api.live.example"}, {SNI: "etcd.live.example"}}}
		table.RemoveFilterChains(identity, []*istionetworkingv1alpha3.EnvoyFilter{
			{Spec: istioapinetworkingv1alpha3.EnvoyFilter{
				WorkloadSelector: &istioapinetworkingv1alpha3.WorkloadSelector{Labels: selector},
				ConfigPatches: []*istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectPatch{{
					ApplyTo: istioapinetworkingv1alpha3.EnvoyFilter_FILTER_CHAIN,
					Match: &istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectMatch{
						ObjectTypes: &istioapinetworkingv1alpha3.EnvoyFilter_EnvoyConfigObjectMatch_Listener{
							Listener: &istioapinetworkingv1alpha3.EnvoyFilter_ListenerMatch{
								FilterChain: &istioapinetworkingv1alpha3.EnvoyFilter_ListenerMatch_FilterChainMatch{
									Sni: sni,
								},
							},
						},
					},
					Patch: &istioapinetworkingv1alpha3.EnvoyFilter_Patch{Operation: operation},
				}},
			}},
		})
		var names []string
		for _, route := range table.Routes {
			names = append(names, route.SNI)
		}
		return names
	}
	const remove = istioapinetworkingv1alpha3.EnvoyFilter_Patch_REMOVE

	It("should take away the name and no other", func() {
		Expect(remaining(ingressLabels, remove, "api.live.example")).To(Equal([]string{"etcd.live.example"}))
	})

	It("should leave all names to other gateways, other patches and matches without a name", func() {
		Expect(remaining(map[string]string{"app": "other"}, remove, "api.live.example")).To(HaveLen(2))
		Expect(remaining(ingressLabels, istioapinetworkingv1alpha3.EnvoyFilter_Patch_MERGE, "api.live.example")).
			To(HaveLen(2))
		Expect(remaining(ingressLabels, remove, "")).To(HaveLen(2))
	})
})
