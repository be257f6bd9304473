// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/etcd/front/config"
)

const valid = `
etcd: main
members:
- {ordinal: 0, address: "etcd-main-0.etcd-main-peer.ns.svc.cluster.local.:2379", serverName: etcd-main-local}
- {ordinal: 1, address: "etcd-main-1.etcd-main-peer.ns.svc.cluster.local.:2379"}
forwards:
- port: 8080
tls:
  caFile: /ca/bundle.crt
  serverCertFile: /server/tls.crt
  serverKeyFile: /server/tls.key
  clientCertFile: /client/tls.crt
  clientKeyFile: /client/tls.key
limits: {maxHold: 1s}
`

var _ = Describe("Config", func() {
	load := func(content string) (*config.Config, error) {
		file := filepath.Join(GinkgoT().TempDir(), "config.yaml")
		Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		return config.Load(file)
	}

	Describe("#Load", func() {
		It("should read a file and fill in what it leaves out", func() {
			cfg, err := load(valid)
			Expect(err).NotTo(HaveOccurred())
			Expect(cfg.Port).To(Equal(config.DefaultPort))
			Expect(cfg.Members[0].ServerName).To(Equal("etcd-main-local"))
			Expect(cfg.Members[1].ServerName).To(Equal("etcd-main-1.etcd-main-peer.ns.svc.cluster.local"))
			Expect(cfg.Forwards).To(Equal([]config.Forward{{Port: 8080, MemberPort: 8080}}))
			Expect(cfg.Health.Port).To(Equal(config.DefaultHealthPort))
			Expect(cfg.Metrics.Port).To(Equal(config.DefaultMetricsPort))
			Expect(cfg.Limits.MaxHold.Duration).To(Equal(time.Second))
			Expect(cfg.Limits.MaxDrain.Duration).To(Equal(config.DefaultMaxDrain))
			Expect(cfg.Limits.MemberWait.Duration).To(Equal(config.DefaultMemberWait))
			Expect(cfg.Limits.ShutdownDelay.Duration).To(Equal(config.DefaultShutdownDelay))
			Expect(cfg.Limits.ShutdownTimeout.Duration).To(Equal(config.DefaultShutdownTimeout))
			Expect(cfg.Limits.MaxForwards).To(Equal(config.DefaultMaxForwards))
		})

		It("should refuse unknown fields, bad syntax, what is invalid and a missing file", func() {
			_, err := load(valid + "limit: {maxHold: 1s}\n")
			Expect(err).To(MatchError(ContainSubstring(`unknown field "limit"`)))
			_, err = load("members: [")
			Expect(err).To(MatchError(ContainSubstring("failed to parse configuration")))
			_, err = load("etcd: main")
			Expect(err).To(MatchError(ContainSubstring("invalid configuration")))
			_, err = config.Load("/nowhere/config.yaml")
			Expect(err).To(MatchError(os.ErrNotExist))
		})
	})

	DescribeTable("#Validate", func(change func(*config.Config), messages ...string) {
		cfg, err := load(valid)
		Expect(err).NotTo(HaveOccurred())
		change(cfg)
		var matchers []any
		for _, message := range messages {
			matchers = append(matchers, MatchError(ContainSubstring(message)))
		}
		var found []error
		for _, err := range config.Validate(cfg) {
			found = append(found, err)
		}
		Expect(found).To(ConsistOf(matchers...))
	},
		Entry("valid", func(*config.Config) {}),
		Entry("no role", func(c *config.Config) { c.Etcd = "" }, "etcd: Required"),
		Entry("no member", func(c *config.Config) { c.Members = nil }, "members: Required"),
		Entry("two members of one ordinal", func(c *config.Config) { c.Members[1].Ordinal = 0 },
			"members[1].ordinal: Duplicate"),
		Entry("negative ordinal", func(c *config.Config) { c.Members[1].Ordinal = -1 }, "members[1].ordinal: Invalid"),
		Entry("address without port", func(c *config.Config) { c.Members[0].Address = "etcd-main-0" },
			"members[0].address: Invalid"),
		Entry("address without host", func(c *config.Config) { c.Members[0].Address = ":2379" },
			"members[0].address: Invalid"),
		Entry("address with port 0", func(c *config.Config) { c.Members[0].Address = "etcd-main-0:0" },
			"port must be between 1 and 65535"),
		Entry("address with a bad host", func(c *config.Config) { c.Members[0].Address = "etcd_main:2379" },
			"members[0].address: Invalid"),
		Entry("IP address", func(c *config.Config) { c.Members[0].Address = "10.0.0.1:2379" }),
		Entry("IP address as server name", func(c *config.Config) { c.Members[0].ServerName = "10.0.0.1" },
			"members[0].serverName: Invalid"),
		Entry("port twice", func(c *config.Config) { c.Forwards[0].Port = 2379 }, "is the port of port already"),
		Entry("port twice among those for HTTP", func(c *config.Config) { c.Metrics.Port = c.Health.Port },
			"is the port of health.port already"),
		Entry("no port", func(c *config.Config) { c.Port = 70000 }, "port: Invalid"),
		Entry("no port of members", func(c *config.Config) { c.Forwards[0].MemberPort = -1 },
			"forwards[0].memberPort: Invalid"),
		Entry("no certificates", func(c *config.Config) { c.TLS = config.TLS{} }, "tls.caFile: Required",
			"tls.serverCertFile: Required", "tls.serverKeyFile: Required", "tls.clientCertFile: Required",
			"tls.clientKeyFile: Required"),
		Entry("longer hold than clients endure", func(c *config.Config) { c.Limits.MaxHold.Duration = 3 * time.Second },
			"limits.maxHold: Invalid"),
		Entry("longer drain than anybody remembers", func(c *config.Config) {
			c.Limits.MaxDrain.Duration = 2 * time.Hour
		}, "limits.maxDrain: Invalid"),
		Entry("negative times", func(c *config.Config) {
			c.Limits.MemberWait.Duration, c.Limits.ShutdownDelay.Duration = -1, -1
			c.Limits.ShutdownTimeout.Duration = -1
		}, "limits.memberWait: Invalid", "limits.shutdownDelay: Invalid", "limits.shutdownTimeout: Invalid"),
		Entry("negative number", func(c *config.Config) { c.Limits.MaxForwards = -1 }, "limits.maxForwards: Invalid"),
	)
})
