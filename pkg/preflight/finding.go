// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks whether a shoot and two seeds are fit for a live migration. gardener-apiserver checks part
// of it when the migration is triggered; what it found may have changed since, and some prerequisites it does not know.
//
// Evaluate and EvaluateStep are pure: they judge Facts. Checker reads the Facts from the garden and from the shoot's
// etcds.
package preflight

import (
	"fmt"
	"slices"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Status is the result of one check.
type Status string

const (
	// Pass means that the prerequisite is met.
	Pass Status = "Pass"
	// Fail means that it is not met.
	Fail Status = "Fail"
	// Unknown means that it could not be read. It holds a migration like Fail.
	Unknown Status = "Unknown"
	// Warn means that it is not met or could not be read, but does not hold the step in question.
	Warn Status = "Warn"
)

// Name identifies a check. Tools may rely on the values. Those that are made before every step are named in
// pkg/migration/steps.
type Name = steps.Check

const (
	// Intent passes if the shoot carries the intent annotation and two different seed names, and is not being deleted.
	// (The annotation also shows that the feature gate LiveControlPlaneMigration is on: gardener-apiserver admits no
	// write of a Shoot with it otherwise.)
	Intent Name = "Intent"
	// GardenletRollout passes if no rollout of the gardenlet beside the agent is pending.
	GardenletRollout Name = "GardenletRollout"
	// HighAvailability passes if the control plane is highly available. With one etcd member there is no quorum to
	// share.
	HighAvailability Name = "HighAvailability"
	// Workers passes if the shoot has no workers, or if neither the shoot nor the agent of the source keeps it from
	// going with them.
	Workers Name = "Workers"
	// WorkersInDestination passes if the agent of the destination does not either. It is made for shoots with workers.
	WorkersInDestination Name = "WorkersInDestination"
	// VPN warns of a highly available VPN between the control plane and the nodes. It is made for shoots with workers.
	VPN Name = "VPN"
	// SpecReconciled passes if no change of the specification is still to be rolled out in the source. Changes of what
	// both kube-apiservers must share have the checks that follow.
	SpecReconciled Name = "SpecReconciled"
	// EncryptionConfig passes if the data in etcd is encrypted as the Shoot specifies.
	EncryptionConfig Name = "EncryptionConfig"
	// KubernetesVersion passes if the source runs the version of Kubernetes that the Shoot specifies.
	KubernetesVersion Name = "KubernetesVersion"
	// FeatureGates passes if the source's kube-apiserver runs with the feature gates and the APIs that the Shoot
	// specifies.
	FeatureGates Name = "FeatureGates"
	// AdmissionPlugins passes if it runs with the admission plugins that the Shoot specifies.
	AdmissionPlugins Name = "AdmissionPlugins"
	// ServiceAccountIssuer passes if it issues and accepts tokens of service accounts as the Shoot specifies.
	ServiceAccountIssuer Name = "ServiceAccountIssuer"
	// KubeAPIServerConfig passes if it runs with everything else that the Shoot specifies for it.
	KubeAPIServerConfig Name = "KubeAPIServerConfig"
	// Machines passes if no machine is being created, replaced or deleted, and none has failed.
	Machines Name = "Machines"
	// TLSTermination passes if the ingress gateways of both seeds end the TLS of the shoot's clients, or none of them.
	// It is made for shoots with workers.
	TLSTermination Name = "TLSTermination"
	// AccessControl passes if the shoot has no extension that restricts who may reach its kube-apiserver, or if the
	// destination can have it in force before anybody can reach its own one.
	AccessControl Name = "AccessControl"
	// NotHibernated passes if the shoot neither is hibernated nor on its way into or out of hibernation.
	NotHibernated Name = "NotHibernated"
	// LastOperation passes if the last operation succeeded. A control plane that does not reconcile must not move.
	LastOperation Name = "LastOperation"
	// CredentialsRotation passes if no rotation is requested or between two stable phases.
	CredentialsRotation Name = "CredentialsRotation"
	// Bastions passes if the shoot has no Bastion. Gardener does not move them: what they open would stay in the
	// source.
	Bastions Name = "Bastions"
	// NotASeed passes if no ManagedSeed makes a seed of the shoot. The control planes in it would take part in the
	// move.
	NotASeed Name = "NotASeed"
	// ProviderType passes if both seeds are of the same provider type.
	ProviderType Name = "ProviderType"
	// RegionDistance passes if the regions of the seeds are the same or near enough.
	RegionDistance Name = "RegionDistance"
	// Backup passes if both seeds have a backup configured.
	Backup Name = "Backup"
	// BackupsArrive passes if nothing shows that the etcds of the destination cannot write to its backup bucket.
	BackupsArrive Name = "BackupsArrive"
	// InternalDomain passes if both seeds use the same internal domain, and keep its records in the same place.
	InternalDomain Name = "InternalDomain"
	// DefaultDomain passes if the record of the shoot's own domain is kept in the same place by both seeds: with the
	// same default domain, or with the provider that the Shoot names.
	DefaultDomain Name = "DefaultDomain"
	// DNSAccess passes if the destination is able to change the shoot's DNS records, and to see that they have changed:
	// the credentials exist, and the name servers answer there.
	DNSAccess Name = "DNSAccess"
	// ExtensionsInstalled passes if the extensions that the shoot needs are installed in the destination and in order.
	ExtensionsInstalled Name = "ExtensionsInstalled"
	// ClusterDNS passes if the DNS of both seeds' clusters answers for EndpointSlices that Kubernetes has not made. The
	// etcd members of both seeds find each other by such slices.
	ClusterDNS Name = "ClusterDNS"
	// SeedConnection passes if the agents of both seeds have reached each other through the gateways and the relays
	// that a migration takes, fast enough, and with clocks that agree. It is made before the first step only.
	SeedConnection Name = "SeedConnection"
	// Exposure passes if both seeds have an ingress domain, under which the etcd members are reached.
	Exposure Name = "Exposure"
	// ExposureClass passes if the gardenlet of the destination has the handler of the shoot's ExposureClass, or the
	// shoot asks for none.
	ExposureClass Name = "ExposureClass"
	// IPFamilies passes if both seeds have the same IP families in the same order.
	IPFamilies Name = "IPFamilies"
	// EtcdMemberNames passes if the gardenlet puts the seed's name into the names of new etcd members (gate
	// UpgradeEtcdVersion), and if the source's members run the etcd that this gate brings. Without it the members of
	// both seeds could have the same names.
	EtcdMemberNames Name = "EtcdMemberNames"
	// EtcdMemberPrefix passes if no member of the source has the name of one of the destination. It is the seed's name
	// that tells them apart; Etcds of the source that are older than the gate do without.
	EtcdMemberPrefix Name = "EtcdMemberPrefix"
)

// Finding is the result of one check with what was seen.
type Finding struct {
	// Name is the check.
	Name Name
	// Status is the result.
	Status Status
	// Evidence tells what was seen.
	Evidence string
	// Remedy tells what to do. It is empty when the check passed.
	Remedy string
	// Reason is the reason of the condition when this kind of finding alone holds the step. It is empty when the check
	// passed.
	Reason steps.Reason
	// TooFar reports that nothing but the distance between the seeds speaks against the migration: by way of other
	// seeds it may be possible.
	TooFar bool
}

// String returns the finding as one sentence.
func (f Finding) String() string {
	if f.Status == Pass {
		return fmt.Sprintf("%s: %s", f.Name, f.Evidence)
	}
	return fmt.Sprintf("%s is %s: %s (%s)", f.Name, f.Status, f.Evidence, f.Remedy)
}

// Obstacles returns the findings that hold a migration.
func Obstacles(findings []Finding) []Finding {
	var out []Finding
	for _, finding := range findings {
		if finding.Status == Fail || finding.Status == Unknown {
			out = append(out, finding)
		}
	}
	return out
}

// Warnings returns the findings that do not hold the step, but should be known.
func Warnings(findings []Finding) []Finding {
	var out []Finding
	for _, finding := range findings {
		if finding.Status == Warn {
			out = append(out, finding)
		}
	}
	return out
}

// OnlyTooFar reports whether the findings hold a migration, and all of them only because of the distance.
func OnlyTooFar(findings []Finding) bool {
	obstacles := Obstacles(findings)
	return len(obstacles) > 0 &&
		!slices.ContainsFunc(obstacles, func(finding Finding) bool { return !finding.TooFar })
}

// Sentences returns one sentence for each finding that holds a migration.
func Sentences(findings []Finding) []string {
	var out []string
	for _, finding := range Obstacles(findings) {
		out = append(out, finding.String())
	}
	return out
}

func pass(name Name, format string, args ...any) Finding {
	return Finding{Name: name, Status: Pass, Evidence: fmt.Sprintf(format, args...)}
}

func fail(name Name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Status: Fail, Evidence: fmt.Sprintf(format, args...), Remedy: remedy,
		Reason: reasons[name]}
}

func unknown(name Name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Status: Unknown, Evidence: fmt.Sprintf(format, args...), Remedy: remedy,
		Reason: steps.ReasonPrerequisitesUnknown}
}
