// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package device gives addresses to network interfaces of a hollow node, in the way of the sidecar of Gardener's
// apiserver-proxy: the interface is made if there is none, an address is on one interface at a time, and what was made
// outlives its maker.
package device

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Links is what is asked of the kernel. A netlink.Handle does it for the network namespace of the process.
type Links interface {
	LinkByName(name string) (netlink.Link, error)
	LinkAdd(link netlink.Link) error
	LinkSetUp(link netlink.Link) error
	LinkList() ([]netlink.Link, error)
	AddrList(link netlink.Link, family int) ([]netlink.Addr, error)
	AddrAdd(link netlink.Link, address *netlink.Addr) error
	AddrDel(link netlink.Link, address *netlink.Addr) error
}

var _ Links = &netlink.Handle{}

// Ensure puts the address on the interface of that name and takes it from all others. In between it is on none, for as
// long as the kernel needs for one request: the same is true of the sidecar.
func Ensure(links Links, name string, address netip.Addr) error {
	link, err := ensureLink(links, name)
	if err != nil {
		return err
	}
	wanted := &netlink.Addr{
		IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())},
	}
	others, err := links.LinkList()
	if err != nil {
		return fmt.Errorf("failed to list interfaces: %w", err)
	}
	for _, other := range others {
		addresses, err := links.AddrList(other, unix.AF_UNSPEC)
		if err != nil {
			return fmt.Errorf("failed to list addresses of %s: %w", other.Attrs().Name, err)
		}
		for _, found := range addresses {
			if !found.Equal(*wanted) {
				continue
			}
			if other.Attrs().Name == name {
				return nil
			}
			if err := links.AddrDel(other, &found); err != nil {
				return fmt.Errorf("failed to take address %s from %s: %w", address, other.Attrs().Name, err)
			}
		}
	}
	if err := links.AddrAdd(link, wanted); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("failed to add address %s to %s: %w", address, name, err)
	}
	return nil
}

// ensureLink returns the interface, which is made if it does not exist. A dummy is what the sidecar makes; a bridge
// without ports is the same for addresses of the own host, and is there in kernels without dummies.
func ensureLink(links Links, name string) (netlink.Link, error) {
	link, err := links.LinkByName(name)
	if err == nil {
		return link, nil
	}
	if missing := (netlink.LinkNotFoundError{}); !errors.As(err, &missing) {
		return nil, fmt.Errorf("failed to find interface %s: %w", name, err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	err = links.LinkAdd(&netlink.Dummy{LinkAttrs: attributes})
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = links.LinkAdd(&netlink.Bridge{LinkAttrs: attributes})
	}
	// Whoever else has made it in the meantime has made the same.
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("failed to add interface %s: %w", name, err)
	}
	if link, err = links.LinkByName(name); err != nil {
		return nil, fmt.Errorf("failed to find interface %s: %w", name, err)
	}
	if err := links.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("failed to set interface %s up: %w", name, err)
	}
	return link, nil
}
