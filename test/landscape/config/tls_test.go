// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
)

var _ = Describe("Where TLS ends", func() {
	BeforeEach(func() {
		state := GinkgoT().TempDir()
		Expect(os.MkdirAll(state, 0o755)).To(Succeed())
		GinkgoT().Setenv(config.EnvState, state)
		GinkgoT().Setenv(config.EnvTLSTermination, "")
	})
	load := func(value string) *config.Config {
		GinkgoHelper()
		GinkgoT().Setenv(config.EnvTLSTermination, value)
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		return cfg
	}

	It("should be the ingress gateway, as by default in Gardener", func() {
		Expect(load("").TLSTermination).To(BeTrue())
	})

	It("should be as it is asked for", func() {
		Expect(load("off").TLSTermination).To(BeFalse())
		Expect(load("on").TLSTermination).To(BeTrue())
	})

	It("should refuse what is neither", func() {
		GinkgoT().Setenv(config.EnvTLSTermination, "maybe")
		_, err := config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring(config.EnvTLSTermination)))
	})

	It("should stay as it is while the landscape is up", func() {
		cfg := load("off")
		Expect(cfg.RecordTLSTermination()).To(Succeed())
		Expect(cfg.RecordTLSTermination()).To(Succeed(), "the second time")
		Expect(load("").TLSTermination).To(BeFalse())
		Expect(load("on").RecordTLSTermination()).To(MatchError(ContainSubstring("landscape-down")))
	})

	It("should not guess from a record that cannot be read", func() {
		cfg := load("")
		Expect(os.Mkdir(filepath.Join(cfg.State, "tls-termination-variant"), 0o755)).To(Succeed())
		_, err := config.FromEnvironment()
		Expect(err).To(MatchError(ContainSubstring("where the landscape's TLS ends")))
	})
})
