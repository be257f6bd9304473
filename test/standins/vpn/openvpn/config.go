// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package openvpn

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
)

const (
	// ServerFile is the file that OpenVPN is started with in the seed.
	ServerFile = "/openvpn-server.config"
	// ClientFile is the one in the shoot.
	ClientFile = "/openvpn-client.config"
	// ClientFolder has a file for the client in the shoot, with what the server does for it.
	ClientFolder = "/client-config-dir"
	// ShootClient is what the names of clients in a shoot begin with. The one of the VPN without high availability has
	// just this name.
	ShootClient = "vpn-shoot-client"

	managementPort = 7505
	// The fewest and the most routes that a server is to keep for a client.
	leastRoutes, mostRoutes = 256, 1 << 20
)

// InTunnel returns the networks of the shoot as they are inside of the tunnel, each once and in order.
func (s *Settings) InTunnel() []netip.Prefix {
	var all []netip.Prefix
	for _, kind := range []struct {
		networks []netip.Prefix
		mapped   netip.Prefix
	}{{s.Services, mappedServices}, {s.Pods, mappedPods}, {s.Nodes, mappedNodes}} {
		for _, network := range kind.networks {
			if network.Addr().Is4() {
				network = kind.mapped
			}
			all = append(all, network)
		}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// maxRoutes is the number of hosts in the shoot, within bounds.
func (s *Settings) maxRoutes() int64 {
	sum := new(big.Int)
	for _, network := range slices.Concat(s.Pods, s.Services, s.Nodes) {
		// #nosec G115 -- 0 to 128
		hosts := new(big.Int).Lsh(big.NewInt(1), uint(network.Addr().BitLen()-network.Bits()))
		if network.Addr().Is4() && network.Bits() <= 30 {
			hosts.Sub(hosts, big.NewInt(2)) // the network and its broadcast
		}
		sum.Add(sum, hosts)
	}
	if !sum.IsInt64() {
		return mostRoutes
	}
	return max(min(sum.Int64(), mostRoutes), leastRoutes)
}

// ServerConfig returns the configuration of the server. The MTU of the tunnel is OpenVPN's own if it is 0.
func (s *Settings) ServerConfig(mtu int) string {
	lines := []string{
		"verb 3", "mode server", "tls-server", "topology subnet", "txqueuelen 1000", "tcp-nodelay",
	}
	if mtu != 0 {
		lines = append(lines, fmt.Sprintf("tun-mtu %d", mtu), fmt.Sprintf("push \"tun-mtu %d\"", mtu))
	}
	networks := make([]string, 0)
	for _, network := range s.InTunnel() {
		networks = append(networks, network.String())
	}
	seedPods := ""
	if s.SeedPods.IsValid() {
		seedPods = s.SeedPods.String()
	}
	return text(append(lines,
		"data-ciphers AES-256-GCM:AES-256-CBC",
		"port 1194",
		// A client is taken for dead after twice the 30 seconds.
		"keepalive 10 30",
		fmt.Sprintf("max-routes-per-client %d", s.maxRoutes()),
		"client-config-dir "+ClientFolder,
		`key "/srv/secrets/vpn-server/tls.key"`,
		`cert "/srv/secrets/vpn-server/tls.crt"`,
		`ca "/srv/secrets/vpn-server/ca.crt"`,
		"dh none",
		"auth SHA256",
		`tls-auth "/srv/secrets/tlsauth/vpn.tlsauth" 0`,
		// It listens for IPv4, too.
		"proto tcp6-server",
		"server-ipv6 "+s.Network.String(),
		"dev "+Device,
		"script-security 2",
		fmt.Sprintf(`up "/bin/vpn-server firewall --mode up --device %s --shoot-network=%s --seed-pod-network=%s"`,
			Device, strings.Join(networks, ","), seedPods),
		fmt.Sprintf(`down "/bin/vpn-server firewall --mode down --device %s"`, Device),
		"status "+s.StatusFile+" 15",
		"status-version 2",
	))
}

// RoutesToClient returns the server's configuration for the client in the shoot: which networks are behind it.
func (s *Settings) RoutesToClient() string {
	var v4, v6 []string
	for _, network := range s.InTunnel() {
		if network.Addr().Is4() {
			mask := net.IP(net.CIDRMask(network.Bits(), 32))
			v4 = append(v4, fmt.Sprintf("iroute %s %s", network.Addr(), mask))
		} else {
			v6 = append(v6, "iroute-ipv6 "+network.String())
		}
	}
	return text(append(v4, v6...))
}

// ClientConfig returns the configuration of the client. The MTU of the tunnel is OpenVPN's own if it is 0.
func (s *Settings) ClientConfig(mtu int) string {
	lines := []string{"verb 3", "auth-nocache", "txqueuelen 1000", "tcp-nodelay"}
	if mtu != 0 {
		lines = append(lines, fmt.Sprintf("tun-mtu %d", mtu))
	}
	proto := map[string]string{"IPv4": "tcp4-client", "IPv6": "tcp6-client"}[s.Families[0]]
	if len(s.Families) > 1 {
		proto = "tcp-client"
	}
	back := ""
	if s.SeedPods.IsValid() {
		back = s.SeedPods.String()
		if s.SeedPods.Addr().Is4() {
			back = mappedSeedPods.String()
		}
	}
	return text(append(lines,
		"pull",
		"data-ciphers AES-256-GCM",
		"tls-client",
		"connect-retry 1 5",
		"auth SHA256",
		`tls-auth "/srv/secrets/tlsauth/vpn.tlsauth" 1`,
		"remote-cert-tls server",
		"proto "+proto,
		"key /srv/secrets/vpn-client/tls.key",
		"cert /srv/secrets/vpn-client/tls.crt",
		"ca /srv/secrets/vpn-client/ca.crt",
		fmt.Sprintf("http-proxy %s %d", s.Endpoint, s.Port),
		fmt.Sprintf("http-proxy-option CUSTOM-HEADER %s %s", s.HeaderKey, s.Header),
		fmt.Sprintf("management 127.0.0.1 %d", managementPort),
		"dev "+Device,
		"remote "+s.Endpoint,
		"script-security 2",
		fmt.Sprintf(`up "/bin/sh -c '/sbin/ip route replace %s dev $1' -- "`, back),
	))
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }
