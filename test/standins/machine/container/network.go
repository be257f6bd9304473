// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/livecpm/livecpm/test/thread"
)

// podDevice is how the interface is called inside of a pod.
const podDevice = "eth0"

// Network is the network of a pod.
type Network struct{ handle netns.NsHandle }

// NewNetwork makes a network in which only the loopback interface is up.
func NewNetwork() (*Network, error) {
	n := &Network{}
	if err := thread.Run(func() (err error) {
		n.handle, err = netns.New()
		return err
	}); err != nil {
		return nil, fmt.Errorf("failed to make a network namespace: %w", err)
	}
	inside, err := n.Links()
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	defer inside.Close()
	if err := setUp(inside, "lo"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Links are the interfaces of the network. They are to be closed.
func (n *Network) Links() (*netlink.Handle, error) {
	handle, err := netlink.NewHandleAt(n.handle)
	if err != nil {
		return nil, fmt.Errorf("failed to enter a network namespace: %w", err)
	}
	return handle, nil
}

// Close lets go of the network, which vanishes with the last process in it.
func (n *Network) Close() error { return n.handle.Close() }

// Do runs what is given in the network, on a thread of its own.
func (n *Network) Do(do func() error) error {
	return thread.Run(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("failed to enter a network namespace: %w", err)
		}
		return do()
	})
}

// Plug is the end of a pod's interface that is outside of the pod.
type Plug struct {
	// Name is what the interface is called outside.
	Name string
	// Pod is the address of the pod, Gateway the one outside by which it reaches everything else.
	Pod, Gateway netip.Addr
}

// Connect connects the network with the one of the process. An interface of that name that is there already is of a pod
// that was not ended in an orderly way, and is replaced.
func (n *Network) Connect(plug Plug) error {
	if old, err := netlink.LinkByName(plug.Name); err == nil {
		if err := netlink.LinkDel(old); err != nil {
			return fmt.Errorf("failed to delete interface %s: %w", plug.Name, err)
		}
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = plug.Name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: podDevice,
		PeerNamespace: netlink.NsFd(n.handle)}); err != nil {
		return fmt.Errorf("failed to add interface %s: %w", plug.Name, err)
	}
	outside := &netlink.Handle{}
	link, err := outside.LinkByName(plug.Name)
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", plug.Name, err)
	}
	if err := errors.Join(addAddress(outside, link, plug.Gateway), setUp(outside, plug.Name),
		addRoute(outside, link, host(plug.Pod), netip.Addr{})); err != nil {
		return err
	}
	return n.connectInside(plug)
}

func (n *Network) connectInside(plug Plug) error {
	inside, err := n.Links()
	if err != nil {
		return err
	}
	defer inside.Close()
	link, err := inside.LinkByName(podDevice)
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", podDevice, err)
	}
	if err := errors.Join(addAddress(inside, link, plug.Pod), setUp(inside, podDevice)); err != nil {
		return err
	}
	everything := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	return errors.Join(addRoute(inside, link, host(plug.Gateway), netip.Addr{}),
		addRoute(inside, link, everything, plug.Gateway))
}

func host(address netip.Addr) *net.IPNet {
	return &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}
}

func setUp(links *netlink.Handle, name string) error {
	link, err := links.LinkByName(name)
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", name, err)
	}
	if err := links.LinkSetUp(link); err != nil {
		return fmt.Errorf("failed to set interface %s up: %w", name, err)
	}
	return nil
}

func addAddress(links *netlink.Handle, link netlink.Link, address netip.Addr) error {
	if err := links.AddrAdd(link, &netlink.Addr{IPNet: host(address)}); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("failed to add address %s to %s: %w", address, link.Attrs().Name, err)
	}
	return nil
}

func addRoute(links *netlink.Handle, link netlink.Link, to *net.IPNet, by netip.Addr) error {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: to}
	if by.IsValid() {
		route.Gw = by.AsSlice()
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	if err := links.RouteReplace(route); err != nil {
		return fmt.Errorf("failed to add a route to %s: %w", to, err)
	}
	return nil
}
