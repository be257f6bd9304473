// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// migrateEarlyExtensions hands over the extensions without which the destination cannot start its kube-apiserver.
var migrateEarlyExtensions = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationMigrateExtensionsNeededBeforeKubeAPIServer,
	Owner:     Source,
	Title:     "Migrate the extensions that act before the kube-apiserver",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Migrate the extensions, save their state in the ShootState and delete them in the source",
			By:    Source, Reasons: []Reason{ReasonMigratingExtensions},
		},
	},

	Deadline:  15 * time.Minute,
	Expected:  3 * time.Second,
	Progress:  35,
	Abortable: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		AgentProtocol:         holds,
		SourceSeedHealth:      warns,
		DestinationSeedHealth: holds,
		EtcdQuorum:            holds,
		EtcdHealth:            holds,
		EtcdSpace:             holds,
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
		EarlyExtensions:          LetGo,
		Extensions:               HeldBySource,
		ControlPlane:             HeldBySource,
		Infrastructure:           HeldBySource,
		Worker:                   HeldBySource,
		NodeExtensions:           HeldBySource,
		DNSRecords:               HeldBySource,
		BackupEntry:              HeldByDestination,
		VPNServer:                HeldBySource,
		KubeAPIServer:            HeldBySource,
		Etcd:                     HeldByBoth,
	},
	Midst: Midst{Reasons: []Reason{ReasonMigratingExtensions}, After: time.Second},
}
