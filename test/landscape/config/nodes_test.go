// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"net/netip"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("Nodes", func() {
	var cfg *config.Config

	newConfig := func() *config.Config {
		GinkgoHelper()
		made, err := config.New(config.Place{Prefix: "p", Network: "192.0.2", State: GinkgoT().TempDir()})
		Expect(err).NotTo(HaveOccurred())
		return made
	}

	BeforeEach(func() { cfg = newConfig() })

	It("should have one node in each seed that shares everything with its control plane", func() {
		for _, seed := range cfg.Seeds {
			Expect(seed.Apart()).To(BeFalse())
			Expect(seed.Nodes).To(ConsistOf(config.Node{Name: seed.Name, Folder: seed.Name, Netns: seed.Netns,
				Cgroup: seed.Netns, IP: seed.IP, PodCIDR: seed.PodCIDR, Zone: "0"}))
			Expect(seed.NodeCIDR).To(Equal(seed.IP + "/32"))
			Expect(seed.Zones).To(Equal([]string{"0"}))
		}
		Expect(cfg.Netns()).To(HaveLen(4))
	})

	It("should have three nodes in three zones, or in one where the shoot tolerates the loss of a node only", func() {
		Expect(cfg.SetNodes(3, config.ToleranceZone)).To(Succeed())
		Expect(cfg.Netns()).To(HaveLen(10))
		seen := map[string]bool{cfg.HostIP: true, cfg.HubIP: true, cfg.Garden.IP: true}
		for _, seed := range cfg.Seeds {
			Expect(seed.Apart()).To(BeTrue())
			Expect(seed.Zones).To(Equal([]string{"0", "1", "2"}))
			for i, node := range seed.Nodes {
				Expect(node.Zone).To(Equal(seed.Zones[i]))
				Expect(netip.MustParsePrefix(seed.NodeCIDR).Contains(netip.MustParseAddr(node.IP))).To(BeTrue())
				pods := netip.MustParsePrefix(node.PodCIDR)
				Expect(netip.MustParsePrefix(seed.PodCIDR).Overlaps(pods)).To(BeTrue())
				Expect(pods.Bits()).To(Equal(24))
				for _, name := range []string{node.IP, node.PodCIDR, node.Netns, node.Folder, node.Name} {
					Expect(seen).NotTo(HaveKey(name))
					seen[name] = true
				}
			}
			Expect(seen).NotTo(HaveKey(seed.IP))
			Expect(seen).NotTo(HaveKey(seed.LoadBalancerIP))
			_, err := seed.Node(seed.Name)
			Expect(err).To(MatchError(ContainSubstring("has no node")))
		}
		Expect(cfg.SetNodes(3, config.ToleranceNode)).To(Succeed())
		for _, seed := range cfg.Seeds {
			Expect(seed.Zones).To(Equal([]string{"0"}))
			Expect(seed.Nodes).To(And(HaveLen(3), HaveEach(HaveField("Zone", "0"))))
		}
	})

	It("should refuse what no control plane can be placed on", func() {
		Expect(cfg.SetNodes(2, config.ToleranceNode)).To(MatchError(ContainSubstring("give 1 or 3")))
		Expect(cfg.SetNodes(1, config.ToleranceZone)).To(MatchError(ContainSubstring("needs three zones")))
		Expect(cfg.SetNodes(3, "rack")).To(MatchError(ContainSubstring("give node or zone")))
		Expect(cfg.ReadNodes("many", "")).To(MatchError(ContainSubstring("not a number of nodes")))
		cfg.Shoot = config.ShootWorkers
		Expect(cfg.ReadNodes("3", "")).To(MatchError(ContainSubstring("share a bridge")))
	})

	It("should keep the nodes of the landscape that is up, and refuse others", func() {
		Expect(cfg.ReadNodes("3", "")).To(Succeed())
		Expect(cfg.Tolerance).To(Equal(config.ToleranceZone))
		Expect(cfg.RecordNodes()).To(Succeed())
		Expect(cfg.RecordNodes()).To(Succeed())

		again := newConfig()
		again.State = cfg.State
		Expect(again.ReadNodes("", "")).To(Succeed())
		Expect(again.Seeds).To(Equal(cfg.Seeds))
		Expect(again.RecordNodes()).To(Succeed())

		Expect(again.ReadNodes("3", "node")).To(Succeed())
		Expect(again.RecordNodes()).To(MatchError(ContainSubstring("take it down first")))
		Expect(again.ReadNodes("1", "node")).To(Succeed())
		Expect(again.RecordNodes()).To(MatchError(ContainSubstring("with 3 nodes")))
	})
})
