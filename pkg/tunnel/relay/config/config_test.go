// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

const valid = `
namespace: ns
near:
- port: 2381
  routes:
  - innerSNI: [etcd-main-0.etcd-main-peer.ns.svc, "*.etcd-main-peer.ns.svc.cluster.local."]
    remote: {host: etcd-main-0--ns.ingress.seed-b.example, port: 443}
- port: 22379
  routes:
  - innerSNI: [etcd-main-client]
    remote: {host: 10.0.0.1, port: 443, serverName: etcd-main-client--ns.ingress.seed-b.example}
far:
  port: 8443
  routes:
  - serverName: etcd-main-0--ns.ingress.seed-a.example
    innerSNI: [etcd-main-0.etcd-main-peer.ns.svc]
    target: etcd-main-0.etcd-main-peer.ns.svc.cluster.local.:2380
tls: {caFile: /tls/ca.crt, certFile: /tls/tls.crt, keyFile: /tls/tls.key}
limits: {handshakeTimeout: 5s}
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
			Expect(cfg.Near[0].Routes[0].Remote.ServerName).To(Equal("etcd-main-0--ns.ingress.seed-b.example"))
			Expect(cfg.Near[1].Routes[0].Remote.ServerName).To(Equal("etcd-main-client--ns.ingress.seed-b.example"))
			Expect(cfg.Health.Port).To(Equal(config.DefaultHealthPort))
			Expect(cfg.Metrics.Port).To(Equal(config.DefaultMetricsPort))
			Expect(cfg.Limits.HandshakeTimeout.Duration).To(Equal(5 * time.Second))
			Expect(cfg.Limits.DialTimeout.Duration).To(Equal(config.DefaultDialTimeout))
			Expect(cfg.Limits.MaxConnections).To(Equal(config.DefaultMaxConnections))
			Expect(cfg.Limits.MaxHandshakes).To(Equal(config.DefaultMaxHandshakes))
		})

		It("should refuse what is not the shoot's", func() {
			_, err := load(strings.Replace(valid, "namespace: ns", "namespace: other", 1))
			Expect(err).To(MatchError(
				And(ContainSubstring("far.routes[0].target"), ContainSubstring("is no service of namespace other"))))
		})

		It("should refuse unknown fields, bad syntax and a missing file", func() {
			_, err := load(valid + "limit: {maxConnections: 1}\n")
			Expect(err).To(MatchError(ContainSubstring(`unknown field "limit"`)))
			_, err = load("near: [")
			Expect(err).To(MatchError(ContainSubstring("failed to parse configuration")))
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
		Expect(config.Validate(cfg)).To(ConsistOf(matchers...))
	},
		Entry("valid", func(*config.Config) {}),
		Entry("nothing to do", func(c *config.Config) { c.Near, c.Far = nil, config.Far{} }, "near: Required value"),
		Entry("only dialing", func(c *config.Config) { c.Far = config.Far{} }),
		Entry("only dialed", func(c *config.Config) { c.Near = nil }),
		Entry("bad port", func(c *config.Config) { c.Near[0].Port = 70000 }, "near[0].port: Invalid value: 70000"),
		Entry("plain connections",
			func(c *config.Config) { c.Near[0].Inner, c.Far.Routes[0].Inner = config.InnerHTTP, "TLS" }),
		Entry("unknown connections", func(c *config.Config) { c.Near[0].Inner, c.Far.Routes[0].Inner = "http", "QUIC" },
			`near[0].inner: Unsupported value: "http"`, `far.routes[0].inner: Unsupported value: "QUIC"`),
		Entry("port twice", func(c *config.Config) { c.Near[1].Port = 2381 },
			"near[1].port: Invalid value: 2381: is the port of near[0].port already"),
		Entry("port of health", func(c *config.Config) { c.Far.Port = c.Health.Port },
			"health.port: Invalid value: 8081: is the port of far.port already"),
		Entry("no near routes", func(c *config.Config) { c.Near[0].Routes = nil }, "near[0].routes: Required value"),
		Entry("no server names", func(c *config.Config) { c.Near[0].Routes[0].InnerSNI = nil },
			"near[0].routes[0].innerSNI: Required value"),
		Entry("bad server name", func(c *config.Config) { c.Near[0].Routes[0].InnerSNI[1] = "etcd*.svc" },
			"near[0].routes[0].innerSNI[1]: Invalid value"),
		Entry("an address as server name", func(c *config.Config) { c.Near[0].Routes[0].InnerSNI[1] = "10.0.0.1" },
			"near[0].routes[0].innerSNI[1]: Invalid value"),
		Entry("server name twice", func(c *config.Config) {
			c.Near[0].Routes = append(c.Near[0].Routes,
				config.NearRoute{InnerSNI: []string{"ETCD-main-0.etcd-main-peer.ns.svc"},
					Remote: c.Near[0].Routes[0].Remote})
		}, "near[0].routes[1].innerSNI[0]: Duplicate value"),
		Entry("no remote", func(c *config.Config) { c.Near[0].Routes[0].Remote = config.Remote{} },
			"near[0].routes[0].remote.host: Required value", "near[0].routes[0].remote.port: Invalid value"),
		Entry("address without server name", func(c *config.Config) {
			c.Near[1].Routes[0].Remote.ServerName = "10.0.0.1"
		}, "near[1].routes[0].remote.serverName: Invalid value"),
		Entry("no far routes", func(c *config.Config) { c.Far.Routes = nil }, "far.routes: Required value"),
		Entry("no far port", func(c *config.Config) { c.Far.Port = 0 }, "far.port: Required value"),
		Entry("far route without names", func(c *config.Config) { c.Far.Routes[0] = config.FarRoute{} },
			"far.routes[0].serverName: Required value", "far.routes[0].innerSNI: Required value",
			"far.routes[0].target: Required value"),
		Entry("far route without names inside", func(c *config.Config) { c.Far.Routes[0].InnerSNI = nil },
			"far.routes[0].innerSNI: Required value"),
		Entry("far route with a bad name inside", func(c *config.Config) { c.Far.Routes[0].InnerSNI[0] = "10.0.0.1" },
			"far.routes[0].innerSNI[0]: Invalid value"),
		Entry("far server name twice", func(c *config.Config) { c.Far.Routes = append(c.Far.Routes, c.Far.Routes[0]) },
			"far.routes[1].serverName: Duplicate value"),
		Entry("target without port", func(c *config.Config) { c.Far.Routes[0].Target = "etcd" },
			"far.routes[0].target: Invalid value: \"etcd\": must be host:port"),
		Entry("target with bad port", func(c *config.Config) { c.Far.Routes[0].Target = "etcd:0" },
			"far.routes[0].target: Invalid value"),
		Entry("target by address", func(c *config.Config) { c.Far.Routes[0].Target = "10.0.0.1:2380" }),
		Entry("negative pause", func(c *config.Config) { c.Near[0].RedialPause.Duration = -1 },
			"near[0].redialPause: Invalid value"),
		Entry("negative pause of a route", func(c *config.Config) { c.Near[0].Routes[0].RedialPause.Duration = -1 },
			"near[0].routes[0].redialPause: Invalid value"),
		Entry("no certificate", func(c *config.Config) { c.TLS = config.TLS{} },
			"tls.caFile: Required value", "tls.certFile: Required value", "tls.keyFile: Required value"),
		Entry("negative limits", func(c *config.Config) {
			c.Limits.MaxConnections, c.Limits.MaxHandshakes, c.Limits.DialTimeout.Duration = -1, -2, -time.Second
		}, "limits.maxConnections: Invalid value: -1", "limits.maxHandshakes: Invalid value: -2",
			"limits.dialTimeout: Invalid value"),
	)

	DescribeTable("#ValidateShoot", func(change func(*config.Config), messages ...string) {
		cfg, err := load(valid)
		Expect(err).NotTo(HaveOccurred())
		change(cfg)
		var matchers []any
		for _, message := range messages {
			matchers = append(matchers, MatchError(ContainSubstring(message)))
		}
		Expect(config.ValidateShoot(cfg)).To(ConsistOf(matchers...))
	},
		Entry("all is the shoot's", func(*config.Config) {}),
		Entry("short names", func(c *config.Config) {
			c.Near[0].Routes[0].InnerSNI = []string{"etcd-main-client", "etcd-main-client.ns"}
		}),
		Entry("a target without the cluster's domain",
			func(c *config.Config) { c.Far.Routes[0].Target = "etcd-main-client.ns.svc:2379" }),
		Entry("no namespace", func(c *config.Config) { c.Namespace = "" }, "namespace: Required value"),
		Entry("a namespace that is none", func(c *config.Config) { *c = config.Config{Namespace: "ns.svc"} },
			"namespace: Invalid value"),
		Entry("a target in another namespace",
			func(c *config.Config) { c.Far.Routes[0].Target = "etcd-main-client.other.svc.cluster.local.:2379" },
			"far.routes[0].target: Invalid value"),
		Entry("a target in a namespace that ends alike", func(c *config.Config) {
			c.Far.Routes[0].Target = "etcd-main-client.shoot--ns.svc:2379"
		}, "far.routes[0].target: Invalid value"),
		Entry("a target that is no service", func(c *config.Config) { c.Far.Routes[0].Target = "ns.svc.example:443" },
			"far.routes[0].target: Invalid value"),
		Entry("a target by address", func(c *config.Config) { c.Far.Routes[0].Target = "10.0.0.1:2380" },
			"far.routes[0].target: Invalid value"),
		Entry("a short target, which the search list would complete", func(c *config.Config) {
			c.Far.Routes[0].Target = "etcd-main-client:2379"
		}, "far.routes[0].target: Invalid value"),
		Entry("another shoot's name outside",
			func(c *config.Config) { c.Far.Routes[0].ServerName = "etcd-main-0--other.ingress.seed-a.example" },
			"far.routes[0].serverName: Invalid value"),
		Entry("a name outside of a shoot that ends alike",
			func(c *config.Config) { c.Far.Routes[0].ServerName = "etcd-main-0--shoot--ns.ingress.seed-a.example" },
			"far.routes[0].serverName: Invalid value"),
		Entry("another shoot's name inside",
			func(c *config.Config) { c.Far.Routes[0].InnerSNI[0] = "etcd-main-0.etcd-main-peer.other.svc" },
			"far.routes[0].innerSNI[0]: Invalid value"),
		Entry("another shoot's name to be dialed with", func(c *config.Config) {
			c.Near[0].Routes[0].InnerSNI[1] = "*.etcd-main-peer.other.svc.cluster.local"
		}, "near[0].routes[0].innerSNI[1]: Invalid value"),
		Entry("another shoot's relay", func(c *config.Config) {
			c.Near[1].Routes[0].Remote.ServerName = "etcd-main-client--other.ingress.seed-b.example"
		}, "near[1].routes[0].remote.serverName: Invalid value"),
	)
})
