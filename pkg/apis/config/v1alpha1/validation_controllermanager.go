// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net/url"
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
	errs = append(errs, validateConcurrency(c.MaxFailurePercent, path.Child("maxFailurePercent"))...)
	if c.MaxFailurePercent != nil && *c.MaxFailurePercent > 100 {
		errs = append(errs, field.Invalid(path.Child("maxFailurePercent"), *c.MaxFailurePercent,
			"must not be more than 100"))
	}
	errs = append(errs, validateConcurrency(c.MaxAttempts, path.Child("maxAttempts"))...)
	errs = append(errs, validatePositive(c.RetryAfter, path.Child("retryAfter"))...)
	errs = append(errs, validatePositive(c.SyncPeriod, path.Child("syncPeriod"))...)
	errs = append(errs, validateNotNegative(c.Notice.LeadTime, path.Child("notice", "leadTime"))...)
	if c.Notice.Webhook != nil {
		errs = append(errs, validateDrainWebhook(c.Notice.Webhook, path.Child("notice", "webhook"))...)
	}
	return append(errs, validateOneOf(c.SchedulingStrategy, path.Child("schedulingStrategy"),
		string(schedulerconfigv1alpha1.SameRegion), string(schedulerconfigv1alpha1.MinimalDistance))...)
}

// validateDrainWebhook does not repeat the URL: there may be a secret in it.
func validateDrainWebhook(c *DrainWebhook, path *field.Path) field.ErrorList {
	const hidden = "(not shown)"
	var errs field.ErrorList
	address, err := url.Parse(c.URL)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		errs = append(errs, field.Invalid(path.Child("url"), hidden, "must be a URL with https or http and a host"))
	case address.User != nil:
		errs = append(errs, field.Invalid(path.Child("url"), hidden,
			"must contain no user and no password; put a token into the file that tokenFile names"))
	case address.Scheme == "http" && c.TokenFile != "":
		errs = append(errs, field.Invalid(path.Child("url"), hidden,
			"must be https, because everybody on the way could read the token otherwise"))
	}
	errs = append(errs, validatePositive(c.Timeout, path.Child("timeout"))...)
	errs = append(errs, validatePositive(c.RetryAfter, path.Child("retryAfter"))...)
	errs = append(errs, validateConcurrency(c.Attempts, path.Child("attempts"))...)
	return append(errs, validateOneOf(c.OnFailure, path.Child("onFailure"), DrainWebhookHold,
		DrainWebhookContinue)...)
}
