// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// checkExtensions asks for a destination in which all extensions of the shoot are installed and in order. The gardenlet
// asks the same before it reconciles a shoot, and step 2 once more. gardener-controller-manager installs what is
// missing as soon as the Shoot names the destination, so a migration that is only planned may lack it.
func checkExtensions(f Facts) Finding {
	var fact seedfacts.Extensions
	if err := seedfacts.Of(f.Destination.Seed, seedfacts.AnnotationExtensions, &fact); err != nil {
		return unknown(ExtensionsInstalled, remedyLook, "it is not known which extensions seed %s has: %v",
			f.Destination.Name, err)
	}
	if fact.Outdated(f.Now) {
		return unknown(ExtensionsInstalled, remedyLook, "it is not known any more which extensions seed %s has: %s",
			f.Destination.Name, lookedAt(fact.Looked, f.Now))
	}
	var ready, later, missing []string
	for _, id := range requiredExtensions(f) {
		why, installed := notReady(fact, id)
		switch {
		case slices.ContainsFunc(fact.Ready, like(id)):
			ready = append(ready, id)
		case installed:
			missing = append(missing, id+" ("+why+")")
		case f.Planned:
			later = append(later, id)
		default:
			missing = append(missing, id+" (it has no ControllerInstallation for it)")
		}
	}
	if len(missing) > 0 {
		return fail(ExtensionsInstalled, "look at the ControllerInstallations of the seed and get them in order; if "+
			"there is none after some minutes, let a ControllerRegistration with that resource match the seed, or "+
			"choose another destination; the agent of the seed looks again every minute",
			"seed %s is not ready for these extensions of the shoot: %s", f.Destination.Name,
			strings.Join(missing, ", "))
	}
	if len(later) > 0 {
		return pass(ExtensionsInstalled, "seed %s has %s; %s are installed when the migration is requested, and the "+
			"agents wait for that before it begins", f.Destination.Name, orNone(ready), strings.Join(later, ", "))
	}
	return pass(ExtensionsInstalled, "seed %s has %s", f.Destination.Name, orNone(ready))
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "none of them yet"
	}
	return strings.Join(ids, ", ")
}

// like returns what recognizes a kind and type. Gardener does not distinguish upper and lower case in types
// (IsResourceSupported).
func like(id string) func(string) bool {
	return func(other string) bool { return strings.EqualFold(id, other) }
}

// notReady returns what is wrong with the installations for the kind and type, and whether there are only such ones.
func notReady(fact seedfacts.Extensions, id string) (string, bool) {
	for other, why := range fact.NotReady {
		if strings.EqualFold(id, other) {
			return why, true
		}
	}
	return "", false
}

// requiredExtensions returns the kinds and types that the destination needs for the shoot, sorted, as upstream computes
// them. Who keeps the shoot's DNS records is in what the agent of the destination has found out; where it says nothing
// about that, checkDNSAccess does not pass. Nor does checkAccessControl where the shoot's own extensions are not known.
func requiredExtensions(f Facts) []string {
	required := gardenerutils.ComputeRequiredExtensionsForShoot(f.Shoot, f.Destination.Seed,
		&gardencorev1beta1.ControllerRegistrationList{}, nil, nil)
	types, _ := f.extensions()
	for _, extensionType := range types {
		required.Insert(gardenerutils.ExtensionsID(extensionsv1alpha1.ExtensionResource, extensionType))
	}
	var access seedfacts.DNSAccess
	if seedfacts.Of(f.Destination.Seed, seedfacts.AnnotationDNSAccess, &access) == nil {
		for _, asked := range askedFor(f, access) {
			if asked.domain != nil && asked.domain.Provider != "" {
				required.Insert(gardenerutils.ExtensionsID(extensionsv1alpha1.DNSRecordResource,
					asked.domain.Provider))
			}
		}
	}
	return slices.Sorted(slices.Values(required.UnsortedList()))
}
