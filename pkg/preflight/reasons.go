// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"maps"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// reasons are what the condition shows when a check alone holds the step.
var reasons = map[Name]steps.Reason{
	Intent:                      steps.ReasonNotRequested,
	HighAvailability:            steps.ReasonNotHighlyAvailable,
	Workers:                     steps.ReasonWorkersNotSupported,
	WorkersInDestination:        steps.ReasonWorkersNotSupported,
	SpecReconciled:              steps.ReasonShootNotReconciled,
	EncryptionConfig:            steps.ReasonShootNotReconciled,
	KubernetesVersion:           steps.ReasonShootNotReconciled,
	FeatureGates:                steps.ReasonShootNotReconciled,
	AdmissionPlugins:            steps.ReasonShootNotReconciled,
	ServiceAccountIssuer:        steps.ReasonShootNotReconciled,
	KubeAPIServerConfig:         steps.ReasonShootNotReconciled,
	TLSTermination:              steps.ReasonTLSTerminationDiffers,
	AccessControl:               steps.ReasonAccessControlUnfit,
	Machines:                    steps.ReasonMachinesNotSettled,
	NotHibernated:               steps.ReasonShootHibernated,
	LastOperation:               steps.ReasonShootNotReconciled,
	CredentialsRotation:         steps.ReasonCredentialsRotationRunning,
	Bastions:                    steps.ReasonBastionExists,
	NotASeed:                    steps.ReasonManagedSeedNotSupported,
	ProviderType:                steps.ReasonProviderTypesDiffer,
	GardenletRollout:            steps.ReasonGardenletRollingOut,
	steps.GardenletVersion:      steps.ReasonVersionSkew,
	steps.AgentProtocol:         steps.ReasonAgentProtocolsDiffer,
	steps.SourceSeedHealth:      steps.ReasonSeedNotHealthy,
	steps.DestinationSeedHealth: steps.ReasonSeedNotHealthy,
	RegionDistance:              steps.ReasonRegionsTooDistant,
	Backup:                      steps.ReasonBackupNotReady,
	BackupsArrive:               steps.ReasonBackupNotReady,
	InternalDomain:              steps.ReasonInternalDomainsDiffer,
	DefaultDomain:               steps.ReasonDefaultDomainsDiffer,
	DNSAccess:                   steps.ReasonDNSNotAccessible,
	ExtensionsInstalled:         steps.ReasonExtensionsNotReady,
	ClusterDNS:                  steps.ReasonClusterDNSUnfit,
	SeedConnection:              steps.ReasonConnectionUnfit,
	Exposure:                    steps.ReasonIngressDomainMissing,
	ExposureClass:               steps.ReasonExposureClassNotHandled,
	IPFamilies:                  steps.ReasonIPFamiliesDiffer,
	EtcdMemberNames:             steps.ReasonUpgradeEtcdVersionOff,
	EtcdMemberPrefix:            steps.ReasonEtcdMemberPrefixUnfit,
	steps.EtcdQuorum:            steps.ReasonQuorumLost,
	steps.EtcdHealth:            steps.ReasonEtcdNotHealthy,
	steps.EtcdSpace:             steps.ReasonEtcdNoSpace,
	steps.EtcdIntegrity:         steps.ReasonEtcdCorrupt,
	steps.EtcdDefragmentation:   steps.ReasonEtcdDefragmenting,
	steps.EtcdSize:              steps.ReasonEtcdNearQuota,
}

// ReasonOf returns what the condition shows when the check alone does not pass.
func ReasonOf(name Name) steps.Reason { return reasons[name] }

// Verdict returns the reason and the message with which the findings hold a step; both are empty if they do not. The
// reason is that of the findings if they have one in common, and PrerequisitesNotMet otherwise. The message tells all
// of them.
func Verdict(findings []Finding) (steps.Reason, string) {
	var reason steps.Reason
	for _, finding := range Obstacles(findings) {
		switch reason {
		case "", finding.Reason:
			reason = finding.Reason
		default:
			reason = steps.ReasonPrerequisitesNotMet
		}
	}
	return reason, strings.Join(Sentences(findings), "; ")
}

// Names returns the names of all checks that can hold a step, in alphabetical order.
func Names() []Name { return slices.Sorted(maps.Keys(reasons)) }
