// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// checkDNS compares the changes of the records with their one switch from the source to the destination.
func (m Migration) checkDNS(found *violations) {
	switches, _ := steps.Get(gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete)
	left := map[string][]string{}
	for _, record := range m.DNS {
		if !slices.Contains([]string{"A", "AAAA", "CNAME"}, record.Type) {
			continue
		}
		name := record.Type + " " + record.Name
		was, is := values(record.Old), values(record.New)
		if was == is {
			continue
		}
		switch {
		case is == "":
			found.add("record %s has lost its values %s", name, at(record.Time))
		case slices.Contains(left[name], is):
			found.add("record %s goes back to %s %s", name, is, at(record.Time))
		case !m.permitted(at(record.Time), switches):
			found.add("record %s changes to %s %s, in a step in which none changes", name, is, at(record.Time))
		}
		left[name] = append(left[name], was)
	}
}

// values returns the values of a record set in one order.
func values(set []string) string {
	sorted := slices.Clone(set)
	slices.Sort(sorted)
	return strings.Join(sorted, ",")
}
