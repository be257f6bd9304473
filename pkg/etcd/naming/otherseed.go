// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package naming

import "fmt"

// The members of the other seed are reached through the relay, which runs in the shoot's namespace of both seeds.

const (
	// Relay is the name of the relay's objects in the shoot's namespace.
	Relay = "livecpm-relay"
	// PortRelayClient is where the relay accepts connections of etcd clients to the other seed.
	PortRelayClient = 22379
	// SourceClientHost is the host, below the peer service, at which the destination's sidecars find the source's
	// cluster.
	SourceClientHost = "source-client"
)

// RelayClientAddress returns the address at which the other seed's etcd clusters are reached through the relay. The
// server name chooses the target: ClientHost for any member, MemberHost for a certain one.
func RelayClientAddress(namespace string) string {
	return fmt.Sprintf("%s.%s.svc:%d", Relay, namespace, PortRelayClient)
}

// SourceClientEndpoint returns the URL at which the destination's sidecars find the source's cluster. The certificates
// of etcd cover the host, because it is below the peer service.
func SourceClientEndpoint(namespace, etcdRole string) string {
	return fmt.Sprintf("https://%s.%s.%s.svc:%d", SourceClientHost, PeerServiceName(etcdRole), namespace,
		PortRelayClient)
}
