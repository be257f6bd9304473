// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/ownership"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// The names of the checks. Scripts may rely on the values.
const (
	// CheckCompleted passes if every condition of the migration is True, and nothing asks for another.
	CheckCompleted preflight.Name = "Completed"
	// CheckHandedOver passes if the gardenlet of the destination has reconciled the shoot.
	CheckHandedOver preflight.Name = "HandedOver"
	// CheckShootHealth passes if all conditions and constraints of the shoot are True.
	CheckShootHealth preflight.Name = "ShootHealth"
	// CheckEtcdMembers passes if the etcds have three healthy voters, or one without high availability, all in the
	// destination.
	CheckEtcdMembers preflight.Name = "EtcdMembers"
	// CheckEtcdHash passes if all members have the same data at one revision.
	CheckEtcdHash preflight.Name = "EtcdHash"
	// CheckSourceEmpty passes if the source holds nothing of the shoot.
	CheckSourceEmpty preflight.Name = "SourceEmpty"
	// CheckSecrets passes if the secrets are those of before the migration.
	CheckSecrets preflight.Name = "Secrets"
	// CheckDNS passes if the shoot's names resolve to what the destination publishes.
	CheckDNS preflight.Name = "DNS"
	// CheckBackup passes if the backups go to the destination's bucket, and its gardenlet manages them.
	CheckBackup preflight.Name = "Backup"
)

// VerificationInput is what the verification judges.
type VerificationInput struct {
	// Now is the time of the look.
	Now metav1.Time
	// Shoot is the shoot.
	Shoot *gardencorev1beta1.Shoot
	// Source is the seed that the shoot came from; empty if that is not known.
	Source string
	// DestinationBucket is the name of the backup bucket of the destination; empty if it is not known.
	DestinationBucket string
	// BackupEntry is the shoot's backup entry.
	BackupEntry *gardencorev1beta1.BackupEntry
	// Etcds are the etcds.
	Etcds []EtcdData
	// LeftInSource are the objects of the shoot that the source holds.
	LeftInSource []string
	// Secrets are the persisted secrets in the destination.
	Secrets []SecretDigest
	// Kept are the secrets in a copy, KeptIn says where that is and from when; both are empty if there is none.
	Kept   []SecretDigest
	KeptIn string
	// KeptBefore reports that the copy was made before the migration.
	KeptBefore bool
	// ClusterIDs are the identifiers of the etcd clusters before the migration, if they were recorded.
	ClusterIDs map[string]string
	// Records are the shoot's DNS records in the destination.
	Records []Resolution
	// Unknown says why something could not be looked at.
	Unknown map[preflight.Name]string
}

// EtcdData is what the members of one etcd say of their data.
type EtcdData struct {
	// Name is the name of the Etcd resource.
	Name string
	// ClusterID identifies the cluster.
	ClusterID string
	// Revision is the revision of the hashes.
	Revision int64
	// Members are the members.
	Members []MemberData
}

// MemberData is what an etcd member says of its data.
type MemberData struct {
	// Name is its name.
	Name string
	// Learner reports that it has no vote.
	Learner bool
	// Problem says why it is not healthy; empty if it is.
	Problem string
	// Hash is the hash of its data, Compacted the revision down to which it has compacted.
	Hash      uint32
	Compacted int64
	// HashProblem says why there is no hash.
	HashProblem string
}

// SecretDigest is a secret of which nothing but its digest is known.
type SecretDigest struct {
	// Name is its name.
	Name string `json:"name"`
	// Digest is a digest of its content.
	Digest string `json:"digest"`
	// Issued is when it was issued, if it says so.
	Issued *time.Time `json:"issued,omitempty"`
}

// Resolution is a DNS record of the shoot, and what its name resolves to.
type Resolution struct {
	// Name is the domain name.
	Name string
	// Values are where it points to, as addresses.
	Values []string
	// Resolved are the addresses that a lookup gives.
	Resolved []string
	// Problem says why there is no such answer.
	Problem string
}

// Verify judges after a live migration whether everything is in order.
func Verify(in VerificationInput) view.Verification {
	out := view.Verification{Namespace: in.Shoot.Namespace, Shoot: in.Shoot.Name, Source: in.Source,
		Destination: ptr.Deref(in.Shoot.Status.SeedName, "")}
	for _, check := range []struct {
		name preflight.Name
		make func(VerificationInput, string) view.Check
	}{
		{CheckCompleted, judgeCompleted},
		{CheckHandedOver, judgeHandedOver},
		{CheckShootHealth, judgeShootHealth},
		{CheckEtcdMembers, judgeEtcdMembers},
		{CheckEtcdHash, judgeEtcdHash},
		{CheckSourceEmpty, judgeSourceEmpty},
		{CheckSecrets, judgeSecrets},
		{CheckDNS, judgeDNS},
		{CheckBackup, judgeBackup},
	} {
		made := view.Check{Status: view.Unknown, Evidence: in.Unknown[check.name]}
		if made.Evidence == "" {
			made = check.make(in, out.Destination)
		}
		made.Name = check.name
		switch made.Status {
		case view.Pass:
		case view.Fail:
			out.Failed++
		default:
			// It is no fault that something could not be looked at, and no proof either.
			made.Deferred = true
			out.Unknown++
		}
		out.Checks = append(out.Checks, made)
	}
	return out
}

func pass(format string, args ...any) view.Check {
	return view.Check{Status: view.Pass, Evidence: fmt.Sprintf(format, args...)}
}

func fail(remedy, format string, args ...any) view.Check {
	return view.Check{Status: view.Fail, Evidence: fmt.Sprintf(format, args...), Remedy: remedy}
}

func unknown(remedy, format string, args ...any) view.Check {
	return view.Check{Status: view.Unknown, Evidence: fmt.Sprintf(format, args...), Remedy: remedy}
}

func judgeCompleted(in VerificationInput, _ string) view.Check {
	migration := summary.Summarize(in.Shoot, in.Now.Time)
	if migration.State != summary.Succeeded {
		return fail("wait until it ends: `kubectl livecpm status`", "the state is %s", migration)
	}
	return pass("all %d conditions are True, and no annotation asks for a migration", len(steps.Table()))
}

func judgeHandedOver(in VerificationInput, destination string) view.Check {
	operation := in.Shoot.Status.LastOperation
	const remedy = "wait until the gardenlet has reconciled the shoot; its last errors say what is in the way"
	switch {
	case ptr.Deref(in.Shoot.Spec.SeedName, "") != destination:
		return fail(remedy, "spec.seedName is %s, status.seedName %s", ptr.Deref(in.Shoot.Spec.SeedName, "empty"),
			destination)
	case in.Source != "" && in.Source == destination:
		return fail("give the seed that it came from with --source",
			"the shoot is in seed %s, which was given as the source", destination)
	case operation == nil:
		return fail(remedy, "there is no last operation")
	case operation.Type != gardencorev1beta1.LastOperationTypeReconcile ||
		operation.State != gardencorev1beta1.LastOperationStateSucceeded:
		return fail(remedy, "the last operation is %s, %s", operation.Type, operation.State)
	case in.Shoot.Status.ObservedGeneration < in.Shoot.Generation:
		return fail(remedy, "generation %d is observed, the shoot has %d", in.Shoot.Status.ObservedGeneration,
			in.Shoot.Generation)
	}
	return pass("seed %s has the shoot, %s is %s", destination, operation.Type, operation.State)
}

func judgeShootHealth(in VerificationInput, _ string) view.Check {
	if len(in.Shoot.Status.Conditions) == 0 {
		return unknown("wait until the gardenlet has looked at the shoot", "the shoot has no conditions")
	}
	var bad []string
	for _, condition := range in.Shoot.Status.Conditions {
		if condition.Status != gardencorev1beta1.ConditionTrue {
			bad = append(bad, fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message))
		}
	}
	if len(bad) > 0 {
		return fail("fix the problems that the conditions of the Shoot name", "%s", strings.Join(bad, "; "))
	}
	return pass("all %d conditions of the Shoot are True", len(in.Shoot.Status.Conditions))
}

// votersOf returns how many members an etcd of the shoot has in the end.
func votersOf(shoot *gardencorev1beta1.Shoot) int {
	if v1beta1helper.IsHAControlPlaneConfigured(shoot) {
		return naming.MembersPerSeed
	}
	return naming.SingleMember
}

func judgeEtcdMembers(in VerificationInput, destination string) view.Check {
	var (
		bad, fine []string
		voters    = votersOf(in.Shoot)
	)
	for _, etcd := range in.Etcds {
		for _, member := range etcd.Members {
			switch {
			case member.Problem != "":
				bad = append(bad, fmt.Sprintf("%s: member %s: %s", etcd.Name, member.Name, member.Problem))
			case member.Learner:
				bad = append(bad, fmt.Sprintf("%s: member %s is a learner", etcd.Name, member.Name))
			case !strings.HasPrefix(member.Name, destination+"-"+etcd.Name):
				bad = append(bad, fmt.Sprintf("%s: member %s does not belong to seed %s", etcd.Name, member.Name,
					destination))
			}
		}
		if len(etcd.Members) != voters {
			bad = append(bad, fmt.Sprintf("%s has %s instead of %d", etcd.Name,
				conditions.Count(len(etcd.Members), "member"), voters))
		}
		if before, ok := in.ClusterIDs[etcd.Name]; ok && before != etcd.ClusterID {
			bad = append(bad, fmt.Sprintf("%s is cluster %s, and was %s before the migration", etcd.Name,
				etcd.ClusterID, before))
		}
		fine = append(fine, fmt.Sprintf("%s: %d voters in seed %s, cluster %s", etcd.Name, len(etcd.Members),
			destination, etcd.ClusterID))
	}
	if len(bad) > 0 {
		return fail("see "+pages.Recovery, "%s", strings.Join(bad, "; "))
	}
	return pass("%s", strings.Join(fine, "; "))
}

func judgeEtcdHash(in VerificationInput, _ string) view.Check {
	var fine []string
	for _, etcd := range in.Etcds {
		hashes, compactions := map[uint32][]string{}, map[int64]bool{}
		for _, member := range etcd.Members {
			if member.HashProblem != "" {
				return unknown("verify again when all members answer", "%s: %s", etcd.Name, member.HashProblem)
			}
			hashes[member.Hash] = append(hashes[member.Hash], member.Name)
			compactions[member.Compacted] = true
		}
		switch {
		case len(compactions) > 1:
			return unknown("verify again",
				"the members of %s were compacted in the meantime, so their hashes cannot be compared", etcd.Name)
		case len(hashes) > 1:
			var differ []string
			for _, hash := range slices.Sorted(maps.Keys(hashes)) {
				differ = append(differ, fmt.Sprintf("%08x (%s)", hash, strings.Join(hashes[hash], ", ")))
			}
			return fail("find the member whose data differs, and let it join again",
				"the members of %s differ at revision %d: %s", etcd.Name, etcd.Revision, strings.Join(differ, ", "))
		}
		for hash, names := range hashes {
			fine = append(fine, fmt.Sprintf("%s: %08x on %d members at revision %d", etcd.Name, hash, len(names),
				etcd.Revision))
		}
	}
	return pass("%s", strings.Join(fine, "; "))
}

func judgeSourceEmpty(in VerificationInput, _ string) view.Check {
	const shown = 5
	if n := len(in.LeftInSource); n > 0 {
		names := strings.Join(in.LeftInSource[:min(n, shown)], ", ")
		if n > shown {
			names += fmt.Sprintf(" and %d more", n-shown)
		}
		return fail("find out why these objects were left, then delete them by hand",
			"seed %s holds %s of the shoot: %s", in.Source, conditions.Count(n, "object"), names)
	}
	return pass("seed %s holds nothing of the shoot", in.Source)
}

func judgeSecrets(in VerificationInput, destination string) view.Check {
	found := map[string]SecretDigest{}
	// Step 1 has persisted the secrets, and is the first to be finished.
	begin := persisted(in.Shoot)
	var again []string
	for _, secret := range in.Secrets {
		found[secret.Name] = secret
		if secret.Issued != nil && !begin.IsZero() && secret.Issued.After(begin) && !in.rotated(secret) {
			again = append(again, secret.Name)
		}
	}
	var missing, changed []string
	for _, kept := range in.Kept {
		switch now, ok := found[kept.Name]; {
		case !ok:
			missing = append(missing, kept.Name)
		case now.Digest != kept.Digest:
			changed = append(changed, kept.Name)
		}
	}
	switch {
	case len(in.Secrets) == 0:
		return fail("see "+pages.Recovery, "seed %s has no persisted secret of the shoot", destination)
	case len(missing)+len(changed) > 0:
		var parts []string
		for what, names := range map[string][]string{"missing": missing, "changed": changed} {
			if len(names) > 0 {
				parts = append(parts, what+": "+strings.Join(names, ", "))
			}
		}
		slices.Sort(parts)
		return fail("if no rotation since then explains it, see "+pages.Recovery,
			"compared with %s, %s", in.KeptIn, strings.Join(parts, "; "))
	case len(again) > 0:
		return fail("check whether a rotation or a renewal since then explains it",
			"issued after the migration had begun: %s", strings.Join(again, ", "))
	case in.KeptBefore:
		return pass("%d secrets have the digests of %s", len(in.Kept), in.KeptIn)
	case len(in.Kept) > 0:
		return pass("%d secrets have the digests of %s, and none was issued since the migration began", len(in.Kept),
			in.KeptIn)
	}
	return unknown("record the digests before a migration (kubectl livecpm verify record), and compare with --baseline",
		"none of %d secrets was issued since the migration began, but there is no copy to compare their content with",
		len(in.Secrets))
}

// rotated reports whether a copy from before the migration has the secret already: then its age says nothing.
func (in VerificationInput) rotated(secret SecretDigest) bool {
	return in.KeptBefore &&
		slices.ContainsFunc(
			in.Kept, func(kept SecretDigest) bool { return kept.Name == secret.Name && kept.Digest == secret.Digest })
}

func persisted(shoot *gardencorev1beta1.Shoot) time.Time {
	for _, condition := range steps.Conditions(shoot) {
		if condition.Type == steps.First().Condition {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func judgeDNS(in VerificationInput, destination string) view.Check {
	if len(in.Records) == 0 {
		return fail("see "+pages.Base+"operations/MigrateDNSRecords.md", "seed %s manages no DNS record of the shoot",
			destination)
	}
	var fine []string
	for _, record := range in.Records {
		if record.Problem != "" {
			return unknown("give a DNS server that knows the name with --dns-server", "%s: %s", record.Name,
				record.Problem)
		}
		if want, got := sorted(record.Values), sorted(record.Resolved); !slices.Equal(want, got) {
			return fail("wait until the record's TTL has passed, then look at the DNSRecord in seed "+destination,
				"%s resolves to %s, the destination publishes %s", record.Name, orNothing(got), orNothing(want))
		}
		fine = append(fine, fmt.Sprintf("%s -> %s", record.Name, strings.Join(sorted(record.Resolved), ", ")))
	}
	return pass("%s", strings.Join(fine, "; "))
}

func sorted(values []string) []string {
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

func orNothing(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

func judgeBackup(in VerificationInput, destination string) view.Check {
	if err := ownership.CheckBackupEntry(in.BackupEntry, destination, in.DestinationBucket); err != nil {
		return fail("see "+pages.OfStep(steps.Last()), "%v", err)
	}
	return pass("backup entry %s is in bucket %s and managed by seed %s", in.BackupEntry.Name, in.DestinationBucket,
		destination)
}
