// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import "time"

// long is how long a fault is in force from which a migration should not have to bear a second one like it.
const long = 5 * time.Minute

// weakening are the families of faults that take something from etcd: members, connections between them, or the right to
// write. Two of them at a time may cost a quorum, and then say nothing about the migration.
var weakening = map[string]bool{familyEtcdKill: true, familyCut: true, familyLatency: true, familyQuota: true}

// Long tells whether a fault is in force for so long that one of them is enough for a migration.
func Long(f Fault) bool { return f.Course().Lasts >= long && !f.Course().ThroughStep }

// Bearable tells whether the second fault may strike in the step in which the first one has struck, or strikes at the same
// moment. If not, it says why.
//
// Whatever passes together has passed a harder test than alone. Whatever fails together has to be repeated alone, to know
// which of them it was.
func Bearable(first, second Fault, firstAt, secondAt Moment) (reason string, bearable bool) {
	switch {
	case first.Family() == second.Family():
		return "they are of one kind", false
	case first.Course().Lasts > 0 && second.Course().Lasts > 0:
		return "both last", false
	case weakening[first.Family()] && weakening[second.Family()]:
		return "both weaken etcd", false
	case firstAt == Boundary && secondAt == Inside && first.Course().Lasts > 0:
		return "the first one may outlast the moment of the second", false
	}
	return "", true
}
