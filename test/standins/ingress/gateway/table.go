// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package gateway implements an ingress gateway that routes raw TCP by SNI after Istio's Gateway and VirtualService
// objects: as much of istiod and Envoy as Gardener needs to expose API servers with TLS passthrough. On top of it,
// traffic can be delayed or cut on request.
package gateway

import (
	"fmt"
	"slices"
	"strings"

	istioapinetworkingv1beta1 "istio.io/api/networking/v1beta1"
	istionetworkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// Identity is what decides which objects concern this gateway.
type Identity struct {
	// Namespace is that of the gateway's workload; VirtualServices must be exported to it.
	Namespace string
	// Labels are those of the gateway's pods; the selectors of Gateways must match them.
	Labels map[string]string
	// Port is the port number that servers in Gateways must have.
	Port uint32
}

// Target is a port of a Service.
type Target struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Port      uint32 `json:"port"`
}

// String implements fmt.Stringer.
func (t Target) String() string { return fmt.Sprintf("%s/%s:%d", t.Namespace, t.Service, t.Port) }

// Route sends connections with a matching server name to a target.
type Route struct {
	// SNI is a name, or "*." and a suffix.
	SNI    string `json:"sni"`
	Target Target `json:"target"`
	// Source is the VirtualService that the route comes from.
	Source string `json:"source"`
}

// Table holds the routes by precedence: exact names before wildcards, longer wildcards before shorter ones.
type Table struct{ Routes []Route }

// Lookup finds the route of a server name.
func (t *Table) Lookup(serverName string) (Route, bool) {
	for _, route := range t.Routes {
		if wire.MatchServerName(route.SNI, serverName) {
			return route, true
		}
	}
	return Route{}, false
}

// BuildTable derives the routes from the objects. problems lists what was found but is not supported here or
// contradicts itself; such parts are left out, as istiod leaves them out.
func BuildTable(
	identity Identity, gateways []*istionetworkingv1beta1.Gateway,
	virtualServices []*istionetworkingv1beta1.VirtualService,
) (table *Table, problems []string) {
	hosts := passthroughHosts(identity, gateways)
	// Where two VirtualServices claim the same name the older one has it, as with Istio.
	virtualServices = slices.Clone(virtualServices)
	slices.SortStableFunc(virtualServices, func(a, b *istionetworkingv1beta1.VirtualService) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(objectName(a.Namespace, a.Name), objectName(b.Namespace, b.Name))
	})
	table = &Table{}
	taken := map[string]string{}
	for _, vs := range virtualServices {
		if vs.DeletionTimestamp != nil && len(vs.Finalizers) == 0 || !exported(vs, identity.Namespace) {
			continue
		}
		source := objectName(vs.Namespace, vs.Name)
		for _, route := range vs.Spec.Tls {
			target, err := routeTarget(vs.Namespace, route)
			if err != nil {
				problems = append(problems, fmt.Sprintf("VirtualService %s: %v", source, err))
				continue
			}
			for _, sni := range matchingNames(identity, vs, route, hosts) {
				if owner, found := taken[sni]; found {
					if owner != source {
						problems = append(problems,
							fmt.Sprintf("VirtualService %s: SNI %s belongs to %s already", source, sni, owner))
					}
					continue
				}
				taken[sni] = source
				table.Routes = append(table.Routes, Route{SNI: sni, Target: target, Source: source})
			}
		}
	}
	slices.SortStableFunc(table.Routes, func(a, b Route) int {
		if aw, bw := strings.HasPrefix(a.SNI, "*"), strings.HasPrefix(b.SNI, "*"); aw != bw {
			if aw {
				return 1
			}
			return -1
		}
		if len(a.SNI) != len(b.SNI) {
			return len(b.SNI) - len(a.SNI)
		}
		return strings.Compare(a.SNI, b.SNI)
	})
	return table, problems
}

func objectName(namespace, name string) string { return namespace + "/" + name }

// passthroughHosts collects the hosts of the Gateways that select this workload, by the Gateway's namespace/name.
func passthroughHosts(identity Identity, gateways []*istionetworkingv1beta1.Gateway) map[string][]string {
	hosts := map[string][]string{}
	for _, gw := range gateways {
		if !labels.SelectorFromSet(gw.Spec.Selector).Matches(labels.Set(identity.Labels)) {
			continue
		}
		key := objectName(gw.Namespace, gw.Name)
		for _, server := range gw.Spec.Servers {
			if server.GetPort().GetNumber() != identity.Port ||
				server.GetTls().GetMode() != istioapinetworkingv1beta1.ServerTLSSettings_PASSTHROUGH ||
				server.GetTls() == nil {
				continue
			}
			for _, host := range server.Hosts {
				// A host may be limited to VirtualServices of a namespace: "namespace/host". Gardener does not do so.
				if _, name, found := strings.Cut(host, "/"); found {
					host = name
				}
				hosts[key] = append(hosts[key], normalize(host))
			}
		}
	}
	return hosts
}

func exported(vs *istionetworkingv1beta1.VirtualService, namespace string) bool {
	return len(vs.Spec.ExportTo) == 0 || slices.ContainsFunc(vs.Spec.ExportTo, func(to string) bool {
		return to == "*" || to == namespace || to == "." && vs.Namespace == namespace
	})
}

// routeTarget reads the destination: one Service of this cluster, with a port number.
func routeTarget(namespace string, route *istioapinetworkingv1beta1.TLSRoute) (Target, error) {
	if len(route.Route) != 1 {
		return Target{}, fmt.Errorf("a tls route with %d destinations is not supported", len(route.Route))
	}
	destination := route.Route[0].GetDestination()
	target := Target{Namespace: namespace, Port: destination.GetPort().GetNumber()}
	if target.Port == 0 {
		return Target{}, fmt.Errorf("destination %q without a port is not supported", destination.GetHost())
	}
	host := strings.TrimSuffix(destination.GetHost(), ".")
	parts := strings.SplitN(host, ".", 3)
	target.Service = parts[0]
	if len(parts) > 1 {
		target.Namespace = parts[1]
	}
	if len(parts) > 2 && parts[2] != "svc" && parts[2] != "svc.cluster.local" || target.Service == "" ||
		target.Namespace == "" {
		return Target{}, fmt.Errorf("destination %q is no Service of this cluster", destination.GetHost())
	}
	return target, nil
}

// matchingNames lists the names of a route that one of the VirtualService's Gateways serves.
func matchingNames(
	identity Identity, vs *istionetworkingv1beta1.VirtualService, route *istioapinetworkingv1beta1.TLSRoute,
	hosts map[string][]string,
) []string {
	var names []string
	for _, match := range route.Match {
		if match.Port != 0 && match.Port != identity.Port {
			continue
		}
		gateways := match.Gateways
		if len(gateways) == 0 {
			gateways = vs.Spec.Gateways
		}
		var served []string
		for _, gw := range gateways {
			if !strings.Contains(gw, "/") {
				gw = objectName(vs.Namespace, gw)
			}
			served = append(served, hosts[gw]...)
		}
		for _, sni := range match.SniHosts {
			sni = normalize(sni)
			if slices.ContainsFunc(served, func(host string) bool { return covers(host, sni) }) {
				names = append(names, sni)
			}
		}
	}
	return names
}

func normalize(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// covers reports whether every name that sni stands for is served under host.
func covers(host, sni string) bool {
	return host == "*" || host == sni || wire.MatchServerName(host, strings.TrimPrefix(sni, "*"))
}
