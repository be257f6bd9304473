// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livecpm/livecpm/pkg/program/pod"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// Validate checks a configuration after SetDefaults.
func Validate(cfg *Config) field.ErrorList {
	var allErrs field.ErrorList

	if len(cfg.Near) == 0 && cfg.Far.Port == 0 {
		allErrs = append(allErrs,
			field.Required(field.NewPath("near"), "a relay without near or far listeners does nothing"))
	}
	ports := pod.Ports{}
	usePort := func(port int32, path *field.Path) { allErrs = append(allErrs, ports.Use(port, path)...) }
	for i, near := range cfg.Near {
		path := field.NewPath("near").Index(i)
		usePort(near.Port, path.Child("port"))
		allErrs = append(allErrs, validateNearRoutes(near.Routes, path.Child("routes"))...)
		allErrs = append(allErrs, validateInner(near.Inner, path.Child("inner"))...)
		allErrs = append(allErrs, validatePause(near.RedialPause, path.Child("redialPause"))...)
	}
	far := field.NewPath("far")
	if cfg.Far.Port != 0 {
		usePort(cfg.Far.Port, far.Child("port"))
		allErrs = append(allErrs, validateFarRoutes(cfg.Far.Routes, far.Child("routes"))...)
	} else if len(cfg.Far.Routes) > 0 {
		allErrs = append(allErrs, field.Required(far.Child("port"), "routes need a port to arrive at"))
	}
	usePort(cfg.Health.Port, field.NewPath("health", "port"))
	usePort(cfg.Metrics.Port, field.NewPath("metrics", "port"))

	tls := field.NewPath("tls")
	for name, file := range map[string]string{"caFile": cfg.TLS.CAFile, "certFile": cfg.TLS.CertFile,
		"keyFile": cfg.TLS.KeyFile} {
		if file == "" {
			allErrs = append(allErrs, field.Required(tls.Child(name), "relays only talk to each other over mutual TLS"))
		}
	}

	limits := field.NewPath("limits")
	for name, number := range map[string]int32{"maxConnections": cfg.Limits.MaxConnections,
		"maxHandshakes": cfg.Limits.MaxHandshakes} {
		if number < 0 {
			allErrs = append(allErrs, field.Invalid(limits.Child(name), number, "must be positive"))
		}
	}
	for name, d := range map[string]int64{
		"handshakeTimeout": int64(cfg.Limits.HandshakeTimeout.Duration),
		"dialTimeout":      int64(cfg.Limits.DialTimeout.Duration),
		"drainTimeout":     int64(cfg.Limits.DrainTimeout.Duration),
	} {
		if d < 0 {
			allErrs = append(allErrs, field.Invalid(limits.Child(name), d, "must be positive"))
		}
	}
	return allErrs
}

func validateNearRoutes(routes []NearRoute, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	if len(routes) == 0 {
		allErrs = append(allErrs, field.Required(path, "a listener without routes accepts nobody"))
	}
	seen := map[string]bool{}
	for i, route := range routes {
		path := path.Index(i)
		allErrs = append(allErrs, validateInnerSNI(route.InnerSNI, seen, path.Child("innerSNI"))...)
		remote := path.Child("remote")
		if net.ParseIP(route.Remote.Host) == nil {
			allErrs = append(allErrs, validateServerName(route.Remote.Host, remote.Child("host"))...)
		}
		allErrs = append(allErrs, validatePause(route.RedialPause, path.Child("redialPause"))...)
		allErrs = append(allErrs, pod.ValidatePort(route.Remote.Port, remote.Child("port"))...)
		if route.Remote.Host != "" { // its absence is reported once, above
			allErrs = append(allErrs, validateServerName(route.Remote.ServerName, remote.Child("serverName"))...)
		}
	}
	return allErrs
}

func validateInner(inner Inner, path *field.Path) field.ErrorList {
	switch inner {
	case "", InnerTLS, InnerHTTP:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, inner, []Inner{InnerTLS, InnerHTTP})}
}

func validatePause(pause metav1.Duration, path *field.Path) field.ErrorList {
	if pause.Duration < 0 {
		return field.ErrorList{field.Invalid(path, pause.Duration.String(), "must not be negative")}
	}
	return nil
}

// validateInnerSNI checks the server names of one route; seen are those of the routes before it that compete with it.
func validateInnerSNI(names []string, seen map[string]bool, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	if len(names) == 0 {
		allErrs = append(allErrs, field.Required(path, "a route without server names matches nobody"))
	}
	for i, name := range names {
		path := path.Index(i)
		allErrs = append(allErrs, validateServerName(strings.TrimPrefix(name, "*."), path)...)
		if key := wire.Canonical(name); seen[key] {
			allErrs = append(allErrs, field.Duplicate(path, name))
		} else {
			seen[key] = true
		}
	}
	return allErrs
}

func validateFarRoutes(routes []FarRoute, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	if len(routes) == 0 {
		allErrs = append(allErrs, field.Required(path, "a listener without routes accepts nobody"))
	}
	seen := map[string]bool{}
	for i, route := range routes {
		path := path.Index(i)
		allErrs = append(allErrs, validateServerName(route.ServerName, path.Child("serverName"))...)
		if key := wire.Canonical(route.ServerName); seen[key] {
			allErrs = append(allErrs, field.Duplicate(path.Child("serverName"), route.ServerName))
		} else {
			seen[key] = true
		}
		allErrs = append(allErrs, validateInnerSNI(route.InnerSNI, map[string]bool{}, path.Child("innerSNI"))...)
		allErrs = append(allErrs, validateInner(route.Inner, path.Child("inner"))...)
		allErrs = append(allErrs, validateTarget(route.Target, path.Child("target"))...)
	}
	return allErrs
}

func validateTarget(target string, path *field.Path) field.ErrorList {
	if target == "" {
		return field.ErrorList{field.Required(path, "must be host:port")}
	}
	host, err := pod.HostOf(target)
	if err != nil {
		return field.ErrorList{field.Invalid(path, target, err.Error())}
	}
	if net.ParseIP(host) != nil {
		return nil
	}
	return validateServerName(host, path)
}

func validateServerName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must be a DNS name")}
	}
	if net.ParseIP(name) != nil {
		return field.ErrorList{field.Invalid(path, name, "an IP address is never sent as server name")}
	}
	var allErrs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(wire.Canonical(name)) {
		allErrs = append(allErrs, field.Invalid(path, name, message))
	}
	return allErrs
}
