// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// Name is the name of the relay's objects in the shoot's namespace.
	Name = "livecpm-relay"
	// LabelKey is the key of the label that marks every object of the exposure, DNSRecords included.
	LabelKey = "app.kubernetes.io/part-of"
	// LabelValue is the value of that label.
	LabelValue = "livecpm"

	// Members is the number of etcd members on each side, and of the relay's pods: every member needs an address of its
	// own, because etcd compares peer URLs by what they resolve to.
	Members = 3

	// PortClient is where etcd serves its clients.
	PortClient = 2379
	// PortPeerSource is where the members of the source serve their peers: Gardener's ordinary port.
	PortPeerSource = 2380
	// PortPeerDestination is where the members of the destination serve their peers as long as the source's members are
	// in the cluster: member N has the same host name in both seeds, so the port has to tell their peer URLs apart.
	PortPeerDestination = 2381

	// PortRelayClient is where the relay accepts connections of etcd clients to the other seed.
	PortRelayClient = 22379
	// PortRelayGateway is where the relay accepts what the ingress gateway hands over from the other seed.
	PortRelayGateway = 8443
	portRelayHealth  = 8081
	portRelayMetrics = 8080
	portGateway      = 443

	// SourceClientHost is the host, below the peer service, that the destination's sidecars find the source cluster at.
	SourceClientHost = "source-client"

	// sliceManager is this component's value of the label by which every controller of EndpointSlices leaves those of
	// others alone.
	sliceManager = "livecpm-agent"
)

// EtcdRoles are the roles of the etcd clusters of a shoot.
var EtcdRoles = []string{v1beta1constants.ETCDRoleMain, v1beta1constants.ETCDRoleEvents}

// PeerPort returns the peer port of the etcd members on the given side.
func PeerPort(role steps.Role) int32 {
	if role == steps.Source {
		return PortPeerSource
	}
	return PortPeerDestination
}

// IngressDomain returns the ingress domain of a seed; empty if it has none.
func IngressDomain(seed *gardencorev1beta1.Seed) string {
	if seed.Spec.Ingress == nil {
		return ""
	}
	return seed.Spec.Ingress.Domain
}

// EtcdName returns the name of the Etcd resource.
func EtcdName(etcdRole string) string { return "etcd-" + etcdRole }

// PodName returns the name of a member's pod.
func PodName(etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s-%d", EtcdName(etcdRole), ordinal)
}

// ClientServiceName returns the name of the service for clients.
func ClientServiceName(etcdRole string) string { return EtcdName(etcdRole) + "-client" }

// PeerServiceName returns the name of the headless service of the members.
func PeerServiceName(etcdRole string) string { return EtcdName(etcdRole) + "-peer" }

// PeerURL returns the peer URL that etcd-druid gives to a member on the given side.
func PeerURL(role steps.Role, namespace, etcdRole string, ordinal int) string {
	return fmt.Sprintf("https://%s:%d", MemberHost(namespace, etcdRole, ordinal), PeerPort(role))
}

// MemberHost returns the host name in a member's URLs. It is the same in both seeds.
func MemberHost(namespace, etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s.%s.%s.svc", PodName(etcdRole, ordinal), PeerServiceName(etcdRole), namespace)
}

// ClientHost returns the host name of the service for clients.
func ClientHost(namespace, etcdRole string) string {
	return fmt.Sprintf("%s.%s.svc", ClientServiceName(etcdRole), namespace)
}

// SourceClientEndpoint returns the URL at which the destination's sidecars find the source cluster. The certificates of
// etcd cover the host, because it is below the peer service.
func SourceClientEndpoint(namespace, etcdRole string) string {
	return fmt.Sprintf("https://%s.%s.%s.svc:%d", SourceClientHost, PeerServiceName(etcdRole), namespace,
		PortRelayClient)
}

// RelayClientAddress returns the address at which the other seed's etcd clusters are reached through the relay. The
// server name chooses the target: ClientHost for any member, MemberHost for a certain one.
func RelayClientAddress(namespace string) string {
	return fmt.Sprintf("%s.%s.svc:%d", Name, namespace, PortRelayClient)
}

// peerHost, memberClientHost and clientHost are the names by which the other seed's ingress gateway and relay know a
// target. Unlike the names inside, they are unique among all shoots of a seed.
func peerHost(namespace, domain, etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s--%s.%s", PodName(etcdRole, ordinal), namespace, domain)
}

func memberClientHost(namespace, domain, etcdRole string, ordinal int) string {
	return fmt.Sprintf("%s-client--%s.%s", PodName(etcdRole, ordinal), namespace, domain)
}

func clientHost(namespace, domain, etcdRole string) string {
	return fmt.Sprintf("%s-client--%s.%s", EtcdName(etcdRole), namespace, domain)
}

// hosts returns every name under which the seed with the domain is reached from the other one.
func hosts(namespace, domain string) []string {
	var out []string
	for _, etcdRole := range EtcdRoles {
		out = append(out, clientHost(namespace, domain, etcdRole))
		for ordinal := range Members {
			out = append(out, peerHost(namespace, domain, etcdRole, ordinal),
				memberClientHost(namespace, domain, etcdRole, ordinal))
		}
	}
	return out
}

// memberNames returns the forms of a member's host name that a dialer may send.
func memberNames(namespace, etcdRole, host string) []string {
	return kubernetesutils.DNSNamesForService(host+"."+PeerServiceName(etcdRole), namespace)
}

func fullyQualified(host string) string { return host + ".cluster.local." }
