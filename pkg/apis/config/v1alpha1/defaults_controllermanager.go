// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"k8s.io/utils/ptr"
)

// DefaultControllerManagerLeaseName is the name of the lease of livecpm-controller-manager in the garden. Its namespace is
// DefaultLeaseNamespace.
const DefaultControllerManagerLeaseName = "livecpm-controller-manager-leader-election"

// SetControllerManagerDefaults fills what the configuration leaves open.
func SetControllerManagerDefaults(c *ControllerManagerConfiguration) {
	setConnectionDefaults(&c.GardenClientConnection)
	setLeaderElectionDefaults(&c.LeaderElection, DefaultControllerManagerLeaseName)

	setEndpoint(&c.Server.HealthProbes, 8081)
	setEndpoint(&c.Server.Metrics, 8080)

	setString(&c.LogLevel, LogLevelInfo)
	setString(&c.LogFormat, LogFormatJSON)

	watchdog := &c.Controllers.GateWatchdog
	if watchdog.Restore == nil {
		watchdog.Restore = ptr.To(true)
	}
	setDuration(&watchdog.ProofPeriod, 5*time.Second)
	if watchdog.ConcurrentProofs == nil {
		watchdog.ConcurrentProofs = ptr.To(5)
	}
}
