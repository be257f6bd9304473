// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// startKubeAPIServer starts the kube-apiserver of the destination beside that of the source.
var startKubeAPIServer = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady,
	Owner:     Destination,
	Title:     "Start the kube-apiserver in the destination",
	Finish:    completed,
	Work: append(moveMembers(WhenForced), []Work{
		{
			Title: "Lead the clients of each etcd in the destination to its front",
			By:    Destination, Reasons: []Reason{ReasonDeployingKubeAPIServer},
		},
		{
			Title: "Restore the early extensions and roll the kube-apiserver out",
			By:    Destination, Reasons: []Reason{ReasonDeployingKubeAPIServer},
		},
		{
			Title: "Answer the webhooks of the resource manager, which acts in the source",
			By:    Destination, Reasons: []Reason{ReasonDeployingKubeAPIServer},
			When: WithWorkers,
		},
		{
			Title: "Probe the kube-apiserver through the gateway of the destination",
			By:    Destination, Reasons: []Reason{ReasonProbingKubeAPIServer},
		},
		{
			Title: "Connect the nodes to the VPN server of the destination",
			By:    Destination, Reasons: []Reason{ReasonWaitingForTunnel},
			When: WithWorkers,
		},
	}...),

	Deadline:  20 * time.Minute,
	Expected:  60 * time.Second,
	Progress:  50,
	Abortable: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		AgentProtocol:         holds,
		SourceSeedHealth:      warns,
		DestinationSeedHealth: holds,
		EtcdQuorum:            holdsUnlessForced,
		EtcdHealth:            holdsUnlessForced,
		EtcdSpace:             holdsUnlessForced,
		EtcdIntegrity:         holds,
		EtcdSize:              warns,
	},
	Ownership: map[Components]Holder{
		KubeControllerManager:    HeldBySource,
		KubeScheduler:            HeldBySource,
		ResourceManager:          HeldBySource,
		MachineControllerManager: HeldBySource,
		ClusterAutoscaler:        HeldBySource,
		DependencyWatchdog:       HeldBySource,
		EarlyExtensions:          Taken,
		Extensions:               HeldBySource,
		ControlPlane:             HeldBySource,
		Infrastructure:           HeldBySource,
		Worker:                   HeldBySource,
		NodeExtensions:           HeldBySource,
		DNSRecords:               HeldBySource,
		BackupEntry:              HeldByDestination,
		VPNServer:                HeldByBoth,
		KubeAPIServer:            HeldByBoth,
		Etcd:                     HeldByBoth,
	},
	Midst: Midst{Reasons: []Reason{ReasonDeployingKubeAPIServer}, After: 10 * time.Second},
}
