// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

// Reasons of the guards: what is looked at before a step begins (pkg/preflight). They appear on a step that has not
// begun, and each alone: when guards of several reasons speak against the step at once, its reason is
// PrerequisitesNotMet. Which guard holds which step is in docs/concepts/guards.md.
const (
	// ReasonPrerequisitesUnknown appears when something that a guard looks at could not be read. The operator fixes the
	// access that the message names.
	ReasonPrerequisitesUnknown Reason = "PrerequisitesUnknown"
	// ReasonNotRequested appears when the Shoot is being deleted or does not ask for a live migration any more.
	ReasonNotRequested Reason = "NotRequested"
	// ReasonNotHighlyAvailable appears when the control plane has one etcd member only. The operator makes it highly
	// available first, or migrates classically.
	ReasonNotHighlyAvailable Reason = "NotHighlyAvailable"
	// ReasonWorkersNotSupported appears when the shoot has workers and the agent does not permit them. The operator
	// migrates classically, or permits them in both seeds.
	ReasonWorkersNotSupported Reason = "WorkersNotSupported"
	// ReasonMachinesNotSettled appears when machines of the shoot are being created, replaced or deleted, or have
	// failed. The operator waits, and looks at the machines that the message names if it lasts.
	ReasonMachinesNotSettled Reason = "MachinesNotSettled"
	// ReasonManagedSeedNotSupported appears when the shoot is itself a seed. The operator migrates classically.
	ReasonManagedSeedNotSupported Reason = "ManagedSeedNotSupported"
	// ReasonShootHibernated appears when the shoot is hibernated or on its way into or out of hibernation. The operator
	// wakes it up.
	ReasonShootHibernated Reason = "ShootHibernated"
	// ReasonTLSTerminationDiffers appears when the ingress gateway of one seed ends the TLS of the shoot's clients and
	// that of the other one does not. The operator gives both gardenlets the same feature gate, or turns it off for the
	// shoot.
	ReasonTLSTerminationDiffers Reason = "TLSTerminationDiffers"
	// ReasonShootNotReconciled appears when the shoot's last operation did not succeed or is still running, or when a
	// change of the specification has not been rolled out in the source. The operator gets the shoot reconciled.
	ReasonShootNotReconciled Reason = "ShootNotReconciled"
	// ReasonCredentialsRotationRunning appears when a rotation of credentials is requested or between two stable
	// phases. The operator waits until it is Prepared or Completed.
	ReasonCredentialsRotationRunning Reason = "CredentialsRotationRunning"
	// ReasonBastionExists appears when there is a Bastion of the shoot. It would not move. The operator ends the
	// session and deletes it.
	ReasonBastionExists Reason = "BastionExists"
	// ReasonProviderTypesDiffer appears when the seeds are of different provider types. The operator chooses another
	// destination, or migrates classically.
	ReasonProviderTypesDiffer Reason = "ProviderTypesDiffer"
	// ReasonSeedNotHealthy appears when a seed is not healthy or is being deleted. The operator gets it healthy.
	ReasonSeedNotHealthy Reason = "SeedNotHealthy"
	// ReasonRegionsTooDistant appears when the regions of the seeds are too far from each other, or their distance is
	// not known. The operator chooses a nearer destination, or allows the distance.
	ReasonRegionsTooDistant Reason = "RegionsTooDistant"
	// ReasonBackupNotReady appears when a seed has no backup bucket that is ready. The operator configures or fixes it.
	ReasonBackupNotReady Reason = "BackupNotReady"
	// ReasonInternalDomainsDiffer appears when the seeds have different internal domains. The operator chooses another
	// destination.
	ReasonInternalDomainsDiffer Reason = "InternalDomainsDiffer"
	// ReasonIngressDomainMissing appears when a seed has no ingress domain of its own to expose etcd members under. The
	// operator configures one.
	ReasonIngressDomainMissing Reason = "IngressDomainMissing"
	// ReasonUpgradeEtcdVersionOff appears when the gate UpgradeEtcdVersion is off in a seed: the names of etcd members
	// would collide. The operator turns it on.
	ReasonUpgradeEtcdVersionOff Reason = "UpgradeEtcdVersionOff"
	// ReasonEtcdMemberPrefixMissing appears when the source's Etcds were created before that gate was on: their members
	// do not carry the seed's name, and cannot get it. The operator migrates classically once.
	ReasonEtcdMemberPrefixMissing Reason = "EtcdMemberPrefixMissing"
	// ReasonEtcdNotHealthy appears when an etcd member is down, follows no leader or another one than the others. The
	// operator gets it healthy.
	ReasonEtcdNotHealthy Reason = "EtcdNotHealthy"
	// ReasonEtcdNoSpace appears when the alarm NOSPACE is raised: etcd refuses writes. The operator frees space and
	// disarms the alarm.
	ReasonEtcdNoSpace Reason = "EtcdNoSpace"
	// ReasonEtcdCorrupt appears when the alarm CORRUPT, or one that is not known, is raised. The operator finds out
	// which member differs, and replaces it.
	ReasonEtcdCorrupt Reason = "EtcdCorrupt"
	// ReasonEtcdDefragmenting appears when an etcd member is being defragmented or is about to be. The operator waits.
	ReasonEtcdDefragmenting Reason = "EtcdDefragmenting"
	// ReasonEtcdNearQuota appears when an etcd database is close to its quota. The operator makes room.
	ReasonEtcdNearQuota Reason = "EtcdNearQuota"
)

// guardReasons maps the reasons of the guards to whether an operator has to do something about them. The others pass by
// themselves.
var guardReasons = map[Reason]bool{
	ReasonPrerequisitesUnknown:       true,
	ReasonNotRequested:               true,
	ReasonNotHighlyAvailable:         true,
	ReasonWorkersNotSupported:        true,
	ReasonMachinesNotSettled:         false,
	ReasonManagedSeedNotSupported:    true,
	ReasonShootHibernated:            true,
	ReasonTLSTerminationDiffers:      true,
	ReasonShootNotReconciled:         true,
	ReasonCredentialsRotationRunning: false,
	ReasonBastionExists:              true,
	ReasonProviderTypesDiffer:        true,
	ReasonSeedNotHealthy:             true,
	ReasonRegionsTooDistant:          true,
	ReasonBackupNotReady:             true,
	ReasonInternalDomainsDiffer:      true,
	ReasonIngressDomainMissing:       true,
	ReasonUpgradeEtcdVersionOff:      true,
	ReasonEtcdMemberPrefixMissing:    true,
	ReasonEtcdNotHealthy:             true,
	ReasonEtcdNoSpace:                true,
	ReasonEtcdCorrupt:                true,
	ReasonEtcdDefragmenting:          false,
	ReasonEtcdNearQuota:              true,
}

// Hold reports whether the reason says why a step has not begun, rather than what a step that has begun is about.
// (ReasonQuorumLost is one of both: no step begins without a quorum, and it may be lost in the middle of one.)
func (r Reason) Hold() bool {
	switch r {
	case ReasonPaused, ReasonGateNotInForce, ReasonPrerequisitesNotMet, ReasonVersionSkew, ReasonSyncFailed,
		ReasonQuorumLost:
		return true
	}
	_, guard := guardReasons[r]
	return guard
}
