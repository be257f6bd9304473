// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	schedulerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/scheduler/v1alpha1"
	"k8s.io/utils/ptr"
)

// DefaultControllerManagerLeaseName is the name of the lease of livecpm-controller-manager in the garden. Its namespace
// is DefaultLeaseNamespace.
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

	if guard := &c.Controllers.RemovalGuard; guard.Enabled == nil {
		guard.Enabled = ptr.To(true)
	}

	if former := &c.Controllers.FormerBackups; former.Enabled == nil {
		former.Enabled = ptr.To(true)
	}

	deadline := &c.Controllers.Deadline
	if deadline.Enabled == nil {
		deadline.Enabled = ptr.To(true)
	}
	setDuration(&deadline.After, 4*time.Hour)

	setDrainDefaults(&c.Controllers.Drain)
}

func setDrainDefaults(drain *DrainController) {
	if drain.Enabled == nil {
		drain.Enabled = ptr.To(true)
	}
	for _, limit := range []struct {
		value **int
		to    int
	}{
		{&drain.MaxPerSource, 2}, {&drain.MaxPerDestination, 2}, {&drain.MaxTotal, 5}, {&drain.MaxFailuresInARow, 3},
		{&drain.MaxAttempts, 3}, {&drain.MaxFailurePercent, 20},
	} {
		if *limit.value == nil {
			*limit.value = ptr.To(limit.to)
		}
	}
	setDuration(&drain.Pause, time.Minute)
	setDuration(&drain.RetryAfter, 10*time.Minute)
	setDuration(&drain.SyncPeriod, 30*time.Second)
	setString(&drain.SchedulingStrategy, string(schedulerconfigv1alpha1.SameRegion))
	setDuration(&drain.Notice.LeadTime, 0)
	if webhook := drain.Notice.Webhook; webhook != nil {
		setDuration(&webhook.Timeout, 10*time.Second)
		setDuration(&webhook.RetryAfter, time.Minute)
		setString(&webhook.OnFailure, DrainWebhookHold)
		if webhook.Attempts == nil {
			webhook.Attempts = ptr.To(3)
		}
	}
}
