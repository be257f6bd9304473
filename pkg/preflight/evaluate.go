// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

const (
	// defaultDistanceThreshold is the threshold of gardener-apiserver's admission for ConfigMaps that set none.
	// Upstream does not export it.
	defaultDistanceThreshold = 180
	// gateUpgradeEtcdVersion is the feature gate of etcd-druid in the gardenlet's configuration.
	gateUpgradeEtcdVersion = "UpgradeEtcdVersion"

	// missingForSeed says why a live migration leaves a seed alone.
	missingForSeed = "the shoot is a seed (%s): the agent and the gardenlet in it, and the control planes of its own " +
		"shoots, depend on the API server that would move, and it was not shown that they keep working meanwhile"
	remedySeed = "let the shoot stay where it is, or remove the intent annotation to migrate classically, which " +
		"stops the API server of that seed for minutes; empty the seed before (kubectl livecpm drain) if its shoots " +
		"must not notice"

	remedyRead = "let the agent read it in the garden (chart livecpm-garden, rbac.enabled); the check runs again " +
		"by itself"
	remedyPublish = "check that the agent of the seed runs, is of this release, and may patch its own Seed; the " +
		"check runs again by itself"
)

// upgradedEtcd is the first version of etcd that etcd-druid deploys with that gate (v0.38.1: 3.5.27, and 3.4 without).
var upgradedEtcd = semver.MustParse("3.5.0")

// SeedView is a seed as far as it could be read.
type SeedView struct {
	// Name is the name of the seed.
	Name string
	// Seed is nil when the seed could not be read.
	Seed *gardencorev1beta1.Seed
	// Error tells why it could not be read.
	Error error
}

// Protocols returns which versions of the agents' protocol the agent of the seed says that it speaks; the zero value if
// that cannot be read, so that the check of it is left to the agents.
func (v SeedView) Protocols() steps.Protocols {
	speaks, err := steps.ParseProtocols(v.Seed.Annotations[steps.SeedAnnotationProtocols])
	if err != nil {
		return steps.Protocols{}
	}
	return speaks
}

// Facts are what the checks look at.
type Facts struct {
	// Shoot is the shoot to migrate.
	Shoot *gardencorev1beta1.Shoot
	// Source and Destination are its seeds.
	Source, Destination SeedView
	// RegionConfigMaps are the ConfigMaps with region distances for the shoot's cloud profile.
	RegionConfigMaps []*corev1.ConfigMap
	// RegionError tells why they could not be read.
	RegionError error
	// OwnSeed is the seed whose gardenlet's configuration is known.
	OwnSeed string
	// Gardenlet is that configuration.
	Gardenlet *gardenletconfigv1alpha1.GardenletConfiguration
	// Version is the Gardener version that the agent in OwnSeed is built with; empty if it does not matter.
	Version string
	// Protocols are what the agent in OwnSeed speaks; the zero value if no agent asks, and its check is left out.
	Protocols steps.Protocols
	// Bastions and ManagedSeeds are the names of those that refer to the shoot.
	Bastions, ManagedSeeds []string
	// HostedSeeds are the names of the Seeds that run in the shoot, whoever has set them up: their cluster has the
	// identity of the shoot. Only who may list Seeds knows them; agents may not.
	HostedSeeds []string
	// BastionsError and ManagedSeedsError tell why they could not be read.
	BastionsError, ManagedSeedsError error
	// ExposureClass is the one that the shoot asks for; nil if it asks for none.
	ExposureClass *gardencorev1beta1.ExposureClass
	// ExposureClassError tells why it could not be read.
	ExposureClassError error
	// EtcdsRead reports that the etcds were to be read. Otherwise their checks are left out.
	EtcdsRead bool
	// Etcds are the shoot's etcds as the agent in OwnSeed sees them. In the destination there is none before they are
	// created; the step that creates them reads the members of the source itself.
	Etcds []EtcdView
	// EtcdsError tells why they could not be read.
	EtcdsError error
	// ForbidsWorkers reports that the agent in OwnSeed is configured not to migrate shoots with workers, whatever the
	// Seed says of it yet.
	ForbidsWorkers bool
	// MachinesRead reports that the machines were to be read. Otherwise their check is left out.
	MachinesRead bool
	// Machines are the shoot's machines in OwnSeed.
	Machines MachinesView
	// MachinesError tells why they could not be read.
	MachinesError error
	// RunningRead reports that what runs in the source was to be read. Otherwise the checks that compare with it are
	// left out.
	RunningRead bool
	// Running is the Shoot as the source's gardenlet has last rolled it out.
	Running *gardencorev1beta1.Shoot
	// RunningError tells why it could not be read.
	RunningError error
	// RolloutRead reports that the Deployment of the gardenlet in OwnSeed was to be read. Otherwise its check is left
	// out.
	RolloutRead bool
	// Rollout is what the Deployment says.
	Rollout RolloutView
	// RolloutError tells why it could not be read.
	RolloutError error
	// TLSEndsRead reports that the source's way to the kube-apiserver was to be read. Otherwise what its agent has
	// published counts.
	TLSEndsRead bool
	// TLSEndsAtGateway reports whether the source's ingress gateway ends the TLS of the shoot's clients.
	TLSEndsAtGateway bool
	// TLSEndsError tells why that could not be read.
	TLSEndsError error
	// ExtensionsRead reports that the types of the shoot's extensions were to be read. Otherwise those count that the
	// Shoot names.
	ExtensionsRead bool
	// Extensions are the types of the shoot's extensions, with those that are enabled for all shoots.
	Extensions []string
	// ExtensionsError tells why they could not be read.
	ExtensionsError error
	// Planned reports that the migration is not requested yet. What the destination's agent looks at only for a shoot
	// that is on its way is then left to it.
	Planned bool
	// Probed reports that a probe of the connection between the seeds was asked for, and has ended or was given up.
	// What it could not find out counts then, also where the migration is only planned.
	Probed bool
	// Now is the time of the look. What agents have published counts up to a certain age.
	Now time.Time
}

// Evaluate judges the facts. It returns the findings of all checks in a fixed order.
func Evaluate(f Facts) []Finding {
	findings := []Finding{checkIntent(f)}
	if findings[0].Status != Pass {
		// Without two seeds there is nothing to compare.
		return findings
	}
	findings = append(findings,
		checkHighAvailability(f),
		checkWorkers(f),
		checkNotHibernated(f),
		checkLastOperation(f),
		checkCredentialsRotation(f),
		checkBastions(f),
		checkNotASeed(f),
	)
	findings = append(findings, checkSpecification(f)...)
	findings = append(findings, checkOfWorkers(f)...)
	for _, check := range []struct {
		name  Name
		check func(Facts) Finding
	}{
		{ProviderType, checkProviderType},
		{steps.GardenletVersion, checkGardenletVersion},
		{steps.AgentProtocol, checkAgentProtocol},
		{steps.SourceSeedHealth, checkSourceSeedHealth},
		{steps.DestinationSeedHealth, checkDestinationSeedHealth},
		{RegionDistance, checkRegionDistance},
		{Backup, checkBackup},
		{BackupsArrive, checkBackupsArrive},
		{InternalDomain, checkInternalDomain},
		{DefaultDomain, checkDefaultDomain},
		{DNSAccess, checkDNSAccess},
		{Exposure, checkExposure},
		{ExposureClass, checkExposureClass},
		{IPFamilies, checkIPFamilies},
		{AccessControl, checkAccessControl},
		{ExtensionsInstalled, checkExtensions},
		{ClusterDNS, checkClusterDNS},
		{SeedConnection, checkSeedConnection},
	} {
		if f.leavesOut(check.name) {
			continue
		}
		if missing := unreadable(f, check.name); missing != nil {
			findings = append(findings, *missing)
			continue
		}
		findings = append(findings, check.check(f))
	}
	if f.RolloutRead {
		findings = append(findings, checkGardenletRollout(f))
	}
	if f.Gardenlet != nil {
		findings = append(findings, checkEtcdMemberNames(f))
	}
	if f.EtcdsRead && f.EtcdsError == nil && f.ownRole() == steps.Source {
		findings = append(findings, checkEtcdMemberPrefix(f))
	}
	if f.ownRole() == steps.Source {
		return append(findings, checkRequiredEtcds(f)...)
	}
	return append(findings, checkEtcds(f)...)
}

// leavesOut reports whether the check is not made here: by those who speak no protocol, or when its time is over.
func (f Facts) leavesOut(check Name) bool {
	return check == steps.AgentProtocol && f.Protocols == (steps.Protocols{}) ||
		check == SeedConnection && !checksConnection(f)
}

// ownRole returns the role of OwnSeed in the migration; it is empty if the seed has none.
func (f Facts) ownRole() steps.Role {
	role, _ := steps.RoleOf(f.Shoot, f.OwnSeed)
	return role
}

// unreadable returns a finding if a seed that the check needs could not be read. The checks of one seed's health need
// that seed only.
func unreadable(f Facts, name Name) *Finding {
	views := []SeedView{f.Source, f.Destination}
	switch name {
	case steps.SourceSeedHealth:
		views = views[:1]
	case steps.DestinationSeedHealth:
		views = views[1:]
	}
	for _, view := range views {
		if view.Seed == nil {
			finding := unknown(name, remedyRead, "seed %s could not be read: %v", view.Name, view.Error)
			return &finding
		}
	}
	return nil
}

func checkIntent(f Facts) Finding {
	source, destination, between := steps.Seeds(f.Shoot)
	switch {
	case !steps.Intended(f.Shoot):
		return fail(Intent, fmt.Sprintf("set the annotation %s=true before spec.seedName changes",
			steps.AnnotationIntent),
			"the annotation %s is %q", steps.AnnotationIntent, f.Shoot.Annotations[steps.AnnotationIntent])
	case !between:
		return fail(Intent, "change spec.seedName through shoots/binding",
			"spec.seedName is %q and status.seedName is %q", ptr.Deref(f.Shoot.Spec.SeedName, ""),
			ptr.Deref(f.Shoot.Status.SeedName, ""))
	case f.Shoot.DeletionTimestamp != nil:
		return fail(Intent, "let the deletion complete", "the shoot is being deleted")
	}
	return pass(Intent, "from seed %s to seed %s", source, destination)
}

func checkHighAvailability(f Facts) Finding {
	if failureTolerance := v1beta1helper.GetFailureToleranceType(f.Shoot); failureTolerance != nil {
		return pass(HighAvailability, "failure tolerance %s", *failureTolerance)
	}
	if steps.WithGap(f.Shoot) {
		return checkGap(f)
	}
	return fail(HighAvailability,
		"set spec.controlPlane.highAvailability and wait until the shoot is reconciled, set the annotation "+
			steps.AnnotationWithGap+"=true before spec.seedName changes if one gap of "+steps.ExpectedGap+
			" is acceptable, or migrate classically",
		"the control plane is not highly available")
}

// checkGap says what is to be expected of a control plane with one etcd member, if the agents of both seeds know how to
// move it.
func checkGap(f Facts) Finding {
	if !f.leavesOut(steps.AgentProtocol) {
		if missing := unreadable(f, HighAvailability); missing != nil {
			return *missing
		}
		common, problem := commonProtocol(f)
		if problem != nil {
			problem.Name = HighAvailability
			return *problem
		}
		if common < steps.ProtocolWithGap {
			return fail(HighAvailability,
				"upgrade the agents of both seeds (chart livecpm-agent), or migrate classically",
				"the agents of both seeds speak version %d of the protocol, and etcds with one member move from "+
					"version %d on", common, steps.ProtocolWithGap)
		}
	}
	return pass(HighAvailability, "each etcd has one member. Expect one gap of %s in the last step (%s), as the "+
		"annotation %s permits", steps.ExpectedGap, steps.Last().Condition, steps.AnnotationWithGap)
}

func checkNotHibernated(f Facts) Finding {
	const remedy = "wake the shoot up and wait until that is done, or migrate classically"
	switch enabled := v1beta1helper.HibernationIsEnabled(f.Shoot); {
	case enabled && !f.Shoot.Status.IsHibernated:
		return fail(NotHibernated, remedy, "the shoot is on its way into hibernation")
	case enabled:
		return fail(NotHibernated, remedy, "the shoot is hibernated")
	case f.Shoot.Status.IsHibernated:
		return fail(NotHibernated, remedy, "the shoot is waking up from hibernation")
	}
	return pass(NotHibernated, "the shoot is awake")
}

func checkLastOperation(f Facts) Finding {
	operation := f.Shoot.Status.LastOperation
	switch {
	case operation == nil:
		return fail(LastOperation, "wait until the shoot is created", "the shoot has no last operation")
	case operation.Type == gardencorev1beta1.LastOperationTypeLiveMigrate:
		// The migration's own. What went before was checked before it began.
		return pass(LastOperation, "%s is %s", operation.Type, operation.State)
	case operation.Type == gardencorev1beta1.LastOperationTypeMigrate ||
		operation.Type == gardencorev1beta1.LastOperationTypeDelete:
		return fail(LastOperation, "let it complete", "%s is %s", operation.Type, operation.State)
	case operation.State != gardencorev1beta1.LastOperationStateSucceeded:
		return fail(LastOperation, "get the shoot reconciled first: fix what its last errors name, or wait",
			"%s is %s", operation.Type, operation.State)
	}
	return pass(LastOperation, "%s is %s", operation.Type, operation.State)
}

// checkCredentialsRotation asks for stable phases: between them the control plane holds credentials that only a full
// run of the gardenlet completes, and during a migration there is none. A requested rotation would begin with the first
// run after.
func checkCredentialsRotation(f Facts) Finding {
	var (
		credentials = f.Shoot.Status.Credentials
		stable      = []gardencorev1beta1.CredentialsRotationPhase{"", gardencorev1beta1.RotationPrepared,
			gardencorev1beta1.RotationCompleted}
		running []string
	)
	for _, rotation := range []struct {
		what  string
		phase gardencorev1beta1.CredentialsRotationPhase
	}{
		{"certificate authorities", v1beta1helper.GetShootCARotationPhase(credentials)},
		{"service account key", v1beta1helper.GetShootServiceAccountKeyRotationPhase(credentials)},
		{"etcd encryption key", v1beta1helper.GetShootETCDEncryptionKeyRotationPhase(credentials)},
	} {
		if !slices.Contains(stable, rotation.phase) {
			running = append(running, fmt.Sprintf("%s: %s", rotation.what, rotation.phase))
		}
	}
	if v1beta1helper.GetShootETCDEncryptionKeyRotationPhase(credentials) == gardencorev1beta1.RotationPrepared &&
		//nolint:staticcheck // Deprecated, but in use as long as there are rotations in two operations.
		v1beta1helper.ShouldETCDEncryptionKeyRotationBeAutoCompleteAfterPrepared(credentials) {
		running = append(running, "etcd encryption key: Prepared, and completed by the next reconciliation")
	}
	// Those without phases are done in one reconciliation.
	if v1beta1helper.IsShootSSHKeypairRotationInitiationTimeAfterLastCompletionTime(credentials) {
		running = append(running, "SSH key pair: initiated")
	}
	if v1beta1helper.IsShootObservabilityRotationInitiationTimeAfterLastCompletionTime(credentials) {
		running = append(running, "observability credentials: initiated")
	}
	if operation := f.Shoot.Annotations[v1beta1constants.GardenerOperation]; strings.Contains(operation, "rotate-") {
		running = append(running,
			fmt.Sprintf("requested by the annotation %s=%s", v1beta1constants.GardenerOperation, operation))
	}
	if len(running) > 0 {
		return fail(CredentialsRotation, "wait until the rotation is Prepared or Completed",
			"a rotation is running (%s)", strings.Join(running, ", "))
	}
	return pass(CredentialsRotation, "no rotation is running")
}

func checkBastions(f Facts) Finding {
	switch {
	case f.BastionsError != nil:
		return unknown(Bastions, remedyRead, "the Bastions in namespace %s could not be read: %v", f.Shoot.Namespace,
			f.BastionsError)
	case len(f.Bastions) > 0:
		return fail(Bastions, "delete them, or wait until they have expired and are gone",
			"the shoot has Bastions (%s)", strings.Join(f.Bastions, ", "))
	}
	return pass(Bastions, "the shoot has no Bastion")
}

func checkNotASeed(f Facts) Finding {
	switch {
	case f.ManagedSeedsError != nil:
		return unknown(NotASeed, remedyRead, "the ManagedSeeds could not be read: %v", f.ManagedSeedsError)
	case len(f.ManagedSeeds) > 0:
		return fail(NotASeed, remedySeed, missingForSeed, "ManagedSeed "+strings.Join(f.ManagedSeeds, ", "))
	case len(f.HostedSeeds) > 0:
		return fail(NotASeed, remedySeed, missingForSeed, "Seed "+strings.Join(f.HostedSeeds, ", ")+
			" has the identity of its cluster")
	}
	return pass(NotASeed, "the shoot is no seed")
}

// HostedSeeds returns the names of the Seeds that run in the shoot, in their order: a gardenlet in a shoot takes over
// the identity of that cluster, whether a ManagedSeed has brought it there or somebody else.
func HostedSeeds(shoot *gardencorev1beta1.Shoot, seeds []gardencorev1beta1.Seed) []string {
	identity := ptr.Deref(shoot.Status.ClusterIdentity, "")
	if identity == "" {
		return nil
	}
	var names []string
	for i := range seeds {
		if ptr.Deref(seeds[i].Status.ClusterIdentity, "") == identity {
			names = append(names, seeds[i].Name)
		}
	}
	return names
}

func checkProviderType(f Facts) Finding {
	source, destination := f.Source.Seed.Spec.Provider.Type, f.Destination.Seed.Spec.Provider.Type
	if source != destination {
		return fail(ProviderType, "choose a destination of the same provider type, or migrate classically",
			"seed %s is of type %s, seed %s of type %s", f.Source.Name, source, f.Destination.Name, destination)
	}
	return pass(ProviderType, "both seeds are of type %s", source)
}

func checkGardenletVersion(f Facts) Finding {
	var versions [2]string
	for i, view := range []SeedView{f.Source, f.Destination} {
		if gardener := view.Seed.Status.Gardener; gardener != nil {
			versions[i] = gardener.Version
		}
		if versions[i] == "" {
			return unknown(steps.GardenletVersion, "check that the gardenlet of the seed runs",
				"the gardenlet of seed %s has not reported its version", view.Name)
		}
	}
	differ := skew(f, versions)
	if differ == "" {
		return pass(steps.GardenletVersion, "both gardenlets are %s", versions[0])
	}
	all := slices.Clone(versions[:])
	if f.Version != "" {
		all = append(all, f.Version)
	}
	if err := steps.CheckConfirmed(f.Shoot, all); err != nil {
		return fail(steps.GardenletVersion, skewRemedy(f, all), "%s; %s", differ, err)
	}
	finding := pass(steps.GardenletVersion, "%s: an operator has confirmed the versions", differ)
	finding.Status, finding.Remedy = Warn, "complete the rollout soon"
	return finding
}

// skew tells which versions of the gardenlets, and of the agent beside one of them, differ; empty if none do.
func skew(f Facts, versions [2]string) string {
	if versions[0] != versions[1] {
		return fmt.Sprintf("the gardenlet of seed %s is %s, that of seed %s is %s", f.Source.Name, versions[0],
			f.Destination.Name, versions[1])
	}
	if f.Version != "" && f.Version != versions[0] {
		return fmt.Sprintf("the agent of seed %s is built with Gardener %s, both gardenlets are %s", f.OwnSeed,
			f.Version, versions[0])
	}
	return ""
}

// skewRemedy says what to do about versions that differ, and names the way on beyond the point of no return only where
// it is open.
func skewRemedy(f Facts, versions []string) string {
	const remedy = "bring gardenlets and agents to the same version"
	if !steps.PastReturn(f.Shoot) || steps.SamePatchLine(versions) != nil {
		return remedy
	}
	return fmt.Sprintf("%s, or confirm the versions: kubectl livecpm confirm-versions %s -n %s --versions %s", remedy,
		f.Shoot.Name, f.Shoot.Namespace, strings.Join(slices.Compact(slices.Sorted(slices.Values(versions))), ","))
}

// checkSourceSeedHealth asks less than the check of the destination: what is wrong with the source may be why the shoot
// leaves it, but its gardenlet must take part.
func checkSourceSeedHealth(f Facts) Finding {
	const remedy = "check that the gardenlet of the seed runs"
	ready := v1beta1helper.GetCondition(f.Source.Seed.Status.Conditions, gardencorev1beta1.GardenletReady)
	switch {
	case ready == nil:
		return unknown(steps.SourceSeedHealth, remedy, "seed %s has no condition %s", f.Source.Name,
			gardencorev1beta1.GardenletReady)
	case ready.Status != gardencorev1beta1.ConditionTrue:
		return fail(steps.SourceSeedHealth, remedy, "seed %s: condition %s is %s: %s", f.Source.Name, ready.Type,
			ready.Status, ready.Message)
	}
	return pass(steps.SourceSeedHealth, "the gardenlet of seed %s is ready", f.Source.Name)
}

func checkDestinationSeedHealth(f Facts) Finding {
	if f.Destination.Seed.DeletionTimestamp != nil {
		return fail(steps.DestinationSeedHealth, "choose another destination", "seed %s is being deleted",
			f.Destination.Name)
	}
	// Upstream's check before a classic migration: observed generation and required conditions.
	if err := health.CheckSeedForMigration(f.Destination.Seed, f.Destination.Seed.Status.Gardener); err != nil {
		return fail(steps.DestinationSeedHealth, "get the seed healthy first", "seed %s: %v", f.Destination.Name, err)
	}
	return pass(steps.DestinationSeedHealth, "seed %s is healthy", f.Destination.Name)
}

func checkBackup(f Facts) Finding {
	for _, view := range []SeedView{f.Source, f.Destination} {
		if view.Seed.Spec.Backup == nil {
			return fail(Backup, "configure spec.backup of the seed", "seed %s has no backup", view.Name)
		}
		const remedy = "get the backup bucket of the seed ready"
		ready := v1beta1helper.GetCondition(view.Seed.Status.Conditions, gardencorev1beta1.SeedBackupBucketsReady)
		switch {
		case ready == nil:
			// It is absent until the bucket has been checked for the first time.
			return unknown(Backup, remedy, "seed %s has no condition %s", view.Name,
				gardencorev1beta1.SeedBackupBucketsReady)
		case ready.Status == gardencorev1beta1.ConditionFalse:
			return fail(Backup, remedy, "seed %s: %s", view.Name, ready.Message)
		case ready.Status == gardencorev1beta1.ConditionUnknown:
			return unknown(Backup, remedy, "seed %s: condition %s is %s: %s", view.Name, ready.Type, ready.Status,
				ready.Message)
		}
	}
	return pass(Backup, "both seeds have a backup")
}

func checkExposure(f Facts) Finding {
	for _, view := range []SeedView{f.Source, f.Destination} {
		if ingress := view.Seed.Spec.Ingress; ingress == nil || ingress.Domain == "" {
			return fail(Exposure, "configure spec.ingress.domain of the seed", "seed %s has no ingress domain",
				view.Name)
		}
	}
	if f.Source.Seed.Spec.Ingress.Domain == f.Destination.Seed.Spec.Ingress.Domain {
		return fail(Exposure, "give each seed its own ingress domain", "both seeds have the ingress domain %s",
			f.Source.Seed.Spec.Ingress.Domain)
	}
	return pass(Exposure, "%s and %s", f.Source.Seed.Spec.Ingress.Domain, f.Destination.Seed.Spec.Ingress.Domain)
}

// checkEtcdMemberNames asks for the gate, and in the source for what it brings: an Etcd that is older than the gate is
// only updated when the gardenlet reconciles the shoot with it, and the members of the destination run the newer etcd.
func checkEtcdMemberNames(f Facts) Finding {
	const remedyReconcile = "let the gardenlet reconcile the shoot with the gate on, which updates etcd"
	if config := f.Gardenlet.ETCDConfig; config == nil || !config.FeatureGates[gateUpgradeEtcdVersion] {
		return fail(EtcdMemberNames,
			fmt.Sprintf("set etcdConfig.featureGates.%s=true in the gardenlet's configuration and let the gardenlet "+
				"reconcile the shoot", gateUpgradeEtcdVersion),
			"the gate %s is off in seed %s, so the names of etcd members would collide", gateUpgradeEtcdVersion,
			f.OwnSeed)
	}
	for _, etcd := range f.Etcds {
		for _, member := range etcd.Members {
			if member.Version == "" || f.ownRole() != steps.Source {
				// A member that does not answer holds the migration anyway.
				continue
			}
			version, err := semver.NewVersion(member.Version)
			if err != nil {
				return unknown(EtcdMemberNames, "check what the member runs; the check runs again by itself",
					"the version %q of member %s of %s cannot be parsed: %v", member.Version, member.Name, etcd.Name,
					err)
			}
			if version.LessThan(upgradedEtcd) {
				return fail(EtcdMemberNames, remedyReconcile,
					"the gate %s is on in seed %s, but member %s of %s still runs etcd %s, and those of the "+
						"destination will run %s or newer", gateUpgradeEtcdVersion, f.OwnSeed, member.Name, etcd.Name,
					member.Version, upgradedEtcd)
			}
		}
	}
	return pass(EtcdMemberNames, "the gate %s is on in seed %s", gateUpgradeEtcdVersion, f.OwnSeed)
}

// checkRegionDistance judges as gardener-apiserver does when the migration is triggered. Of its code only the search
// for the ConfigMaps is exported.
func checkRegionDistance(f Facts) Finding {
	from, to := f.Source.Seed.Spec.Provider.Region, f.Destination.Seed.Spec.Provider.Region

	if sameRegion(f) {
		return pass(RegionDistance, "both seeds are in region %s", from)
	}
	if allowsDistance(f.Shoot) {
		return pass(RegionDistance, "distant regions are allowed (%s to %s)", from, to)
	}
	if f.RegionError != nil {
		return unknown(RegionDistance, remedyRead, "the region ConfigMaps could not be read: %v", f.RegionError)
	}
	if len(f.RegionConfigMaps) == 0 {
		return tooFar("there is no region ConfigMap for cloud profile %q", cloudProfileName(f.Shoot))
	}

	configMap := f.RegionConfigMaps[0]
	threshold := defaultDistanceThreshold
	if value, ok := configMap.Annotations[v1beta1constants.AnnotationMigrationInterRegionDistanceThreshold]; ok {
		parsed, err := strconv.Atoi(value)
		if err != nil || parsed < 0 {
			return unknown(RegionDistance, "fix the annotation", "the annotation %s of ConfigMap %s is %q",
				v1beta1constants.AnnotationMigrationInterRegionDistanceThreshold, configMap.Name, value)
		}
		threshold = parsed
	}
	if _, ok := configMap.Data[from]; !ok {
		return tooFar("region %s is not in ConfigMap %s", from, configMap.Name)
	}
	distance, ok, err := configuredDistance(f)
	if err != nil {
		return unknown(RegionDistance, "fix the ConfigMap",
			"the distances from region %s in ConfigMap %s cannot be parsed: %v", from, configMap.Name, err)
	}
	if !ok {
		return tooFar("the distance from region %s to region %s is not in ConfigMap %s", from, to, configMap.Name)
	}
	if distance > threshold {
		return tooFar("the distance from region %s to region %s is %d, the threshold is %d", from, to, distance,
			threshold)
	}
	return pass(RegionDistance, "the distance from region %s to region %s is %d of at most %d", from, to, distance,
		threshold)
}

// tooFar returns that the regions of the seeds are too far apart, or not known to be near.
func tooFar(format string, args ...any) Finding {
	finding := fail(RegionDistance, fmt.Sprintf("choose a nearer destination, complete the region ConfigMap, or "+
		"accept the distance with the annotation %s=true", v1beta1constants.AnnotationMigrationAllowDistantRegions),
		format, args...)
	finding.TooFar = true
	return finding
}

// configuredDistance returns the distance between the regions of the seeds by the region ConfigMap, and whether it
// names one.
func configuredDistance(f Facts) (int, bool, error) {
	if len(f.RegionConfigMaps) == 0 {
		return 0, false, nil
	}
	distances := map[string]int{}
	data := f.RegionConfigMaps[0].Data[f.Source.Seed.Spec.Provider.Region]
	if err := yaml.Unmarshal([]byte(data), &distances); err != nil {
		return 0, false, err
	}
	distance, ok := distances[f.Destination.Seed.Spec.Provider.Region]
	return distance, ok, nil
}

// allowsDistance reports whether the owner of the shoot accepts distant regions.
func allowsDistance(shoot *gardencorev1beta1.Shoot) bool {
	allowed, err := strconv.ParseBool(shoot.Annotations[v1beta1constants.AnnotationMigrationAllowDistantRegions])
	return err == nil && allowed
}

func sameRegion(f Facts) bool {
	return f.Source.Seed != nil && f.Destination.Seed != nil &&
		f.Source.Seed.Spec.Provider.Region == f.Destination.Seed.Spec.Provider.Region
}

func cloudProfileName(shoot *gardencorev1beta1.Shoot) string {
	if shoot.Spec.CloudProfile != nil {
		return shoot.Spec.CloudProfile.Name
	}
	//nolint:staticcheck // Deprecated, but older shoots have nothing else.
	return ptr.Deref(shoot.Spec.CloudProfileName, "")
}
