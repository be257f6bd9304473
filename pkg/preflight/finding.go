// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package preflight checks whether a shoot and two seeds are fit for a live migration. gardener-apiserver checks part of it
// when the migration is triggered; what it found may have changed since, and some prerequisites it does not know.
//
// Evaluate is pure: it judges a World. Checker reads the World from the garden.
package preflight

import "fmt"

// Status is the result of one check.
type Status string

const (
	// Pass means that the prerequisite is met.
	Pass Status = "Pass"
	// Fail means that it is not met.
	Fail Status = "Fail"
	// Unknown means that it could not be looked at. It holds a migration like Fail.
	Unknown Status = "Unknown"
)

// Name identifies a check. Tools may rely on the values.
type Name string

const (
	// Intent passes if the shoot carries the intent annotation and two different seed names, and is not being deleted. (The
	// annotation also shows that the feature gate LiveControlPlaneMigration is on: gardener-apiserver admits no write of a
	// Shoot with it otherwise.)
	Intent Name = "Intent"
	// HighAvailability passes if the control plane is highly available. With one etcd member there is no quorum to share.
	HighAvailability Name = "HighAvailability"
	// Workerless passes if the shoot has no workers. Shoots with workers are not supported yet.
	Workerless Name = "Workerless"
	// NotHibernated passes if the shoot neither is hibernated nor on its way into or out of hibernation.
	NotHibernated Name = "NotHibernated"
	// LastOperation passes if the last operation succeeded. A control plane that does not reconcile must not move.
	LastOperation Name = "LastOperation"
	// CredentialsRotation passes if no rotation is between two stable phases.
	CredentialsRotation Name = "CredentialsRotation"
	// ProviderType passes if both seeds are of the same provider type.
	ProviderType Name = "ProviderType"
	// GardenletVersion passes if both gardenlets report the same version, to the letter.
	GardenletVersion Name = "GardenletVersion"
	// SeedHealth passes if both seeds are healthy, up to date, and not being deleted.
	SeedHealth Name = "SeedHealth"
	// RegionDistance passes if the regions of the seeds are the same or near enough.
	RegionDistance Name = "RegionDistance"
	// Backup passes if both seeds have a backup configured.
	Backup Name = "Backup"
	// InternalDomain passes if both seeds use the same internal domain.
	InternalDomain Name = "InternalDomain"
	// Exposure passes if both seeds have an ingress domain, under which the etcd members are reached.
	Exposure Name = "Exposure"
	// EtcdMemberNames passes if the gardenlet puts the seed's name into the names of etcd members (gate UpgradeEtcdVersion).
	// Without it the members of both seeds have the same names.
	EtcdMemberNames Name = "EtcdMemberNames"
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
		if finding.Status != Pass {
			out = append(out, finding)
		}
	}
	return out
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
	return Finding{Name: name, Status: Fail, Evidence: fmt.Sprintf(format, args...), Remedy: remedy}
}

func unknown(name Name, remedy, format string, args ...any) Finding {
	return Finding{Name: name, Status: Unknown, Evidence: fmt.Sprintf(format, args...), Remedy: remedy}
}
