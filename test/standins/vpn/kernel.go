// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/standins/vpn/openvpn"
)

const (
	sysctls = "/proc/sys"
	// overhead is what IPv6, TCP and OpenVPN add to each packet, and leastMTU what IPv6 needs.
	overhead, leastMTU = 130, 1280
)

// enableIPv6 is what is set up for the server: the tunnel's own network is of IPv6.
func enableIPv6() error {
	const name = "net/ipv6/conf/all/disable_ipv6"
	content, err := os.ReadFile(filepath.Join(sysctls, name))
	if err != nil {
		return fmt.Errorf("failed to read kernel setting: %w", err)
	}
	if strings.TrimSpace(string(content)) == "0" {
		return nil
	}
	return set(name, "0")
}

// clientSettings are those of the kernel for the client, which forwards and translates many connections. All of them
// belong to the pod's network namespace.
var clientSettings = [][2]string{
	{"net/ipv4/conf/all/log_martians", "0"},
	{"net/ipv4/conf/default/log_martians", "0"},
	{"net/ipv4/conf/all/rp_filter", "0"},
	{"net/ipv4/conf/default/rp_filter", "0"},
	{"net/ipv4/tcp_wmem", "65536\t12582912\t16777216"},
	{"net/ipv4/tcp_rmem", "65536\t12582912\t16777216"},
	{"net/ipv4/ip_local_port_range", "1024 65535"},
	{"net/ipv4/tcp_tw_reuse", "1"},
	{"net/ipv4/tcp_fin_timeout", "30"},
	{"net/netfilter/nf_conntrack_tcp_timeout_established", "600"},
	{"net/netfilter/nf_conntrack_tcp_timeout_syn_sent", "30"},
	{"net/netfilter/nf_conntrack_tcp_timeout_syn_recv", "30"},
	{"net/netfilter/nf_conntrack_tcp_timeout_fin_wait", "30"},
	{"net/netfilter/nf_conntrack_tcp_timeout_time_wait", "30"},
	{"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "30"},
	{"net/netfilter/nf_conntrack_tcp_timeout_unacknowledged", "60"},
	{"net/netfilter/nf_conntrack_tcp_timeout_max_retrans", "120"},
	{"net/ipv4/ip_forward", "1"},
	{"net/ipv6/conf/all/forwarding", "1"},
}

func tuneKernel() error {
	for _, setting := range clientSettings {
		if err := set(setting[0], setting[1]); err != nil {
			return err
		}
	}
	return nil
}

func set(name, value string) error {
	if err := os.WriteFile(filepath.Join(sysctls, name), []byte(value), 0o600); err != nil {
		return fmt.Errorf("failed to change kernel setting: %w", err)
	}
	return nil
}

// tunnelMTU is what the interface with the default route leaves to the tunnel; 0 leaves it to OpenVPN.
func tunnelMTU(settings *openvpn.Settings) (int, error) {
	if !settings.DetectMTU {
		return 0, nil
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return 0, fmt.Errorf("failed to list routes: %w", err)
	}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		if ones, _ := route.Dst.Mask.Size(); ones != 0 || !route.Dst.IP.IsUnspecified() {
			continue
		}
		link, err := netlink.LinkByIndex(route.LinkIndex)
		if err != nil {
			return 0, fmt.Errorf("failed to find the interface of the default route: %w", err)
		}
		return max(link.Attrs().MTU-overhead, leastMTU), nil
	}
	return 0, errors.New("there is no default route")
}

// releaseAddresses takes the IPv6 addresses from a device that a former client has left behind.
func releaseAddresses() error {
	link, err := netlink.LinkByName(openvpn.Device)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", openvpn.Device, err)
	}
	addresses, err := netlink.AddrList(link, unix.AF_INET6)
	if err != nil || len(addresses) == 0 {
		return err
	}
	if err := netlink.LinkSetDown(link); err != nil {
		return fmt.Errorf("failed to set interface %s down: %w", openvpn.Device, err)
	}
	for _, address := range addresses {
		if err := netlink.AddrDel(link, &address); err != nil {
			return fmt.Errorf("failed to take address %s from %s: %w", address.IPNet, openvpn.Device, err)
		}
	}
	return nil
}
