// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// Bounds are what a fault may cost the clients of the shoot, in the window of a cell in which nothing else strikes.
type Bounds struct {
	// Stall is the longest time without an acknowledged write of any client.
	Stall time.Duration
	// Failed is how many requests may fail at the first try: of the clients whose history is judged, and of the demo's
	// load.
	Failed int
}

// unnoticed are the bounds of a fault that is in nobody's way to the API server: those of a migration without faults.
var unnoticed = Bounds{Stall: recording.MaxWriteGap}

// failuresPerSecond is how many requests fail at most in each second in which no write is acknowledged: five clients
// and the demo's load wait up to ten seconds for each answer before they send the next request, so that 1,032 failed in
// the 149 s of the longest stall on record.
const failuresPerSecond = 10

// outage returns the bounds of a fault that may keep all writes from being acknowledged for so long.
func outage(stall time.Duration) Bounds {
	return Bounds{Stall: stall, Failed: failuresPerSecond * int(stall.Seconds())}
}

// recovery is how long clients may need to get through again once a fault is over or its victim replaced: an election
// of etcd, and new connections.
const recovery = 10 * time.Second

// bounds are those of the families of faults that clients may notice in a step, on top of the time for which they last.
var bounds = map[string]func(f Fault, step steps.Step) Bounds{
	// The members elect another leader.
	familyEtcdKill: func(Fault, steps.Step) Bounds { return outage(recovery) },
	// The other replicas serve. A request that was on its way to the pod may fail.
	familyAPIServerDelete: func(Fault, steps.Step) Bounds { return Bounds{Stall: recording.MaxWriteGap, Failed: 25} },
	// The members take the other relays.
	familyRelayKill: func(Fault, steps.Step) Bounds { return outage(recovery) },
	familyRelayStop: func(Fault, steps.Step) Bounds { return outage(recovery) },
	// No more than once: the members have others to take.
	familyRelayKillAgain: func(Fault, steps.Step) Bounds { return outage(recovery) },
	// The other gateway serves. All that passed the one that is gone has to connect again.
	familyGatewayKill: func(Fault, steps.Step) Bounds { return outage(recovery) },
	// Nobody is told that what stands still is gone: who is connected to it waits for an answer until it continues.
	familyEtcdStop:      standing,
	familyAPIServerStop: standing,
	familyGatewayStop:   standing,
	familyCut:           cutOff,
	familyCutAgain:      func(f Fault, _ steps.Step) Bounds { return outage(f.(*traffic).lasting + recovery) },
	familyOneWay:        cutOff,
	familyReset:         cutOff,
	familyLoss:          func(Fault, steps.Step) Bounds { return outage(recovery) },
	// Who has to connect again finds no address until the server answers.
	familyDNSStop: standing,
	// What other work takes makes writes slow, and fails none.
	familySaturated: func(Fault, steps.Step) Bounds { return Bounds{Stall: saturatedStall} },
	// An election more than without latency.
	familyLatency: func(Fault, steps.Step) Bounds { return outage(recovery) },
	// All writes are refused.
	familyQuota: func(f Fault, _ steps.Step) Bounds {
		return Bounds{Stall: f.Course().Lasts + recovery, Failed: quotaFailures}
	},
}

// saturatedStall is the longest time without an acknowledged write on processors that other work saturates.
const saturatedStall = 5 * time.Second

func cutOff(f Fault, step steps.Step) Bounds {
	return outage(min(f.Course().Lasts, cutStalls(step)) + recovery)
}

func standing(f Fault, _ steps.Step) Bounds { return outage(f.Course().Lasts + recovery) }

// cutStalls is how long at most a cut keeps writes from being acknowledged if it begins in the step, however long it
// lasts. The longest of cuts of ten minutes on record are 12.6, 27.6, 31.1 and 149.5 s.
func cutStalls(step steps.Step) time.Duration {
	switch i := steps.Index(step.Condition); {
	case i < steps.Index(gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords):
		// The source alone has a quorum. It elects a leader if the cut took it away.
		return 10 * time.Second
	case i == steps.Index(gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords):
		// The same, but clients that look the name up again get to the destination.
		return 30 * time.Second
	case i == steps.Index(gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete):
		// With six voters no seed has a quorum by itself.
		return 40 * time.Second
	}
	// The destination alone has a quorum; who is connected to the source still has to leave it.
	return 150 * time.Second
}

// quotaFailures is how many writes are refused while the quota is full: they fail at once, so there are more of them
// than in an outage. 497 is the most on record.
const quotaFailures = 700

// BoundsOf returns what the fault may cost that strikes in the step.
func BoundsOf(f Fault, step steps.Step) Bounds {
	if of, noticed := bounds[f.Family()]; noticed {
		return of(f, step)
	}
	return unnoticed
}
