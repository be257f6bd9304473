// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livecpm/livecpm/pkg/program/pod"
)

// The most that a file may allow. Clients of etcd give up after some seconds, and a hold must end before they do; a
// member that nobody gives back for an hour has been forgotten.
const (
	maxHold  = 2 * time.Second
	maxDrain = time.Hour
)

// Validate checks a configuration after SetDefaults.
func Validate(cfg *Config) field.ErrorList {
	var allErrs field.ErrorList
	if cfg.Etcd == "" {
		allErrs = append(allErrs, field.Required(field.NewPath("etcd"), "must be the role of the etcd cluster"))
	}
	allErrs = append(allErrs, validatePorts(cfg)...)
	allErrs = append(allErrs, validateMembers(cfg.Members, field.NewPath("members"))...)
	allErrs = append(allErrs, validateTLS(cfg.TLS, field.NewPath("tls"))...)
	return append(allErrs, validateLimits(cfg.Limits, field.NewPath("limits"))...)
}

func validatePorts(cfg *Config) field.ErrorList {
	var allErrs field.ErrorList
	ports := pod.Ports{}
	usePort := func(port int32, path *field.Path) { allErrs = append(allErrs, ports.Use(port, path)...) }
	usePort(cfg.Port, field.NewPath("port"))
	for i, forward := range cfg.Forwards {
		path := field.NewPath("forwards").Index(i)
		usePort(forward.Port, path.Child("port"))
		allErrs = append(allErrs, pod.ValidatePort(forward.MemberPort, path.Child("memberPort"))...)
	}
	usePort(cfg.Health.Port, field.NewPath("health", "port"))
	usePort(cfg.Metrics.Port, field.NewPath("metrics", "port"))
	return allErrs
}

func validateMembers(members []Member, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	if len(members) == 0 {
		allErrs = append(allErrs, field.Required(path, "a front without members has nothing to lead to"))
	}
	seen := map[int]bool{}
	for i, member := range members {
		path := path.Index(i)
		if member.Ordinal < 0 {
			allErrs = append(allErrs, field.Invalid(path.Child("ordinal"), member.Ordinal, "must not be negative"))
		}
		if seen[member.Ordinal] {
			allErrs = append(allErrs, field.Duplicate(path.Child("ordinal"), member.Ordinal))
		}
		seen[member.Ordinal] = true

		host, err := hostOf(member.Address)
		if err != nil {
			allErrs = append(allErrs, field.Invalid(path.Child("address"), member.Address, err.Error()))
			continue
		}
		if net.ParseIP(host) == nil {
			allErrs = append(allErrs, validateName(host, path.Child("address"))...)
		}
		allErrs = append(allErrs, validateName(member.ServerName, path.Child("serverName"))...)
	}
	return allErrs
}

func validateTLS(tls TLS, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	for _, file := range []struct{ name, value string }{
		{"caFile", tls.CAFile}, {"serverCertFile", tls.ServerCertFile}, {"serverKeyFile", tls.ServerKeyFile},
		{"clientCertFile", tls.ClientCertFile}, {"clientKeyFile", tls.ClientKeyFile},
	} {
		if file.value == "" {
			allErrs = append(allErrs, field.Required(path.Child(file.name), "etcd is reached over mutual TLS only"))
		}
	}
	return allErrs
}

func validateLimits(limits Limits, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	for _, limit := range []struct {
		name  string
		value time.Duration
		most  time.Duration
	}{
		{"maxHold", limits.MaxHold.Duration, maxHold},
		{"maxDrain", limits.MaxDrain.Duration, maxDrain},
		{"memberWait", limits.MemberWait.Duration, time.Minute},
		{"shutdownDelay", limits.ShutdownDelay.Duration, time.Minute},
		{"shutdownTimeout", limits.ShutdownTimeout.Duration, time.Minute},
	} {
		if limit.value <= 0 || limit.value > limit.most {
			allErrs = append(allErrs, field.Invalid(path.Child(limit.name), limit.value.String(),
				"must be positive and at most "+limit.most.String()))
		}
	}
	if limits.MaxForwards <= 0 {
		allErrs = append(allErrs, field.Invalid(path.Child("maxForwards"), limits.MaxForwards, "must be positive"))
	}
	return allErrs
}

// hostOf returns the host of a host:port without its trailing dot.
func hostOf(address string) (string, error) {
	host, err := pod.HostOf(address)
	if err == nil && host == "" {
		err = errors.New("must be host:port")
	}
	return strings.TrimSuffix(host, "."), err
}

func validateName(name string, path *field.Path) field.ErrorList {
	if net.ParseIP(name) != nil {
		return field.ErrorList{field.Invalid(path, name, "must be a DNS name: that of a certificate")}
	}
	var allErrs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		allErrs = append(allErrs, field.Invalid(path, name, message))
	}
	return allErrs
}
