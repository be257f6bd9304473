// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	schedulerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/scheduler/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxProofPeriod is the longest time that a gate which is down may go unnoticed. The classic migration starts within
// seconds.
const maxProofPeriod = time.Minute

// ValidateControllerManager returns what is wrong with the configuration. It expects that the defaults are set.
func ValidateControllerManager(c *ControllerManagerConfiguration) field.ErrorList {
	var errs field.ErrorList

	errs = append(errs, validateConnection(&c.GardenClientConnection, field.NewPath("gardenClientConnection"))...)
	errs = append(errs, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)
	errs = append(errs, validateServer(&c.Server, field.NewPath("server"))...)
	errs = append(errs, validateOneOf(c.LogLevel, field.NewPath("logLevel"), LogLevelDebug, LogLevelInfo,
		LogLevelError)...)
	errs = append(errs, validateOneOf(c.LogFormat, field.NewPath("logFormat"), LogFormatJSON, LogFormatText)...)

	var (
		watchdog = &c.Controllers.GateWatchdog
		path     = field.NewPath("controllers", "gateWatchdog")
	)
	if watchdog.Restore == nil {
		errs = append(errs, field.Required(path.Child("restore"), "must be set"))
	}
	errs = append(errs, validatePositive(watchdog.ProofPeriod, path.Child("proofPeriod"))...)
	if watchdog.ProofPeriod != nil && watchdog.ProofPeriod.Duration > maxProofPeriod {
		errs = append(errs, field.Invalid(path.Child("proofPeriod"), watchdog.ProofPeriod.Duration.String(),
			"must not be longer than "+maxProofPeriod.String()))
	}
	errs = append(errs, validateConcurrency(watchdog.ConcurrentProofs, path.Child("concurrentProofs"))...)

	if c.Controllers.RemovalGuard.Enabled == nil {
		errs = append(errs, field.Required(field.NewPath("controllers", "removalGuard", "enabled"), "must be set"))
	}

	if c.Controllers.FormerBackups.Enabled == nil {
		errs = append(errs, field.Required(field.NewPath("controllers", "formerBackups", "enabled"), "must be set"))
	}

	path = field.NewPath("controllers", "deadline")
	if c.Controllers.Deadline.Enabled == nil {
		errs = append(errs, field.Required(path.Child("enabled"), "must be set"))
	}
	errs = append(errs, validatePositive(c.Controllers.Deadline.After, path.Child("after"))...)

	return append(errs, validateDrain(&c.Controllers.Drain, field.NewPath("controllers", "drain"))...)
}

func validateDrain(c *DrainController, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Enabled == nil {
		errs = append(errs, field.Required(path.Child("enabled"), "must be set"))
	}
	errs = append(errs, validateConcurrency(c.MaxPerSource, path.Child("maxPerSource"))...)
	errs = append(errs, validateConcurrency(c.MaxPerDestination, path.Child("maxPerDestination"))...)
	errs = append(errs, validateConcurrency(c.MaxTotal, path.Child("maxTotal"))...)
	errs = append(errs, validateNotNegative(c.Pause, path.Child("pause"))...)
	errs = append(errs, validateConcurrency(c.MaxFailuresInARow, path.Child("maxFailuresInARow"))...)
	errs = append(errs, validateConcurrency(c.MaxAttempts, path.Child("maxAttempts"))...)
	errs = append(errs, validatePositive(c.RetryAfter, path.Child("retryAfter"))...)
	errs = append(errs, validatePositive(c.SyncPeriod, path.Child("syncPeriod"))...)
	return append(errs, validateOneOf(c.SchedulingStrategy, path.Child("schedulingStrategy"),
		string(schedulerconfigv1alpha1.SameRegion), string(schedulerconfigv1alpha1.MinimalDistance))...)
}
