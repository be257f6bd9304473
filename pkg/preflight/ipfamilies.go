// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// checkIPFamilies asks for seeds with the same IP families in the same order. Relays of one family cannot dial a
// gateway of the other. And the first family of a seed is that of the kube-apiserver's service, whose address the
// shoot knows, and of the gateway's record: with another one, clients of the shoot would lose the way that they have.
// The shoot's own families need no look: what the source serves, a destination with the same families serves as well.
func checkIPFamilies(f Facts) Finding {
	source, destination := ipFamilies(f.Source.Seed), ipFamilies(f.Destination.Seed)
	if !slices.Equal(source, destination) {
		return fail(IPFamilies, "choose a destination with the same IP families in the same order "+
			"(spec.networks.ipFamilies of a seed cannot be changed), or migrate classically",
			"seed %s has %s, seed %s has %s", f.Source.Name, familyNames(source), f.Destination.Name,
			familyNames(destination))
	}
	return pass(IPFamilies, "both seeds have %s", familyNames(source))
}

// ipFamilies returns the families of the seed, the primary one first. gardener-apiserver's default is IPv4.
func ipFamilies(seed *gardencorev1beta1.Seed) []gardencorev1beta1.IPFamily {
	if families := seed.Spec.Networks.IPFamilies; len(families) > 0 {
		return families
	}
	return []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv4}
}

func familyNames(families []gardencorev1beta1.IPFamily) string {
	var names []string
	for _, family := range families {
		names = append(names, string(family))
	}
	return strings.Join(names, " and ")
}
