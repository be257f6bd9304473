// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"time"

	gardeneristio "github.com/gardener/gardener/pkg/utils/istio"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	istioapinetworkingv1beta1 "istio.io/api/networking/v1beta1"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/test/standins/ingress/gateway"
)

var (
	ingressLabels = map[string]string{"app": "istio-ingressgateway", "istio": "ingressgateway"}
	identity      = gateway.Identity{Namespace: "istio-ingress", Labels: ingressLabels, Port: 443}
)

const shootNamespace = "shoot--demo--live"

// exposed returns the objects as gardener makes them for a kube-apiserver.
func exposed(
	name string, created int, hosts ...string,
) (*istionetworkingv1beta1.Gateway, *istionetworkingv1beta1.VirtualService) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: shootNamespace, Name: name,
		CreationTimestamp: metav1.NewTime(time.Unix(int64(created), 0))}
	gw := &istionetworkingv1beta1.Gateway{ObjectMeta: meta}
	vs := &istionetworkingv1beta1.VirtualService{ObjectMeta: *meta.DeepCopy()}
	Expect(gardeneristio.GatewayWithTLSPassthrough(gw, nil, ingressLabels, hosts)()).To(Succeed())
	Expect(gardeneristio.VirtualServiceWithSNIMatch(vs, nil, []string{"istio-ingress"}, hosts, name, 443,
		name+"."+shootNamespace+".svc.cluster.local")()).To(Succeed())
	return gw, vs
}

var _ = Describe("#BuildTable", func() {
	var (
		gw *istionetworkingv1beta1.Gateway
		vs *istionetworkingv1beta1.VirtualService
	)

	BeforeEach(func() { gw, vs = exposed("kube-apiserver", 1, "api.live.example", "api.live.internal.example") })

	build := func() ([]gateway.Route, []string) {
		table, problems := gateway.BuildTable(identity, []*istionetworkingv1beta1.Gateway{gw},
			[]*istionetworkingv1beta1.VirtualService{vs})
		return table.Routes, problems
	}

	It("should route what gardener exposes", func() {
		routes, problems := build()
		target := gateway.Target{Namespace: shootNamespace, Service: "kube-apiserver", Port: 443}
		Expect(routes).To(Equal([]gateway.Route{
			{SNI: "api.live.internal.example", Target: target, Source: shootNamespace + "/kube-apiserver"},
			{SNI: "api.live.example", Target: target, Source: shootNamespace + "/kube-apiserver"},
		}))
		Expect(problems).To(BeEmpty())
	})

	DescribeTable("should not route", func(change func()) {
		change()
		routes, _ := build()
		Expect(routes).To(BeEmpty())
	},
		Entry("a Gateway of other pods",
			func() { gw.Spec.Selector = map[string]string{"app": "istio-ingressgateway", "istio": "zone-a"} }),
		Entry("a Gateway with another port", func() { gw.Spec.Servers[0].Port.Number = 8443 }),
		Entry("a Gateway that ends TLS",
			func() { gw.Spec.Servers[0].Tls.Mode = istioapinetworkingv1beta1.ServerTLSSettings_SIMPLE }),
		Entry("a Gateway that serves other hosts", func() { gw.Spec.Servers[0].Hosts = []string{"other.example"} }),
		Entry("a VirtualService of another Gateway", func() { vs.Spec.Gateways = []string{"other"} }),
		Entry("a VirtualService of a Gateway in another namespace",
			func() { vs.Spec.Gateways = []string{"other/kube-apiserver"} }),
		Entry("a VirtualService exported elsewhere", func() { vs.Spec.ExportTo = []string{"other"} }),
		Entry("a VirtualService exported to its own namespace", func() { vs.Spec.ExportTo = []string{"."} }),
		Entry("a match of another port", func() { vs.Spec.Tls[0].Match[0].Port = 8132 }),
		Entry("a match of another Gateway", func() { vs.Spec.Tls[0].Match[0].Gateways = []string{"other"} }),
	)

	DescribeTable("should route", func(change func(), service string) {
		change()
		routes, problems := build()
		Expect(problems).To(BeEmpty())
		Expect(routes).To(HaveLen(2))
		Expect(routes).To(HaveEach(HaveField("Target.Service", service)))
	},
		Entry("a selector that matches in part of the labels",
			func() { gw.Spec.Selector = map[string]string{"istio": "ingressgateway"} }, "kube-apiserver"),
		Entry("a Gateway named with its namespace",
			func() { vs.Spec.Gateways = []string{shootNamespace + "/kube-apiserver"} }, "kube-apiserver"),
		Entry("an export to everybody", func() { vs.Spec.ExportTo = []string{"*"} }, "kube-apiserver"),
		Entry("no export setting", func() { vs.Spec.ExportTo = nil }, "kube-apiserver"),
		Entry("a server for every host", func() { gw.Spec.Servers[0].Hosts = []string{"*"} }, "kube-apiserver"),
		Entry("a server for a domain, limited to namespaces",
			func() { gw.Spec.Servers[0].Hosts = []string{"./*.example"} }, "kube-apiserver"),
		Entry("a match of any port", func() { vs.Spec.Tls[0].Match[0].Port = 0 }, "kube-apiserver"),
		Entry("a destination of the same namespace", func() { vs.Spec.Tls[0].Route[0].Destination.Host = "relay" },
			"relay"),
	)

	DescribeTable("should name what it does not support", func(change func(), problem string) {
		change()
		routes, problems := build()
		Expect(routes).To(BeEmpty())
		Expect(problems).To(ConsistOf(ContainSubstring(problem)))
	},
		Entry("several destinations",
			func() { vs.Spec.Tls[0].Route = append(vs.Spec.Tls[0].Route, vs.Spec.Tls[0].Route[0]) }, "2 destinations"),
		Entry("no port", func() { vs.Spec.Tls[0].Route[0].Destination.Port = nil }, "without a port"),
		Entry("a host outside", func() { vs.Spec.Tls[0].Route[0].Destination.Host = "www.example.com" },
			"no Service of this cluster"),
	)

	It("should prefer exact names, then the longer wildcard, then the older object", func() {
		all := []struct {
			name    string
			created int
			host    string
		}{{"wide", 1, "*.example"}, {"narrow", 2, "*.live.example"}, {"exact", 3, "api.live.example"},
			{"late", 5, "api.live.example"}, {"old", 4, "db.live.example"}}
		var gateways []*istionetworkingv1beta1.Gateway
		var virtualServices []*istionetworkingv1beta1.VirtualService
		for _, object := range all {
			gw, vs := exposed(object.name, object.created, object.host)
			gateways, virtualServices = append(gateways, gw),
				append([]*istionetworkingv1beta1.VirtualService{vs}, virtualServices...)
		}
		table, problems := gateway.BuildTable(identity, gateways, virtualServices)
		Expect(problems).To(ConsistOf(ContainSubstring("api.live.example belongs to shoot--demo--live/exact")))
		for sni, service := range map[string]string{"api.live.example": "exact", "x.live.example": "narrow",
			"a.b.live.example": "narrow", "x.example": "wide", "db.live.example": "old"} {
			route, found := table.Lookup(sni)
			Expect(found).To(BeTrue(), sni)
			Expect(route.Target.Service).To(Equal(service), sni)
		}
		for _, sni := range []string{"example", "", "live.elsewhere"} {
			_, found := table.Lookup(sni)
			Expect(found).To(BeFalse(), sni)
		}
	})
})
