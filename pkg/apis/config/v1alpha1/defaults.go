// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/ptr"
)

const (
	// LogLevelDebug shows everything.
	LogLevelDebug = "debug"
	// LogLevelInfo shows what a migration does.
	LogLevelInfo = "info"
	// LogLevelError shows failures only.
	LogLevelError = "error"
	// LogFormatJSON is for machines.
	LogFormatJSON = "json"
	// LogFormatText is for humans.
	LogFormatText = "text"

	// DefaultLeaseName is the name of the agent's lease in the seed. Every agent of the seed takes the same one, the
	// one in a gardenlet's process as well.
	DefaultLeaseName = "livecpm-agent-leader-election"
	// DefaultLeaseNamespace is the namespace of the agent's lease in the seed, and of the controller manager's in the
	// garden.
	DefaultLeaseNamespace = "garden"

	// DefaultGardenletNamespace is the namespace of the gardenlet in the seed.
	DefaultGardenletNamespace = "garden"
	// DefaultGardenletDeployment is the name of the gardenlet's Deployment.
	DefaultGardenletDeployment = "gardenlet"
)

// SetDefaults fills what the configuration leaves open.
func SetDefaults(c *AgentConfiguration) {
	setConnectionDefaults(&c.GardenClientConnection)
	setConnectionDefaults(&c.SeedClientConnection)
	setLeaderElectionDefaults(&c.LeaderElection, DefaultLeaseName)

	if source := c.Gardenlet.Source; source != nil {
		setString(&source.Namespace, DefaultGardenletNamespace)
		setString(&source.Deployment, DefaultGardenletDeployment)
	}

	setEndpoint(&c.Server.HealthProbes, 8081)
	setEndpoint(&c.Server.Metrics, 8080)

	setString(&c.LogLevel, LogLevelInfo)
	setString(&c.LogFormat, LogFormatJSON)

	controller := &c.Controllers.LiveMigration
	if controller.ConcurrentSyncs == nil {
		controller.ConcurrentSyncs = ptr.To(5)
	}
	if controller.Workers == nil {
		controller.Workers = ptr.To(true)
	}
	if controller.Probe == nil {
		controller.Probe = ptr.To(true)
	}
	if controller.AccessControlExtensions == nil {
		controller.AccessControlExtensions = []string{"acl"}
	}
	if controller.AbortOverdue == nil {
		controller.AbortOverdue = ptr.To(false)
	}
	setDuration(&controller.SyncPeriod, 15*time.Second)
	setDuration(&controller.GatePeriod, 5*time.Second)
	setDuration(&controller.HoldPeriod, 5*time.Second)
	setDuration(&controller.AttemptTimeout, 20*time.Minute)
	setDuration(&controller.RetryBackoff.Base, time.Second)
	setDuration(&controller.RetryBackoff.Max, time.Minute)

	setDuration(&c.DNS.Margin, 30*time.Second)
	setDuration(&c.DNS.ShortTTL, 30*time.Second)

	setDuration(&c.Etcd.JoinTimeout, 15*time.Minute)

	setDuration(&c.Flows.PollInterval, 2*time.Second)
	setDuration(&c.Flows.RolloutTimeout, 10*time.Minute)
	setDuration(&c.Flows.DrainTimeout, time.Minute)
	setDuration(&c.Flows.GatewayDrain, time.Minute)
	setDuration(&c.Flows.ShootStateLead, 24*time.Hour)
}

func setConnectionDefaults(c *componentbaseconfigv1alpha1.ClientConnectionConfiguration) {
	if c.QPS == 0 {
		c.QPS = 100
	}
	if c.Burst == 0 {
		c.Burst = 130
	}
}

func setLeaderElectionDefaults(c **componentbaseconfigv1alpha1.LeaderElectionConfiguration, name string) {
	if *c == nil {
		*c = &componentbaseconfigv1alpha1.LeaderElectionConfiguration{}
	}
	if (*c).LeaderElect == nil {
		(*c).LeaderElect = ptr.To(true)
	}
	setString(&(*c).ResourceLock, "leases")
	setString(&(*c).ResourceName, name)
	setString(&(*c).ResourceNamespace, DefaultLeaseNamespace)
	// Of the usual proportions: the other replica continues within seconds after a crash.
	setPlainDuration(&(*c).LeaseDuration, 15*time.Second)
	setPlainDuration(&(*c).RenewDeadline, 10*time.Second)
	setPlainDuration(&(*c).RetryPeriod, 2*time.Second)
}

func setEndpoint(endpoint **Endpoint, port int) {
	if *endpoint == nil {
		*endpoint = &Endpoint{}
	}
	if (*endpoint).Port == 0 {
		(*endpoint).Port = port
	}
}

func setString(value *string, to string) {
	if *value == "" {
		*value = to
	}
}

func setDuration(value **metav1.Duration, to time.Duration) {
	if *value == nil {
		*value = &metav1.Duration{Duration: to}
	}
}

func setPlainDuration(value *metav1.Duration, to time.Duration) {
	if value.Duration == 0 {
		value.Duration = to
	}
}
