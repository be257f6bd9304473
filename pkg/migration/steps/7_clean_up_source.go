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
			Title: "Answer the webhooks of the resource manager beside it, for as long as the kube-apiserver runs",
			By:    Source, Reasons: []Reason{ReasonStoppingSourceControlPlane},
			When: WithWorkers,
		},
		{
			Title: "Migrate the extensions and stop the controllers",
			By:    Source, Reasons: []Reason{ReasonStoppingSourceControlPlane},
		},
		{
			Title: "Start the controllers in the destination",
			By:    Destination, Reasons: []Reason{ReasonSourceControllersStopped}, Asks: ReasonSourceControllersStopped,
		},
		{
			Title: "Begin to give the etcds their ordinary specification, unless the last step is to be paused before",
			By:    Destination, Reasons: []Reason{ReasonSourceControllersStopped, ReasonDeletingSourceResources},
			Asks: ReasonSourceControllersStopped,
		},
		{
			Title: "Close the way of clients at the ingress gateway, and let it drain their connections if it ends TLS",
			By:    Source, Reasons: []Reason{ReasonSourceControllersStopped},
		},
		{
			Title: "Stop the kube-apiserver",
			By:    Source, Reasons: []Reason{ReasonSourceControllersStopped},
		},
		{
			Title: "Delete what is left of the shoot",
			By:    Source, Reasons: []Reason{ReasonDeletingSourceResources},
		},
		{
			Title: "Start the controllers in the destination, unless they were started before",
			By:    Destination, Reasons: []Reason{ReasonDeletingSourceResources}, Asks: ReasonDeletingSourceResources,
		},
	},

	Deadline:    45 * time.Minute,
	Expected:    65 * time.Second,
	Progress:    90,
	Abandonable: true,

	Guards: map[Check]Guard{
		GardenletVersion:      holds,
		AgentProtocol:         warns,
		SourceSeedHealth:      warns,
		DestinationSeedHealth: warns,
		EtcdQuorum:            holds,
		EtcdHealth:            warns,
		EtcdSpace:             warns,
		EtcdIntegrity:         holds,
		EtcdSize:              warns,
	},
	Ownership: map[Components]Holder{
		KubeControllerManager:    PassedWhenAsked,
		KubeScheduler:            PassedWhenAsked,
		ResourceManager:          PassedWhenAsked,
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
	Midst: Midst{Reasons: []Reason{ReasonStoppingSourceControlPlane, ReasonSourceControllersStopped,
		ReasonDeletingSourceResources}},
}
