// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// joinDestination lets two members of the destination join each etcd: first as learners, then as voters.
var joinDestination = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined,
	Owner:     Destination,
	Title:     "Join two etcd members of the destination",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Set up in the destination what is not there yet, and restore the backup entry",
			By:    Destination, Reasons: []Reason{ReasonPreparingDestination},
		},
		{
			Title: "Create the etcds of the destination with two members each, and promote each when it has caught up",
			By:    Destination, Reasons: []Reason{ReasonJoiningEtcdMembers, ReasonWaitingForEtcdMember},
		},
	},

	Deadline:  20 * time.Minute,
	Expected:  57 * time.Second,
	Progress:  30,
	Entry:     true,
	Abortable: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		AgentProtocol:         holds,
		SourceSeedHealth:      holds,
		DestinationSeedHealth: holds,
		EtcdQuorum:            holds,
		EtcdHealth:            holds,
		EtcdSpace:             holds,
		EtcdIntegrity:         holds,
		EtcdDefragmentation:   holds,
		EtcdSize:              holds,
	},
	Ownership: map[Components]Holder{
		KubeControllerManager:    HeldBySource,
		KubeScheduler:            HeldBySource,
		ResourceManager:          HeldBySource,
		MachineControllerManager: HeldBySource,
		ClusterAutoscaler:        HeldBySource,
		DependencyWatchdog:       HeldBySource,
		EarlyExtensions:          HeldBySource,
		Extensions:               HeldBySource,
		ControlPlane:             HeldBySource,
		Infrastructure:           HeldBySource,
		Worker:                   HeldBySource,
		NodeExtensions:           HeldBySource,
		DNSRecords:               HeldBySource,
		BackupEntry:              Taken,
		VPNServer:                HeldBySource,
		KubeAPIServer:            HeldBySource,
		Etcd:                     HeldByBoth,
	},
	Midst: Midst{Reasons: []Reason{ReasonJoiningEtcdMembers, ReasonWaitingForEtcdMember}},
}
