// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/livecpm/livecpm/test/standins/machine/device"
	"github.com/livecpm/livecpm/test/thread"
)

// kernel has interfaces with addresses.
type kernel struct {
	without string // a type of interface that it does not know
	links   []netlink.Link
	up      []string
	addrs   map[string][]netlink.Addr
	steps   []string
	refuse  error
}

func (k *kernel) LinkByName(name string) (netlink.Link, error) {
	for _, link := range k.links {
		if link.Attrs().Name == name {
			return link, nil
		}
	}
	return nil, netlink.LinkNotFoundError{}
}

func (k *kernel) LinkAdd(link netlink.Link) error {
	if link.Type() == k.without {
		return unix.EOPNOTSUPP
	}
	k.links = append(k.links, link)
	return nil
}

func (k *kernel) LinkSetUp(link netlink.Link) error {
	k.up = append(k.up, link.Attrs().Name)
	return nil
}

func (k *kernel) LinkList() ([]netlink.Link, error) { return k.links, nil }

func (k *kernel) AddrList(link netlink.Link, _ int) ([]netlink.Addr, error) {
	return slices.Clone(k.addrs[link.Attrs().Name]), nil
}

func (k *kernel) AddrAdd(link netlink.Link, address *netlink.Addr) error {
	if k.refuse != nil {
		return k.refuse
	}
	k.steps = append(k.steps, "add to "+link.Attrs().Name)
	k.addrs[link.Attrs().Name] = append(k.addrs[link.Attrs().Name], *address)
	return nil
}

func (k *kernel) AddrDel(link netlink.Link, address *netlink.Addr) error {
	name := link.Attrs().Name
	before := len(k.addrs[name])
	k.addrs[name] = slices.DeleteFunc(k.addrs[name], func(found netlink.Addr) bool { return found.Equal(*address) })
	if len(k.addrs[name]) == before {
		return os.ErrNotExist
	}
	k.steps = append(k.steps, "delete from "+name)
	return nil
}

func (k *kernel) on(name string) []string {
	var out []string
	for _, address := range k.addrs[name] {
		out = append(out, address.IPNet.String())
	}
	return out
}

var _ = Describe("Ensure", func() {
	var (
		k       *kernel
		address = netip.MustParseAddr("240.1.2.3")
	)

	BeforeEach(func() { k = &kernel{addrs: map[string][]netlink.Addr{}} })

	It("should make a dummy with the address", func() {
		Expect(device.Ensure(k, "apiserver-proxy", address)).To(Succeed())
		Expect(k.on("apiserver-proxy")).To(Equal([]string{"240.1.2.3/32"}))
		Expect(k.links).To(HaveExactElements(HaveField("LinkAttrs.Name", "apiserver-proxy")))
		Expect(k.links[0].Type()).To(Equal("dummy"))
		Expect(k.up).To(Equal([]string{"apiserver-proxy"}))
	})

	It("should be content with what is there", func() {
		Expect(device.Ensure(k, "apiserver-proxy", address)).To(Succeed())
		k.steps = nil
		Expect(device.Ensure(k, "apiserver-proxy", address)).To(Succeed())
		Expect(k.steps).To(BeEmpty())
		Expect(k.links).To(HaveLen(1))
	})

	It("should make a bridge where the kernel has no dummies", func() {
		k.without = "dummy"
		Expect(device.Ensure(k, "apiserver-proxy", address)).To(Succeed())
		Expect(k.links[0].Type()).To(Equal("bridge"))
		Expect(k.on("apiserver-proxy")).To(HaveLen(1))
	})

	It("should take the address from another interface before, and leave others alone", func() {
		Expect(device.Ensure(k, "livecpm-proxy", address)).To(Succeed())
		Expect(device.Ensure(k, "apiserver-proxy", netip.MustParseAddr("240.9.9.9"))).To(Succeed())
		k.steps = nil
		Expect(device.Ensure(k, "apiserver-proxy", address)).To(Succeed())
		Expect(k.steps).To(Equal([]string{"delete from livecpm-proxy", "add to apiserver-proxy"}))
		Expect(k.on("livecpm-proxy")).To(BeEmpty())
		Expect(k.on("apiserver-proxy")).To(Equal([]string{"240.9.9.9/32", "240.1.2.3/32"}),
			"the former address stays, as the sidecar has it")
	})

	It("should take an address of six for one of its own length", func() {
		Expect(device.Ensure(k, "x", netip.MustParseAddr("fd00::1"))).To(Succeed())
		Expect(k.on("x")).To(Equal([]string{"fd00::1/128"}))
	})

	It("should tell what the kernel refuses, but not that the address is there already", func() {
		k.refuse = unix.EPERM
		err := device.Ensure(k, "x", address)
		Expect(err).To(MatchError(unix.EPERM))
		Expect(err).To(MatchError(ContainSubstring("failed to add address 240.1.2.3 to x")))
		k.refuse = unix.EEXIST
		Expect(device.Ensure(k, "x", address)).To(Succeed())
	})
})

var _ = Describe("A real kernel", func() {
	It("should serve the addresses in a network namespace of its own", func() {
		if os.Geteuid() != 0 {
			Skip("only root may make a network namespace")
		}
		Expect(thread.Run(func() error { return inNamespace(netip.MustParseAddr("240.1.2.3")) })).To(Succeed())
	})
})

func inNamespace(address netip.Addr) error {
	namespace, err := netns.New()
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }()
	links := &netlink.Handle{}
	for _, name := range []string{"livecpm-proxy", "apiserver-proxy", "apiserver-proxy"} {
		if err := device.Ensure(links, name, address); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(address, 443).String())
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	former, err := links.LinkByName("livecpm-proxy")
	if err != nil {
		return err
	}
	left, err := links.AddrList(former, unix.AF_INET)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is left on the former interface", left)
	}
	return err
}
