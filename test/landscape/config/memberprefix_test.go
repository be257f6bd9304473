// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("The prefix of members' names", func() {
	BeforeEach(func() {
		GinkgoT().Setenv(config.EnvState, GinkgoT().TempDir())
	})
	load := func(value string) *config.Config {
		GinkgoHelper()
		GinkgoT().Setenv(config.EnvMemberPrefix, value)
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		return cfg
	}

	It("should be there by default, as with Gardener's feature gate, and otherwise as it is asked for", func() {
		Expect(load("").MemberPrefix).To(BeTrue())
		Expect(load("on").MemberPrefix).To(BeTrue())
		Expect(load("off").MemberPrefix).To(BeFalse())
	})

	It("should be neither if it is something else", func() {
		GinkgoT().Setenv(config.EnvMemberPrefix, "maybe")
		_, err := config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(config.EnvMemberPrefix)))
	})

	It("should stay as it is while the landscape is up", func() {
		cfg := load("off")
		Expect(cfg.RecordMemberPrefix()).To(Succeed())
		Expect(cfg.RecordMemberPrefix()).To(Succeed(), "the second time")
		Expect(load("").MemberPrefix).To(BeFalse())
		Expect(load("on").RecordMemberPrefix()).To(MatchError(ContainSubstring("landscape-down")))
	})
})
