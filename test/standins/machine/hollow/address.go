// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NodeAddress returns the address in the nodes' range, a /16, whose last two octets are those of the pod's address.
// Pods of one cluster that are in one /16 get different ones.
func NodeAddress(nodes netip.Prefix, pod netip.Addr) netip.Addr {
	base, own := nodes.Masked().Addr().As4(), pod.As4()
	return netip.AddrFrom4([4]byte{base[0], base[1], own[2], own[3]})
}

// Addresses is what OwnAddress asks of the kernel. A netlink.Handle does it for the network namespace of the process.
type Addresses interface {
	LinkByName(name string) (netlink.Link, error)
	AddrList(link netlink.Link, family int) ([]netlink.Addr, error)
	AddrReplace(link netlink.Link, address *netlink.Addr) error
}

// OwnAddress gives the interface of the machine's pod the address of the nodes' range that corresponds to that of the
// pod, and returns it.
func OwnAddress(addresses Addresses, name string, nodes netip.Prefix) (net.IP, error) {
	link, err := addresses.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("failed to find interface %s: %w", name, err)
	}
	found, err := addresses.AddrList(link, unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("failed to list addresses of %s: %w", name, err)
	}
	for _, address := range found {
		pod, ok := netip.AddrFromSlice(address.IP.To4())
		// One of the nodes' range is that of an earlier run.
		if !ok || nodes.Contains(pod) {
			continue
		}
		own := NodeAddress(nodes, pod)
		if err := addresses.AddrReplace(link,
			&netlink.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(nodes.Bits(), 32)}}); err != nil {
			return nil, fmt.Errorf("failed to add address %s to %s: %w", own, name, err)
		}
		return own.AsSlice(), nil
	}
	return nil, fmt.Errorf("interface %s has no address of its pod", name)
}

// Routes is what RouteToPods asks of the kernel. A netlink.Handle does it for the network namespace of the process.
type Routes interface {
	LinkByName(name string) (netlink.Link, error)
	RouteReplace(route *netlink.Route) error
}

// RouteToPods lets the machine reach the addresses of pods on all machines, which are on one bridge: in the place of
// the shoot's network.
func RouteToPods(routes Routes, name string, pods netip.Prefix) error {
	link, err := routes.LinkByName(name)
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", name, err)
	}
	route := &netlink.Route{
		LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK,
		Dst: &net.IPNet{IP: pods.Masked().Addr().AsSlice(), Mask: net.CIDRMask(pods.Bits(), pods.Addr().BitLen())},
	}
	if err := routes.RouteReplace(route); err != nil {
		return fmt.Errorf("failed to add a route to pods, %s: %w", pods, err)
	}
	return nil
}
