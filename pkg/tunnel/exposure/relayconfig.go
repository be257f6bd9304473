// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package exposure

import (
	"fmt"
	"time"

	kubernetesutils "github.com/gardener/gardener/pkg/utils/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

const (
	mountPathConfig = "/etc/livecpm-relay/config"
	mountPathTLS    = "/etc/livecpm-relay/tls"
	configFile      = "config.yaml"

	// maxConnections and maxHandshakes bound what the relay needs: a connection takes two buffers of 32 KiB and the
	// state of a TLS connection, less than 128 KiB together, a handshake on each of the three ports up to 200 KiB, if
	// the peer sends the largest ClientHello that there may be. That is what the memory limit of its container is made
	// for.
	maxConnections = 4096
	maxHandshakes  = 512

	// redialPause is what a member that comes back may wait for its peers, and for those who ask it, at most. It is a
	// quarter of etcd's default election timeout, so that no election begins for it.
	redialPause = 250 * time.Millisecond
)

// relayConfig returns the configuration of the relay. All of its pods have the same one.
func (v Values) relayConfig() *config.Config {
	c := &config.Config{
		Namespace: v.Namespace,
		TLS: config.TLS{
			CAFile:   mountPathTLS + "/ca.crt",
			CertFile: mountPathTLS + "/tls.crt",
			KeyFile:  mountPathTLS + "/tls.key",
		},
		Health:  config.Endpoint{Port: portRelayHealth},
		Metrics: config.Endpoint{Port: portRelayMetrics},
		// A kube-apiserver holds a connection for every resource, also for each custom one, and all of them come here
		// when the members of the source are gone.
		Limits: config.Limits{MaxConnections: maxConnections, MaxHandshakes: maxHandshakes},
	}

	// The relay listens on the other side's peer port only. On this side's port it refuses, and etcd's dialer continues
	// to the local pod, which has the same name.
	var inner config.Inner
	if v.PlainPeers {
		inner = config.InnerHTTP
	}
	peers := config.Near{Port: naming.PeerPort(v.Role.Peer()), Inner: inner,
		RedialPause: metav1.Duration{Duration: redialPause}}
	clients := config.Near{Port: naming.PortRelayClient}
	far := config.Far{Port: PortRelayGateway}

	for _, etcdRole := range naming.EtcdRoles {
		// The gateway routes by server name; which of the names is dialed for clients makes no difference.
		dialHost := peerHost(v.Namespace, v.PeerDomain, etcdRole, 0)
		for ordinal := range naming.MembersPerSeed {
			names := memberNames(v.Namespace, etcdRole, naming.PodName(etcdRole, ordinal))
			host := peerHost(v.Namespace, v.PeerDomain, etcdRole, ordinal)
			peers.Routes = append(peers.Routes,
				config.NearRoute{InnerSNI: names, Remote: config.Remote{Host: host, Port: portGateway}})
			clients.Routes = append(clients.Routes, config.NearRoute{InnerSNI: names, Remote: config.Remote{
				Host: host, Port: portGateway,
				ServerName: memberClientHost(v.Namespace, v.PeerDomain, etcdRole, ordinal),
			}, RedialPause: metav1.Duration{Duration: redialPause}})

			target := fullyQualified(naming.MemberHost(v.Namespace, etcdRole, ordinal))
			far.Routes = append(far.Routes,
				config.FarRoute{ServerName: peerHost(v.Namespace, v.Domain, etcdRole, ordinal), InnerSNI: names,
					Inner: inner, Target: fmt.Sprintf("%s:%d", target, naming.PeerPort(v.Role))},
				config.FarRoute{ServerName: memberClientHost(v.Namespace, v.Domain, etcdRole, ordinal), InnerSNI: names,
					Target: fmt.Sprintf("%s:%d", target, naming.PortClient)},
			)
		}
		// Without a pause: the services have several members.
		//
		// The source's relay has the route of SourceClientHost as well: once its members are gone, sidecars of the
		// destination that still ask there come back to their own cluster instead of nowhere.
		names := append(memberNames(v.Namespace, etcdRole, naming.SourceClientHost),
			kubernetesutils.DNSNamesForService(naming.ClientServiceName(etcdRole), v.Namespace)...)
		clients.Routes = append(clients.Routes, config.NearRoute{
			InnerSNI: names,
			Remote: config.Remote{Host: dialHost, Port: portGateway,
				ServerName: clientHost(v.Namespace, v.PeerDomain, etcdRole)},
		})
		far.Routes = append(far.Routes, config.FarRoute{
			ServerName: clientHost(v.Namespace, v.Domain, etcdRole),
			InnerSNI:   names,
			Target: fmt.Sprintf("%s:%d", fullyQualified(naming.ClientHost(v.Namespace, etcdRole)),
				naming.PortClient),
		})
	}

	c.Near, c.Far = []config.Near{peers, clients}, far
	return c
}

func (v Values) relayConfigYAML() (string, error) {
	out, err := yaml.Marshal(v.relayConfig())
	if err != nil {
		return "", fmt.Errorf("failed to marshal the configuration of the relay: %w", err)
	}
	return string(out), nil
}
