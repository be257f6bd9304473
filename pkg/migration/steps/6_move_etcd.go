// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// moveEtcd leads the clients to the destination and then leaves the etcds to its members alone.
var moveEtcd = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
	Owner:     Destination,
	Title:     "Switch DNS and move the remaining etcd members",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Switch the DNS records to the gateway of the destination",
			By:    Destination, Reasons: []Reason{ReasonSwitchingDNSRecords},
		},
		{
			Title: "Wait until no cache names the source",
			By:    Destination, Reasons: []Reason{ReasonWaitingForDNS},
		},
		{
			Title: "Join the last etcd member of the destination",
			By:    Destination, Reasons: []Reason{ReasonJoiningLastEtcdMember},
		},
		{
			Title: "Transfer leadership of each etcd to the destination",
			By:    Source, Reasons: []Reason{ReasonReadyForSourceMemberRemoval},
			Asks: ReasonReadyForSourceMemberRemoval,
		},
		{
			Title: "Retire the etcd members of the source, one by one",
			By:    Source, Reasons: []Reason{ReasonReadyForSourceMemberRemoval},
			Asks: ReasonReadyForSourceMemberRemoval,
		},
	},

	Deadline:        30 * time.Minute,
	Expected:        204 * time.Second,
	Progress:        75,
	PointOfNoReturn: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		SourceSeedHealth:      warns,
		DestinationSeedHealth: holds,
		EtcdQuorum:            holdsUnlessForced,
		EtcdHealth:            holdsUnlessForced,
		EtcdSpace:             holdsUnlessForced,
		EtcdIntegrity:         holds,
		EtcdDefragmentation:   holdsUnlessForced,
		EtcdSize:              warns,
	},
	Ownership: map[Components]Holder{
		KubeControllerManager:    HeldBySource,
		KubeScheduler:            HeldBySource,
		ResourceManager:          HeldBySource,
		MachineControllerManager: HeldBySource,
		ClusterAutoscaler:        HeldBySource,
		DependencyWatchdog:       HeldBySource,
		EarlyExtensions:          HeldByDestination,
		Extensions:               HeldBySource,
		ControlPlane:             HeldBySource,
		Infrastructure:           HeldBySource,
		Worker:                   HeldBySource,
		NodeExtensions:           HeldBySource,
		DNSRecords:               Taken,
		BackupEntry:              HeldByDestination,
		VPNServer:                HeldByBoth,
		KubeAPIServer:            HeldByBoth,
		Etcd:                     HeldByBoth,
	},
	// The cluster is at its weakest with six members.
	Midst: Midst{Reasons: []Reason{ReasonJoiningLastEtcdMember, ReasonReadyForSourceMemberRemoval}},
}
