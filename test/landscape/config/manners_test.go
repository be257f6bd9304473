// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("manners", func() {
	BeforeEach(func() { GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir()) })

	given := func(dns, waits string) (*config.Config, error) {
		GinkgoT().Setenv(config.EnvDNS, dns)
		GinkgoT().Setenv(config.EnvWaits, waits)
		return config.FromEnvironment()
	}

	It("should be plain and short by default", func() {
		cfg, err := given("", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.DNS).To(Equal(config.DNS{}))
		Expect(cfg.NameServers()).To(Equal([]string{"10.250.0.10"}))
		Expect(cfg.BalancerName(cfg.Seeds[0])).To(BeEmpty())
		Expect(cfg.Waits.DNSEntryTTL()).To(Equal(30 * time.Second))
		Expect(cfg.Waits.DrainTimeout()).To(Equal(20 * time.Second))
	})

	It("should have what Gardener and livecpm have without configuration", func() {
		cfg, err := given("production", "production")
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.DNS).To(Equal(config.DNS{Aliases: true, Lag: time.Minute, Silence: 30 * time.Second}))
		Expect(cfg.NameServers()).To(Equal([]string{"10.250.0.10", "10.250.0.53", "10.250.0.54"}))
		Expect(cfg.BalancerName(cfg.Seeds[0])).To(Equal("seed-a.lb.livecpm.example"))
		Expect(cfg.Waits.DNSEntryTTL()).To(Equal(2 * time.Minute))
		Expect(cfg.Waits.DrainTimeout()).To(Equal(time.Minute))
	})

	It("should be remembered, and changed later where that is possible", func() {
		cfg, err := given("lag=2m,silence=5s", "production")
		Expect(err).NotTo(HaveOccurred())
		Expect(cfg.RecordManners()).To(Succeed())
		again, err := given("", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(again.DNS).To(Equal(config.DNS{Lag: 2 * time.Minute, Silence: 5 * time.Second}))
		Expect(again.Waits).To(Equal(config.WaitsProduction))

		plain, err := given("plain", "short")
		Expect(err).NotTo(HaveOccurred())
		Expect(plain.RecordManners()).To(Succeed())
		other, err := given("alias", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(other.Waits).To(Equal(config.WaitsShort))
		Expect(other.RecordManners()).To(MatchError(ContainSubstring("take it down first")))
	})

	DescribeTable("should refuse what is none", func(dns, waits, problem string) {
		_, err := given(dns, waits)
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry("an unknown manner", "alias,fast", "", `"fast" is none of`),
		Entry("a lag without a time", "lag", "", `"lag" is none of`),
		Entry("a lag that is negative", "lag=-1s", "", "negative"),
		Entry("unknown waits", "", "long", `LIVECPM_WAITS is "long"`),
	)
})
