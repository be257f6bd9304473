// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import "time"

// long is how long a fault must be in force for a migration to get only few of its kind.
const long = 5 * time.Minute

// weakening are the families of faults that take members or the connections between them from etcd. Two of them at a
// time may cost a quorum, and then say nothing about the migration. Latency and a full quota leave all members where
// they are.
var weakening = map[string]bool{familyEtcdKill: true, familyEtcdStop: true, familyCut: true,
	familyCutAgain: true, familyOneWay: true, familyReset: true, familyNodeDrain: true, familyNodeLoss: true}

// Long reports whether a fault is in force for so long that few of them are enough for a migration.
func Long(f Fault) bool { return f.Course().Lasts >= long && !f.Course().ThroughStep }

// gardenwards are the families of faults that keep a step waiting through the garden: its API, or what it says of the
// seeds.
var gardenwards = map[string]bool{familyGardenStop: true, familyGardenEtcdStop: true, familyVersionSkew: true}

// HidesGarden reports whether nobody can read or write a Shoot while the fault is in force.
func HidesGarden(f Fault) bool {
	return f.Family() == familyGardenStop || f.Family() == familyGardenEtcdStop
}

// SourceEtcdRestarts returns how many etcd pods of the source restart because of what the fault has done so far.
func SourceEtcdRestarts(f Fault) int {
	if restarting, ok := f.(interface{ sourceEtcdRestarts() int }); ok {
		return restarting.sourceEtcdRestarts()
	}
	return 0
}

// victims name what families of faults kill, stop or replace, where several do.
var victims = map[string]string{
	familyAgentKill: "agent", familyAgentStop: "agent", familyAgentKillAgain: "agent",
	familyRelayKill: "relay", familyRelayStop: "relay", familyRelayEvict: "relay", familyRelayKillAgain: "relay",
	familyGatewayKill: "gateway", familyGatewayStop: "gateway",
	familyAPIServerDelete: "kube-apiserver", familyAPIServerStop: "kube-apiserver",
}

// sameVictim reports whether both hit the same component.
func sameVictim(f, g Fault) bool {
	victim := victims[f.Family()]
	return victim != "" && victim == victims[g.Family()]
}

// changesVersion are the families of faults that change which version a Seed reports. One ends the other.
var changesVersion = map[string]bool{familyGardenletRestart: true, familyVersionSkew: true}

// needsQuorum are the families of faults that are made and ended by a write to etcd.
var needsQuorum = map[string]bool{familyQuota: true}

// cutting are the families of faults during which no seed may have a quorum.
var cutting = map[string]bool{familyCut: true, familyCutAgain: true, familyOneWay: true, familyReset: true}

// Bearable reports whether the second fault may strike in the step in which the first one has struck, or strikes at the
// same moment. If not, it says why.
//
// Whatever passes together has passed a harder test than alone. Whatever fails together has to be repeated alone, to
// know which of them it was.
func Bearable(first, second Fault, firstAt, secondAt Moment) (reason string, bearable bool) {
	lasting := first.Course().Lasts > 0 && second.Course().Lasts > 0
	switch {
	case first.Family() == second.Family():
		return "they are of one kind", false
	case sameVictim(first, second):
		// What was killed is not there to be stopped for a while, and a kill ends what stands still before its time.
		return "both hit the " + victims[first.Family()], false
	case weakening[first.Family()] && weakening[second.Family()]:
		return "both weaken etcd", false
	case needsQuorum[first.Family()] && cutting[second.Family()] ||
		cutting[first.Family()] && needsQuorum[second.Family()]:
		return "one of them needs the quorum that the other one may take", false
	case changesVersion[first.Family()] && changesVersion[second.Family()]:
		return "a gardenlet that starts reports its true version", false
	case firstAt == Boundary && secondAt == Boundary && (first.Course().Early || second.Course().Early):
		return "one of them keeps the step from beginning, in whose beginning the other one is to strike", false
	case firstAt != secondAt && HidesGarden(first) && secondAt != Boundary:
		return "the first one hides the moment of the second", false
	case firstAt != secondAt && HidesGarden(second) && firstAt != Boundary:
		// Which of two moments within a step comes first is not certain.
		return "the second one may hide the moment of the first", false
	case lasting && firstAt == secondAt && gardenwards[first.Family()] && gardenwards[second.Family()]:
		return "both keep the step waiting", false
	case lasting && firstAt == secondAt && gardenwards[first.Family()] != gardenwards[second.Family()] &&
		!outlasts(first, second):
		return "one of them is over while the other one keeps the step waiting", false
	}
	return "", true
}

// outlasts reports whether of two faults that strike together the one that keeps the step waiting is over first, so
// that the step meets the other one too.
func outlasts(a, b Fault) bool {
	if gardenwards[a.Family()] {
		a, b = b, a
	}
	return a.Course().Lasts > b.Course().Lasts
}
