// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package network connects the parts of the landscape: a bridge in a network namespace of its own (the hub), one
// network namespace per cluster, and one interface on the machine.
//
// The bridge is not in the machine's own network namespace, because container engines often make the machine drop
// bridged traffic, and because one deleted namespace takes everything along.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/process"
)

const (
	netnsDir = "/run/netns"
	bridge   = "br0"
	// memberInterface is the interface of a cluster's namespace.
	memberInterface = "eth0"
)

// Path returns the path of the network namespace, for process.Namespaces.
func Path(name string) string { return filepath.Join(netnsDir, name) }

// EnsureHub makes the hub and the machine's interface.
func EnsureHub(cfg *config.Config) error {
	if err := ensureNetns(cfg.HubNetns()); err != nil {
		return err
	}
	hub, closeHub, err := handle(cfg.HubNetns())
	if err != nil {
		return err
	}
	defer closeHub()
	if err := hub.LinkAdd(
		&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge, HardwareAddr: mac(254)}}); err != nil &&
		!errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("failed to add bridge: %w", err)
	}
	// With an address and forwarding, but no route to anywhere else, the hub answers what goes out of the landscape
	// with "unreachable". Clients then fail at once instead of waiting for a timeout.
	if err := configure(hub, bridge, cfg.HubIP+"/24"); err != nil {
		return err
	}
	if err := configure(hub, "lo", ""); err != nil {
		return err
	}
	if err := sysctl(cfg.HubNetns(), map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return err
	}
	host, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("failed to open netlink: %w", err)
	}
	defer host.Close()
	if err := connect(hub, "host", side{
		handle: host, namespace: netns.None(), name: cfg.HostInterface(), address: mac(1),
	}); err != nil {
		return err
	}
	return configure(host, cfg.HostInterface(), cfg.HostIP+"/24")
}

// EnsureMember makes the network namespace of a cluster and connects it to the hub.
func EnsureMember(cfg *config.Config, name, address string) error {
	if err := ensureNetns(name); err != nil {
		return err
	}
	hub, closeHub, err := handle(cfg.HubNetns())
	if err != nil {
		return err
	}
	defer closeHub()
	member, closeMember, err := handle(name)
	if err != nil {
		return err
	}
	defer closeMember()
	target, err := netns.GetFromName(name)
	if err != nil {
		return fmt.Errorf("failed to open network namespace %q: %w", name, err)
	}
	defer target.Close()
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return fmt.Errorf("%q is not an IPv4 address", address)
	}
	// A fixed hardware address: otherwise the neighbours keep a stale one for seconds when the namespace is made again.
	port := strings.TrimPrefix(name, cfg.Prefix+"-")
	if err := connect(hub, port, side{
		handle: member, namespace: target, name: memberInterface, address: mac(ip[3]),
	}); err != nil {
		return err
	}
	if err := configure(member, "lo", ""); err != nil {
		return err
	}
	if err := configure(member, memberInterface, address+"/24"); err != nil {
		return err
	}
	link, err := member.LinkByName(memberInterface)
	if err != nil {
		return fmt.Errorf("failed to find interface of %q: %w", name, err)
	}
	if err := member.RouteReplace(
		&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(cfg.HubIP)}); err != nil {
		return fmt.Errorf("failed to set default route of %q: %w", name, err)
	}
	return nil
}

// EnsureRoute routes a range, that of the pods of a node, to the address of that node.
func EnsureRoute(name, cidr, via string) error {
	member, closeMember, err := handle(name)
	if err != nil {
		return err
	}
	defer closeMember()
	_, destination, err := net.ParseCIDR(cidr)
	if err != nil {
		return fmt.Errorf("failed to parse range %q: %w", cidr, err)
	}
	link, err := member.LinkByName(memberInterface)
	if err != nil {
		return fmt.Errorf("failed to find interface of %q: %w", name, err)
	}
	if err := member.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: destination,
		Gw: net.ParseIP(via)}); err != nil {
		return fmt.Errorf("failed to route %s to %s in %q: %w", cidr, via, name, err)
	}
	return nil
}

// EnsureMasquerade hides the pods of the range behind the address of their node where they talk to somebody outside of
// the range. Among themselves, whatever node they are on, they keep their addresses.
func EnsureMasquerade(ctx context.Context, nft, name, cidr string) error {
	commands := []string{
		"add table ip landscape",
		"add chain ip landscape postrouting { type nat hook postrouting priority srcnat; }",
		"flush chain ip landscape postrouting",
		fmt.Sprintf("add rule ip landscape postrouting ip saddr %[1]s ip daddr != %[1]s masquerade", cidr),
	}
	_, err := process.Run(ctx, process.Spec{
		Command: []string{nft, strings.Join(commands, "\n")}, Namespaces: process.Namespaces{Net: Path(name)},
	})
	return err
}

// EnableForwarding lets a node's namespace forward between its pods and the hub, and lets the service proxy see traffic
// between two pods of the node.
func EnableForwarding(name string) error {
	return sysctl(name, map[string]string{"net/ipv4/ip_forward": "1", "net/bridge/bridge-nf-call-iptables": "1"})
}

// EnsurePublicAddress lets the hub answer for an address of the landscape's network, for a Service of type
// LoadBalancer.
func EnsurePublicAddress(hubNetns, address string) error {
	hub, closeHub, err := handle(hubNetns)
	if err != nil {
		return err
	}
	defer closeHub()
	return configure(hub, bridge, address+"/32")
}

// EnsureAddress adds an address to the interface of a member of the network.
func EnsureAddress(name, address string) error {
	member, closeMember, err := handle(name)
	if err != nil {
		return err
	}
	defer closeMember()
	return configure(member, memberInterface, address+"/32")
}

// Remove deletes the network namespace. The interfaces in it go with it, and so do their peers.
func Remove(name string) error {
	if _, err := os.Stat(Path(name)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// The file may be there without the mount, after a crash between the two.
	if err := unix.Unmount(Path(name), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("failed to unmount network namespace %q: %w", name, err)
	}
	if err := os.Remove(Path(name)); err != nil {
		return fmt.Errorf("failed to remove network namespace %q: %w", name, err)
	}
	return nil
}

// RemoveHostInterface deletes the machine's interface, if it is left.
func RemoveHostInterface(cfg *config.Config) error {
	link, err := netlink.LinkByName(cfg.HostInterface())
	if err != nil {
		var notFound netlink.LinkNotFoundError
		if errors.As(err, &notFound) {
			return nil
		}
		return fmt.Errorf("failed to find interface %q: %w", cfg.HostInterface(), err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("failed to remove interface %q: %w", cfg.HostInterface(), err)
	}
	return nil
}

func ensureNetns(name string) error {
	existing, err := netns.GetFromName(name)
	if err == nil {
		defer existing.Close()
		// A file without a mounted namespace is the trace of a crash.
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(existing), &fs); err == nil && fs.Type == unix.NSFS_MAGIC {
			return nil
		}
		if err := Remove(name); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to open network namespace %q: %w", name, err)
	}
	return process.Namespaces{}.Do(func() error {
		created, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("failed to make network namespace %q: %w", name, err)
		}
		return created.Close()
	})
}

func handle(name string) (*netlink.Handle, func(), error) {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to open network namespace %q: %w", name, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to open netlink in %q: %w", name, err)
	}
	return h, h.Close, nil
}

// side is what is connected to the hub.
type side struct {
	handle *netlink.Handle
	// namespace is not open for the machine's own network namespace, the one that this program runs in.
	namespace netns.NsHandle
	// name and address are those of the interface there.
	name    string
	address net.HardwareAddr
}

// connect makes a pair of interfaces: port in the hub, attached to its bridge, and one on the other side.
func connect(hub *netlink.Handle, port string, other side) error {
	if _, err := other.handle.LinkByName(other.name); err != nil {
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: other.name,
			PeerHardwareAddr: other.address}
		if other.namespace.IsOpen() {
			pair.PeerNamespace = netlink.NsFd(int(other.namespace))
		} else {
			self, err := netns.Get()
			if err != nil {
				return fmt.Errorf("failed to open own network namespace: %w", err)
			}
			defer self.Close()
			pair.PeerNamespace = netlink.NsFd(int(self))
		}
		if err := hub.LinkAdd(pair); err != nil {
			return fmt.Errorf("failed to add interface %q: %w", other.name, err)
		}
	}
	portLink, err := hub.LinkByName(port)
	if err != nil {
		return fmt.Errorf("failed to find interface %q: %w", port, err)
	}
	bridgeLink, err := hub.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("failed to find bridge: %w", err)
	}
	if err := hub.LinkSetMaster(portLink, bridgeLink); err != nil {
		return fmt.Errorf("failed to attach interface %q to the bridge: %w", port, err)
	}
	return configure(hub, port, "")
}

// configure gives the interface an address and switches it on.
func configure(h *netlink.Handle, name, cidr string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("failed to find interface %q: %w", name, err)
	}
	if cidr != "" {
		address, err := netlink.ParseAddr(cidr)
		if err != nil {
			return fmt.Errorf("failed to parse address %q: %w", cidr, err)
		}
		if err := h.AddrReplace(link, address); err != nil {
			return fmt.Errorf("failed to set address %s on interface %q: %w", cidr, name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("failed to switch on interface %q: %w", name, err)
	}
	return nil
}

func sysctl(name string, values map[string]string) error {
	return process.Namespaces{Net: Path(name)}.Do(func() error {
		for key, value := range values {
			// /proc/sys/net shows the values of the namespace of the reading thread.
			if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0o644); err != nil {
				return fmt.Errorf("failed to set %s in network namespace %q: %w", key, name, err)
			}
		}
		return nil
	})
}

// mac is a locally administered hardware address.
func mac(last byte) net.HardwareAddr { return net.HardwareAddr{0x02, 0x50, 0, 0, 0, last} }
