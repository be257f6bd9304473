// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// complete makes the control plane in the destination an ordinary one and gives it to the gardenlet there.
var complete = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationMigrationCompleted,
	Owner:     Destination,
	Title:     "Complete the control plane and hand it over",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Remove the exposure between the seeds",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Transfer leadership of each etcd to the member that restarts last",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Give the etcds their ordinary specification",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Restart the members of each etcd one by one, each when no client is led to it any more, " +
				"as far as step 7 has not done it",
			By: Destination, Reasons: []Reason{ReasonDeployingControlPlane, ReasonRollingEtcd},
		},
		{
			Title: "Transfer leadership of each etcd to a member that has restarted, before the last one restarts",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Lead the clients of each etcd back to its members, and remove the front",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Start the other components and restore the extensions",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Move VPN client and apiserver-proxy on the nodes to the destination",
			By:    Destination, Reasons: []Reason{ReasonMovingNodes},
			When: WithWorkers,
		},
		{
			Title: "Take a full snapshot, copy the source's backups beside it, and delete them in the source's bucket",
			By:    Destination, Reasons: []Reason{ReasonDeployingControlPlane},
		},
		{
			Title: "Check what the gardenlet of the destination needs to take over, and hand over",
			By:    Destination, Reasons: []Reason{ReasonHandingOver},
		},
	},

	Deadline:  30 * time.Minute,
	Expected:  152 * time.Second,
	Progress:  100,
	HandsOver: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		AgentProtocol:         warns,
		DestinationSeedHealth: warns,
		EtcdQuorum:            holds,
		EtcdHealth:            holds,
		EtcdSpace:             warns,
		EtcdIntegrity:         holds,
		EtcdDefragmentation:   holds,
		EtcdSize:              warns,
	},
	Ownership: map[Components]Holder{
		KubeControllerManager:    Taken,
		KubeScheduler:            Taken,
		ResourceManager:          Taken,
		MachineControllerManager: HeldByNobody,
		ClusterAutoscaler:        HeldByNobody,
		DependencyWatchdog:       HeldByNobody,
		EarlyExtensions:          HeldByDestination,
		Extensions:               Taken,
		ControlPlane:             HeldByNobody,
		Infrastructure:           HeldByNobody,
		Worker:                   HeldByNobody,
		NodeExtensions:           HeldByNobody,
		DNSRecords:               HeldByDestination,
		BackupEntry:              HeldByDestination,
		VPNServer:                HeldByDestination,
		KubeAPIServer:            HeldByDestination,
		Etcd:                     HeldByDestination,
	},
	Midst: Midst{Reasons: []Reason{ReasonDeployingControlPlane, ReasonRollingEtcd, ReasonHandingOver},
		After: 10 * time.Second},
}
