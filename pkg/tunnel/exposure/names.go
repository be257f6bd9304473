// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
)

const (
	// Name is the name of the relay's objects in the shoot's namespace.
	Name = naming.Relay
	// LabelKey is the key of the label that marks every object of the exposure.
	LabelKey = "app.kubernetes.io/part-of"
	// LabelValue is the value of that label.
	LabelValue = "livecpm"

	// PortRelayGateway is where the relay accepts what the ingress gateway hands over from the other seed.
	PortRelayGateway = 8443
	portRelayHealth  = 8081
	portRelayMetrics = 8082
	portGateway      = 443

	// sliceManager is this component's value of the label by which every controller of EndpointSlices leaves those of
	// others alone.
	sliceManager = "livecpm-agent"
)

// IngressDomain returns the ingress domain of a seed; empty if it has none.
func IngressDomain(seed *gardencorev1beta1.Seed) string {
	if seed.Spec.Ingress == nil {
		return ""
	}
	return seed.Spec.Ingress.Domain
}

// peerHost, memberClientHost and clientHost are the names by which the other seed's ingress gateway and relay know a
// target. Unlike the names inside, they are unique among all shoots of a seed.
func peerHost(namespace, domain, etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s--%s.%s", naming.PodName(etcdRole, ordinal), namespace, domain)
}

func memberClientHost(namespace, domain, etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s-client--%s.%s", naming.PodName(etcdRole, ordinal), namespace, domain)
}

func clientHost(namespace, domain, etcdRole string) string {
	return fmt.Sprintf("%s-client--%s.%s", naming.EtcdName(etcdRole), namespace, domain)
}

// hosts returns every name under which the seed with the domain is reached from the other one.
func hosts(namespace, domain string) []string {
	var out []string
	for _, etcdRole := range naming.EtcdRoles {
		out = append(out, clientHost(namespace, domain, etcdRole))
		for ordinal := range naming.MembersPerSeed {
			out = append(out, peerHost(namespace, domain, etcdRole, ordinal),
				memberClientHost(namespace, domain, etcdRole, ordinal))
		}
	}
	return out
}

// memberNames returns the forms of a member's host name that a dialer may send.
func memberNames(namespace, etcdRole, host string) []string {
	return kubernetesutils.DNSNamesForService(host+"."+naming.PeerServiceName(etcdRole), namespace)
}

func fullyQualified(host string) string { return host + ".cluster.local." }
