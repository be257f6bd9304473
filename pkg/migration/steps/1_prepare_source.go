// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// prepareSource makes the source ready for members of the destination. Nothing of the control plane changes by it but
// the TTL of its DNS records.
var prepareSource = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationSourceEtcdPreparedForPeerJoin,
	Owner:     Source,
	Title:     "Prepare the source etcd for members of the destination",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Wait until both etcds are healthy with all members",
			By:    Source, Reasons: []Reason{ReasonWaitingForSourceEtcd},
		},
		{
			Title: "Deploy the exposure between the seeds, shorten the TTL of the DNS records and write the ShootState",
			By:    Source, Reasons: []Reason{ReasonPersistingShootState},
		},
		{
			Title: "Take a full snapshot and release the backup entry",
			By:    Source, Reasons: []Reason{ReasonShootStatePersisted},
		},
		{
			Title: "Set up namespace, Cluster, secrets and exposure in the destination beside it, unless step 2 is " +
				"held",
			By: Destination, Reasons: []Reason{ReasonShootStatePersisted}, Asks: ReasonShootStatePersisted,
			Ahead: gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined,
		},
	},

	Deadline:  15 * time.Minute,
	Expected:  7 * time.Second,
	Progress:  10,
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
		BackupEntry:              Passed,
		VPNServer:                HeldBySource,
		KubeAPIServer:            HeldBySource,
		Etcd:                     HeldBySource,
	},
	Midst: Midst{Reasons: []Reason{ReasonPersistingShootState, ReasonShootStatePersisted}, After: 5 * time.Second},
}
