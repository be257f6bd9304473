// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"time"

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

// bounds are those of the families of faults that clients may notice, on top of the time for which they last.
var bounds = map[string]func(f Fault) Bounds{
	// The members elect another leader.
	familyEtcdKill: func(Fault) Bounds { return outage(recovery) },
	// The other replicas serve. A request that was on its way to the pod may fail.
	familyAPIServerDelete: func(Fault) Bounds { return Bounds{Stall: recording.MaxWriteGap, Failed: 25} },
	// The members take the other relays.
	familyRelayKill: func(Fault) Bounds { return outage(recovery) },
	// With six voters, no seed has a quorum by itself.
	familyCut: func(f Fault) Bounds { return outage(f.Course().Lasts + recovery) },
	// An election more than without latency.
	familyLatency: func(Fault) Bounds { return outage(recovery) },
	// All writes are refused.
	familyQuota: func(f Fault) Bounds {
		return Bounds{Stall: f.Course().Lasts + recovery, Failed: quotaFailures}
	},
}

// quotaFailures is how many writes are refused while the quota is full: they fail at once, so there are more of them
// than in an outage. 497 is the most on record.
const quotaFailures = 700

// BoundsOf returns what the fault may cost.
func BoundsOf(f Fault) Bounds {
	if of, noticed := bounds[f.Family()]; noticed {
		return of(f)
	}
	return unnoticed
}
