// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	. "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const minimal = `apiVersion: config.livecpm.gardener.cloud/v1alpha1
kind: AgentConfiguration
gardenClientConnection:
  kubeconfig: /etc/garden/kubeconfig
gardenlet:
  configurationFile: /etc/gardenlet/config.yaml
relay:
  image: livecpm.local/livecpm-relay:v1
`

var _ = Describe("#Decode", func() {
	It("should fill a minimal configuration with defaults", func() {
		config, err := Decode([]byte(minimal))
		Expect(err).NotTo(HaveOccurred())

		Expect(config.GardenClientConnection.Kubeconfig).To(Equal("/etc/garden/kubeconfig"))
		Expect(config.GardenClientConnection.QPS).To(Equal(float32(100)))
		Expect(config.GardenClientConnection.Burst).To(Equal(int32(130)))
		Expect(config.LeaderElection.LeaderElect).To(HaveValue(BeTrue()))
		Expect(config.LeaderElection.ResourceNamespace).To(Equal("garden"))
		Expect(config.LeaderElection.ResourceName).To(Equal("livecpm-agent-leader-election"))
		Expect(config.LeaderElection.LeaseDuration.Duration).To(Equal(15 * time.Second))
		Expect(config.Server.HealthProbes).To(HaveValue(Equal(Endpoint{Port: 8081})))
		Expect(config.Server.Metrics).To(HaveValue(Equal(Endpoint{Port: 8080})))
		Expect(config.LogLevel).To(Equal("info"))
		Expect(config.LogFormat).To(Equal("json"))
		Expect(config.Controllers.LiveMigration.ConcurrentSyncs).To(HaveValue(Equal(5)))
		Expect(config.Controllers.LiveMigration.RetryBackoff.Max.Duration).To(Equal(time.Minute))
		Expect(config.DNS.Margin.Duration).To(Equal(30 * time.Second))
		Expect(config.DNS.ShortTTL.Duration).To(Equal(30 * time.Second))
		Expect(config.Etcd.JoinTimeout.Duration).To(Equal(15 * time.Minute))
		Expect(config.Flows.DrainTimeout.Duration).To(Equal(time.Minute))
	})

	It("should know where a gardenlet runs", func() {
		config, err := Decode([]byte(strings.Replace(minimal, "gardenlet:\n", "gardenlet:\n  source: {}\n", 1)))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Gardenlet.Source).To(Equal(&GardenletSource{Namespace: "garden", Deployment: "gardenlet"}))
	})

	It("should keep what is configured", func() {
		config, err := Decode([]byte(minimal + `
logLevel: debug
server:
  metrics: {bindAddress: 127.0.0.1, port: 9090}
controllers:
  liveMigration:
    concurrentSyncs: 2
    stepDeadlines: {SourceSeedCleanup: 2h}
    workers: false
dns:
  margin: 0s
  shortTTL: 0s
  resolvers: ["10.250.0.10:53"]
flows:
  drainTimeout: 0s
`))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.LogLevel).To(Equal("debug"))
		Expect(*config.Server.Metrics).To(Equal(Endpoint{BindAddress: "127.0.0.1", Port: 9090}))
		Expect(config.Controllers.LiveMigration.ConcurrentSyncs).To(HaveValue(Equal(2)))
		Expect(config.Controllers.LiveMigration.Workers).To(HaveValue(BeFalse()))
		Expect(config.Controllers.LiveMigration.StepDeadlines).
			To(HaveKeyWithValue("SourceSeedCleanup", metav1.Duration{Duration: 2 * time.Hour}))
		Expect(config.DNS.Margin.Duration).To(BeZero())
		Expect(config.DNS.ShortTTL.Duration).To(BeZero())
		Expect(config.DNS.Resolvers).To(ConsistOf("10.250.0.10:53"))
		Expect(config.Flows.DrainTimeout.Duration).To(BeZero())
	})

	It("should take acl for access control by default, and nothing if that is said", func() {
		config, err := Decode([]byte(minimal))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.LiveMigration.AccessControlExtensions).To(Equal([]string{"acl"}))
		config, err = Decode([]byte(minimal + `
controllers:
  liveMigration:
    accessControlExtensions: []
`))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.LiveMigration.AccessControlExtensions).To(And(BeEmpty(), Not(BeNil())))
	})

	It("should probe the connection between seeds, unless that is turned off", func() {
		config, err := Decode([]byte(minimal))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.LiveMigration.Probe).To(HaveValue(BeTrue()))
		config, err = Decode([]byte(minimal + `
controllers:
  liveMigration:
    probe: false
`))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.LiveMigration.Probe).To(HaveValue(BeFalse()))
	})

	It("should not permit shoots with workers by default", func() {
		config, err := Decode([]byte(minimal))
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Controllers.LiveMigration.Workers).To(HaveValue(BeTrue()))
	})

	DescribeTable("should refuse what it does not understand",
		func(text, message string) {
			_, err := Decode([]byte(text))
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("unknown field", minimal+"colour: blue\n", `unknown field "colour"`),
		Entry("unknown nested field", minimal+"dns: {margins: 1s}\n", `unknown field "dns.margins"`),
		Entry("duplicate field", minimal+"logLevel: info\nlogLevel: debug\n", `already set in map`),
		Entry("wrong kind", "apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: Other\n", `no kind "Other"`),
		Entry("wrong version", "apiVersion: config.livecpm.gardener.cloud/v9\nkind: AgentConfiguration\n", `v9`),
		Entry("not YAML", "{", "failed to decode"),
		Entry("invalid content", minimal+"logLevel: loud\n", `logLevel: Unsupported value: "loud"`),
	)
})

var _ = Describe("#Load", func() {
	It("should read a file and name the one it could not read", func() {
		path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
		_, err := Load(path)
		Expect(err).To(MatchError(ContainSubstring("failed to read the configuration")))
		Expect(os.WriteFile(path, []byte(minimal), 0o600)).To(Succeed())
		config, err := Load(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Relay.Image).To(Equal("livecpm.local/livecpm-relay:v1"))
	})
})

var _ = Describe("#AddToScheme", func() {
	It("should register kind and defaults", func() {
		scheme := runtime.NewScheme()
		Expect(AddToScheme(scheme)).To(Succeed())
		obj, err := scheme.New(SchemeGroupVersion.WithKind("AgentConfiguration"))
		Expect(err).NotTo(HaveOccurred())
		scheme.Default(obj)
		Expect(obj.(*AgentConfiguration).LogLevel).To(Equal("info"))
	})
})

var _ = Describe("#Validate", func() {
	var config *AgentConfiguration

	BeforeEach(func() {
		var err error
		config, err = Decode([]byte(minimal))
		Expect(err).NotTo(HaveOccurred())
	})

	It("should accept the defaults, and a configuration without leader election", func() {
		Expect(Validate(config)).To(BeEmpty())
		config.LeaderElection.LeaderElect = ptr.To(false)
		config.LeaderElection.ResourceName = ""
		Expect(Validate(config)).To(BeEmpty())
	})

	DescribeTable("should name the field that is wrong",
		func(change func(*AgentConfiguration), errorType field.ErrorType, path, detail string) {
			change(config)
			errs := Validate(config)
			Expect(errs).To(HaveLen(1))
			Expect(errs[0].Type).To(Equal(errorType))
			Expect(errs[0].Field).To(Equal(path))
			Expect(errs[0].Error()).To(ContainSubstring(detail))
		},
		Entry("no kubeconfig", func(c *AgentConfiguration) { c.GardenClientConnection.Kubeconfig = "" },
			field.ErrorTypeRequired, "gardenClientConnection.kubeconfig", "kubeconfig for the garden"),
		Entry("negative QPS", func(c *AgentConfiguration) { c.GardenClientConnection.QPS = -1 }, field.ErrorTypeInvalid,
			"gardenClientConnection.qps", "negative"),
		Entry("negative burst", func(c *AgentConfiguration) { c.SeedClientConnection.Burst = -1 },
			field.ErrorTypeInvalid, "seedClientConnection.burst", "negative"),
		Entry("no gardenlet configuration", func(c *AgentConfiguration) { c.Gardenlet.ConfigurationFile = "" },
			field.ErrorTypeRequired, "gardenlet.configurationFile", "component configuration"),
		Entry("gardenlet without a name", func(c *AgentConfiguration) {
			c.Gardenlet.Source = &GardenletSource{Namespace: "garden"}
		}, field.ErrorTypeInvalid, "gardenlet.source.deployment", ""),
		Entry("gardenlet without a namespace", func(c *AgentConfiguration) {
			c.Gardenlet.Source = &GardenletSource{Deployment: "gardenlet"}
		}, field.ErrorTypeInvalid, "gardenlet.source.namespace", ""),
		Entry("half a reference to a Secret", func(c *AgentConfiguration) {
			c.Gardenlet.Source = &GardenletSource{Namespace: "garden", Deployment: "gardenlet",
				GardenAccessSecret: &SecretReference{Namespace: "extension-livecpm"}}
		}, field.ErrorTypeInvalid, "gardenlet.source.gardenAccessSecret.name", ""),
		Entry("no leader election", func(c *AgentConfiguration) { c.LeaderElection = nil }, field.ErrorTypeRequired,
			"leaderElection", ""),
		Entry("other lock", func(c *AgentConfiguration) { c.LeaderElection.ResourceLock = "configmaps" },
			field.ErrorTypeNotSupported, "leaderElection.resourceLock", "leases"),
		Entry("bad lease name", func(c *AgentConfiguration) { c.LeaderElection.ResourceName = "A b" },
			field.ErrorTypeInvalid, "leaderElection.resourceName", ""),
		Entry("bad lease namespace", func(c *AgentConfiguration) { c.LeaderElection.ResourceNamespace = "A b" },
			field.ErrorTypeInvalid, "leaderElection.resourceNamespace", ""),
		Entry("renewal too long", func(c *AgentConfiguration) {
			c.LeaderElection.RenewDeadline.Duration = time.Hour
			c.LeaderElection.LeaseDuration.Duration = time.Hour
		}, field.ErrorTypeInvalid, "leaderElection.leaseDuration", "longer than renewDeadline"),
		Entry("retry too long", func(c *AgentConfiguration) {
			c.LeaderElection.RetryPeriod.Duration = 12 * time.Second
		}, field.ErrorTypeInvalid, "leaderElection.renewDeadline", "longer than retryPeriod"),
		Entry("port out of range", func(c *AgentConfiguration) { c.Server.HealthProbes.Port = 70000 },
			field.ErrorTypeInvalid, "server.healthProbes.port", "65535"),
		Entry("bad address", func(c *AgentConfiguration) { c.Server.Metrics.BindAddress = "here" },
			field.ErrorTypeInvalid, "server.metrics.bindAddress", "IP"),
		Entry("no endpoint", func(c *AgentConfiguration) { c.Server.Metrics = nil }, field.ErrorTypeRequired,
			"server.metrics", ""),
		Entry("same ports", func(c *AgentConfiguration) { c.Server.Metrics.Port = 8081 }, field.ErrorTypeInvalid,
			"server.metrics.port", "differ"),
		Entry("log level", func(c *AgentConfiguration) { c.LogLevel = "loud" }, field.ErrorTypeNotSupported, "logLevel",
			"debug"),
		Entry("log format", func(c *AgentConfiguration) { c.LogFormat = "xml" }, field.ErrorTypeNotSupported,
			"logFormat", "json"),
		Entry("no relay image", func(c *AgentConfiguration) { c.Relay.Image = "" }, field.ErrorTypeRequired,
			"relay.image", "no default"),
		Entry("bad relay image", func(c *AgentConfiguration) { c.Relay.Image = "a b" }, field.ErrorTypeInvalid,
			"relay.image", "blanks"),
		Entry("a pull secret of no namespace", func(c *AgentConfiguration) {
			c.Relay.ImagePullSecrets = []SecretReference{{Name: "registry"}}
		}, field.ErrorTypeInvalid, "relay.imagePullSecrets[0].namespace", ""),
		Entry("a pull secret without a name", func(c *AgentConfiguration) {
			c.Relay.ImagePullSecrets = []SecretReference{{Namespace: "garden"}}
		}, field.ErrorTypeInvalid, "relay.imagePullSecrets[0].name", ""),
		Entry("two pull secrets of one name", func(c *AgentConfiguration) {
			c.Relay.ImagePullSecrets = []SecretReference{{Namespace: "garden", Name: "registry"},
				{Namespace: "other", Name: "registry"}}
		}, field.ErrorTypeDuplicate, "relay.imagePullSecrets[1].name", ""),
		Entry("no concurrency", func(c *AgentConfiguration) { c.Controllers.LiveMigration.ConcurrentSyncs = ptr.To(0) },
			field.ErrorTypeInvalid, "controllers.liveMigration.concurrentSyncs", "at least 1"),
		Entry("concurrency unset", func(c *AgentConfiguration) { c.Controllers.LiveMigration.ConcurrentSyncs = nil },
			field.ErrorTypeRequired, "controllers.liveMigration.concurrentSyncs", ""),
		Entry("bad extension", func(c *AgentConfiguration) {
			c.Controllers.LiveMigration.AccessControlExtensions = []string{"acl,other"}
		}, field.ErrorTypeInvalid, "controllers.liveMigration.accessControlExtensions[0]", "RFC 1123"),
		Entry("workers unset", func(c *AgentConfiguration) { c.Controllers.LiveMigration.Workers = nil },
			field.ErrorTypeRequired, "controllers.liveMigration.workers", ""),
		Entry("probe unset", func(c *AgentConfiguration) { c.Controllers.LiveMigration.Probe = nil },
			field.ErrorTypeRequired, "controllers.liveMigration.probe", ""),
		Entry("sync period", func(c *AgentConfiguration) {
			c.Controllers.LiveMigration.SyncPeriod = &metav1.Duration{}
		}, field.ErrorTypeInvalid, "controllers.liveMigration.syncPeriod", "longer than zero"),
		Entry("backoff upside down", func(c *AgentConfiguration) {
			c.Controllers.LiveMigration.RetryBackoff.Max.Duration = time.Millisecond
		}, field.ErrorTypeInvalid, "controllers.liveMigration.retryBackoff.max", "shorter than base"),
		Entry("unknown step", func(c *AgentConfiguration) {
			c.Controllers.LiveMigration.StepDeadlines = map[string]metav1.Duration{"X": {Duration: 1}}
		}, field.ErrorTypeNotSupported, "controllers.liveMigration.stepDeadlines[X]", "MigrationCompleted"),
		Entry("bad deadline", func(c *AgentConfiguration) {
			c.Controllers.LiveMigration.StepDeadlines = map[string]metav1.Duration{"SourceSeedCleanup": {}}
		}, field.ErrorTypeInvalid, "controllers.liveMigration.stepDeadlines[SourceSeedCleanup]", "longer than zero"),
		Entry("negative margin", func(c *AgentConfiguration) { c.DNS.Margin.Duration = -1 }, field.ErrorTypeInvalid,
			"dns.margin", "negative"),
		Entry("negative short TTL", func(c *AgentConfiguration) { c.DNS.ShortTTL.Duration = -time.Second },
			field.ErrorTypeInvalid, "dns.shortTTL", "negative"),
		Entry("short TTL with parts of a second",
			func(c *AgentConfiguration) { c.DNS.ShortTTL.Duration = 1500 * time.Millisecond }, field.ErrorTypeInvalid,
			"dns.shortTTL", "whole seconds"),
		Entry("resolver without port", func(c *AgentConfiguration) { c.DNS.Resolvers = []string{"a:53", "b"} },
			field.ErrorTypeInvalid, "dns.resolvers[1]", "host:port"),
		Entry("resolver without host", func(c *AgentConfiguration) { c.DNS.Resolvers = []string{":53"} },
			field.ErrorTypeInvalid, "dns.resolvers[0]", "host:port"),
		Entry("join timeout", func(c *AgentConfiguration) { c.Etcd.JoinTimeout.Duration = 0 }, field.ErrorTypeInvalid,
			"etcd.joinTimeout", "longer than zero"),
		Entry("drain timeout", func(c *AgentConfiguration) { c.Flows.DrainTimeout = nil }, field.ErrorTypeRequired,
			"flows.drainTimeout", ""),
	)
})
