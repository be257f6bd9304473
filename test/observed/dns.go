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
	for _, change := range m.DNS {
		if !slices.Contains([]string{"A", "AAAA", "CNAME"}, change.Type) {
			continue
		}
		record := change.Type + " " + change.Name
		was, is := values(change.Old), values(change.New)
		if was == is {
			continue
		}
		at := change.Time.UTC().Format(timeFormat)
		switch {
		case is == "":
			found.add("record %s has lost its values at %s", record, at)
		case slices.Contains(left[record], is):
			found.add("record %s goes back to %s at %s", record, is, at)
		case !m.during(switches, change.Time):
			found.add("record %s changes to %s at %s, in a step in which none changes", record, is, at)
		}
		left[record] = append(left[record], was)
	}
}

// values returns the values of a record set in one order.
func values(set []string) string {
	sorted := slices.Clone(set)
	slices.Sort(sorted)
	return strings.Join(sorted, ",")
}
