// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package openvpn_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/standins/vpn/openvpn"
)

var _ = Describe("Settings", func() {
	env := func(change map[string]string) func(string) string {
		all := map[string]string{
			"SHOOT_POD_NETWORKS": "10.181.0.0/16", "SHOOT_SERVICE_NETWORKS": "10.113.0.0/16,fd00::/108",
			"SHOOT_NODE_NETWORKS": "10.99.14.0/24,10.100.0.0/16,10.99.15.0/24", "SEED_POD_NETWORK": "10.1.0.0/16",
			"OPENVPN_STATUS_PATH": "/srv/status/openvpn.status", "IS_SHOOT_CLIENT": "true", "ENDPOINT": "api.example",
			"OPENVPN_PORT": "8443", "REVERSED_VPN_HEADER_KEY": "X-Gardener-Destination", "REVERSED_VPN_HEADER": "there",
		}
		for name, value := range change {
			all[name] = value
		}
		return func(name string) string { return all[name] }
	}

	It("should place networks of one kind one behind the other, the largest ones first", func() {
		settings, err := openvpn.ServerSettings(env(nil))
		Expect(err).NotTo(HaveOccurred())
		mappings, err := settings.Mappings()
		Expect(err).NotTo(HaveOccurred())
		var got []string
		for _, m := range mappings {
			got = append(got, m.Network.String()+" "+m.Mapped.String())
		}
		Expect(got).To(Equal([]string{
			"10.181.0.0/16 244.0.0.0/16", "10.113.0.0/16 243.0.0.0/16", "10.100.0.0/16 242.0.0.0/16",
			"10.99.14.0/24 242.1.0.0/24", "10.99.15.0/24 242.1.1.0/24",
		}))
	})

	It("should refuse networks that do not fit", func() {
		settings, err := openvpn.ServerSettings(env(map[string]string{"SHOOT_POD_NETWORKS": "10.0.0.0/8,11.0.0.0/8"}))
		Expect(err).NotTo(HaveOccurred())
		_, err = settings.Mappings()
		Expect(err).To(MatchError(ContainSubstring("do not fit into 244.0.0.0/8")))
	})

	It("should tell the server what is behind the client", func() {
		settings, err := openvpn.ServerSettings(env(nil))
		Expect(err).NotTo(HaveOccurred())
		Expect(settings.RoutesToClient()).To(Equal("iroute 242.0.0.0 255.0.0.0\niroute 243.0.0.0 255.0.0.0\n" +
			"iroute 244.0.0.0 255.0.0.0\niroute-ipv6 fd00::/108\n"))
		Expect(settings.ServerConfig(1370)).To(And(ContainSubstring("server-ipv6 fd8f:6d53:b97a:1::/96\n"),
			ContainSubstring("push \"tun-mtu 1370\"\n"), ContainSubstring("max-routes-per-client 1048576\n"),
			ContainSubstring("status /srv/status/openvpn.status 15\n")))
	})

	It("should lead the client through the gateway", func() {
		settings, err := openvpn.ClientSettings(env(nil))
		Expect(err).NotTo(HaveOccurred())
		Expect(settings.ClientConfig(0)).To(And(ContainSubstring("http-proxy api.example 8443\n"),
			ContainSubstring("http-proxy-option CUSTOM-HEADER X-Gardener-Destination there\n"),
			ContainSubstring("proto tcp4-client\n"), ContainSubstring("route replace 241.0.0.0/8 dev"),
			Not(ContainSubstring("tun-mtu"))))
	})

	DescribeTable("should refuse", func(change map[string]string, message string) {
		_, err := openvpn.ClientSettings(env(change))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("the highly available VPN", map[string]string{"IS_HA": "true"}, "highly available"),
		Entry("a client in a seed", map[string]string{"IS_SHOOT_CLIENT": ""}, "IS_SHOOT_CLIENT"),
		Entry("another network of the tunnel", map[string]string{"VPN_NETWORK": "10.0.0.0/24"}, "has to be of IPv6"),
		Entry("an unknown family", map[string]string{"IP_FAMILIES": "IPX"}, "neither IPv4 nor IPv6"),
		Entry("what is no network", map[string]string{"SHOOT_POD_NETWORKS": "x"}, "SHOOT_POD_NETWORKS"),
	)

	It("should translate the seed's pods for the tunnel without high availability only", func() {
		Expect(openvpn.SeedRules("tun0", netip.MustParsePrefix("10.1.0.0/16"))).To(HaveLen(2))
		Expect(openvpn.SeedRules("tap0", netip.MustParsePrefix("10.1.0.0/16"))).To(BeEmpty())
		Expect(openvpn.SeedRules("tun0", netip.MustParsePrefix("fd00::/48"))).To(BeEmpty())
	})
})

var _ = Describe("Status", func() {
	read := func(content string) *openvpn.Status {
		GinkgoHelper()
		file := filepath.Join(GinkgoT().TempDir(), "status")
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		status, err := openvpn.ReadStatus(file)
		Expect(err).NotTo(HaveOccurred())
		return status
	}

	It("should be alive as long as it is written", func() {
		status := read("TITLE,OpenVPN\nTIME,2026-11-25 00:00:00,1\nEND\n")
		at := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
		Expect(status.Alive(at.Add(17 * time.Second))).To(Succeed())
		Expect(status.Alive(at.Add(18 * time.Second))).NotTo(Succeed())
		Expect(read("TITLE,OpenVPN\n").Alive(at)).NotTo(Succeed(), "it does not say when")
	})

	It("should be ready without clients, and with the one in the shoot", func() {
		Expect(read("").Ready()).To(Succeed())
		Expect(read("CLIENT_LIST,vpn-shoot-client,x\n").Ready()).To(Succeed())
		Expect(read("CLIENT_LIST,stranger,x\n").Ready()).NotTo(Succeed())
	})

	It("should not be there before the server has written it", func() {
		_, err := openvpn.ReadStatus("/nowhere")
		Expect(err).To(MatchError(ContainSubstring("failed to read the server's status")))
	})
})
