// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// releaseDNSRecords takes the DNSRecord objects out of the source and leaves the records alone, so that the destination
// is their only writer.
var releaseDNSRecords = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords,
	Owner:     Source,
	Title:     "Release the DNS records in the source",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Delete the DNSRecord objects without their controller",
			By:    Source, Reasons: []Reason{ReasonReleasingDNSRecords},
		},
		{
			Title: "Suspend etcd-druid for the etcds of the source, so that it does not bring members back that " +
				"leave in the next step",
			By: Source, Reasons: []Reason{ReasonReleasingDNSRecords},
		},
	},

	Deadline:  10 * time.Minute,
	Expected:  4 * time.Second,
	Progress:  55,
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
		EarlyExtensions:          HeldByDestination,
		Extensions:               HeldBySource,
		ControlPlane:             HeldBySource,
		Infrastructure:           HeldBySource,
		Worker:                   HeldBySource,
		NodeExtensions:           HeldBySource,
		DNSRecords:               LetGo,
		BackupEntry:              HeldByDestination,
		VPNServer:                HeldByBoth,
		KubeAPIServer:            HeldByBoth,
		Etcd:                     HeldByBoth,
	},
	// It can be over within a second, so that its beginning is all that is sure to be seen of it.
	Midst: Midst{Reasons: []Reason{ReasonStarted, ReasonReleasingDNSRecords}},
}
