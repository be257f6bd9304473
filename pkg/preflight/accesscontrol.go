// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// fieldAccessControl is where the agents' configuration names the extensions for access control.
const fieldAccessControl = "controllers.liveMigration.accessControlExtensions"

// checkAccessControl refuses a shoot whose kube-apiserver anybody could reach in the destination for a while, although
// an extension restricts that.
//
// Shoots with workers are refused. gardener-extension-acl (v1.18.0, Reconcile in pkg/controller/actuator.go) needs the
// Infrastructure of such a shoot in its seed, and one seed only may have that; and in step 4 the destination's agent
// comes to the source's kube-apiserver by the way of clients, where the source's extension may refuse it.
func checkAccessControl(f Facts) Finding {
	extensions, problem := f.extensions()
	if problem != nil {
		return *problem
	}
	if len(extensions) == 0 {
		return pass(AccessControl, "the shoot has no extensions")
	}
	source, problem := accessControlOf(f.Source)
	if problem != nil {
		return *problem
	}
	destination, problem := accessControlOf(f.Destination)
	if problem != nil {
		return *problem
	}

	var restricting []string
	for _, extension := range extensions {
		inSource, inDestination := slices.Contains(source, extension), slices.Contains(destination, extension)
		if inSource != inDestination {
			only := f.Source.Name
			if inDestination {
				only = f.Destination.Name
			}
			return fail(AccessControl, "give the agents of both seeds the same list ("+fieldAccessControl+
				"); the check runs again by itself",
				"only the agent of seed %s takes the extension %s for one that restricts access to the kube-apiserver",
				only, extension)
		}
		if inSource {
			restricting = append(restricting, extension)
		}
	}
	switch {
	case len(restricting) == 0:
		return pass(AccessControl, "no extension of the shoot restricts access to its kube-apiserver")
	case !v1beta1helper.IsWorkerless(f.Shoot):
		return fail(AccessControl, "remove the intent annotation to migrate classically; or, if anybody may try to "+
			"reach the kube-apiserver in the destination from step 4 until the migration is complete, remove the "+
			"extension from the list of the agents of both seeds ("+fieldAccessControl+
			") and let it admit the destination's agent in the source",
			"the shoot has workers, and its access is restricted by the extension %s, which cannot be in force in the "+
				"destination before the kube-apiserver can be reached there", strings.Join(restricting, ", "))
	}
	return pass(AccessControl,
		"the extension %s is in force in the destination before the kube-apiserver can be reached",
		strings.Join(restricting, ", "))
}

// extensions returns the types of the shoot's extensions, or a finding if they are not known.
func (f Facts) extensions() ([]string, *Finding) {
	if !f.ExtensionsRead {
		return namedExtensions(f.Shoot), nil
	}
	if f.ExtensionsError != nil {
		finding := unknown(AccessControl, "let the agent list ControllerRegistrations in the garden; the check runs "+
			"again by itself", "the shoot's extensions could not be read: %v", f.ExtensionsError)
		return nil, &finding
	}
	return f.Extensions, nil
}

// namedExtensions returns the types of the extensions that the Shoot names.
func namedExtensions(shoot *gardencorev1beta1.Shoot) []string {
	var types []string
	for _, extension := range shoot.Spec.Extensions {
		if !ptr.Deref(extension.Disabled, false) {
			types = append(types, extension.Type)
		}
	}
	return types
}

// accessControlOf returns the types of extensions that the agent of the seed takes for access control, by what it has
// published, or a finding if that is not known.
func accessControlOf(seed SeedView) ([]string, *Finding) {
	value, found := seed.Seed.Annotations[seedfacts.AnnotationAccessControl]
	if !found {
		finding := unknown(AccessControl, remedyPublish,
			"the agent of seed %s has not published which extensions restrict access to kube-apiservers (its "+
				"annotation %s is missing)", seed.Name, seedfacts.AnnotationAccessControl)
		return nil, &finding
	}
	return strings.Split(value, ","), nil
}
