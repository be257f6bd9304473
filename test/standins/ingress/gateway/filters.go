// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"

	istioapinetworkingv1alpha3 "istio.io/api/networking/v1alpha3"
	istionetworkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/labels"
)

// RemoveFilterChains takes away the routes whose filter chains an EnvoyFilter of the gateway's namespace removes by
// their SNI. It is the only patch that this gateway knows. Unlike Envoy it never ends the connections that are left.
func (t *Table) RemoveFilterChains(identity Identity, filters []*istionetworkingv1alpha3.EnvoyFilter) {
	for _, filter := range filters {
		selector := filter.Spec.WorkloadSelector.GetLabels()
		if !labels.SelectorFromSet(selector).Matches(labels.Set(identity.Labels)) {
			continue
		}
		for _, patch := range filter.Spec.ConfigPatches {
			sni := patch.GetMatch().GetListener().GetFilterChain().GetSni()
			if patch.GetApplyTo() != istioapinetworkingv1alpha3.EnvoyFilter_FILTER_CHAIN || sni == "" ||
				patch.GetPatch().GetOperation() != istioapinetworkingv1alpha3.EnvoyFilter_Patch_REMOVE {
				continue
			}
			t.Routes = slices.DeleteFunc(t.Routes, func(route Route) bool { return route.SNI == sni })
		}
	}
}
