// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package openvpn

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
)

// Device is the interface of the tunnel.
const Device = "tun0"

// Networks of seed and shoot may overlap. So IPv4 addresses have another one inside of the tunnel: those of each kind
// are in a range that is reserved for it.
var (
	mappedSeedPods = netip.MustParsePrefix(v1beta1constants.ReservedSeedPodNetworkMappedRange)
	mappedNodes    = netip.MustParsePrefix(v1beta1constants.ReservedShootNodeNetworkMappedRange)
	mappedServices = netip.MustParsePrefix(v1beta1constants.ReservedShootServiceNetworkMappedRange)
	mappedPods     = netip.MustParsePrefix(v1beta1constants.ReservedShootPodNetworkMappedRange)
)

// Mapping is what a network of the shoot is inside of the tunnel.
type Mapping struct{ Network, Mapped netip.Prefix }

// Mappings returns those of all IPv4 networks of the shoot. Server and client come to the same result because both have
// the same networks in the same order.
func (s *Settings) Mappings() ([]Mapping, error) {
	var all []Mapping
	for _, kind := range []struct {
		networks []netip.Prefix
		into     netip.Prefix
	}{{s.Pods, mappedPods}, {s.Services, mappedServices}, {s.Nodes, mappedNodes}} {
		mappings, err := mapInto(kind.networks, kind.into)
		if err != nil {
			return nil, err
		}
		all = append(all, mappings...)
	}
	return all, nil
}

// mapInto places the networks one behind the other in the range, the largest ones first, so that each is aligned.
func mapInto(networks []netip.Prefix, into netip.Prefix) ([]Mapping, error) {
	networks = slices.DeleteFunc(slices.Clone(networks), func(n netip.Prefix) bool { return !n.Addr().Is4() })
	slices.SortStableFunc(networks, func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) })
	base := into.Masked().Addr().As4()
	next := uint64(binary.BigEndian.Uint32(base[:]))
	end := next + 1<<(32-into.Bits())
	var out []Mapping
	for _, network := range networks {
		size := uint64(1) << (32 - network.Bits())
		if next+size > end {
			return nil, fmt.Errorf("the networks %v do not fit into %s", networks, into)
		}
		var at [4]byte
		binary.BigEndian.PutUint32(at[:], uint32(next)) // #nosec G115 -- It is below the end of an IPv4 network.
		out = append(out, Mapping{Network: network, Mapped: netip.PrefixFrom(netip.AddrFrom4(at), network.Bits())})
		next += size
	}
	return out, nil
}

// Rule is a rule for iptables.
type Rule struct {
	// Table and Chain are where it belongs.
	Table, Chain string
	// Spec is what it matches and does.
	Spec []string
}

func rule(table, chain string, spec ...string) Rule {
	return Rule{Table: table, Chain: chain, Spec: spec}
}

// ServerRules translate the addresses of the shoot for what the envoy beside the server sends: it is known by its
// group.
func (s *Settings) ServerRules() ([]Rule, error) {
	mappings, err := s.Mappings()
	if err != nil {
		return nil, err
	}
	group := strconv.Itoa(v1beta1constants.EnvoyVPNGroupId)
	var rules []Rule
	for _, m := range mappings {
		rules = append(rules, rule("nat", "OUTPUT", "-m", "owner", "--gid-owner", group, "-d", m.Network.String(),
			"-j", "NETMAP", "--to", m.Mapped.String()))
	}
	return rules, nil
}

// ClientRules forward what comes out of the tunnel into the shoot, and translate the addresses back. They are for the
// IPv4 addresses, or for the IPv6 ones.
func (s *Settings) ClientRules(family string) ([]Rule, error) {
	var rules []Rule
	if family == "IPv4" {
		rules = append(rules, rule("filter", "FORWARD", "--in-interface", Device, "-j", "ACCEPT"))
		mappings, err := s.Mappings()
		if err != nil {
			return nil, err
		}
		for _, m := range mappings {
			rules = append(rules,
				rule("nat", "PREROUTING", "--in-interface", Device, "-d", m.Mapped.String(), "-j", "NETMAP",
					"--to", m.Network.String()),
				rule("nat", "POSTROUTING", "--out-interface", Device, "-s", m.Network.String(), "-j", "NETMAP",
					"--to", m.Mapped.String()))
		}
	}
	return append(rules,
		rule("mangle", "POSTROUTING", "-p", "tcp", "--tcp-flags", "SYN,RST", "SYN", "-j", "TCPMSS",
			"--clamp-mss-to-pmtu"),
		rule("nat", "POSTROUTING", "--out-interface", "eth0", "-j", "MASQUERADE")), nil
}

// FirewallRules are those of a server's device, for both families: only answers come in from the shoot.
func FirewallRules(device string) []Rule {
	return []Rule{
		rule("filter", "INPUT", "-m", "state", "--state", "RELATED,ESTABLISHED", "-i", device, "-j", "ACCEPT"),
		rule("filter", "INPUT", "-i", device, "-j", "DROP"),
	}
}

// SeedRules translate the IPv4 addresses of the seed's pods on a server's device.
func SeedRules(device string, seedPods netip.Prefix) []Rule {
	if !seedPods.IsValid() || !seedPods.Addr().Is4() || device != Device {
		return nil
	}
	return []Rule{
		rule("nat", "PREROUTING", "--in-interface", device, "-d", mappedSeedPods.String(), "-j", "NETMAP",
			"--to", seedPods.String()),
		rule("nat", "POSTROUTING", "--out-interface", device, "-s", seedPods.String(), "-j", "NETMAP",
			"--to", mappedSeedPods.String()),
	}
}
