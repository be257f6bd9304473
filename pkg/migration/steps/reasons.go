// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

// Reason is the machine-readable word in a condition of a live migration. Tools may rely on the values.
type Reason string

// EventRequested is the reason of the event that the agent of the source writes when it takes a migration up, also one
// that was aborted and begins again. What events tell of steps from before the last one is not about this migration.
const EventRequested = "Requested"

// Reasons that any step can show. Most of them are written by the frame around the actions.
const (
	// ReasonPending appears on a step whose turn has not come. The operator waits.
	ReasonPending Reason = "Pending"
	// ReasonStarted appears when the owner begins to work on the step. The operator waits.
	ReasonStarted Reason = "Started"
	// ReasonCompleted appears on a finished step. Nothing is to be done.
	ReasonCompleted Reason = "Completed"
	// ReasonPaused appears when the annotation migration.gardener.cloud/pause-before names the step. The operator
	// removes the annotation to resume the migration.
	ReasonPaused Reason = "Paused"
	// ReasonGateNotInForce appears when the admission policies that keep the classic migration away could not be proved
	// to be in force. Nothing is done meanwhile. The operator installs or repairs the policies at once: while they are
	// absent, the gardenlet may start the classic migration.
	ReasonGateNotInForce Reason = "GateNotInForce"
	// ReasonPrerequisitesNotMet appears before the first step of either role when the shoot or one of the seeds does
	// not meet a prerequisite. The message lists all of them. The operator fixes them; the migration then continues by
	// itself.
	ReasonPrerequisitesNotMet Reason = "PrerequisitesNotMet"
	// ReasonVersionSkew appears when the gardenlets of the two seeds do not report the same version. The migration
	// holds without undoing anything. The operator brings both seeds to the same version; it then continues by itself.
	ReasonVersionSkew Reason = "VersionSkew"
	// ReasonSyncFailed appears when what has to be kept up to date on every pass (for example the exposure of the etcd
	// members) could not be updated. The step waits and tries again. The operator reads the message if it lasts.
	ReasonSyncFailed Reason = "SyncFailed"
	// ReasonActionFailed appears when an attempt of the step failed. It is tried again with backoff. The operator reads
	// the message if it lasts.
	ReasonActionFailed Reason = "ActionFailed"
	// ReasonDeadlineExceeded appears when the step takes longer than its deadline. It is still tried. The operator
	// follows the runbook page that the message names.
	ReasonDeadlineExceeded Reason = "DeadlineExceeded"
)

// Fault reports whether the reason means that something is wrong now, rather than that something is awaited.
func (r Reason) Fault() bool {
	switch r {
	case ReasonGateNotInForce, ReasonPrerequisitesNotMet, ReasonSyncFailed, ReasonActionFailed, ReasonDeadlineExceeded,
		ReasonQuorumAtRisk, ReasonQuorumLost, ReasonForeignEtcdMember, ReasonSourceSilent, ReasonSeedOverloaded,
		ReasonShootStateDiffers:
		return true
	}
	return guardReasons[r]
}

// Reasons of an abort, and of a migration that ends without one of its seeds.
const (
	// ReasonAborting appears while a role undoes its part of an aborted migration. The operator waits; the message
	// tells what is being undone and what keeps it.
	ReasonAborting Reason = "Aborting"
	// ReasonWithdrawn appears when nothing of an aborted migration is left in the destination. The operator waits for
	// the source.
	ReasonWithdrawn Reason = "Withdrawn"
	// ReasonAbandoned appears, in the condition of the destination, when an operator has said that the destination is
	// lost, and the source has taken its members out of the etcds. The message names what is left in its seed. The
	// operator waits for the source, and sees to the seed that is named.
	ReasonAbandoned Reason = "Abandoned"
	// ReasonAbandoningSource appears, in the condition of the last step, which has not begun, while the destination is
	// asked to finish the migration without the source, because an operator has said that the source is lost. The
	// message says what it does, or why it must not do it. The operator reads the message.
	ReasonAbandoningSource Reason = "AbandoningSource"
	// ReasonSourceAbandoned appears, in the condition of the source's cleanup, when the destination has finished that
	// step in the place of a source that is lost. The message names what may be left in its seed. The operator sees to
	// it before that seed comes back.
	ReasonSourceAbandoned Reason = "SourceAbandoned"
	// ReasonAborted appears when both seeds are as before the migration. The gate lets the seed name and the intent
	// annotation be changed from then on. The operator sets spec.seedName back and removes the annotations in one
	// request, removes the intent annotation alone to migrate classically, or removes the abort annotation to migrate
	// live again.
	ReasonAborted Reason = "Aborted"
)

// Reasons about the etcd cluster that spans both seeds. They can appear in every step that looks at it.
const (
	// ReasonWaitingForSourceEtcd appears while an etcd of the source is not healthy with all its members. Membership is
	// not touched. The operator looks at the Etcd resources in the source if it lasts.
	ReasonWaitingForSourceEtcd Reason = "WaitingForSourceEtcd"
	// ReasonWaitingForEtcdMember appears while a new member catches up or is about to be promoted. The operator waits.
	ReasonWaitingForEtcdMember Reason = "WaitingForEtcdMember"
	// ReasonQuorumAtRisk appears when the next membership change could cost the quorum if its member turned out to be
	// unhealthy. The change is not made. The operator gets the unhealthy members healthy again.
	ReasonQuorumAtRisk Reason = "QuorumAtRisk"
	// ReasonQuorumLost appears when the cluster does not answer with a leader. Nothing is touched. The operator
	// restores the connection or the members that are down; only they bring the quorum back.
	ReasonQuorumLost Reason = "QuorumLost"
	// ReasonForeignEtcdMember appears when the member list holds a member that belongs to neither seed. Membership is
	// not touched. The operator finds out who added it and removes it.
	ReasonForeignEtcdMember Reason = "ForeignEtcdMember"
	// ReasonSourceSilent appears when the last member of the destination does not join because the source has shown no
	// sign of life for a while: an etcd with six voters needs the source, which alone makes them five again. The
	// operator gets the agent of the source, its seed's API server or its connection to the garden back.
	ReasonSourceSilent Reason = "SourceSilent"
	// ReasonSeedOverloaded appears while members of etcd, or the kube-apiserver of the destination, take longer than a
	// second to answer. No leadership moves, no member stops, no kube-apiserver ends and DNS does not move meanwhile:
	// their clients would lose requests. The operator gives the nodes that the message names processors or disks.
	ReasonSeedOverloaded Reason = "SeedOverloaded"
)

// Reasons about the ShootState.
const (
	// ReasonShootStateDiffers appears, before something is restored from it, when the ShootState is not what the agents
	// have taken into it: it has another number of machines, or an extension's state is missing or another one. Nothing
	// is restored from it, and the shoot is not handed over. The operator restores the ShootState, or accepts it as it
	// is.
	ReasonShootStateDiffers Reason = "ShootStateDiffers"
)

// Reasons of single steps, in the order of the steps.
const (
	// ReasonPersistingShootState appears while the ShootState is written and read back. The operator waits.
	ReasonPersistingShootState Reason = "PersistingShootState"
	// ReasonShootStatePersisted appears when the ShootState is persisted, while the full snapshot is taken and the
	// backup entry is released: it asks the destination to prepare meanwhile. It stays when the step is finished,
	// because an abort then waits until the destination has withdrawn, even if its own first step has not begun. The
	// operator waits.
	ReasonShootStatePersisted Reason = "ShootStatePersisted"

	// ReasonPreparingDestination appears while namespace, Cluster, secrets and backup entry are set up in the
	// destination. The operator waits.
	ReasonPreparingDestination Reason = "PreparingDestination"
	// ReasonJoiningEtcdMembers appears while the members of the destination join. The operator waits.
	ReasonJoiningEtcdMembers Reason = "JoiningEtcdMembers"

	// ReasonMigratingExtensions appears while extensions in the source are migrated and their state is collected. The
	// operator looks at the extension resources in the source if it lasts.
	ReasonMigratingExtensions Reason = "MigratingExtensions"

	// ReasonDeployingKubeAPIServer appears while the kube-apiserver and what it needs are rolled out in the
	// destination. The operator looks at the Deployment if it lasts.
	ReasonDeployingKubeAPIServer Reason = "DeployingKubeAPIServer"
	// ReasonProbingKubeAPIServer appears while the kube-apiserver of the destination is probed through its gateway. The
	// operator looks at the ingress gateway of the destination if it lasts.
	ReasonProbingKubeAPIServer Reason = "ProbingKubeAPIServer"

	// ReasonWaitingForTunnel appears, for shoots with workers, until the kube-apiserver of the destination reaches the
	// nodes through the VPN server there. The operator looks at the pods livecpm-vpn-shoot in the namespace kube-system
	// of the shoot, and at vpn-seed-server in the destination, if it lasts.
	ReasonWaitingForTunnel Reason = "WaitingForTunnel"

	// ReasonReleasingDNSRecords appears while the source's DNSRecord objects are removed without touching the records.
	// The operator waits.
	ReasonReleasingDNSRecords Reason = "ReleasingDNSRecords"

	// ReasonSwitchingDNSRecords appears while the destination points the DNS records at its own gateway. The operator
	// looks at the DNSRecords in the destination if it lasts.
	ReasonSwitchingDNSRecords Reason = "SwitchingDNSRecords"
	// ReasonWaitingForDNS appears until the name servers answer with the new address and the caches that may hold the
	// old one have expired (TTL and margin). The operator waits; the message tells until when.
	ReasonWaitingForDNS Reason = "WaitingForDNS"
	// ReasonDrainingClients asks the source to let clients leave that have kept their connections, by its ingress
	// gateway or by restarts of its kube-apiservers: who has left before etcd members of the source stop does not
	// notice that. It appears until the time for that is over. The operator waits; the message tells until when.
	ReasonDrainingClients Reason = "DrainingClients"
	// ReasonJoiningLastEtcdMember appears while the third member of the destination joins: from then until the first
	// removal the cluster tolerates only two failed members of six. The operator waits.
	ReasonJoiningLastEtcdMember Reason = "JoiningLastEtcdMember"
	// ReasonReadyForSourceMemberRemoval appears when all members of the destination are healthy voters: it asks the
	// source to retire its own members, one by one. From here on there is no way back. The operator waits.
	ReasonReadyForSourceMemberRemoval Reason = "ReadyForSourceMemberRemoval"

	// ReasonWaitingForClientsToLeave appears while requests on kept connections to the source's kube-apiserver may
	// still finish, unless its ingress gateway has drained them in the step before. The operator waits; the message
	// tells until when.
	ReasonWaitingForClientsToLeave Reason = "WaitingForClientsToLeave"
	// ReasonStoppingSourceControlPlane appears while the control plane components of the source are stopped. The
	// operator waits.
	ReasonStoppingSourceControlPlane Reason = "StoppingSourceControlPlane"
	// ReasonSourceControllersStopped appears when none of the controllers that may run in one seed only is left in the
	// source, whose kube-apiserver ends next: it asks the destination to start its own ones. It does not go back to
	// ReasonStoppingSourceControlPlane. The operator waits.
	ReasonSourceControllersStopped Reason = "SourceControllersStopped"
	// ReasonDeletingSourceResources appears while what is left of the shoot in the source is deleted. It asks the
	// destination for the same as ReasonSourceControllersStopped, in case its agent was away. The operator looks for
	// objects with finalizers in the shoot's namespace of the source if it lasts.
	ReasonDeletingSourceResources Reason = "DeletingSourceResources"

	// ReasonDeployingControlPlane appears while the other control plane components and extensions are started in the
	// destination. The operator looks at the component that the message names if it lasts.
	ReasonDeployingControlPlane Reason = "DeployingControlPlane"
	// ReasonMovingNodes appears, for shoots with workers, while VPN client and apiserver-proxy on the nodes are moved
	// to the destination. The operator looks at the pods in the namespace kube-system of the shoot if it lasts.
	ReasonMovingNodes Reason = "MovingNodes"
	// ReasonRollingEtcd appears while the etcds of the destination get their ordinary specification, with one rolling
	// restart. The operator waits.
	ReasonRollingEtcd Reason = "RollingEtcd"
	// ReasonHandingOver appears while the last preconditions of the hand-over to the destination's gardenlet are
	// checked. The operator reads the message if it lasts.
	ReasonHandingOver Reason = "HandingOver"
)
