// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// cleanUpSource stops the control plane of the source and deletes everything of the shoot there.
var cleanUpSource = Step{
	Condition: gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup,
	Owner:     Source,
	Title:     "Clean up the source seed",
	Finish:    completed,
	Work: []Work{
		{
			Title: "Wait until requests on open connections have finished, unless step 6 has drained these",
			By:    Source, Reasons: []Reason{ReasonWaitingForClientsToLeave},
		},
		{
			Title: "Migrate the extensions and stop the controllers",
			By:    Source, Reasons: []Reason{ReasonStoppingSourceControlPlane},
		},
		{
			Title: "Close the way of clients at the ingress gateway, and let it drain their connections if it ends TLS",
			By:    Source, Reasons: []Reason{ReasonStoppingSourceControlPlane},
		},
		{
			Title: "Stop the kube-apiserver",
			By:    Source, Reasons: []Reason{ReasonStoppingSourceControlPlane},
		},
		{
			Title: "Delete what is left of the shoot",
			By:    Source, Reasons: []Reason{ReasonDeletingSourceResources},
		},
	},

	Deadline: 45 * time.Minute,
	Expected: 125 * time.Second,
	Progress: 90,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		SourceSeedHealth:      warns,
		DestinationSeedHealth: warns,
		EtcdQuorum:            holds,
		EtcdHealth:            warns,
		EtcdSpace:             warns,
		EtcdIntegrity:         holds,
		EtcdSize:              warns,
	},
	Ownership: map[Components]Holder{
		KubeControllerManager:    LetGo,
		KubeScheduler:            LetGo,
		ResourceManager:          LetGo,
		MachineControllerManager: LetGo,
		ClusterAutoscaler:        LetGo,
		DependencyWatchdog:       LetGo,
		EarlyExtensions:          HeldByDestination,
		Extensions:               LetGo,
		ControlPlane:             LetGo,
		Infrastructure:           LetGo,
		Worker:                   LetGo,
		NodeExtensions:           LetGo,
		DNSRecords:               HeldByDestination,
		BackupEntry:              HeldByDestination,
		VPNServer:                HeldByBoth,
		KubeAPIServer:            HeldByBoth,
		Etcd:                     HeldByDestination,
	},
	Midst: Midst{Reasons: []Reason{ReasonStoppingSourceControlPlane, ReasonDeletingSourceResources}},
}
