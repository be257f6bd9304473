// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/livecpm/livecpm/pkg/tunnel/relay/wire"
)

// ValidateShoot checks that a relay with this configuration works for one shoot only: it hands connections to services
// of the shoot's namespace and to nothing else, and every name that it asks for, accepts or answers to is one of the
// shoot's. The agent writes nothing else; a file that was changed by somebody else, or by a mistake, is not served.
func ValidateShoot(cfg *Config) field.ErrorList {
	if cfg.Namespace == "" {
		return field.ErrorList{
			field.Required(field.NewPath("namespace"), "a relay works for one shoot, whose namespace it has to know"),
		}
	}

	var allErrs field.ErrorList
	for _, message := range validation.IsDNS1123Label(cfg.Namespace) {
		allErrs = append(allErrs, field.Invalid(field.NewPath("namespace"), cfg.Namespace, message))
	}
	refuse := func(path *field.Path, name, message string) {
		allErrs = append(allErrs, field.Invalid(path, name, message+" "+cfg.Namespace))
	}
	checkInner := func(names []string, path *field.Path) {
		for i, name := range names {
			if !withinNamespace(name, cfg.Namespace) {
				refuse(path.Index(i), name, "names another namespace than")
			}
		}
	}

	for i, near := range cfg.Near {
		for j, route := range near.Routes {
			path := field.NewPath("near").Index(i).Child("routes").Index(j)
			checkInner(route.InnerSNI, path.Child("innerSNI"))
			if !carriesNamespace(route.Remote.ServerName, cfg.Namespace) {
				refuse(path.Child("remote", "serverName"), route.Remote.ServerName, "is no name of the relay of")
			}
		}
	}
	for i, route := range cfg.Far.Routes {
		path := field.NewPath("far", "routes").Index(i)
		checkInner(route.InnerSNI, path.Child("innerSNI"))
		if !carriesNamespace(route.ServerName, cfg.Namespace) {
			refuse(path.Child("serverName"), route.ServerName, "is no name of the relay of")
		}
		if host, _, err := net.SplitHostPort(route.Target); err == nil && !isService(host, cfg.Namespace) {
			refuse(path.Child("target"), route.Target, "is no service of namespace")
		}
	}
	return allErrs
}

const clusterDomain = ".cluster.local"

// withinNamespace reports whether an inner server name is one of the namespace. The short forms of a service's name,
// which are those without a "svc", say nothing about namespaces: they mean the one of the dialer, which is the relay's
// own, because nobody of another one reaches the ports for dialers.
func withinNamespace(name, namespace string) bool {
	name = strings.TrimSuffix(wire.Canonical(name), clusterDomain)
	return !strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, "."+namespace+".svc")
}

// carriesNamespace reports whether a name between the seeds is one of the namespace: its first label is what is
// reached, two hyphens and the namespace. What is reached has no two hyphens itself, so the namespace begins at the
// first ones.
func carriesNamespace(name, namespace string) bool {
	label, _, _ := strings.Cut(wire.Canonical(name), ".")
	_, of, _ := strings.Cut(label, "--")
	return of == namespace
}

// isService reports whether a target is a service of the namespace, or a pod of one. Addresses are not: nothing is
// known about whose they are.
func isService(host, namespace string) bool {
	host = wire.Canonical(host)
	return strings.HasSuffix(host, "."+namespace+".svc") || strings.HasSuffix(host, "."+namespace+".svc"+clusterDomain)
}
