// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// moveEtcd moves the clients to the destination, and then the etcds.
var moveEtcd = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
	Owner:     Destination,
	Title:     "Switch DNS and move the remaining etcd members",
	Finish:    completed,
	Work: append([]Work{
		{
			Title: "Switch the DNS records to the gateway of the destination",
			By:    Destination, Reasons: []Reason{ReasonSwitchingDNSRecords},
		},
		{
			Title: "Wait until no cache names the source",
			By:    Destination, Reasons: []Reason{ReasonWaitingForDNS},
		},
		{
			Title: "Let clients leave the source: its ingress gateway drains their connections, or its " +
				"kube-apiservers restart if they end TLS",
			By: Source, Reasons: []Reason{ReasonDrainingClients}, Asks: ReasonDrainingClients,
		},
	}, append(moveMembers(UnlessForced), passOn...)...),

	Deadline:        30 * time.Minute,
	Expected:        144 * time.Second,
	Progress:        75,
	PointOfNoReturn: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		AgentProtocol:         holds,
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

// moveMembers is how the members of the destination replace those of the source in each etcd: in this step, or before
// the kube-apiserver of the destination starts. There are six voters from the second part to the third.
func moveMembers(when When) []Work {
	const asks = ReasonReadyForSourceMemberRemoval
	return []Work{
		{
			Title: "Transfer leadership of each etcd away from the member of the source that leaves first",
			By:    Destination, Reasons: []Reason{ReasonJoiningLastEtcdMember}, When: when,
		},
		{
			Title: "Join the last etcd member of the destination",
			By:    Destination, Reasons: []Reason{ReasonJoiningLastEtcdMember}, When: when,
		},
		{
			Title: "Remove the first etcd member of the source",
			By:    Source, Reasons: []Reason{asks}, Asks: asks, When: when,
		},
		{
			Title: "Transfer leadership of each etcd to the destination, whose members now form a quorum",
			By:    Destination, Reasons: []Reason{asks}, When: when,
		},
		{
			Title: "Remove the other etcd members of the source, one by one",
			By:    Source, Reasons: []Reason{asks}, Asks: asks, When: when,
		},
	}
}

// passOn is how the only member of each etcd moves. There are two voters within the first part.
var passOn = []Work{
	{
		Title: "Join the only etcd member of the destination, promote it, transfer leadership to it, and remove that " +
			"of the source",
		By: Destination, Reasons: []Reason{ReasonReadyForSourceMemberRemoval}, When: OnlyMembers,
	},
	{
		Title: "Take the pods of the members away that were removed, and lead clients to the destination, unless " +
			"step 7 has to",
		By: Source, Reasons: []Reason{ReasonReadyForSourceMemberRemoval}, Asks: ReasonReadyForSourceMemberRemoval,
		When: OnlyMembers,
	},
}
