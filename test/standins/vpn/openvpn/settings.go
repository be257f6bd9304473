// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package openvpn makes, from the environment that Gardener gives to the pods of its VPN, the configuration of OpenVPN,
// the rules for the translation of addresses, and the answers to probes. All of it is what the programs of
// github.com/gardener/vpn2 0.51.0 make of the same environment. Their images and their module are not available.
//
// Only the VPN without high availability is covered. The other one bonds several tunnels to one interface, which not
// every kernel can do, and is refused.
package openvpn

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
)

// ErrHighlyAvailable reports that the environment is that of a highly available VPN.
var ErrHighlyAvailable = errors.New("the highly available VPN is not covered: it needs interfaces that are bonded")

// networkBits is the length that the prefix of the tunnel's own network must have.
const networkBits = 96

// Settings are what the environment says. Server and client have some of them in common.
type Settings struct {
	// Network is the tunnel's own network, of IPv6.
	Network netip.Prefix
	// Pods, Services and Nodes are the networks of the shoot.
	Pods, Services, Nodes []netip.Prefix
	// SeedPods is the network of the seed's pods.
	SeedPods netip.Prefix
	// DetectMTU says that the tunnel's MTU follows from that of the pod's interface.
	DetectMTU bool

	// StatusFile is the file in which the server notes who is connected.
	StatusFile string

	// Endpoint and Port are where the client finds the ingress gateway of the seed.
	Endpoint string
	Port     uint16
	// HeaderKey and Header tell the gateway which server is asked for.
	HeaderKey, Header string
	// Families are IPv4, IPv6 or both, as the client uses them.
	Families []string
}

// ServerSettings reads the environment of the server.
func ServerSettings(env func(string) string) (*Settings, error) {
	s, err := common(env)
	if err != nil {
		return nil, err
	}
	if s.StatusFile = env("OPENVPN_STATUS_PATH"); s.StatusFile == "" {
		return nil, errors.New("OPENVPN_STATUS_PATH is not set")
	}
	return s, nil
}

// ClientSettings reads the environment of the client in the shoot.
func ClientSettings(env func(string) string) (*Settings, error) {
	s, err := common(env)
	if err != nil {
		return nil, err
	}
	if is, err := flag(env, "IS_SHOOT_CLIENT"); err != nil {
		return nil, err
	} else if !is {
		return nil, errors.New("IS_SHOOT_CLIENT is not set: clients in a seed are those of the highly available VPN")
	}
	if s.Endpoint = env("ENDPOINT"); s.Endpoint == "" {
		return nil, errors.New("ENDPOINT is not set")
	}
	port, err := strconv.ParseUint(or(env("OPENVPN_PORT"), "8132"), 10, 16)
	if err != nil {
		return nil, fmt.Errorf("failed to read OPENVPN_PORT: %w", err)
	}
	s.Port = uint16(port)
	s.HeaderKey = or(env("REVERSED_VPN_HEADER_KEY"), "Reversed-VPN")
	s.Header = or(env("REVERSED_VPN_HEADER"), "invalid-host")
	seen := map[string]bool{}
	for family := range strings.SplitSeq(or(env("IP_FAMILIES"), "IPv4"), ",") {
		if family != "IPv4" && family != "IPv6" {
			return nil, fmt.Errorf("IP_FAMILIES has %q, which is neither IPv4 nor IPv6", family)
		}
		if !seen[family] {
			s.Families, seen[family] = append(s.Families, family), true
		}
	}
	return s, nil
}

func common(env func(string) string) (*Settings, error) {
	if highly, err := flag(env, "IS_HA"); err != nil {
		return nil, err
	} else if highly || env("VPN_SERVER_INDEX") != "" {
		return nil, ErrHighlyAvailable
	}
	s := &Settings{}
	var err error
	if s.Network, err = prefix(or(env("VPN_NETWORK"), v1beta1constants.DefaultVPNRangeV6)); err != nil {
		return nil, err
	}
	if s.Network.Addr().Is4() || s.Network.Bits() != networkBits {
		return nil, fmt.Errorf("VPN_NETWORK is %s, and has to be of IPv6 with a prefix of %d bits", s.Network,
			networkBits)
	}
	if given := env("SEED_POD_NETWORK"); given != "" {
		if s.SeedPods, err = prefix(given); err != nil {
			return nil, err
		}
	}
	for name, networks := range map[string]*[]netip.Prefix{"SHOOT_POD_NETWORKS": &s.Pods,
		"SHOOT_SERVICE_NETWORKS": &s.Services, "SHOOT_NODE_NETWORKS": &s.Nodes} {
		for given := range strings.SplitSeq(env(name), ",") {
			if given == "" {
				continue
			}
			network, err := prefix(given)
			if err != nil {
				return nil, fmt.Errorf("failed to read %s: %w", name, err)
			}
			*networks = append(*networks, network)
		}
	}
	s.DetectMTU, err = flag(env, "OPENVPN_AUTO_MTU")
	return s, err
}

func or(given, otherwise string) string {
	if given == "" {
		return otherwise
	}
	return given
}

func flag(env func(string) string, name string) (bool, error) {
	value, err := strconv.ParseBool(or(env(name), "false"))
	if err != nil {
		return false, fmt.Errorf("failed to read %s: %w", name, err)
	}
	return value, nil
}

func prefix(given string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(given)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("failed to read network: %w", err)
	}
	return network.Masked(), nil
}
