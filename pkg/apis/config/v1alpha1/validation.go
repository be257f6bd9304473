// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Validate returns what is wrong with the configuration. It expects that the defaults are set.
func Validate(c *AgentConfiguration) field.ErrorList {
	var errs field.ErrorList

	path := field.NewPath("gardenClientConnection")
	errs = append(errs, validateConnection(&c.GardenClientConnection, path)...)
	if c.GardenClientConnection.Kubeconfig == "" {
		errs = append(errs, field.Required(path.Child("kubeconfig"), "the agent needs a kubeconfig for the garden"))
	}
	errs = append(errs, validateConnection(&c.SeedClientConnection, field.NewPath("seedClientConnection"))...)

	if c.Gardenlet.ConfigurationFile == "" {
		errs = append(errs, field.Required(field.NewPath("gardenlet", "configurationFile"),
			"the agent needs the gardenlet's component configuration"))
	}
	if source := c.Gardenlet.Source; source != nil {
		errs = append(errs, validateSource(source, field.NewPath("gardenlet", "source"))...)
	}

	errs = append(errs, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)

	errs = append(errs, validateServer(&c.Server, field.NewPath("server"))...)

	errs = append(errs, validateOneOf(c.LogLevel, field.NewPath("logLevel"), LogLevelDebug, LogLevelInfo,
		LogLevelError)...)
	errs = append(errs, validateOneOf(c.LogFormat, field.NewPath("logFormat"), LogFormatJSON, LogFormatText)...)

	errs = append(errs, validateRelay(&c.Relay, field.NewPath("relay"))...)
	errs = append(errs, validateController(&c.Controllers.LiveMigration,
		field.NewPath("controllers", "liveMigration"))...)
	errs = append(errs, validateDNS(&c.DNS, field.NewPath("dns"))...)

	errs = append(errs, validatePositive(c.Etcd.JoinTimeout, field.NewPath("etcd", "joinTimeout"))...)

	path = field.NewPath("flows")
	errs = append(errs, validatePositive(c.Flows.PollInterval, path.Child("pollInterval"))...)
	errs = append(errs, validatePositive(c.Flows.RolloutTimeout, path.Child("rolloutTimeout"))...)
	errs = append(errs, validateNotNegative(c.Flows.DrainTimeout, path.Child("drainTimeout"))...)
	errs = append(errs, validatePositive(c.Flows.GatewayDrain, path.Child("gatewayDrain"))...)
	errs = append(errs, validatePositive(c.Flows.ShootStateLead, path.Child("shootStateLead"))...)

	return errs
}

func validateRelay(r *Relay, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), "the image of the relay pods has no default"))
	} else if strings.ContainsAny(r.Image, " \t\n") {
		errs = append(errs, field.Invalid(path.Child("image"), r.Image, "must not contain blanks"))
	}
	names := sets.New[string]()
	for i := range r.ImagePullSecrets {
		ref, at := &r.ImagePullSecrets[i], path.Child("imagePullSecrets").Index(i)
		errs = append(errs, validateReference(ref, at)...)
		if names.Has(ref.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), ref.Name))
		}
		names.Insert(ref.Name)
	}
	return errs
}

func validateReference(ref *SecretReference, path *field.Path) field.ErrorList {
	return append(validateName(ref.Namespace, path.Child("namespace"), validation.IsDNS1123Label),
		validateName(ref.Name, path.Child("name"), validation.IsDNS1123Subdomain)...)
}

func validateSource(s *GardenletSource, path *field.Path) field.ErrorList {
	errs := validateName(s.Namespace, path.Child("namespace"), validation.IsDNS1123Label)
	errs = append(errs, validateName(s.Deployment, path.Child("deployment"), validation.IsDNS1123Subdomain)...)
	if ref := s.GardenAccessSecret; ref != nil {
		errs = append(errs, validateReference(ref, path.Child("gardenAccessSecret"))...)
	}
	return errs
}

func validateName(name string, path *field.Path, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range check(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func validateConnection(
	c *componentbaseconfigv1alpha1.ClientConnectionConfiguration, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if c.QPS < 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), c.QPS, "must not be negative"))
	}
	if c.Burst < 0 {
		errs = append(errs, field.Invalid(path.Child("burst"), c.Burst, "must not be negative"))
	}
	return errs
}

func validateLeaderElection(
	c *componentbaseconfigv1alpha1.LeaderElectionConfiguration, path *field.Path,
) field.ErrorList {
	if c == nil {
		return field.ErrorList{field.Required(path, "must be set")}
	}
	if c.LeaderElect != nil && !*c.LeaderElect {
		return nil
	}

	var errs field.ErrorList
	if c.ResourceLock != "leases" {
		errs = append(errs, field.NotSupported(path.Child("resourceLock"), c.ResourceLock, []string{"leases"}))
	}
	for _, msg := range validation.IsDNS1123Subdomain(c.ResourceName) {
		errs = append(errs, field.Invalid(path.Child("resourceName"), c.ResourceName, msg))
	}
	for _, msg := range validation.IsDNS1123Label(c.ResourceNamespace) {
		errs = append(errs, field.Invalid(path.Child("resourceNamespace"), c.ResourceNamespace, msg))
	}
	errs = append(errs, validatePositive(&c.RetryPeriod, path.Child("retryPeriod"))...)
	if c.RenewDeadline.Duration <= c.RetryPeriod.Duration {
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), c.RenewDeadline.Duration.String(),
			"must be longer than retryPeriod"))
	}
	if c.LeaseDuration.Duration <= c.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), c.LeaseDuration.Duration.String(),
			"must be longer than renewDeadline"))
	}
	return errs
}

func validateServer(s *Server, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateEndpoint(s.HealthProbes, path.Child("healthProbes"))...)
	errs = append(errs, validateEndpoint(s.Metrics, path.Child("metrics"))...)
	if s.HealthProbes != nil && s.Metrics != nil && s.HealthProbes.Port == s.Metrics.Port {
		errs = append(errs, field.Invalid(path.Child("metrics", "port"), s.Metrics.Port,
			"must differ from the port of the health probes"))
	}
	return errs
}

func validateEndpoint(e *Endpoint, path *field.Path) field.ErrorList {
	if e == nil {
		return field.ErrorList{field.Required(path, "must be set")}
	}
	var errs field.ErrorList
	if e.BindAddress != "" && net.ParseIP(e.BindAddress) == nil {
		errs = append(errs, field.Invalid(path.Child("bindAddress"), e.BindAddress, "must be an IP address"))
	}
	for _, msg := range validation.IsValidPortNum(e.Port) {
		errs = append(errs, field.Invalid(path.Child("port"), e.Port, msg))
	}
	return errs
}

func validateController(c *LiveMigrationController, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateConcurrency(c.ConcurrentSyncs, path.Child("concurrentSyncs"))...)
	errs = append(errs, validatePositive(c.SyncPeriod, path.Child("syncPeriod"))...)
	errs = append(errs, validatePositive(c.GatePeriod, path.Child("gatePeriod"))...)
	errs = append(errs, validatePositive(c.HoldPeriod, path.Child("holdPeriod"))...)
	errs = append(errs, validatePositive(c.AttemptTimeout, path.Child("attemptTimeout"))...)

	if c.Workers == nil {
		errs = append(errs, field.Required(path.Child("workers"), "must be true or false"))
	}

	if c.Probe == nil {
		errs = append(errs, field.Required(path.Child("probe"), "must be true or false"))
	}

	for i, extensionType := range c.AccessControlExtensions {
		errs = append(errs, validateName(extensionType, path.Child("accessControlExtensions").Index(i),
			validation.IsDNS1123Subdomain)...)
	}

	backoff := path.Child("retryBackoff")
	errs = append(errs, validatePositive(c.RetryBackoff.Base, backoff.Child("base"))...)
	errs = append(errs, validatePositive(c.RetryBackoff.Max, backoff.Child("max"))...)
	if c.RetryBackoff.Base != nil && c.RetryBackoff.Max != nil &&
		c.RetryBackoff.Max.Duration < c.RetryBackoff.Base.Duration {
		errs = append(errs, field.Invalid(backoff.Child("max"), c.RetryBackoff.Max.Duration.String(),
			"must not be shorter than base"))
	}

	names := make([]string, 0, len(steps.Table()))
	for _, conditionType := range steps.ConditionTypes() {
		names = append(names, string(conditionType))
	}
	for name, deadline := range c.StepDeadlines {
		key := path.Child("stepDeadlines").Key(name)
		if steps.Index(gardencorev1beta1.ConditionType(name)) < 0 {
			errs = append(errs, field.NotSupported(key, name, names))
			continue
		}
		errs = append(errs, validatePositive(&deadline, key)...)
	}
	return errs
}

func validateConcurrency(n *int, path *field.Path) field.ErrorList {
	switch {
	case n == nil:
		return field.ErrorList{field.Required(path, "must be set")}
	case *n < 1:
		return field.ErrorList{field.Invalid(path, *n, "must be at least 1")}
	}
	return nil
}

func validateDNS(c *DNS, path *field.Path) field.ErrorList {
	errs := validateNotNegative(c.Margin, path.Child("margin"))
	errs = append(errs, validateNotNegative(c.ShortTTL, path.Child("shortTTL"))...)
	if ttl := c.ShortTTL; ttl != nil && ttl.Duration%time.Second != 0 {
		errs = append(errs, field.Invalid(path.Child("shortTTL"), ttl.Duration.String(), "must be whole seconds"))
	}
	for i, resolver := range c.Resolvers {
		host, port, err := net.SplitHostPort(resolver)
		if number, convErr := strconv.Atoi(port); err != nil || host == "" || convErr != nil ||
			len(validation.IsValidPortNum(number)) > 0 {
			errs = append(errs, field.Invalid(path.Child("resolvers").Index(i), resolver, "must be host:port"))
		}
	}
	return errs
}

func validateOneOf(value string, path *field.Path, allowed ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func validatePositive(d *metav1.Duration, path *field.Path) field.ErrorList {
	return validateDuration(d, path, 1)
}

func validateNotNegative(d *metav1.Duration, path *field.Path) field.ErrorList {
	return validateDuration(d, path, 0)
}

func validateDuration(d *metav1.Duration, path *field.Path, atLeast int64) field.ErrorList {
	switch {
	case d == nil:
		return field.ErrorList{field.Required(path, "must be set")}
	case int64(d.Duration) < atLeast:
		msg := "must not be negative"
		if atLeast > 0 {
			msg = "must be longer than zero"
		}
		return field.ErrorList{field.Invalid(path, fmt.Sprint(d.Duration), msg)}
	}
	return nil
}
