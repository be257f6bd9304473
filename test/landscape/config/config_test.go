// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("Config", func() {
	It("should lay out the default landscape", func() {
		cfg, err := config.New(config.Place{Prefix: "livecpm", Network: "10.250.0", Repo: "/repo",
			State: "/state", Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.HostIP).To(Equal("10.250.0.1"))
		Expect(cfg.HostInterface()).To(Equal("livecpm0"))
		Expect(cfg.Garden.IP).To(Equal("10.250.0.10"))
		Expect(cfg.Kubeconfig("seed-a")).To(Equal("/state/seed-a/kubeconfig"))
		Expect(cfg.Netns()).To(Equal([]string{"livecpm-hub", "livecpm-garden", "livecpm-seed-a", "livecpm-seed-b"}))

		seed, err := cfg.Seed("seed-b")
		Expect(err).NotTo(HaveOccurred())
		Expect(seed.IP).To(Equal("10.250.0.12"))
		Expect(seed.LoadBalancerIP).To(Equal("10.250.0.22"))
		Expect(seed.PodCIDR).To(Equal("10.242.0.0/16"))
		Expect(seed.ServiceCIDR).To(Equal("10.98.0.0/16"))
		Expect(seed.DNSIP).To(Equal("10.98.0.10"))
		Expect(seed.IngressDomain).To(Equal("ingress.seed-b.livecpm.example"))
		Expect(seed.Region).To(Equal("region-b"))
	})

	It("should let etcd members stop as real ones do and enforce policies, unless it is told otherwise", func() {
		GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir())
		defaults := func() *config.Config {
			cfg, err := config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred())
			return cfg
		}
		GinkgoT().Setenv(config.EnvEtcd, "")
		GinkgoT().Setenv(config.EnvPolicies, "")
		Expect(defaults().Etcd).To(Equal(config.EtcdShipped))
		Expect(defaults().Policies).To(Equal(config.PoliciesOn))

		GinkgoT().Setenv(config.EnvEtcd, "graceful")
		GinkgoT().Setenv(config.EnvPolicies, "off")
		Expect(defaults().Etcd).To(Equal(config.EtcdGraceful))
		Expect(defaults().Policies).To(Equal(config.PoliciesOff))
	})

	It("should put the normal load on shoots, unless it is told otherwise", func() {
		GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir())
		for value, expected := range map[string]config.Load{"": config.LoadNormal, "normal": config.LoadNormal,
			"heavy": config.LoadHeavy} {
			GinkgoT().Setenv(config.EnvLoad, value)
			cfg, err := config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred())
			Expect(cfg.Load).To(Equal(expected))
		}
		GinkgoT().Setenv(config.EnvLoad, "light")
		_, err := config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(`LIVECPM_LOAD is "light"; give normal or heavy`)))
	})

	It("should keep two landscapes apart", func() {
		one, err := config.New(config.Place{Prefix: "one", Network: "10.250.0", Repo: "/repo",
			State: "/one", Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		two, err := config.New(config.Place{Prefix: "two", Network: "10.251.0", Repo: "/repo",
			State: "/two", Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		Expect(one.Netns()).NotTo(ContainElements(two.Netns()))
		Expect(one.HostInterface()).NotTo(Equal(two.HostInterface()))
		for i := range one.Seeds {
			Expect(one.Seeds[i].IP).NotTo(Equal(two.Seeds[i].IP))
			Expect(one.Seeds[i].LoadBalancerIP).NotTo(Equal(two.Seeds[i].LoadBalancerIP))
		}
	})

	DescribeTable("should refuse what cannot work", func(prefix, network string) {
		_, err := config.New(config.Place{Prefix: prefix, Network: network, Repo: "/repo",
			State: "/state", Cache: "/cache"})
		Expect(err).To(HaveOccurred())
	},
		Entry("no prefix", "", "10.250.0"),
		Entry("a prefix that makes interface names too long", "elevenchars", "10.250.0"),
		Entry("a prefix with a separator", "a-b", "10.250.0"),
		Entry("a network that is none", "livecpm", "10.250"),
	)

	DescribeTable("should drain no faster than the machine can", func(value string, processors, expected int) {
		budget, err := config.DrainBudget(value, processors)
		Expect(err).NotTo(HaveOccurred())
		Expect(budget).To(Equal(expected))
	},
		Entry("two processors", "", 2, 1),
		Entry("four processors", "", 4, 2),
		Entry("many processors", "", 64, 2),
		Entry("asked for", "3", 2, 3),
	)

	It("should refuse a budget that is none", func() {
		for _, value := range []string{"0", "-1", "two"} {
			_, err := config.DrainBudget(value, 2)
			Expect(err).To(MatchError(ContainSubstring(config.EnvDrainBudget)))
		}
		GinkgoT().Setenv(config.EnvDrainBudget, "0")
		_, err := config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(config.EnvDrainBudget)))
	})

	It("should have the seed authorizer in front of the garden unless it is switched off", func() {
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.Authorizers).To(BeTrue())
		GinkgoT().Setenv(config.EnvAuthorizers, "off")
		cfg, err = config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.Authorizers).To(BeFalse())
		GinkgoT().Setenv(config.EnvAuthorizers, "no")
		_, err = config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(config.EnvAuthorizers)))
	})

	It("should write down who asks for what only if it is told to", func() {
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.Audit).To(BeFalse())
		GinkgoT().Setenv(config.EnvAudit, "on")
		cfg, err = config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.Audit).To(BeTrue())
	})

	Describe("the gardenlet", func() {
		BeforeEach(func() { GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir()) })

		It("should be the composed one unless another is asked for", func() {
			GinkgoT().Setenv(config.EnvGardenlet, "")
			cfg, err := config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred())
			Expect(cfg.Gardenlet).To(Equal(config.GardenletComposed))
			Expect(cfg.Gardenlet.SetsUpSeed()).To(BeFalse())
		})

		DescribeTable("should be the one that is asked for", func(value string, expected config.Gardenlet) {
			GinkgoT().Setenv(config.EnvGardenlet, value)
			cfg, err := config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred())
			Expect(cfg.Gardenlet).To(Equal(expected))
			Expect(cfg.Gardenlet.SetsUpSeed()).To(BeTrue())
		},
			Entry("upstream's", "upstream", config.GardenletUpstream),
			Entry("the drop-in", "drop-in", config.GardenletDropIn),
		)

		It("should refuse one that there is not", func() {
			GinkgoT().Setenv(config.EnvGardenlet, "dropin")
			_, err := config.FromEnvironment()
			Expect(err).To(MatchError(And(ContainSubstring(config.EnvGardenlet), ContainSubstring(`"drop-in"`))))
		})

		It("should stay what it is as long as the landscape is up", func() {
			GinkgoT().Setenv(config.EnvGardenlet, "upstream")
			cfg, err := config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred())
			Expect(cfg.RecordGardenlet()).To(Succeed())
			Expect(cfg.RecordGardenlet()).To(Succeed(), "the second time")

			GinkgoT().Setenv(config.EnvGardenlet, "")
			cfg, err = config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred())
			Expect(cfg.Gardenlet).To(Equal(config.GardenletUpstream))

			GinkgoT().Setenv(config.EnvGardenlet, "composed")
			cfg, err = config.FromEnvironment()
			Expect(err).NotTo(HaveOccurred(), "it can still be taken down")
			Expect(cfg.RecordGardenlet()).
				To(MatchError(And(ContainSubstring(`"upstream"`), ContainSubstring("landscape-down"))))
		})
	})

	It("should not know other seeds", func() {
		cfg, err := config.New(config.Place{Prefix: "livecpm", Network: "10.250.0", Repo: "/repo",
			State: "/state", Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		_, err = cfg.Seed("seed-c")
		Expect(err).To(MatchError(ContainSubstring("seed-c")))
	})
})

var _ = Describe("The landscape's shoot", func() {
	It("should stay what it was until something else is asked for", func() {
		GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir())
		GinkgoT().Setenv(config.EnvShoot, "")
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.Shoot).To(Equal("live"))
		Expect(cfg.HasWorkers()).To(BeFalse())

		GinkgoT().Setenv(config.EnvShoot, "workers")
		cfg, err = config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.HasWorkers()).To(BeTrue())
		Expect(cfg.RecordShoot()).To(Succeed())

		GinkgoT().Setenv(config.EnvShoot, "")
		cfg, err = config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.Shoot).To(Equal("workers"))
	})

	DescribeTable("should be of its kind", func(name string, workers, oneMember bool) {
		GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir())
		GinkgoT().Setenv(config.EnvShoot, name)
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.HasWorkers()).To(Equal(workers))
		Expect(cfg.HasOneMember()).To(Equal(oneMember))
	},
		Entry(nil, "live", false, false),
		Entry(nil, "workers", true, false),
		Entry(nil, "single", false, true),
		Entry(nil, "single-workers", true, true),
	)

	It("should be one that there is", func() {
		GinkgoT().Setenv(config.EnvShoot, "many")
		_, err := config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(`LIVECPM_SHOOT is "many"; give one of live, workers, single, ` +
			"single-workers")))
	})
})
