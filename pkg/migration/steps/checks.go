// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

// Check names a check of pkg/preflight. Scripts may rely on the values.
type Check string

// The checks that are made before every step which names them in its Guards. Those that are made before a migration
// only are named in pkg/preflight.
const (
	// GardenletVersion passes if both gardenlets report the same version, to the letter, and the agent is built with
	// that of the gardenlet beside it.
	GardenletVersion Check = "GardenletVersion"
	// AgentProtocol passes if the agents of both seeds speak a common version of their protocol.
	AgentProtocol Check = "AgentProtocol"
	// SourceSeedHealth passes if the gardenlet of the source is there to take part.
	SourceSeedHealth Check = "SourceSeedHealth"
	// DestinationSeedHealth passes if the destination is healthy, up to date, and not being deleted.
	DestinationSeedHealth Check = "DestinationSeedHealth"
	// EtcdQuorum passes if both etcds have a leader and enough healthy voters.
	EtcdQuorum Check = "EtcdQuorum"
	// EtcdHealth passes if all members of both etcds are healthy.
	EtcdHealth Check = "EtcdHealth"
	// EtcdSpace passes if the alarm NOSPACE is not raised.
	EtcdSpace Check = "EtcdSpace"
	// EtcdIntegrity passes if neither the alarm CORRUPT nor an unknown one is raised.
	EtcdIntegrity Check = "EtcdIntegrity"
	// EtcdDefragmentation passes if no member is being defragmented or is about to be.
	EtcdDefragmentation Check = "EtcdDefragmentation"
	// EtcdSize passes if the databases are well below their quota.
	EtcdSize Check = "EtcdSize"
)

// Effect is what a check that does not pass does to a step.
type Effect string

const (
	// Holds means that the step does not begin while the check does not pass.
	Holds Effect = "hold"
	// Warns means that the step begins, and that the finding is made known.
	Warns Effect = "warn"
	// Ignores means that the check is not made.
	Ignores Effect = "-"
)

// Guard tells what a check does to a step.
type Guard struct {
	// Effect is what it does.
	Effect Effect
	// Forced is what it does instead when the Shoot has AnnotationForceShrink; empty if that makes no difference.
	Forced Effect
}

var (
	// holds is a guard that holds in any case.
	holds = Guard{Effect: Holds}
	// warns is a guard that never holds.
	warns = Guard{Effect: Warns}
	// holdsUnlessForced is for the steps from the start of the destination's kube-apiserver until the etcds have moved.
	// There an operator may have forced the source's members out because the seeds are too far apart: what the etcds
	// look like from afar then holds nothing, other than that their data may be damaged (GEP-0039, "Kube API Server is
	// unhealthy"). The steps after that stop and restart members again, and everything of the etcds is near by then.
	holdsUnlessForced = Guard{Effect: Holds, Forced: Warns}
)

// GuardOf returns what the check does to the step.
func (s Step) GuardOf(check Check) Guard {
	if guard, ok := s.Guards[check]; ok {
		return guard
	}
	return Guard{Effect: Ignores}
}

// EffectOn returns what the check does to the step of this Shoot, which may have AnnotationForceShrink.
func (g Guard) EffectOn(shoot *gardencorev1beta1.Shoot) Effect {
	if g.Forced != "" && ForceShrinkRequested(shoot) {
		return g.Forced
	}
	return g.Effect
}
