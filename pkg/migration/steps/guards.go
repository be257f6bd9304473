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
	// ReasonGardenletRollingOut appears when a rollout of a gardenlet is pending. The operator waits.
	ReasonGardenletRollingOut Reason = "GardenletRollingOut"
	// ReasonGardenletMigratesLive is the reason of an event when a gardenlet may carry out the migration itself. The
	// agents stand back and write no condition. The operator removes livecpm, or chooses who migrates.
	ReasonGardenletMigratesLive Reason = "GardenletMigratesLive"
	// ReasonAgentProtocolsDiffer appears when the agents of the two seeds are of releases that are too far from each
	// other to work together. The operator brings them to adjacent releases, best to the same.
	ReasonAgentProtocolsDiffer Reason = "AgentProtocolsDiffer"
	// ReasonNotHighlyAvailable appears when the control plane has one etcd member only. The operator makes it highly
	// available first, or migrates classically.
	ReasonNotHighlyAvailable Reason = "NotHighlyAvailable"
	// ReasonWorkersNotSupported appears when the shoot has workers and the agent does not permit them. The operator
	// migrates classically, or permits them in both seeds.
	ReasonWorkersNotSupported Reason = "WorkersNotSupported"
	// ReasonMachinesNotSettled appears when machines of the shoot are being created, replaced or deleted, or have
	// failed. The operator waits, and looks at the machines that the message names if it lasts.
	ReasonMachinesNotSettled Reason = "MachinesNotSettled"
	// ReasonManagedSeedNotSupported appears when the shoot is itself a seed. The operator lets it stay, or migrates
	// classically.
	ReasonManagedSeedNotSupported Reason = "ManagedSeedNotSupported"
	// ReasonShootHibernated appears when the shoot is hibernated or on its way into or out of hibernation. The operator
	// wakes it up.
	ReasonShootHibernated Reason = "ShootHibernated"
	// ReasonTLSTerminationDiffers appears when the ingress gateway of one seed ends the TLS of the shoot's clients and
	// that of the other one does not. The operator gives both gardenlets the same feature gate, or turns it off for the
	// shoot.
	ReasonTLSTerminationDiffers Reason = "TLSTerminationDiffers"
	// ReasonAccessControlUnfit appears when an extension that restricts who may reach the shoot's kube-apiserver cannot
	// be in force in the destination before anybody can reach it there, or when the agents of the two seeds do not take
	// the same extensions for such ones. The operator migrates classically, or makes the agents' configurations equal.
	ReasonAccessControlUnfit Reason = "AccessControlUnfit"
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
	// ReasonBackupNotReady appears when a seed has no backup bucket that is ready, or when no backups arrive in that of
	// the destination. The operator configures or fixes it.
	ReasonBackupNotReady Reason = "BackupNotReady"
	// ReasonInternalDomainsDiffer appears when the seeds have different internal domains, or keep its records in
	// different places. The operator chooses another destination, or makes them equal.
	ReasonInternalDomainsDiffer Reason = "InternalDomainsDiffer"
	// ReasonDefaultDomainsDiffer appears when the record of the shoot's domain would be kept in another place by the
	// destination than by the source. The operator makes the default domains of the seeds equal, or chooses another
	// destination.
	ReasonDefaultDomainsDiffer Reason = "DefaultDomainsDiffer"
	// ReasonDNSNotAccessible appears when credentials do not exist with which the destination would change the shoot's
	// DNS records. The operator creates them, or chooses another destination.
	ReasonDNSNotAccessible Reason = "DNSNotAccessible"
	// ReasonExtensionsNotReady appears when extensions that the shoot needs are not installed in the destination, or
	// not in order there. The operator waits until they are, or gets their ControllerInstallations in order.
	ReasonExtensionsNotReady Reason = "ExtensionsNotReady"
	// ReasonClusterDNSUnfit appears when the DNS of a seed's cluster does not answer for EndpointSlices that Kubernetes
	// has not made, as kube-dns. The operator installs CoreDNS there, or migrates classically.
	ReasonClusterDNSUnfit Reason = "ClusterDNSUnfit"
	// ReasonConnectionUnfit appears when a probe has found that the seeds do not reach each other as a migration needs
	// it: through gateways and relays, fast enough, with clocks that agree. The operator fixes what the message names,
	// or chooses another destination.
	ReasonConnectionUnfit Reason = "ConnectionUnfit"
	// ReasonProbingConnection appears while the agents of both seeds probe the connection between them. It passes by
	// itself.
	ReasonProbingConnection Reason = "ProbingConnection"
	// ReasonIngressDomainMissing appears when a seed has no ingress domain of its own to expose etcd members under. The
	// operator configures one.
	ReasonIngressDomainMissing Reason = "IngressDomainMissing"
	// ReasonExposureClassNotHandled appears when the gardenlet of the destination has no handler for the shoot's
	// ExposureClass, so that the API server would be exposed at the default gateway. The operator adds the handler, or
	// chooses another destination.
	ReasonExposureClassNotHandled Reason = "ExposureClassNotHandled"
	// ReasonIPFamiliesDiffer appears when the seeds have different IP families, or another one first. The operator
	// chooses another destination, or migrates classically.
	ReasonIPFamiliesDiffer Reason = "IPFamiliesDiffer"
	// ReasonUpgradeEtcdVersionOff appears when the gate UpgradeEtcdVersion is off in a seed, where the names of etcd
	// members could collide, or when the source's members do not run the etcd yet that it brings. The operator turns it
	// on and lets the gardenlet reconcile the shoot.
	ReasonUpgradeEtcdVersionOff Reason = "UpgradeEtcdVersionOff"
	// ReasonEtcdMemberPrefixUnfit appears when a member of the source has the name that one of the destination would
	// have, or a prefix that is not the source's. The operator chooses another destination, or removes what is left of
	// such a member.
	ReasonEtcdMemberPrefixUnfit Reason = "EtcdMemberPrefixUnfit"
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
	ReasonGardenletRollingOut:        false,
	ReasonGardenletMigratesLive:      true,
	ReasonAgentProtocolsDiffer:       true,
	ReasonNotHighlyAvailable:         true,
	ReasonWorkersNotSupported:        true,
	ReasonMachinesNotSettled:         false,
	ReasonManagedSeedNotSupported:    true,
	ReasonShootHibernated:            true,
	ReasonTLSTerminationDiffers:      true,
	ReasonAccessControlUnfit:         true,
	ReasonShootNotReconciled:         true,
	ReasonCredentialsRotationRunning: false,
	ReasonBastionExists:              true,
	ReasonProviderTypesDiffer:        true,
	ReasonSeedNotHealthy:             true,
	ReasonRegionsTooDistant:          true,
	ReasonBackupNotReady:             true,
	ReasonInternalDomainsDiffer:      true,
	ReasonDefaultDomainsDiffer:       true,
	ReasonDNSNotAccessible:           true,
	ReasonExtensionsNotReady:         true,
	ReasonClusterDNSUnfit:            true,
	ReasonConnectionUnfit:            true,
	ReasonProbingConnection:          false,
	ReasonIngressDomainMissing:       true,
	ReasonExposureClassNotHandled:    true,
	ReasonIPFamiliesDiffer:           true,
	ReasonUpgradeEtcdVersionOff:      true,
	ReasonEtcdMemberPrefixUnfit:      true,
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
		ReasonQuorumLost, ReasonAbandoningSource:
		return true
	}
	_, guard := guardReasons[r]
	return guard
}
