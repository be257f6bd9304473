// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	. "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

const minimalControllerManager = `apiVersion: config.livecpm.gardener.cloud/v1alpha1
kind: ControllerManagerConfiguration
`

var _ = Describe("ControllerManagerConfiguration", func() {
	Describe("#DecodeControllerManager", func() {
		It("should fill a minimal configuration with defaults", func() {
			config, err := DecodeControllerManager([]byte(minimalControllerManager))
			Expect(err).NotTo(HaveOccurred())

			Expect(config.GardenClientConnection.Kubeconfig).To(BeEmpty(),
				"the controllers then run in the garden itself")
			Expect(config.GardenClientConnection.QPS).To(Equal(float32(100)))
			Expect(config.LeaderElection.LeaderElect).To(HaveValue(BeTrue()))
			Expect(config.LeaderElection.ResourceName).To(Equal("livecpm-controller-manager-leader-election"))
			Expect(config.LeaderElection.ResourceNamespace).To(Equal("garden"))
			Expect(config.Server.HealthProbes).To(HaveValue(Equal(Endpoint{Port: 8081})))
			Expect(config.Server.Metrics).To(HaveValue(Equal(Endpoint{Port: 8080})))
			Expect(config.LogLevel).To(Equal("info"))
			Expect(config.LogFormat).To(Equal("json"))
			Expect(config.Controllers.GateWatchdog.Restore).To(HaveValue(BeTrue()))
			Expect(config.Controllers.GateWatchdog.ProofPeriod.Duration).To(Equal(5 * time.Second))
			Expect(config.Controllers.GateWatchdog.ConcurrentProofs).To(HaveValue(Equal(5)))
			Expect(config.Controllers.Deadline).To(Equal(DeadlineController{
				Enabled: ptr.To(true), After: &metav1.Duration{Duration: 4 * time.Hour},
			}))
			Expect(config.Controllers.Drain).To(Equal(DrainController{
				Enabled: ptr.To(true), MaxPerSource: ptr.To(2), MaxPerDestination: ptr.To(2), MaxTotal: ptr.To(5),
				Pause: &metav1.Duration{Duration: time.Minute}, MaxFailuresInARow: ptr.To(3), MaxAttempts: ptr.To(3),
				MaxFailurePercent:  ptr.To(20),
				RetryAfter:         &metav1.Duration{Duration: 10 * time.Minute},
				SyncPeriod:         &metav1.Duration{Duration: 30 * time.Second},
				SchedulingStrategy: "SameRegion",
				Notice:             DrainNotice{LeadTime: &metav1.Duration{}},
			}))
		})

		It("should keep what is configured", func() {
			config, err := DecodeControllerManager([]byte(minimalControllerManager + `
gardenClientConnection: {kubeconfig: /etc/garden/kubeconfig, qps: 7}
leaderElection: {resourceName: mine}
controllers:
  gateWatchdog: {restore: false, proofPeriod: 1s, concurrentProofs: 2}
  deadline: {enabled: false, after: 30m}
  drain:
    enabled: false
    maxPerSource: 1
    maxTotal: 9
    pause: 0s
    schedulingStrategy: MinimalDistance
    maxFailurePercent: 100
    notice: {leadTime: 1h, webhook: {url: "https://example.org/hook", tokenFile: /token}}
`))
			Expect(err).NotTo(HaveOccurred())
			Expect(config.GardenClientConnection.Kubeconfig).To(Equal("/etc/garden/kubeconfig"))
			Expect(config.GardenClientConnection.QPS).To(Equal(float32(7)))
			Expect(config.LeaderElection.ResourceName).To(Equal("mine"))
			Expect(config.Controllers.GateWatchdog.Restore).To(HaveValue(BeFalse()))
			Expect(config.Controllers.GateWatchdog.ProofPeriod.Duration).To(Equal(time.Second))
			Expect(config.Controllers.GateWatchdog.ConcurrentProofs).To(HaveValue(Equal(2)))
			Expect(config.Controllers.Deadline.Enabled).To(HaveValue(BeFalse()))
			Expect(config.Controllers.Deadline.After.Duration).To(Equal(30 * time.Minute))
			Expect(config.Controllers.Drain.Enabled).To(HaveValue(BeFalse()))
			Expect(config.Controllers.Drain.MaxPerSource).To(HaveValue(Equal(1)))
			Expect(config.Controllers.Drain.MaxPerDestination).To(HaveValue(Equal(2)))
			Expect(config.Controllers.Drain.MaxTotal).To(HaveValue(Equal(9)))
			Expect(config.Controllers.Drain.Pause.Duration).To(BeZero())
			Expect(config.Controllers.Drain.SchedulingStrategy).To(Equal("MinimalDistance"))
			Expect(config.Controllers.Drain.MaxFailurePercent).To(HaveValue(Equal(100)))
			Expect(config.Controllers.Drain.Notice).To(Equal(DrainNotice{
				LeadTime: &metav1.Duration{Duration: time.Hour}, Webhook: &DrainWebhook{URL: "https://example.org/hook",
					TokenFile: "/token", Timeout: &metav1.Duration{Duration: 10 * time.Second},
					RetryAfter: &metav1.Duration{Duration: time.Minute}, OnFailure: "Hold", Attempts: ptr.To(3)},
			}))
		})

		DescribeTable("should refuse what it does not understand",
			func(text, message string) {
				config, err := DecodeControllerManager([]byte(text))
				Expect(err).To(MatchError(ContainSubstring(message)))
				Expect(config).To(BeNil())
			},
			Entry("unknown field", minimalControllerManager+"gardenlet: {}\n", `unknown field "gardenlet"`),
			Entry("unknown nested field", minimalControllerManager+"controllers: {gateWatchdog: {repair: true}}\n",
				`unknown field "controllers.gateWatchdog.repair"`),
			Entry("the agent's configuration", minimal, "ControllerManagerConfiguration"),
			Entry("invalid content", minimalControllerManager+"logFormat: xml\n",
				`logFormat: Unsupported value: "xml"`),
		)

		It("should be told from the agent's", func() {
			_, err := Decode([]byte(minimalControllerManager))
			Expect(err).To(MatchError(ContainSubstring("AgentConfiguration")))
		})
	})

	Describe("#LoadControllerManager", func() {
		It("should read a file and tell when there is none", func() {
			path := filepath.Join(GinkgoT().TempDir(), "config.yaml")
			_, err := LoadControllerManager(path)
			Expect(err).To(MatchError(ContainSubstring("failed to read the configuration")))
			Expect(os.WriteFile(path, []byte(minimalControllerManager+"logLevel: debug\n"), 0o600)).To(Succeed())
			config, err := LoadControllerManager(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(config.LogLevel).To(Equal("debug"))
		})
	})

	It("should be registered with its defaults", func() {
		scheme := runtime.NewScheme()
		Expect(AddToScheme(scheme)).To(Succeed())
		obj, err := scheme.New(SchemeGroupVersion.WithKind("ControllerManagerConfiguration"))
		Expect(err).NotTo(HaveOccurred())
		scheme.Default(obj)
		Expect(obj.(*ControllerManagerConfiguration).Controllers.GateWatchdog.Restore).To(HaveValue(BeTrue()))
	})

	It("should be copied deeply", func() {
		config, err := DecodeControllerManager([]byte(minimalControllerManager))
		Expect(err).NotTo(HaveOccurred())
		copied := config.DeepCopyObject().(*ControllerManagerConfiguration)
		Expect(copied).To(Equal(config))
		*copied.Controllers.GateWatchdog.Restore = false
		copied.Controllers.GateWatchdog.ProofPeriod.Duration = time.Hour
		*copied.Controllers.GateWatchdog.ConcurrentProofs = 1
		*copied.Controllers.Drain.Enabled = false
		*copied.Controllers.Drain.MaxPerSource = 7
		*copied.Controllers.Drain.MaxPerDestination = 7
		*copied.Controllers.Drain.MaxTotal = 7
		*copied.Controllers.Drain.MaxFailuresInARow = 7
		*copied.Controllers.Drain.MaxAttempts = 7
		copied.Controllers.Drain.Pause.Duration = time.Hour
		copied.Controllers.Drain.RetryAfter.Duration = time.Hour
		copied.Controllers.Drain.SyncPeriod.Duration = time.Hour
		copied.LeaderElection.ResourceName = "x"
		copied.Server.Metrics.Port = 1
		again, err := DecodeControllerManager([]byte(minimalControllerManager))
		Expect(err).NotTo(HaveOccurred())
		Expect(config).To(Equal(again))
	})

	Describe("#ValidateControllerManager", func() {
		var config *ControllerManagerConfiguration

		BeforeEach(func() {
			config = &ControllerManagerConfiguration{}
			SetControllerManagerDefaults(config)
		})

		It("should accept the defaults, and a configuration without leader election", func() {
			Expect(ValidateControllerManager(config)).To(BeEmpty())
			config.LeaderElection.LeaderElect = ptr.To(false)
			config.LeaderElection.ResourceName = ""
			Expect(ValidateControllerManager(config)).To(BeEmpty())
		})

		DescribeTable("should name the field that is wrong",
			func(change func(*ControllerManagerConfiguration), errorType field.ErrorType, path, detail string) {
				change(config)
				errs := ValidateControllerManager(config)
				Expect(errs).To(HaveLen(1))
				Expect(errs[0].Type).To(Equal(errorType))
				Expect(errs[0].Field).To(Equal(path))
				Expect(errs[0].Error()).To(ContainSubstring(detail))
			},
			Entry("a share of more than all", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.MaxFailurePercent = ptr.To(101)
			}, field.ErrorTypeInvalid, "controllers.drain.maxFailurePercent", "100"),
			Entry("a lead time before now", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.Notice.LeadTime.Duration = -1
			}, field.ErrorTypeInvalid, "controllers.drain.notice.leadTime", "negative"),
			Entry("a webhook without URL", webhook("", ""), field.ErrorTypeInvalid,
				"controllers.drain.notice.webhook.url", "https or http"),
			Entry("a webhook that is none", webhook("ftp://example.org/secret", ""), field.ErrorTypeInvalid,
				"controllers.drain.notice.webhook.url", "not shown"),
			Entry("a webhook with a password", webhook("https://user:secret@example.org", ""), field.ErrorTypeInvalid,
				"controllers.drain.notice.webhook.url", "tokenFile"),
			Entry("a token that everybody could read", webhook("http://example.org", "/token"),
				field.ErrorTypeInvalid, "controllers.drain.notice.webhook.url", "must be https"),
			Entry("an unknown answer to failures", func(c *ControllerManagerConfiguration) {
				webhook("https://example.org", "")(c)
				c.Controllers.Drain.Notice.Webhook.OnFailure = "Ignore"
			}, field.ErrorTypeNotSupported, "controllers.drain.notice.webhook.onFailure", "Hold"),
			Entry("negative QPS", func(c *ControllerManagerConfiguration) { c.GardenClientConnection.QPS = -1 },
				field.ErrorTypeInvalid, "gardenClientConnection.qps", "negative"),
			Entry("no leader election", func(c *ControllerManagerConfiguration) { c.LeaderElection = nil },
				field.ErrorTypeRequired, "leaderElection", ""),
			Entry("same ports", func(c *ControllerManagerConfiguration) { c.Server.Metrics.Port = 8081 },
				field.ErrorTypeInvalid, "server.metrics.port", "differ"),
			Entry("no endpoint", func(c *ControllerManagerConfiguration) { c.Server.HealthProbes = nil },
				field.ErrorTypeRequired, "server.healthProbes", ""),
			Entry("log level", func(c *ControllerManagerConfiguration) { c.LogLevel = "loud" },
				field.ErrorTypeNotSupported, "logLevel", "debug"),
			Entry("log format", func(c *ControllerManagerConfiguration) { c.LogFormat = "xml" },
				field.ErrorTypeNotSupported, "logFormat", "json"),
			Entry("restore unset", func(c *ControllerManagerConfiguration) { c.Controllers.GateWatchdog.Restore = nil },
				field.ErrorTypeRequired, "controllers.gateWatchdog.restore", ""),
			Entry("no period", func(c *ControllerManagerConfiguration) { c.Controllers.GateWatchdog.ProofPeriod = nil },
				field.ErrorTypeRequired, "controllers.gateWatchdog.proofPeriod", ""),
			Entry("period of zero", func(c *ControllerManagerConfiguration) {
				c.Controllers.GateWatchdog.ProofPeriod = &metav1.Duration{}
			}, field.ErrorTypeInvalid, "controllers.gateWatchdog.proofPeriod", "longer than zero"),
			Entry("period too long", func(c *ControllerManagerConfiguration) {
				c.Controllers.GateWatchdog.ProofPeriod.Duration = 2 * time.Minute
			}, field.ErrorTypeInvalid, "controllers.gateWatchdog.proofPeriod", "not be longer than 1m"),
			Entry("no concurrency", func(c *ControllerManagerConfiguration) {
				c.Controllers.GateWatchdog.ConcurrentProofs = ptr.To(0)
			}, field.ErrorTypeInvalid, "controllers.gateWatchdog.concurrentProofs", "at least 1"),
			Entry("drain neither on nor off", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.Enabled = nil
			}, field.ErrorTypeRequired, "controllers.drain.enabled", ""),
			Entry("removal guard neither on nor off", func(c *ControllerManagerConfiguration) {
				c.Controllers.RemovalGuard.Enabled = nil
			}, field.ErrorTypeRequired, "controllers.removalGuard.enabled", ""),
			Entry("former backups neither on nor off", func(c *ControllerManagerConfiguration) {
				c.Controllers.FormerBackups.Enabled = nil
			}, field.ErrorTypeRequired, "controllers.formerBackups.enabled", ""),
			Entry("deadline neither on nor off", func(c *ControllerManagerConfiguration) {
				c.Controllers.Deadline.Enabled = nil
			}, field.ErrorTypeRequired, "controllers.deadline.enabled", ""),
			Entry("no deadline", func(c *ControllerManagerConfiguration) { c.Controllers.Deadline.After = nil },
				field.ErrorTypeRequired, "controllers.deadline.after", ""),
			Entry("deadline at once", func(c *ControllerManagerConfiguration) {
				c.Controllers.Deadline.After.Duration = 0
			}, field.ErrorTypeInvalid, "controllers.deadline.after", "longer than zero"),
			Entry("nothing may leave", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.MaxPerSource = ptr.To(0)
			}, field.ErrorTypeInvalid, "controllers.drain.maxPerSource", "at least 1"),
			Entry("nothing may arrive", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.MaxPerDestination = ptr.To(0)
			}, field.ErrorTypeInvalid, "controllers.drain.maxPerDestination", "at least 1"),
			Entry("nothing may move", func(c *ControllerManagerConfiguration) { c.Controllers.Drain.MaxTotal = nil },
				field.ErrorTypeRequired, "controllers.drain.maxTotal", ""),
			Entry("negative pause", func(c *ControllerManagerConfiguration) { c.Controllers.Drain.Pause.Duration = -1 },
				field.ErrorTypeInvalid, "controllers.drain.pause", "negative"),
			Entry("no failure", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.MaxFailuresInARow = ptr.To(0)
			}, field.ErrorTypeInvalid, "controllers.drain.maxFailuresInARow", "at least 1"),
			Entry("no attempt", func(c *ControllerManagerConfiguration) { c.Controllers.Drain.MaxAttempts = ptr.To(0) },
				field.ErrorTypeInvalid, "controllers.drain.maxAttempts", "at least 1"),
			Entry("retry at once", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.RetryAfter.Duration = 0
			}, field.ErrorTypeInvalid, "controllers.drain.retryAfter", "longer than zero"),
			Entry("look all the time", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.SyncPeriod.Duration = 0
			}, field.ErrorTypeInvalid, "controllers.drain.syncPeriod", "longer than zero"),
			Entry("strategy", func(c *ControllerManagerConfiguration) {
				c.Controllers.Drain.SchedulingStrategy = "Random"
			}, field.ErrorTypeNotSupported, "controllers.drain.schedulingStrategy", "MinimalDistance"),
		)
	})
})

// webhook sets a webhook of the drain with the URL and the file with the token.
func webhook(url, tokenFile string) func(*ControllerManagerConfiguration) {
	return func(c *ControllerManagerConfiguration) {
		c.Controllers.Drain.Notice.Webhook = &DrainWebhook{URL: url, TokenFile: tokenFile}
		SetControllerManagerDefaults(c)
	}
}
