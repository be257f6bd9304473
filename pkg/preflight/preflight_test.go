// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	seedmanagementv1alpha1 "github.com/gardener/gardener/pkg/apis/seedmanagement/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/seedlook"
)

// now is the time of the look.
var now = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)

// fit returns a world in which every check passes.
func fit() preflight.Facts {
	return preflight.Facts{
		Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Name: "live", Namespace: "garden-demo",
				Annotations: map[string]string{"migration.gardener.cloud/live-migrate": "true"},
			},
			Spec: gardencorev1beta1.ShootSpec{
				CloudProfile: &gardencorev1beta1.CloudProfileReference{Name: "local"},
				ControlPlane: &gardencorev1beta1.ControlPlane{HighAvailability: &gardencorev1beta1.HighAvailability{
					FailureTolerance: gardencorev1beta1.FailureTolerance{
						Type: gardencorev1beta1.FailureToleranceTypeNode,
					},
				}},
				Provider: gardencorev1beta1.Provider{Type: "local"},
				SeedName: new("seed-b"),
			},
			Status: gardencorev1beta1.ShootStatus{
				SeedName: new("seed-a"),
				LastOperation: &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile,
					State: gardencorev1beta1.LastOperationStateSucceeded},
			},
		},
		Source:           preflight.SeedView{Name: "seed-a", Seed: seed("seed-a", "region-a")},
		Destination:      preflight.SeedView{Name: "seed-b", Seed: seed("seed-b", "region-b")},
		RegionConfigMaps: []*corev1.ConfigMap{regions()},
		OwnSeed:          "seed-a",
		Gardenlet: &gardenletconfigv1alpha1.GardenletConfiguration{
			ETCDConfig: &gardenletconfigv1alpha1.ETCDConfig{FeatureGates: map[string]bool{"UpgradeEtcdVersion": true}},
		},
		Version:     "v1.150.0",
		Protocols:   steps.Protocols{Oldest: 2, Newest: 3},
		RolloutRead: true,
		Rollout:     preflight.RolloutView{Name: "garden/gardenlet", Version: "v1.150.0"},
		EtcdsRead:   true,
		Etcds:       []preflight.EtcdView{etcd("etcd-main"), etcd("etcd-events")},
		Now:         now,
	}
}

func etcd(name string) preflight.EtcdView { return etcdWith(name, "seed-a") }

// etcdWith is an etcd whose members' names have the prefix, which may be empty.
func etcdWith(name, prefix string) preflight.EtcdView {
	view := preflight.EtcdView{Name: name, MemberNamePrefix: prefix, Quota: 8 << 30,
		DefragmentationSchedule: "30 22 * * *"}
	if prefix != "" {
		prefix += "-"
	}
	for _, ordinal := range []string{"0", "1", "2"} {
		view.Members = append(view.Members, preflight.EtcdMemberView{Name: prefix + name + "-" + ordinal,
			Version: "3.5.27", DBSize: 2 << 30, DBSizeInUse: 1 << 30})
	}
	return view
}

func seed(name, region string) *gardencorev1beta1.Seed {
	seed := &gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1,
			Annotations: map[string]string{steps.SeedAnnotationProtocols: "2-3"}},
		Spec: gardencorev1beta1.SeedSpec{
			Provider: gardencorev1beta1.SeedProvider{Type: "local", Region: region},
			Backup:   &gardencorev1beta1.Backup{Provider: "local"},
			DNS: gardencorev1beta1.SeedDNS{
				Internal: &gardencorev1beta1.SeedDNSProviderConfig{Domain: "internal.example.com"},
			},
			Ingress: &gardencorev1beta1.Ingress{Domain: "ingress." + name + ".example.com"},
		},
		Status: gardencorev1beta1.SeedStatus{
			ObservedGeneration: 1,
			Gardener:           &gardencorev1beta1.Gardener{Version: "v1.150.0"},
			Conditions: []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.GardenletReady, Status: gardencorev1beta1.ConditionTrue},
				{Type: gardencorev1beta1.SeedSystemComponentsHealthy, Status: gardencorev1beta1.ConditionTrue},
				{Type: gardencorev1beta1.SeedBackupBucketsReady, Status: gardencorev1beta1.ConditionTrue},
			},
		},
	}
	seedlook.InOrder(seed, now)
	return seed
}

// provider is where a seed keeps the records of a domain.
func provider(domain, kind, zone string) gardencorev1beta1.SeedDNSProviderConfig {
	out := gardencorev1beta1.SeedDNSProviderConfig{Domain: domain, Type: kind}
	if zone != "" {
		out.Zone = &zone
	}
	return out
}

// own gives the shoot a domain of its own, and each seed a default domain.
func own(w *preflight.Facts, domain string, source, destination gardencorev1beta1.SeedDNSProviderConfig) {
	w.Shoot.Spec.DNS = &gardencorev1beta1.DNS{Domain: &domain}
	w.Source.Seed.Spec.DNS.Defaults = []gardencorev1beta1.SeedDNSProviderConfig{source}
	w.Destination.Seed.Spec.DNS.Defaults = []gardencorev1beta1.SeedDNSProviderConfig{destination}
	look(w)
}

// look lets the agents of both seeds look at what is there now.
func look(w *preflight.Facts) {
	seedlook.InOrder(w.Source.Seed, w.Now)
	seedlook.InOrder(w.Destination.Seed, w.Now)
	if w.Shoot.Spec.DNS == nil {
		return
	}
	seedlook.Installed(w.Destination.Seed, "DNSRecord/aws-route53")
	told(w, func(access *seedfacts.DNSAccess) {
		domain := seedfacts.Domain{Domain: *w.Shoot.Spec.DNS.Domain, Use: seedfacts.UseShoot, Provider: "aws-route53",
			NameServers: []string{seedlook.NameServer}}
		domain.LookedAt = metav1.NewTime(w.Now)
		access.Domains = append(access.Domains, domain)
	})
}

// told changes what the destination's agent has told of DNS.
func told(w *preflight.Facts, change func(*seedfacts.DNSAccess)) {
	GinkgoHelper()
	var access seedfacts.DNSAccess
	Expect(seedfacts.Of(w.Destination.Seed, seedfacts.AnnotationDNSAccess, &access)).To(Succeed())
	change(&access)
	seedlook.Say(w.Destination.Seed, seedfacts.AnnotationDNSAccess, access)
}

// triedAt lets the destination's agent have tried its cluster DNS at that time.
func triedAt(w *preflight.Facts, when time.Time) {
	seedlook.Say(w.Destination.Seed, seedfacts.AnnotationClusterDNS,
		seedfacts.ClusterDNS{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(when)}})
}

// ignores lets the agent of the seed have found kube-dns.
func ignores(seed *gardencorev1beta1.Seed) {
	seedlook.Say(seed, seedfacts.AnnotationClusterDNS, seedfacts.ClusterDNS{
		Looked: seedfacts.Looked{LookedAt: metav1.NewTime(now)}, Problem: "it does not know canary"})
}

// backedUp lets the agent of the seed have found that many etcds whose backups arrive, and that many whose do not.
func backedUp(seed *gardencorev1beta1.Seed, written, failing int) {
	fact := seedfacts.Backups{Looked: seedfacts.Looked{LookedAt: metav1.NewTime(now)}, Written: written,
		Failing: failing}
	if failing > 0 {
		fact.Problem = "access denied"
	}
	seedlook.Say(seed, seedfacts.AnnotationBackups, fact)
}

// broken lets the installation for the extension in the seed not be in order.
func broken(seed *gardencorev1beta1.Seed, id string) {
	GinkgoHelper()
	var extensions seedfacts.Extensions
	Expect(seedfacts.Of(seed, seedfacts.AnnotationExtensions, &extensions)).To(Succeed())
	extensions.NotReady = map[string]string{id: "ControllerInstallation cert-x: Healthy is False, Pods"}
	seedlook.Say(seed, seedfacts.AnnotationExtensions, extensions)
}

// extended gives the shoot an extension.
func extended(w *preflight.Facts) {
	w.ExtensionsRead, w.Extensions = true, []string{"shoot-cert"}
	for _, seed := range []*gardencorev1beta1.Seed{w.Source.Seed, w.Destination.Seed} {
		metav1.SetMetaDataAnnotation(&seed.ObjectMeta, seedfacts.AnnotationAccessControl, "acl")
	}
}

func nothing(*preflight.Facts) {}

// at lets it be another time.
func at(w *preflight.Facts, now time.Time) {
	w.Now = now
	look(w)
}

func regions() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "regions", Namespace: "garden",
			Labels:      map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
			Annotations: map[string]string{"scheduling.gardener.cloud/cloudprofiles": "other, local"},
		},
		Data: map[string]string{"region-a": "region-b: 180\nregion-c: 181\n"},
	}
}

func find(findings []preflight.Finding, name preflight.Name) preflight.Finding {
	GinkgoHelper()
	for _, finding := range findings {
		if finding.Name == name {
			return finding
		}
	}
	Fail("no finding " + string(name))
	return preflight.Finding{}
}

var _ = Describe("Evaluate", func() {
	It("should pass in a fit world, each check once", func() {
		findings := preflight.Evaluate(fit())
		Expect(preflight.Obstacles(findings)).To(BeEmpty())
		Expect(preflight.Sentences(findings)).To(BeEmpty())

		names := map[preflight.Name]int{}
		for _, finding := range findings {
			names[finding.Name]++
			Expect(finding.Evidence).NotTo(BeEmpty())
			Expect(finding.Remedy).To(BeEmpty())
		}
		Expect(names).To(HaveLen(36))
		Expect(names).To(HaveEach(1))
	})

	DescribeTable("the members' health when those of the destination have joined",
		func(status preflight.Status, evidence string, change func(*preflight.Facts)) {
			world := fit()
			change(&world)
			finding := find(preflight.EvaluateStep(world, steps.Table()[2]), steps.EtcdHealth)
			Expect(finding.Status).To(Equal(status))
			Expect(finding.Evidence).To(ContainSubstring(evidence))
		},
		Entry("one of the source down beside two of the destination", preflight.Pass,
			"but for one of the source that nothing depends on: etcd-main: member seed-a-etcd-main-0: down",
			func(w *preflight.Facts) { joined(w, 2); fell(w, 0) }),
		Entry("one of the source down beside one of the destination", preflight.Fail,
			"etcd-main: member seed-a-etcd-main-0: down", func(w *preflight.Facts) { joined(w, 1); fell(w, 0) }),
		Entry("two of the source down beside two of the destination", preflight.Fail,
			"etcd-main: member seed-a-etcd-main-0: down; etcd-main: member seed-a-etcd-main-1: down",
			func(w *preflight.Facts) { joined(w, 2); fell(w, 0, 1) }),
		Entry("one of the destination down", preflight.Fail,
			"etcd-main: member seed-b-etcd-main-0: down", func(w *preflight.Facts) { joined(w, 2); fell(w, 3) }),
		Entry("one of the source that joins again", preflight.Fail,
			"etcd-main: member seed-a-etcd-main-0: down", func(w *preflight.Facts) {
				joined(w, 2)
				fell(w, 0)
				w.Etcds[0].Members[0].Learner = true
			}),
	)

	DescribeTable("one thing amiss",
		func(name preflight.Name, status preflight.Status, evidence string, change func(*preflight.Facts)) {
			world := fit()
			change(&world)
			findings := preflight.Evaluate(world)

			finding := find(findings, name)
			Expect(finding.Status).To(Equal(status))
			Expect(finding.Evidence).To(ContainSubstring(evidence))
			if status == preflight.Pass {
				Expect(preflight.Obstacles(findings)).To(BeEmpty())
				return
			}
			Expect(finding.Remedy).NotTo(BeEmpty())
			Expect(preflight.Obstacles(findings)).To(HaveLen(1), "nothing else is to be blamed")
			Expect(preflight.Sentences(findings)).
				To(ConsistOf(And(HavePrefix(string(name)+" is "), ContainSubstring(finding.Remedy))))
		},

		Entry("no intent", preflight.Intent, preflight.Fail,
			`is ""`, func(w *preflight.Facts) { w.Shoot.Annotations = nil }),
		Entry("intent false", preflight.Intent, preflight.Fail,
			`is "false"`, func(w *preflight.Facts) {
				w.Shoot.Annotations["migration.gardener.cloud/live-migrate"] = "false"
			}),
		Entry("intent in another spelling", preflight.Intent, preflight.Pass, "from seed seed-a to seed seed-b",
			func(w *preflight.Facts) { w.Shoot.Annotations["migration.gardener.cloud/live-migrate"] = "1" }),
		Entry("equal seed names", preflight.Intent, preflight.Fail,
			`status.seedName is "seed-b"`, func(w *preflight.Facts) { w.Shoot.Status.SeedName = new("seed-b") }),
		Entry("no seed", preflight.Intent, preflight.Fail,
			`spec.seedName is ""`, func(w *preflight.Facts) { w.Shoot.Spec.SeedName = nil }),
		Entry("shoot in deletion", preflight.Intent, preflight.Fail,
			"being deleted", func(w *preflight.Facts) { w.Shoot.DeletionTimestamp = new(metav1.Now()) }),

		Entry("no control plane settings", preflight.HighAvailability, preflight.Fail,
			"not highly available", func(w *preflight.Facts) { w.Shoot.Spec.ControlPlane = nil }),
		Entry("no high availability", preflight.HighAvailability, preflight.Fail,
			"not highly available", func(w *preflight.Facts) { w.Shoot.Spec.ControlPlane.HighAvailability = nil }),
		Entry("one etcd member, and a gap is permitted", preflight.HighAvailability, preflight.Pass,
			"Expect one gap of 15 to 30 s in the last step (MigrationCompleted)", withGap),
		Entry("one etcd member, a gap is permitted, and an agent that cannot do it", preflight.HighAvailability,
			preflight.Fail, "speak version 2 of the protocol, and etcds with one member move from version 3 on",
			func(w *preflight.Facts) {
				withGap(w)
				w.Destination.Seed.Annotations[steps.SeedAnnotationProtocols] = "1-2"
			}),
		Entry("failure tolerance zone", preflight.HighAvailability, preflight.Pass, "zone", func(w *preflight.Facts) {
			tolerance := &w.Shoot.Spec.ControlPlane.HighAvailability.FailureTolerance
			tolerance.Type = gardencorev1beta1.FailureToleranceTypeZone
		}),

		Entry("workers whose nodes have no known range", preflight.Workers, preflight.Fail,
			"spec.networking.nodes", func(w *preflight.Facts) {
				w.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}}
			}),

		Entry("hibernated", preflight.NotHibernated, preflight.Fail,
			"is hibernated", func(w *preflight.Facts) { hibernate(w, true, true) }),
		Entry("going to hibernate", preflight.NotHibernated, preflight.Fail,
			"into hibernation", func(w *preflight.Facts) { hibernate(w, true, false) }),
		Entry("waking up", preflight.NotHibernated, preflight.Fail,
			"waking up", func(w *preflight.Facts) { hibernate(w, false, true) }),
		Entry("waking up without hibernation settings", preflight.NotHibernated, preflight.Fail,
			"waking up", func(w *preflight.Facts) { w.Shoot.Status.IsHibernated = true }),
		Entry("hibernation schedules only", preflight.NotHibernated, preflight.Pass,
			"awake", func(w *preflight.Facts) { hibernate(w, false, false) }),

		Entry("never created", preflight.LastOperation, preflight.Fail,
			"no last operation", func(w *preflight.Facts) { w.Shoot.Status.LastOperation = nil }),
		Entry("create succeeded", preflight.LastOperation, preflight.Pass,
			"Create", func(w *preflight.Facts) { operate(w, "Create", "Succeeded") }),
		Entry("restore succeeded", preflight.LastOperation, preflight.Pass,
			"Restore", func(w *preflight.Facts) { operate(w, "Restore", "Succeeded") }),
		Entry("create processing", preflight.LastOperation, preflight.Fail,
			"Create is Processing", func(w *preflight.Facts) { operate(w, "Create", "Processing") }),
		Entry("reconcile in error", preflight.LastOperation, preflight.Fail,
			"Reconcile is Error", func(w *preflight.Facts) { operate(w, "Reconcile", "Error") }),
		Entry("reconcile failed", preflight.LastOperation, preflight.Fail,
			"Reconcile is Failed", func(w *preflight.Facts) { operate(w, "Reconcile", "Failed") }),
		Entry("reconcile aborted", preflight.LastOperation, preflight.Fail,
			"Reconcile is Aborted", func(w *preflight.Facts) { operate(w, "Reconcile", "Aborted") }),
		Entry("classic migration", preflight.LastOperation, preflight.Fail,
			"Migrate is Succeeded", func(w *preflight.Facts) { operate(w, "Migrate", "Succeeded") }),
		Entry("deletion", preflight.LastOperation, preflight.Fail,
			"Delete is Processing", func(w *preflight.Facts) { operate(w, "Delete", "Processing") }),
		Entry("this migration", preflight.LastOperation, preflight.Pass,
			"LiveMigrate", func(w *preflight.Facts) { operate(w, "LiveMigrate", "Processing") }),

		Entry("CA rotation preparing", preflight.CredentialsRotation, preflight.Fail,
			"certificate authorities: Preparing", func(w *preflight.Facts) {
				rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{
					Phase: gardencorev1beta1.RotationPreparing,
				}
			}),
		Entry("CA rotation waiting for workers", preflight.CredentialsRotation, preflight.Fail,
			"WaitingForWorkersRollout", func(w *preflight.Facts) {
				rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{
					Phase: gardencorev1beta1.RotationWaitingForWorkersRollout,
				}
			}),
		Entry("service account key completing", preflight.CredentialsRotation, preflight.Fail,
			"service account key: Completing", func(w *preflight.Facts) {
				rotate(w).ServiceAccountKey = &gardencorev1beta1.ServiceAccountKeyRotation{
					Phase: gardencorev1beta1.RotationCompleting,
				}
			}),
		Entry("etcd encryption key preparing", preflight.CredentialsRotation, preflight.Fail,
			"etcd encryption key: Preparing", func(w *preflight.Facts) {
				rotate(w).ETCDEncryptionKey = &gardencorev1beta1.ETCDEncryptionKeyRotation{
					Phase: gardencorev1beta1.RotationPreparing,
				}
			}),
		Entry("stable phases", preflight.CredentialsRotation, preflight.Pass, "no rotation", func(w *preflight.Facts) {
			rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{Phase: gardencorev1beta1.RotationPrepared}
			rotate(w).ETCDEncryptionKey = &gardencorev1beta1.ETCDEncryptionKeyRotation{
				Phase: gardencorev1beta1.RotationCompleted,
			}
		}),

		Entry("provider types differ", preflight.ProviderType, preflight.Fail,
			"seed-b of type other", func(w *preflight.Facts) {
				w.Destination.Seed.Spec.Provider.Type = "other"
				seedlook.Installed(w.Destination.Seed, "ControlPlane/other")
			}),

		Entry("patch versions differ", steps.GardenletVersion, preflight.Fail,
			"seed-b is v1.150.1", func(w *preflight.Facts) { w.Destination.Seed.Status.Gardener.Version = "v1.150.1" }),
		Entry("version not reported", steps.GardenletVersion, preflight.Unknown,
			"seed seed-a has not reported", func(w *preflight.Facts) { w.Source.Seed.Status.Gardener.Version = "" }),

		Entry("destination not ready", steps.DestinationSeedHealth, preflight.Fail,
			"seed seed-b", func(w *preflight.Facts) {
				w.Destination.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionUnknown
			}),
		Entry("destination with sick components", steps.DestinationSeedHealth, preflight.Fail,
			"seed seed-b", func(w *preflight.Facts) {
				w.Destination.Seed.Status.Conditions[1].Status = gardencorev1beta1.ConditionFalse
			}),
		Entry("source with sick components, which is a reason to leave it", steps.SourceSeedHealth, preflight.Pass,
			"is ready", func(w *preflight.Facts) {
				w.Source.Seed.Status.Conditions[1].Status = gardencorev1beta1.ConditionFalse
			}),
		Entry("source without its gardenlet", steps.SourceSeedHealth, preflight.Fail,
			"seed seed-a: condition GardenletReady is Unknown", func(w *preflight.Facts) {
				w.Source.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionUnknown
			}),
		Entry("source never ready", steps.SourceSeedHealth, preflight.Unknown,
			"seed seed-a has no condition GardenletReady", func(w *preflight.Facts) {
				w.Source.Seed.Status.Conditions = w.Source.Seed.Status.Conditions[1:]
			}),
		Entry("destination behind its specification", steps.DestinationSeedHealth, preflight.Fail,
			"observed generation", func(w *preflight.Facts) { w.Destination.Seed.Generation = 2 }),
		Entry("destination in deletion", steps.DestinationSeedHealth, preflight.Fail,
			"being deleted", func(w *preflight.Facts) { w.Destination.Seed.DeletionTimestamp = new(metav1.Now()) }),
		Entry("source in deletion, which is a reason to leave it", steps.SourceSeedHealth, preflight.Pass,
			"is ready", func(w *preflight.Facts) { w.Source.Seed.DeletionTimestamp = new(metav1.Now()) }),

		Entry("too far", preflight.RegionDistance, preflight.Fail, "is 181, the threshold is 180",
			func(w *preflight.Facts) { w.Destination.Seed.Spec.Provider.Region = "region-c" }),
		Entry("too far but allowed", preflight.RegionDistance, preflight.Pass, "allowed", func(w *preflight.Facts) {
			w.Destination.Seed.Spec.Provider.Region = "region-c"
			w.Shoot.Annotations["migration.gardener.cloud/allow-distant-regions"] = "true"
		}),
		Entry("at the threshold", preflight.RegionDistance, preflight.Pass,
			"is 180 of at most 180", func(*preflight.Facts) {}),
		Entry("own threshold", preflight.RegionDistance, preflight.Fail,
			"is 180, the threshold is 100", func(w *preflight.Facts) {
				w.RegionConfigMaps[0].Annotations["migration.gardener.cloud/inter-region-distance-threshold"] = "100"
			}),
		Entry("broken threshold", preflight.RegionDistance, preflight.Unknown, `is "far"`, func(w *preflight.Facts) {
			w.RegionConfigMaps[0].Annotations["migration.gardener.cloud/inter-region-distance-threshold"] = "far"
		}),
		Entry("negative threshold", preflight.RegionDistance, preflight.Unknown, `is "-1"`, func(w *preflight.Facts) {
			w.RegionConfigMaps[0].Annotations["migration.gardener.cloud/inter-region-distance-threshold"] = "-1"
		}),
		Entry("no distances", preflight.RegionDistance, preflight.Fail,
			`no region ConfigMap for cloud profile "local"`, func(w *preflight.Facts) { w.RegionConfigMaps = nil }),
		Entry("source region not listed", preflight.RegionDistance, preflight.Fail,
			"region region-x is not in", func(w *preflight.Facts) { w.Source.Seed.Spec.Provider.Region = "region-x" }),
		Entry("destination region not listed", preflight.RegionDistance, preflight.Fail, "to region region-x is not in",
			func(w *preflight.Facts) { w.Destination.Seed.Spec.Provider.Region = "region-x" }),
		Entry("distances cannot be parsed", preflight.RegionDistance, preflight.Unknown,
			"cannot be parsed", func(w *preflight.Facts) { w.RegionConfigMaps[0].Data["region-a"] = "- x" }),
		Entry("distances cannot be read", preflight.RegionDistance, preflight.Unknown,
			"boom", func(w *preflight.Facts) { w.RegionConfigMaps, w.RegionError = nil, errors.New("boom") }),
		Entry("same region needs no distances", preflight.RegionDistance, preflight.Pass,
			"in region region-a", func(w *preflight.Facts) {
				w.Destination.Seed.Spec.Provider.Region = "region-a"
				w.RegionConfigMaps, w.RegionError = nil, errors.New("boom")
			}),

		Entry("no backup in the source", preflight.Backup, preflight.Fail,
			"seed seed-a has no backup", func(w *preflight.Facts) { w.Source.Seed.Spec.Backup = nil }),
		Entry("no backup in the destination", preflight.Backup, preflight.Fail,
			"seed seed-b has no backup", func(w *preflight.Facts) { w.Destination.Seed.Spec.Backup = nil }),
		Entry("a destination in which no backup arrives", preflight.BackupsArrive, preflight.Fail,
			"no etcd in seed seed-b has its backups written to the bucket: access denied", func(w *preflight.Facts) {
				backedUp(w.Destination.Seed, 0, 2)
			}),
		Entry("a destination in which one etcd of several is not backed up", preflight.BackupsArrive, preflight.Pass,
			"backups of 3 etcds arrive in the bucket of seed seed-b", func(w *preflight.Facts) {
				backedUp(w.Destination.Seed, 3, 1)
			}),
		Entry("a destination in which there is nothing to back up yet", preflight.BackupsArrive, preflight.Pass,
			"no etcd in seed seed-b has written to its bucket yet", func(w *preflight.Facts) {
				backedUp(w.Destination.Seed, 0, 0)
			}),
		Entry("a source in which no backup arrives", preflight.BackupsArrive, preflight.Pass,
			"backups of 1 etcd arrive", func(w *preflight.Facts) { backedUp(w.Source.Seed, 0, 2) }),
		Entry("a destination that says nothing of its backups", preflight.BackupsArrive, preflight.Unknown,
			"Seed seed-b has no annotation livecpm.gardener.cloud/backups", func(w *preflight.Facts) {
				delete(w.Destination.Seed.Annotations, seedfacts.AnnotationBackups)
			}),
		Entry("a look at the backups that is too old", preflight.BackupsArrive, preflight.Unknown,
			"whether backups arrive in the bucket of seed seed-b: its agent has last looked at",
			func(w *preflight.Facts) {
				seedlook.Say(w.Destination.Seed, seedfacts.AnnotationBackups, seedfacts.Backups{Written: 1,
					Looked: seedfacts.Looked{LookedAt: metav1.NewTime(now.Add(-31 * time.Minute))}})
			}),
		Entry("the extensions of the destination's provider", preflight.ExtensionsInstalled, preflight.Pass,
			"seed seed-b has BackupBucket/local, BackupEntry/local, ControlPlane/local", nothing),
		Entry("an extension that the destination does not have", preflight.ExtensionsInstalled, preflight.Fail,
			"seed seed-b is not ready for these extensions of the shoot: "+
				"Extension/shoot-cert (it has no ControllerInstallation for it)", func(w *preflight.Facts) {
				extended(w)
			}),
		Entry("an extension that it has, with another spelling", preflight.ExtensionsInstalled, preflight.Pass,
			"Extension/shoot-cert", func(w *preflight.Facts) {
				extended(w)
				seedlook.Installed(w.Destination.Seed, "Extension/Shoot-Cert")
			}),
		Entry("an extension that it is not ready for", preflight.ExtensionsInstalled, preflight.Fail,
			"Extension/shoot-cert (ControllerInstallation cert-x: Healthy is False, Pods)", func(w *preflight.Facts) {
				extended(w)
				broken(w.Destination.Seed, "Extension/Shoot-Cert")
			}),
		Entry("the same while the migration is only planned", preflight.ExtensionsInstalled, preflight.Fail,
			"Extension/shoot-cert (ControllerInstallation cert-x: Healthy is False, Pods)", func(w *preflight.Facts) {
				w.Planned = true
				extended(w)
				broken(w.Destination.Seed, "Extension/shoot-cert")
			}),
		Entry("an extension that is installed when the migration is requested", preflight.ExtensionsInstalled,
			preflight.Pass, "Extension/shoot-cert are installed when the migration is requested",
			func(w *preflight.Facts) {
				w.Planned = true
				extended(w)
			}),
		Entry("an extension of the source alone", preflight.ExtensionsInstalled, preflight.Fail,
			"Extension/shoot-cert", func(w *preflight.Facts) {
				extended(w)
				seedlook.Installed(w.Source.Seed, "Extension/shoot-cert")
			}),
		Entry("DNS records that the destination cannot make", preflight.ExtensionsInstalled, preflight.Fail,
			"DNSRecord/aws-route53 (it has no ControllerInstallation for it)", func(w *preflight.Facts) {
				told(w, func(access *seedfacts.DNSAccess) { access.Domains[0].Provider = "aws-route53" })
				w.Source.Seed.Spec.DNS.Internal.Type = "aws-route53"
				w.Destination.Seed.Spec.DNS.Internal.Type = "aws-route53"
			}),
		Entry("extensions of which the destination says nothing", preflight.ExtensionsInstalled, preflight.Unknown,
			"Seed seed-b has no annotation livecpm.gardener.cloud/extensions", func(w *preflight.Facts) {
				delete(w.Destination.Seed.Annotations, seedfacts.AnnotationExtensions)
			}),
		Entry("a look at the extensions that is too old", preflight.ExtensionsInstalled, preflight.Unknown,
			"which extensions seed seed-b has: its agent has last looked at", func(w *preflight.Facts) {
				seedlook.Say(w.Destination.Seed, seedfacts.AnnotationExtensions, seedfacts.Extensions{
					Looked: seedfacts.Looked{LookedAt: metav1.NewTime(now.Add(-31 * time.Minute))}})
			}),
		Entry("bucket not ready", preflight.Backup, preflight.Fail, "seed seed-b: no bucket", func(w *preflight.Facts) {
			w.Destination.Seed.Status.Conditions[2] = gardencorev1beta1.Condition{
				Type: gardencorev1beta1.SeedBackupBucketsReady, Status: gardencorev1beta1.ConditionFalse,
				Message: "no bucket",
			}
		}),

		Entry("bucket not looked at yet", preflight.Backup, preflight.Unknown,
			"seed seed-a has no condition BackupBucketsReady",
			func(w *preflight.Facts) { w.Source.Seed.Status.Conditions = w.Source.Seed.Status.Conditions[:2] }),
		Entry("nobody knows of the bucket", preflight.Backup, preflight.Unknown,
			"seed seed-a: condition BackupBucketsReady is Unknown: gone", func(w *preflight.Facts) {
				w.Source.Seed.Status.Conditions[2].Status = gardencorev1beta1.ConditionUnknown
				w.Source.Seed.Status.Conditions[2].Message = "gone"
			}),

		Entry("internal domains differ", preflight.InternalDomain, preflight.Fail, `seed seed-b is "other.example.com"`,
			func(w *preflight.Facts) {
				w.Destination.Seed.Spec.DNS.Internal.Domain = "other.example.com"
				look(w)
			}),
		Entry("internal domain kept by another type of provider", preflight.InternalDomain, preflight.Fail,
			"that of seed seed-b by google-clouddns (domain internal.example.com, the zone that it finds)",
			func(w *preflight.Facts) {
				w.Destination.Seed.Spec.DNS.Internal.Type = "google-clouddns"
				look(w)
			}),
		Entry("internal domain in another zone", preflight.InternalDomain, preflight.Fail, "zone Z2",
			func(w *preflight.Facts) {
				w.Source.Seed.Spec.DNS.Internal.Zone = new("Z1")
				w.Destination.Seed.Spec.DNS.Internal.Zone = new("Z2")
				look(w)
			}),
		Entry("a cluster DNS that nobody has tried", preflight.ClusterDNS, preflight.Unknown,
			"Seed seed-a has no annotation livecpm.gardener.cloud/cluster-dns", func(w *preflight.Facts) {
				delete(w.Source.Seed.Annotations, seedfacts.AnnotationClusterDNS)
			}),
		Entry("a cluster DNS of which nobody understands what was found", preflight.ClusterDNS, preflight.Unknown,
			"failed to parse annotation livecpm.gardener.cloud/cluster-dns of Seed seed-b", func(w *preflight.Facts) {
				w.Destination.Seed.Annotations[seedfacts.AnnotationClusterDNS] = "yes"
			}),
		Entry("a cluster DNS that was tried half an hour ago", preflight.ClusterDNS, preflight.Pass, "of both seeds",
			func(w *preflight.Facts) { triedAt(w, now.Add(-30*time.Minute)) }),
		Entry("a cluster DNS that was tried longer ago", preflight.ClusterDNS, preflight.Unknown,
			"its agent has last looked at 2026-03-04T04:35:59Z, and it is 2026-03-04T05:06:00Z",
			func(w *preflight.Facts) { triedAt(w, now.Add(-30*time.Minute-time.Second)) }),
		Entry("a cluster DNS that was tried in the future", preflight.ClusterDNS, preflight.Unknown,
			"its agent has last looked at 2026-03-04T05:11:01Z", func(w *preflight.Facts) {
				triedAt(w, now.Add(5*time.Minute+time.Second))
			}),
		Entry("a cluster DNS of the source that ignores EndpointSlices", preflight.ClusterDNS, preflight.Fail,
			"the cluster DNS of seed seed-a does not answer for EndpointSlices of others, as the etcd members need "+
				"it: it does not know canary", func(w *preflight.Facts) { ignores(w.Source.Seed) }),
		Entry("a cluster DNS of the destination that ignores EndpointSlices", preflight.ClusterDNS, preflight.Fail,
			"the cluster DNS of seed seed-b does not answer", func(w *preflight.Facts) { ignores(w.Destination.Seed) }),
		Entry("DNS providers of which the destination says nothing", preflight.DNSAccess, preflight.Unknown,
			"Seed seed-b has no annotation livecpm.gardener.cloud/dns-access", func(w *preflight.Facts) {
				delete(w.Destination.Seed.Annotations, seedfacts.AnnotationDNSAccess)
			}),
		Entry("DNS providers of which the source says nothing", preflight.DNSAccess, preflight.Pass,
			"seed seed-b is able to change records of internal.example.com", func(w *preflight.Facts) {
				delete(w.Source.Seed.Annotations, seedfacts.AnnotationDNSAccess)
			}),
		Entry("an internal domain that was changed after the look", preflight.DNSAccess, preflight.Unknown,
			"the agent of seed seed-b has not looked at the internal domain internal.example.com yet",
			func(w *preflight.Facts) {
				told(w, func(access *seedfacts.DNSAccess) { access.Domains[0].Zone = "Z1" })
			}),
		Entry("a look at the internal domain that is too old", preflight.DNSAccess, preflight.Unknown,
			"is able to change records of the internal domain internal.example.com: its agent has last looked",
			func(w *preflight.Facts) {
				told(w, func(access *seedfacts.DNSAccess) {
					access.Domains[0].LookedAt = metav1.NewTime(now.Add(-31 * time.Minute))
				})
			}),
		Entry("an internal domain without credentials", preflight.DNSAccess, preflight.Fail,
			"seed seed-b has no credentials for the internal domain internal.example.com: not found",
			func(w *preflight.Facts) {
				told(w, func(access *seedfacts.DNSAccess) { access.Domains[0].Missing = "not found" })
			}),
		Entry("a name server that does not answer in the destination", preflight.DNSAccess, preflight.Unknown,
			"records of the internal domain internal.example.com: failed to ask name server 10.0.0.53:53",
			func(w *preflight.Facts) {
				told(w, func(access *seedfacts.DNSAccess) {
					access.Domains[0].Unknown = []string{"failed to ask name server 10.0.0.53:53"}
				})
			}),
		Entry("an internal domain that somebody else manages", preflight.DNSAccess, preflight.Pass,
			"Gardener manages no DNS record of the shoot", func(w *preflight.Facts) {
				w.Source.Seed.Spec.DNS.Internal.Type = "unmanaged"
				w.Destination.Seed.Spec.DNS.Internal.Type = "unmanaged"
				told(w, func(access *seedfacts.DNSAccess) { access.Domains = nil })
			}),
		Entry("a default domain that nobody has looked at", preflight.DNSAccess, preflight.Unknown,
			"has not looked at the default domain shoots.example.com yet", func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("shoots.example.com", "aws-route53", ""),
					provider("shoots.example.com", "aws-route53", ""))
				told(w, func(access *seedfacts.DNSAccess) { access.Domains = access.Domains[:1] })
			}),
		Entry("a default domain that is only in a secret, which the agent sees", preflight.DNSAccess, preflight.Fail,
			"no credentials for the default domain old.example.com: not found", func(w *preflight.Facts) {
				w.Shoot.Spec.DNS = &gardencorev1beta1.DNS{Domain: new("live.demo.old.example.com")}
				told(w, func(access *seedfacts.DNSAccess) {
					domain := access.Domains[0]
					domain.Use, domain.Domain, domain.Missing = seedfacts.UseDefault, "old.example.com", "not found"
					access.Domains = append(access.Domains, domain)
				})
			}),
		Entry("a domain of the Shoot that nobody has looked at", preflight.DNSAccess, preflight.Unknown,
			"the agent of seed seed-b has not looked at the shoot's domain live.customer.example yet",
			func(w *preflight.Facts) {
				w.Shoot.Spec.DNS = &gardencorev1beta1.DNS{Domain: new("live.customer.example")}
			}),
		Entry("the same while the migration is only planned", preflight.DNSAccess, preflight.Pass,
			"; its agent looks at the shoot's domain live.customer.example when the migration is requested",
			func(w *preflight.Facts) {
				w.Shoot.Spec.DNS, w.Planned = &gardencorev1beta1.DNS{Domain: new("live.customer.example")}, true
			}),
		Entry("an internal domain that nobody has looked at while the migration is only planned", preflight.DNSAccess,
			preflight.Unknown, "has not looked at the internal domain", func(w *preflight.Facts) {
				w.Planned = true
				told(w, func(access *seedfacts.DNSAccess) { access.Domains = nil })
			}),
		Entry("a domain of the Shoot without credentials", preflight.DNSAccess, preflight.Fail,
			"no credentials for the shoot's domain live.customer.example: not found", func(w *preflight.Facts) {
				w.Shoot.Spec.DNS = &gardencorev1beta1.DNS{Domain: new("live.customer.example")}
				look(w)
				told(w, func(access *seedfacts.DNSAccess) { access.Domains[1].Missing = "not found" })
			}),
		Entry("a domain of the Shoot that somebody else manages", preflight.DNSAccess, preflight.Pass,
			"records of internal.example.com", func(w *preflight.Facts) {
				w.Shoot.Spec.DNS = &gardencorev1beta1.DNS{Domain: new("live.customer.example"),
					//nolint:staticcheck // Deprecated, and still where the provider is.
					Providers: []gardencorev1beta1.DNSProvider{{Type: new("unmanaged")}}}
			}),
		Entry("no domain of its own", preflight.DefaultDomain, preflight.Pass, "no domain of its own",
			func(w *preflight.Facts) { w.Shoot.Spec.DNS = nil }),
		Entry("domain of the Shoot's own provider", preflight.DefaultDomain, preflight.Pass,
			"live.customer.example is below no default domain of the seeds", func(w *preflight.Facts) {
				own(w, "live.customer.example", provider("shoots.example.com", "aws-route53", ""),
					provider("shoots.example.com", "azure-dns", ""))
			}),
		Entry("same default domain", preflight.DefaultDomain, preflight.Pass,
			"kept by aws-route53 (domain shoots.example.com, zone Z1) for both seeds", func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("shoots.example.com", "aws-route53", "Z1"),
					provider("shoots.example.com", "aws-route53", "Z1"))
			}),
		Entry("default domain of the source only", preflight.DefaultDomain, preflight.Fail,
			"is below a default domain of seed seed-a, and below none of seed seed-b", func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("shoots.example.com", "aws-route53", ""),
					provider("other.example.com", "aws-route53", ""))
			}),
		Entry("default domain of the destination only", preflight.DefaultDomain, preflight.Fail,
			"is below a default domain of seed seed-b, and below none of seed seed-a", func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("other.example.com", "aws-route53", ""),
					provider("shoots.example.com", "aws-route53", ""))
			}),
		Entry("default domain that begins elsewhere", preflight.DefaultDomain, preflight.Fail,
			"by aws-route53 (domain demo.shoots.example.com, the zone that it finds) for seed seed-b",
			func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("shoots.example.com", "aws-route53", ""),
					provider("demo.shoots.example.com", "aws-route53", ""))
			}),
		Entry("default domain of another provider", preflight.DefaultDomain, preflight.Fail,
			"by azure-dns (domain shoots.example.com, the zone that it finds) for seed seed-b",
			func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("shoots.example.com", "aws-route53", ""),
					provider("shoots.example.com", "azure-dns", ""))
			}),
		Entry("zone that only one seed names", preflight.DefaultDomain, preflight.Fail,
			"by aws-route53 (domain shoots.example.com, zone Z2) for seed seed-b", func(w *preflight.Facts) {
				own(w, "live.demo.shoots.example.com", provider("shoots.example.com", "aws-route53", ""),
					provider("shoots.example.com", "aws-route53", "Z2"))
			}),
		Entry("internal domain missing", preflight.InternalDomain, preflight.Fail,
			`seed seed-a is ""`, func(w *preflight.Facts) { w.Source.Seed.Spec.DNS.Internal = nil }),

		Entry("no ingress", preflight.Exposure, preflight.Fail,
			"seed seed-b has no ingress domain", func(w *preflight.Facts) { w.Destination.Seed.Spec.Ingress = nil }),
		Entry("same ingress domain", preflight.Exposure, preflight.Fail,
			"both seeds have", func(w *preflight.Facts) {
				w.Destination.Seed.Spec.Ingress.Domain = w.Source.Seed.Spec.Ingress.Domain
			}),

		Entry("CA rotation without rollout of workers", preflight.CredentialsRotation, preflight.Fail,
			"PreparingWithoutWorkersRollout", func(w *preflight.Facts) {
				rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{
					Phase: gardencorev1beta1.RotationPreparingWithoutWorkersRollout,
				}
			}),
		Entry("etcd encryption key that completes by itself", preflight.CredentialsRotation, preflight.Fail,
			"completed by the next reconciliation", func(w *preflight.Facts) {
				//nolint:staticcheck // Deprecated, but in use.
				rotate(w).ETCDEncryptionKey = &gardencorev1beta1.ETCDEncryptionKeyRotation{
					Phase: gardencorev1beta1.RotationPrepared, AutoCompleteAfterPrepared: new(true),
				}
			}),
		Entry("SSH key pair initiated", preflight.CredentialsRotation, preflight.Fail,
			"SSH key pair: initiated", func(w *preflight.Facts) {
				rotate(w).SSHKeypair = &gardencorev1beta1.ShootSSHKeypairRotation{LastInitiationTime: new(metav1.Now())}
			}),
		Entry("observability credentials initiated again", preflight.CredentialsRotation, preflight.Fail,
			"observability credentials: initiated", func(w *preflight.Facts) {
				rotate(w).Observability = &gardencorev1beta1.ObservabilityRotation{
					LastInitiationTime: new(metav1.NewTime(w.Now)),
					LastCompletionTime: new(metav1.NewTime(w.Now.Add(-time.Hour))),
				}
			}),
		Entry("observability credentials completed", preflight.CredentialsRotation, preflight.Pass,
			"no rotation", func(w *preflight.Facts) {
				rotate(w).Observability = &gardencorev1beta1.ObservabilityRotation{
					LastInitiationTime: new(metav1.NewTime(w.Now.Add(-time.Hour))),
					LastCompletionTime: new(metav1.NewTime(w.Now)),
				}
			}),
		Entry("rotation requested", preflight.CredentialsRotation, preflight.Fail,
			"gardener.cloud/operation=rotate-credentials-start", func(w *preflight.Facts) {
				w.Shoot.Annotations["gardener.cloud/operation"] = "rotate-credentials-start"
			}),
		Entry("something else requested", preflight.CredentialsRotation, preflight.Pass,
			"no rotation", func(w *preflight.Facts) { w.Shoot.Annotations["gardener.cloud/operation"] = "reconcile" }),

		Entry("bastions", preflight.Bastions, preflight.Fail,
			"(cli-1, cli-2)", func(w *preflight.Facts) { w.Bastions = []string{"cli-1", "cli-2"} }),
		Entry("bastions not readable", preflight.Bastions, preflight.Unknown,
			"in namespace garden-demo could not be read: boom", func(w *preflight.Facts) {
				w.BastionsError = errors.New("boom")
			}),
		Entry("a seed", preflight.NotASeed, preflight.Fail,
			"the shoot is a seed (ManagedSeed live): the agent and the gardenlet in it, and the control planes of its "+
				"own shoots, depend on the API server that would move",
			func(w *preflight.Facts) { w.ManagedSeeds = []string{"live"} }),
		Entry("a seed by its cluster's identity", preflight.NotASeed, preflight.Fail,
			"Seed mine, other has the identity of its cluster",
			func(w *preflight.Facts) { w.HostedSeeds = []string{"mine", "other"} }),
		Entry("ManagedSeeds not readable", preflight.NotASeed, preflight.Unknown,
			"boom", func(w *preflight.Facts) { w.ManagedSeedsError = errors.New("boom") }),

		Entry("rollout pending", preflight.GardenletRollout, preflight.Fail,
			"Deployment garden/gardenlet in seed seed-a: 1 of 2 replicas are updated", func(w *preflight.Facts) {
				w.Rollout.Pending = "1 of 2 replicas are updated"
			}),
		Entry("rollout not reported yet", preflight.GardenletRollout, preflight.Fail,
			"asks for v1.150.1, the gardenlet of seed seed-a has reported v1.150.0", func(w *preflight.Facts) {
				w.Rollout.Version = "v1.150.1"
			}),
		Entry("rollout not readable", preflight.GardenletRollout, preflight.Unknown,
			"could not be read: boom", func(w *preflight.Facts) { w.RolloutError = errors.New("boom") }),
		Entry("rollout of an image without a version", preflight.GardenletRollout, preflight.Pass,
			"is complete", func(w *preflight.Facts) { w.Rollout.Version = "" }),
		Entry("agent of another version", steps.GardenletVersion, preflight.Fail,
			"the agent of seed seed-a is built with Gardener v1.149.9", func(w *preflight.Facts) {
				w.Version = "v1.149.9"
			}),
		Entry("agent of another version, confirmed too early", steps.GardenletVersion, preflight.Fail,
			"before the point of no return", func(w *preflight.Facts) {
				w.Version = "v1.150.1"
				w.Shoot.Annotations[steps.AnnotationConfirmVersions] = "v1.150.0,v1.150.1"
			}),
		Entry("agent of no version", steps.GardenletVersion, preflight.Pass,
			"both gardenlets are v1.150.0", func(w *preflight.Facts) { w.Version = "" }),

		Entry("Etcd older than the gate", preflight.EtcdMemberPrefix, preflight.Pass,
			"begin with seed-b, those of etcd-events in the source have no prefix", func(w *preflight.Facts) {
				w.Etcds[1] = etcdWith("etcd-events", "")
			}),
		Entry("both Etcds older than the gate", preflight.EtcdMemberPrefix, preflight.Pass,
			"those of etcd-main and etcd-events in the source have no prefix", func(w *preflight.Facts) {
				w.Etcds = []preflight.EtcdView{etcdWith("etcd-main", ""), etcdWith("etcd-events", "")}
			}),
		Entry("Etcd with the prefix", preflight.EtcdMemberPrefix, preflight.Pass,
			"begin with seed-a", func(*preflight.Facts) {}),
		Entry("Etcd with the prefix of the destination", preflight.EtcdMemberPrefix, preflight.Fail,
			`the members of etcd-main have the prefix "seed-b": those of the destination would have the same names`,
			func(w *preflight.Facts) { w.Etcds[0] = etcdWith("etcd-main", "seed-b") }),
		Entry("Etcd with the prefix of a third seed", preflight.EtcdMemberPrefix, preflight.Fail,
			`the members of etcd-main have the prefix "seed-c", neither none nor "seed-a"`,
			func(w *preflight.Facts) { w.Etcds[0] = etcdWith("etcd-main", "seed-c") }),
		Entry("a member that is called as one of the destination", preflight.EtcdMemberPrefix, preflight.Fail,
			"etcd-events has a member seed-b-etcd-events-1 already", func(w *preflight.Facts) {
				w.Etcds[1].Members = append(w.Etcds[1].Members, preflight.EtcdMemberView{Name: "seed-b-etcd-events-1"})
			}),

		Entry("no member list", steps.EtcdQuorum, preflight.Fail,
			"etcd-main: there is no member list: timeout", func(w *preflight.Facts) {
				w.Etcds[0] = preflight.EtcdView{Name: "etcd-main", MemberNamePrefix: "seed-a",
					Error: errors.New("timeout")}
			}),
		Entry("two of three down", steps.EtcdQuorum, preflight.Fail,
			"etcd-main: 1 of 3 voters are healthy (member seed-a-etcd-main-0: down; member seed-a-etcd-main-1: down)",
			func(w *preflight.Facts) { fell(w, 0, 1) }),
		Entry("learners do not vote", steps.EtcdQuorum, preflight.Fail,
			"1 of 2 voters", func(w *preflight.Facts) { fell(w, 0); w.Etcds[0].Members[1].Learner = true }),
		Entry("etcds cannot be looked at", steps.EtcdQuorum, preflight.Unknown,
			"boom", func(w *preflight.Facts) { w.Etcds, w.EtcdsError = nil, errors.New("boom") }),

		Entry("one member down", steps.EtcdHealth, preflight.Fail,
			"etcd-main: member seed-a-etcd-main-0: down", func(w *preflight.Facts) { fell(w, 0) }),
		Entry("all up", steps.EtcdHealth, preflight.Pass, "all members are healthy", func(*preflight.Facts) {}),

		Entry("NOSPACE", steps.EtcdSpace, preflight.Fail,
			"NOSPACE of member seed-a-etcd-main-1 of etcd-main", func(w *preflight.Facts) { alarm(w, "NOSPACE") }),
		Entry("CORRUPT", steps.EtcdIntegrity, preflight.Fail,
			"CORRUPT of member seed-a-etcd-main-1 of etcd-main", func(w *preflight.Facts) { alarm(w, "CORRUPT") }),
		Entry("an alarm of a later etcd", steps.EtcdIntegrity, preflight.Fail,
			"HOT of member", func(w *preflight.Facts) { alarm(w, "HOT") }),

		Entry("a member defragments", steps.EtcdDefragmentation, preflight.Fail,
			"member seed-a-etcd-events-2 of etcd-events is being", func(w *preflight.Facts) {
				w.Etcds[1].Members[2].Defragmenting = true
			}),
		Entry("two minutes before the schedule", steps.EtcdDefragmentation, preflight.Pass,
			"about to be", func(w *preflight.Facts) { at(w, time.Date(2026, 3, 4, 22, 28, 0, 0, time.UTC)) }),
		Entry("less than two minutes before the schedule", steps.EtcdDefragmentation, preflight.Fail,
			"etcd-main is scheduled for 2026-03-04T22:30:00Z", func(w *preflight.Facts) {
				at(w, time.Date(2026, 3, 4, 22, 28, 1, 0, time.UTC))
			}),
		Entry("less than three minutes after the schedule", steps.EtcdDefragmentation, preflight.Fail,
			"scheduled for 2026-03-04T22:30:00Z", func(w *preflight.Facts) {
				at(w, time.Date(2026, 3, 4, 22, 32, 59, 0, time.UTC))
			}),
		Entry("three minutes after the schedule", steps.EtcdDefragmentation, preflight.Pass,
			"about to be", func(w *preflight.Facts) { at(w, time.Date(2026, 3, 4, 22, 33, 0, 0, time.UTC)) }),
		Entry("on schedule, in the sidecar's time zone", steps.EtcdDefragmentation, preflight.Fail,
			"scheduled for 2026-03-04T22:30:00Z", func(w *preflight.Facts) {
				at(w, time.Date(2026, 3, 5, 1, 30, 0, 0, time.FixedZone("east", 3*60*60)))
			}),
		Entry("no schedule", steps.EtcdDefragmentation, preflight.Pass, "about to be", func(w *preflight.Facts) {
			w.Etcds[0].DefragmentationSchedule, w.Etcds[1].DefragmentationSchedule = "", ""
		}),
		Entry("broken schedule", steps.EtcdDefragmentation, preflight.Unknown, `the schedule "at noon" of etcd-main`,
			func(w *preflight.Facts) { w.Etcds[0].DefragmentationSchedule = "at noon" }),

		Entry("just below the limit for data", steps.EtcdSize, preflight.Pass,
			"etcd-main: 79 % of the quota, etcd-events: 12 % of the quota", func(w *preflight.Facts) {
				fill(w, 80*(8<<30)/100-1, 0)
			}),
		Entry("at the limit for data", steps.EtcdSize, preflight.Fail,
			"member seed-a-etcd-main-2 of etcd-main has 6554Mi of data, 80 % of the quota of 8Gi",
			func(w *preflight.Facts) { fill(w, 80*(8<<30)/100+1<<20, 0) }),
		Entry("file just below its limit", steps.EtcdSize, preflight.Pass,
			"of the quota", func(w *preflight.Facts) { fill(w, 1, 95*(8<<30)/100-1) }),
		Entry("file at its limit", steps.EtcdSize, preflight.Fail,
			"the database file of member seed-a-etcd-main-2 of etcd-main has", func(w *preflight.Facts) {
				fill(w, 1, 95*(8<<30)/100+1)
			}),
		Entry("no quota", steps.EtcdSize, preflight.Unknown,
			"etcd-main has the quota 0", func(w *preflight.Facts) { w.Etcds[0].Quota = 0 }),

		Entry("gate off", preflight.EtcdMemberNames, preflight.Fail,
			"off in seed seed-a", func(w *preflight.Facts) {
				w.Gardenlet.ETCDConfig.FeatureGates["UpgradeEtcdVersion"] = false
			}),
		Entry("gate not set", preflight.EtcdMemberNames, preflight.Fail,
			"off in seed seed-a", func(w *preflight.Facts) { w.Gardenlet.ETCDConfig = nil }),
		Entry("gate on, but the shoot not reconciled with it", preflight.EtcdMemberNames, preflight.Fail,
			"member etcd-events-2 of etcd-events still runs etcd 3.4.34", func(w *preflight.Facts) {
				w.Etcds[1] = etcdWith("etcd-events", "")
				w.Etcds[1].Members[2].Version = "3.4.34"
			}),
		Entry("a version that nobody understands", preflight.EtcdMemberNames, preflight.Unknown,
			`the version "next" of member seed-a-etcd-main-0 of etcd-main cannot be parsed`,
			func(w *preflight.Facts) { w.Etcds[0].Members[0].Version = "next" }),
		Entry("a member that does not say its version", preflight.EtcdMemberNames, preflight.Pass,
			"is on in seed seed-a", func(w *preflight.Facts) { w.Etcds[0].Members[0].Version = "" }),
	)

	It("should say Unknown of seeds that it cannot read", func() {
		world := fit()
		world.Destination = preflight.SeedView{Name: "seed-b", Error: errors.New("forbidden")}
		obstacles := preflight.Obstacles(preflight.Evaluate(world))
		Expect(obstacles).To(HaveLen(17))
		Expect(obstacles).NotTo(ContainElement(HaveField("Name", steps.SourceSeedHealth)))
		Expect(obstacles).To(HaveEach(And(
			HaveField("Status", preflight.Unknown),
			HaveField("Reason", steps.ReasonPrerequisitesUnknown),
			HaveField("Evidence", "seed seed-b could not be read: forbidden"),
		)))
	})

	It("should ask for the extensions of workers", func() {
		world := fit()
		world.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "pool"}}
		world.Shoot.Spec.Networking = &gardencorev1beta1.Networking{Type: new("calico")}
		finding := find(preflight.Evaluate(world), preflight.ExtensionsInstalled)
		Expect(finding.Status).To(Equal(preflight.Fail))
		Expect(finding.Evidence).To(HaveSuffix(
			"these extensions of the shoot: Network/calico (it has no ControllerInstallation for it)"))
		seedlook.Installed(world.Destination.Seed, "Network/calico")
		Expect(find(preflight.Evaluate(world), preflight.ExtensionsInstalled).Status).To(Equal(preflight.Pass))
	})

	It("should name all obstacles", func() {
		world := fit()
		world.Shoot.Spec.ControlPlane = nil
		world.Destination.Seed.Status.Gardener.Version = "v1.150.1"
		Expect(preflight.Sentences(preflight.Evaluate(world))).
			To(ConsistOf(HavePrefix("HighAvailability is Fail: "), HavePrefix("GardenletVersion is Fail: ")))
	})

	It("should know a member that is down from a quorum that is lost", func() {
		world := fit()
		fell(&world, 0)
		findings := preflight.Evaluate(world)
		Expect(find(findings, steps.EtcdQuorum).Evidence).
			To(Equal("etcd-main: 2 of 3 voters, etcd-events: 3 of 3 voters are healthy"))
		Expect(preflight.Obstacles(findings)).To(ConsistOf(HaveField("Name", steps.EtcdHealth)))
	})

	It("should say Unknown of both kinds of alarms when they cannot be listed", func() {
		world := fit()
		world.Etcds[1].AlarmsError = errors.New("boom")
		Expect(preflight.Obstacles(preflight.Evaluate(world))).To(ConsistOf(
			And(HaveField("Name", steps.EtcdSpace), HaveField("Status", preflight.Unknown),
				HaveField("Evidence", "the alarms of etcd-events are not known: boom")),
			And(HaveField("Name", steps.EtcdIntegrity), HaveField("Status", preflight.Unknown)),
		))
	})

	It("should show an etcd without a quorum as that and as nothing else", func() {
		world := fit()
		fell(&world, 0, 1)
		alarm(&world, "NOSPACE")
		world.Etcds[0].Members[0].Defragmenting = true
		world.Etcds[0].AlarmsError = errors.New("timeout")
		Expect(preflight.Obstacles(preflight.Evaluate(world))).To(ConsistOf(HaveField("Name", steps.EtcdQuorum)))
	})

	It("should ask for the prefix in the source only", func() {
		world := fit()
		world.OwnSeed = "seed-b"
		Expect(preflight.Evaluate(world)).NotTo(ContainElement(HaveField("Name", preflight.EtcdMemberPrefix)))
	})

	DescribeTable("leaves the etcds out", func(change func(*preflight.Facts)) {
		world := fit()
		change(&world)
		findings := preflight.Evaluate(world)
		Expect(preflight.Sentences(findings)).To(BeEmpty())
		Expect(findings).NotTo(ContainElement(HaveField("Name", steps.EtcdQuorum)))
	},
		Entry("where nobody looks at them", func(w *preflight.Facts) { w.EtcdsRead, w.Etcds = false, nil }),
		Entry("where there is none yet", func(w *preflight.Facts) { w.OwnSeed, w.Etcds = "seed-b", nil }),
	)

	It("should leave out what it has no configuration for", func() {
		world := fit()
		world.Gardenlet = nil
		Expect(preflight.Evaluate(world)).NotTo(ContainElement(HaveField("Name", preflight.EtcdMemberNames)))
	})

	It("should not pass where they should be and are not", func() {
		world := fit()
		world.Etcds = nil
		Expect(find(preflight.Evaluate(world), steps.EtcdQuorum)).To(And(
			HaveField("Status", preflight.Unknown),
			HaveField("Evidence", "there is no Etcd in seed seed-a"),
		))
		for _, step := range steps.Table() {
			for _, seed := range []string{"seed-a", "seed-b"} {
				world.OwnSeed = seed
				findings := preflight.EvaluateStep(world, step)
				if step.GuardOf(steps.EtcdQuorum).Effect != steps.Holds || seed == "seed-b" && step.Entry {
					continue
				}
				Expect(find(findings, steps.EtcdQuorum).Status).To(Equal(preflight.Unknown), "%s in %s", step, seed)
			}
		}
	})
})

var _ = Describe("Verdict", func() {
	DescribeTable("takes the reason that the obstacles have in common",
		func(expected steps.Reason, sentences int, changes ...func(*preflight.Facts)) {
			world := fit()
			for _, change := range changes {
				change(&world)
			}
			findings := preflight.Evaluate(world)
			reason, message := preflight.Verdict(findings)
			Expect(reason).To(Equal(expected))
			Expect(preflight.Obstacles(findings)).To(HaveLen(sentences))
			for _, obstacle := range preflight.Obstacles(findings) {
				Expect(message).To(ContainSubstring(obstacle.String()))
			}
		},
		Entry("none", steps.Reason(""), 0),
		Entry("one", steps.ReasonBastionExists, 1, func(w *preflight.Facts) { w.Bastions = []string{"cli"} }),
		Entry("two of a kind", steps.ReasonSeedNotHealthy, 2,
			func(w *preflight.Facts) { w.Source.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionFalse },
			func(w *preflight.Facts) {
				w.Destination.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionFalse
			}),
		Entry("two kinds", steps.ReasonPrerequisitesNotMet, 2,
			func(w *preflight.Facts) { w.Bastions = []string{"cli"} },
			func(w *preflight.Facts) { alarm(w, "NOSPACE") }),
		Entry("three kinds", steps.ReasonPrerequisitesNotMet, 3,
			func(w *preflight.Facts) { w.Bastions = []string{"cli"} },
			func(w *preflight.Facts) { alarm(w, "NOSPACE") },
			func(w *preflight.Facts) { alarm(w, "CORRUPT") }),
		Entry("what could not be looked at", steps.ReasonPrerequisitesUnknown, 2,
			func(w *preflight.Facts) { w.BastionsError = errors.New("boom") },
			func(w *preflight.Facts) { w.ManagedSeedsError = errors.New("boom") }),
	)

	It("should have a reason of its own for every check, which holds a step that has not begun", func() {
		seen := map[steps.Reason][]preflight.Name{}
		for _, finding := range preflight.Evaluate(fit()) {
			reason := preflight.ReasonOf(finding.Name)
			Expect(reason.Hold()).To(BeTrue(), "%s: %s", finding.Name, reason)
			Expect(reason).NotTo(Equal(steps.ReasonPrerequisitesNotMet))
			seen[reason] = append(seen[reason], finding.Name)
		}
		Expect(len(seen)).To(BeNumerically(">=", 23))
		Expect(seen[steps.ReasonSeedNotHealthy]).To(ConsistOf(steps.SourceSeedHealth, steps.DestinationSeedHealth))
		delete(seen, steps.ReasonSeedNotHealthy)
		Expect(seen[steps.ReasonShootNotReconciled]).To(ConsistOf(preflight.LastOperation, preflight.SpecReconciled))
		delete(seen, steps.ReasonShootNotReconciled)
		Expect(seen[steps.ReasonBackupNotReady]).To(ConsistOf(preflight.Backup, preflight.BackupsArrive))
		delete(seen, steps.ReasonBackupNotReady)
		Expect(seen).To(HaveEach(HaveLen(1)))
	})
})

var _ = Describe("EvaluateStep", func() {
	It("should hold no step for one member of the source that nothing depends on", func() {
		for _, step := range steps.Table() {
			world := fit()
			joined(&world, 2)
			fell(&world, 1)
			reason, message := preflight.Verdict(preflight.EvaluateStep(world, step))
			Expect(reason).To(BeEmpty(), "%s: %s", step, message)
		}
	})

	// What each kind of trouble does to each step: h holds it, w warns, - is not looked at.
	DescribeTable("holds, warns or leaves alone",
		func(name preflight.Name, reason steps.Reason, effects string, change func(*preflight.Facts)) {
			Expect(effects).To(HaveLen(len(steps.Table())))
			for i, step := range steps.Table() {
				world := fit()
				change(&world)
				findings := preflight.EvaluateStep(world, step)
				by := beforeStep(step)
				switch effects[i] {
				case 'h':
					got, message := preflight.Verdict(findings)
					Expect(got).To(Equal(reason), by)
					Expect(message).To(HavePrefix(string(name)+" is "), by)
					Expect(preflight.Warnings(findings)).To(BeEmpty(), by)
				case 'w':
					got, message := preflight.Verdict(findings)
					Expect(got).To(BeEmpty(), by)
					Expect(message).To(BeEmpty(), by)
					Expect(preflight.Warnings(findings)).To(ConsistOf(HaveField("Name", name)), by)
				case '-':
					Expect(findings).NotTo(ContainElement(HaveField("Name", name)), by)
					Expect(findings).To(HaveEach(HaveField("Status", preflight.Pass)), by)
				default:
					Fail("no such effect")
				}
			}
		},
		Entry("version skew", steps.GardenletVersion, steps.ReasonVersionSkew,
			"hhhhhhhh", func(w *preflight.Facts) { w.Destination.Seed.Status.Gardener.Version = "v1.150.1" }),
		Entry("agents that do not understand each other", steps.AgentProtocol, steps.ReasonAgentProtocolsDiffer,
			"hhhhhhww", func(w *preflight.Facts) {
				w.Source.Seed.Annotations[steps.SeedAnnotationProtocols] = "4"
				w.Destination.Seed.Annotations[steps.SeedAnnotationProtocols] = "4"
			}),
		Entry("no gardenlet in the source", steps.SourceSeedHealth, steps.ReasonSeedNotHealthy,
			"hhwwwww-", func(w *preflight.Facts) {
				w.Source.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionFalse
			}),
		Entry("destination not healthy", steps.DestinationSeedHealth, steps.ReasonSeedNotHealthy,
			"hhhhhhww", func(w *preflight.Facts) {
				w.Destination.Seed.Status.Conditions[1].Status = gardencorev1beta1.ConditionFalse
			}),
		Entry("quorum lost", steps.EtcdQuorum, steps.ReasonQuorumLost,
			"hhhhhhhh", func(w *preflight.Facts) { fell(w, 0, 2) }),
		Entry("etcds not readable", steps.EtcdQuorum, steps.ReasonPrerequisitesUnknown,
			"hhhhhhhh", func(w *preflight.Facts) { w.Etcds, w.EtcdsError = nil, errors.New("boom") }),
		Entry("a member down", steps.EtcdHealth, steps.ReasonEtcdNotHealthy,
			"hhhhhhwh", func(w *preflight.Facts) { fell(w, 1) }),
		Entry("NOSPACE", steps.EtcdSpace, steps.ReasonEtcdNoSpace,
			"hhhhhhww", func(w *preflight.Facts) { alarm(w, "NOSPACE") }),
		Entry("a member down, and the source's forced out", steps.EtcdHealth, steps.ReasonEtcdNotHealthy,
			"hhhwwwwh", func(w *preflight.Facts) {
				fell(w, 1)
				w.Shoot.Annotations[steps.AnnotationForceShrink] = "true"
			}),
		Entry("CORRUPT, and the source's members forced out", steps.EtcdIntegrity, steps.ReasonEtcdCorrupt,
			"hhhhhhhh", func(w *preflight.Facts) {
				alarm(w, "CORRUPT")
				w.Shoot.Annotations[steps.AnnotationForceShrink] = "true"
			}),
		Entry("CORRUPT", steps.EtcdIntegrity, steps.ReasonEtcdCorrupt,
			"hhhhhhhh", func(w *preflight.Facts) { alarm(w, "CORRUPT") }),
		Entry("defragmentation", steps.EtcdDefragmentation, steps.ReasonEtcdDefragmenting,
			"hh---h-h", func(w *preflight.Facts) { w.Etcds[0].Members[0].Defragmenting = true }),
		Entry("near the quota", steps.EtcdSize, steps.ReasonEtcdNearQuota,
			"hhwwwwww", func(w *preflight.Facts) { fill(w, 7<<30, 7<<30) }),
	)

	It("should be made of the guards in their order", func() {
		for i, step := range steps.Table() {
			var expected []preflight.Name
			for _, guard := range preflight.Guards() {
				Expect(guard.Effects).To(HaveLen(len(steps.Table())))
				if guard.Effects[i] != steps.Ignores {
					expected = append(expected, guard.Name)
				}
			}
			var names []preflight.Name
			for _, finding := range preflight.EvaluateStep(fit(), step) {
				Expect(finding.Status).To(Equal(preflight.Pass))
				names = append(names, finding.Name)
			}
			Expect(names).To(Equal(expected), beforeStep(step))
		}
	})

	It("should leave out everything else", func() {
		world := fit()
		world.Bastions = []string{"cli"}
		world.Shoot.Status.LastOperation = nil
		Expect(preflight.Sentences(preflight.EvaluateStep(world, steps.Table()[2]))).To(BeEmpty())
	})

	It("should have nothing to say about what is no step", func() {
		Expect(preflight.EvaluateStep(fit(), steps.Step{Condition: "Other"})).To(BeEmpty())
	})

	It("should hold when a seed cannot be read", func() {
		world := fit()
		world.Source = preflight.SeedView{Name: "seed-a", Error: errors.New("forbidden")}
		reason, _ := preflight.Verdict(preflight.EvaluateStep(world, steps.Table()[3]))
		Expect(reason).To(Equal(steps.ReasonPrerequisitesUnknown))
	})
})

func beforeStep(step steps.Step) string { return "before " + step.String() }

var _ = Describe("Checker", func() {
	var (
		ctx     = context.Background()
		world   preflight.Facts
		objects []client.Object
		funcs   interceptor.Funcs
		etcds   func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error)
	)

	BeforeEach(func() {
		world, funcs = fit(), interceptor.Funcs{}
		etcds = func(_ context.Context, shoot *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
			Expect(shoot).To(BeIdenticalTo(world.Shoot))
			return world.Etcds, world.EtcdsError
		}
		objects = []client.Object{world.Source.Seed, world.Destination.Seed, regions()}
	})

	newOptions := func() preflight.Options {
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).
			WithInterceptorFuncs(funcs).
			WithIndex(&operationsv1alpha1.Bastion{}, "spec.seedName", func(obj client.Object) []string {
				return []string{*obj.(*operationsv1alpha1.Bastion).Spec.SeedName}
			}).Build()
		return preflight.Options{
			Reader: c, OwnSeed: world.OwnSeed, Gardenlet: world.Gardenlet, Version: world.Version, Etcds: etcds,
			Protocols: world.Protocols, Running: rolledOut, Rollout: gardenletRolledOut, Extensions: noExtensions,
			Machines: noMachines, TLSEndsAtGateway: endsTLS,
			Clock: testclock.NewFakePassiveClock(world.Now),
		}
	}
	newChecker := func() *preflight.Checker {
		GinkgoHelper()
		checker, err := preflight.New(newOptions())
		Expect(err).NotTo(HaveOccurred())
		return checker
	}
	check := func() []preflight.Finding { return newChecker().Check(ctx, world.Shoot) }
	bastion := func(name, shoot, seed string) *operationsv1alpha1.Bastion {
		return &operationsv1alpha1.Bastion{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "garden-demo"},
			Spec: operationsv1alpha1.BastionSpec{ShootRef: corev1.LocalObjectReference{Name: shoot},
				SeedName: &seed},
		}
	}
	managedSeed := func(name, shoot, seed string) *seedmanagementv1alpha1.ManagedSeed {
		return &seedmanagementv1alpha1.ManagedSeed{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "garden",
				Labels: map[string]string{"name.seed.gardener.cloud/" + seed: "true"}},
			Spec: seedmanagementv1alpha1.ManagedSeedSpec{Shoot: &seedmanagementv1alpha1.Shoot{Name: shoot}},
		}
	}

	It("should read the seeds and the distances", func() {
		Expect(preflight.Sentences(check())).To(BeEmpty())
		Expect(find(check(), preflight.RegionDistance).Evidence).
			To(Equal("the distance from region region-a to region region-b is 180 of at most 180"))
	})

	It("should read which extensions the shoot has, and hold if it cannot", func() {
		options := newOptions()
		options.Extensions = func(context.Context, *gardencorev1beta1.Shoot) ([]string, error) {
			return []string{"acl"}, nil
		}
		for _, seed := range []*gardencorev1beta1.Seed{world.Source.Seed, world.Destination.Seed} {
			seed.Annotations = map[string]string{seedfacts.AnnotationAccessControl: "acl"}
			Expect(options.Reader.(client.Client).Update(ctx, seed)).To(Succeed())
		}
		checker, err := preflight.New(options)
		Expect(err).NotTo(HaveOccurred())
		Expect(find(checker.Check(ctx, world.Shoot), preflight.AccessControl).Evidence).
			To(HavePrefix("the extension acl"))

		options.Extensions = func(context.Context, *gardencorev1beta1.Shoot) ([]string, error) {
			return nil, errors.New("forbidden")
		}
		checker, err = preflight.New(options)
		Expect(err).NotTo(HaveOccurred())
		Expect(find(checker.Check(ctx, world.Shoot), preflight.AccessControl).Status).To(Equal(preflight.Unknown))
	})

	It("should take the name of the cloud profile also from the old field", func() {
		world.Shoot.Spec.CloudProfile = nil
		//nolint:staticcheck // Deprecated, but older shoots have nothing else.
		world.Shoot.Spec.CloudProfileName = new("local")
		Expect(preflight.Sentences(check())).To(BeEmpty())
	})

	DescribeTable("is not made without what it looks at", func(missing string, forget func(*preflight.Options)) {
		options := newOptions()
		forget(&options)
		checker, err := preflight.New(options)
		Expect(err).To(MatchError(HaveSuffix("these options are missing: " + missing)))
		Expect(checker).To(BeNil())
	},
		Entry("the garden", "Reader", func(o *preflight.Options) { o.Reader = nil }),
		Entry("its seed", "OwnSeed", func(o *preflight.Options) { o.OwnSeed = "" }),
		Entry("the gardenlet's configuration", "Gardenlet", func(o *preflight.Options) { o.Gardenlet = nil }),
		Entry("its version", "Version", func(o *preflight.Options) { o.Version = "" }),
		Entry("what it speaks", "Protocols", func(o *preflight.Options) { o.Protocols = steps.Protocols{} }),
		Entry("the etcds", "Etcds", func(o *preflight.Options) { o.Etcds = nil }),
		Entry("what runs", "Running", func(o *preflight.Options) { o.Running = nil }),
		Entry("the gardenlet's Deployment", "Rollout", func(o *preflight.Options) { o.Rollout = nil }),
		Entry("the extensions", "Extensions", func(o *preflight.Options) { o.Extensions = nil }),
		Entry("the machines", "Machines", func(o *preflight.Options) { o.Machines = nil }),
		Entry("the gateway", "TLSEndsAtGateway", func(o *preflight.Options) { o.TLSEndsAtGateway = nil }),
		Entry("the clock", "Clock", func(o *preflight.Options) { o.Clock = nil }),
	)

	It("should find the Bastions of the shoot in the own seed", func() {
		objects = append(objects, bastion("b", "live", "seed-a"), bastion("a", "live", "seed-a"),
			bastion("other-shoot", "other", "seed-a"), bastion("other-seed", "live", "seed-b"))
		Expect(find(check(), preflight.Bastions)).
			To(And(HaveField("Status", preflight.Fail), HaveField("Evidence", "the shoot has Bastions (a, b)")))
	})

	It("should find the ManagedSeeds of the shoot", func() {
		world.Shoot.Namespace = "garden"
		objects = append(objects, managedSeed("mine", "live", "seed-a"), managedSeed("other-shoot", "other", "seed-a"))
		Expect(find(check(), preflight.NotASeed)).To(
			And(HaveField("Status", preflight.Fail),
				HaveField("Evidence", HavePrefix("the shoot is a seed (ManagedSeed mine): "))))
	})

	It("should know a seed by the identity that it has taken over from the shoot", func() {
		identity := func(name string, identity *string) gardencorev1beta1.Seed {
			return gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name},
				Status: gardencorev1beta1.SeedStatus{ClusterIdentity: identity}}
		}
		seeds := []gardencorev1beta1.Seed{identity("new", nil), identity("mine", new("cluster")),
			identity("other", new("another")), identity("empty", new(""))}
		Expect(preflight.HostedSeeds(world.Shoot, seeds)).To(BeEmpty(), "the shoot has no identity yet")
		world.Shoot.Status.ClusterIdentity = new("cluster")
		Expect(preflight.HostedSeeds(world.Shoot, seeds)).To(Equal([]string{"mine"}))
	})

	It("should not take a shoot in another namespace for the one of a ManagedSeed", func() {
		objects = append(objects, managedSeed("garden's", "live", "seed-a"))
		Expect(find(check(), preflight.NotASeed).Status).To(Equal(preflight.Pass))
	})

	It("should read the ExposureClass of the shoot", func() {
		world.Shoot.Spec.ExposureClassName = new("private")
		Expect(find(check(), preflight.ExposureClass)).To(And(HaveField("Status", preflight.Unknown),
			HaveField("Evidence", ContainSubstring(`"private" not found`))))
		objects = append(objects, &gardencorev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{Name: "private"},
			Handler: "intranet"})
		published(&world, `["intranet"]`)
		Expect(find(check(), preflight.ExposureClass).Status).To(Equal(preflight.Pass))
	})

	It("should look at the etcds at the time of the clock", func() {
		world.Etcds[0].DefragmentationSchedule = "6 5 * * *"
		Expect(find(check(), steps.EtcdDefragmentation)).To(
			And(HaveField("Status", preflight.Fail), HaveField("Evidence", ContainSubstring("2026-03-04T05:06:00Z"))))
	})

	It("should make all checks before the first step of each role, and those of the guards before the others", func() {
		objects = append(objects, bastion("a", "live", "seed-a"))
		table := steps.Table()

		reason, message, warnings := newChecker().Before(ctx, world.Shoot, table[0])
		Expect(reason).To(Equal(steps.ReasonBastionExists))
		Expect(message).To(HavePrefix("Bastions is Fail: "))
		Expect(warnings).To(BeEmpty())
		reason, _, _ = newChecker().Before(ctx, world.Shoot, table[2])
		Expect(reason).To(BeEmpty())

		objects = append(objects, bastion("b", "live", "seed-b"))
		world.OwnSeed = "seed-b"
		reason, _, _ = newChecker().Before(ctx, world.Shoot, table[1])
		Expect(reason).To(Equal(steps.ReasonBastionExists))
		reason, _, _ = newChecker().Before(ctx, world.Shoot, table[3])
		Expect(reason).To(BeEmpty())
	})

	It("should tell warnings apart from what holds", func() {
		fill(&world, 7<<30, 7<<30)
		reason, message, warnings := newChecker().Before(ctx, world.Shoot, steps.Table()[2])
		Expect(reason).To(BeEmpty())
		Expect(message).To(BeEmpty())
		Expect(warnings).To(ConsistOf(HavePrefix("EtcdSize is Warn: ")))
	})

	Context("with requests that have come in flight", func() {
		// warn returns the warnings before step 4, which belongs to the destination.
		warn := func() []string {
			GinkgoHelper()
			reason, message, warnings := newChecker().Before(ctx, world.Shoot, steps.Table()[3])
			Expect(reason).To(BeEmpty(), message)
			return warnings
		}

		BeforeEach(func() {
			world.OwnSeed = "seed-b"
			world.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{}
			for i, step := range steps.Table() {
				status := gardencorev1beta1.ConditionUnknown
				if i < 3 {
					status = gardencorev1beta1.ConditionTrue
				}
				world.Shoot.Status.LiveMigration.Conditions = append(world.Shoot.Status.LiveMigration.Conditions,
					gardencorev1beta1.Condition{Type: step.Condition, Status: status,
						LastTransitionTime: metav1.NewTime(world.Now.Add(-time.Hour))})
			}
		})

		It("should say nothing without any", func() {
			Expect(warn()).To(BeEmpty())
		})

		It("should say which operations follow, and leave out the retry, which is for the agent", func() {
			metav1.SetMetaDataAnnotation(&world.Shoot.ObjectMeta, "gardener.cloud/operation", "rotate-ca-complete")
			Expect(warn()).To(ConsistOf("gardener.cloud/operation: operations that were requested " +
				"(rotate-ca-complete) follow after the migration"))
			metav1.SetMetaDataAnnotation(&world.Shoot.ObjectMeta, "gardener.cloud/operation", "retry")
			Expect(warn()).To(BeEmpty())
		})

		It("should say which Bastions wait", func() {
			objects = append(objects, bastion("mine", "live", "seed-b"), bastion("other", "other", "seed-b"))
			Expect(warn()).To(ConsistOf(HavePrefix("Bastions: mine open after the migration")))
		})

		It("should say when Bastions cannot be read", func() {
			funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return errors.New("forbidden")
			}
			Expect(warn()).To(ConsistOf("Bastions: the Bastions that were requested could not be read: forbidden"))
		})

		DescribeTable("says which hibernation waits", func(schedule gardencorev1beta1.HibernationSchedule, due string) {
			world.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{
				Schedules: []gardencorev1beta1.HibernationSchedule{schedule}}
			if due == "" {
				Expect(warn()).To(BeEmpty())
				return
			}
			Expect(warn()).To(ConsistOf(HavePrefix("NotHibernated: a hibernation was due at " + due + ". It follows")))
		},
			Entry("one that was due since the migration has begun",
				gardencorev1beta1.HibernationSchedule{Start: new("30 4 * * *")}, "2026-03-04T04:30:00Z"),
			Entry("in its own time zone",
				gardencorev1beta1.HibernationSchedule{Start: new("30 5 * * *"), Location: new("Europe/Berlin")},
				"2026-03-04T04:30:00Z"),
			Entry("not one of before", gardencorev1beta1.HibernationSchedule{Start: new("30 3 * * *")}, ""),
			Entry("not one of later", gardencorev1beta1.HibernationSchedule{Start: new("30 5 * * *")}, ""),
			Entry("not an end", gardencorev1beta1.HibernationSchedule{End: new("30 4 * * *")}, ""),
			Entry("not one that nobody can read", gardencorev1beta1.HibernationSchedule{Start: new("late")}, ""),
		)
	})

	It("should read for the guards no more than they look at", func() {
		funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			Fail("nothing is to be listed")
			return nil
		}
		Expect(newChecker().CheckStep(ctx, world.Shoot, steps.Table()[5])).
			To(HaveEach(HaveField("Status", preflight.Pass)))
	})

	It("should read nothing for a shoot that does not migrate", func() {
		etcds = func(context.Context, *gardencorev1beta1.Shoot) ([]preflight.EtcdView, error) {
			Fail("nothing is to be read")
			return nil, nil
		}
		funcs.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object,
			...client.GetOption) error {
			Fail("nothing is to be read")
			return nil
		}
		world.Shoot.Status.SeedName = world.Shoot.Spec.SeedName
		Expect(preflight.Obstacles(check())).To(ConsistOf(HaveField("Name", preflight.Intent)))
	})

	It("should say Unknown when it cannot read", func() {
		funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no lists today")
		}
		Expect(find(check(), preflight.RegionDistance)).
			To(And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring("no lists today"))))
		Expect(find(check(), preflight.Bastions)).
			To(And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring("no lists today"))))
		world.Shoot.Namespace = "garden"
		Expect(find(check(), preflight.NotASeed)).
			To(And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring("no lists today"))))
		world.EtcdsError = errors.New("no etcds today")
		Expect(find(check(), steps.EtcdQuorum)).
			To(And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring("no etcds today"))))

		objects = objects[1:]
		Expect(find(check(), steps.SourceSeedHealth)).To(
			And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring(`"seed-a" not found`))))
	})
})

// joined adds so many healthy members of the destination to the main etcd.
func joined(w *preflight.Facts, members int) {
	for ordinal := range members {
		w.Etcds[0].Members = append(w.Etcds[0].Members, preflight.EtcdMemberView{
			Name: fmt.Sprintf("seed-b-etcd-main-%d", ordinal), DBSize: 2 << 30, DBSizeInUse: 1 << 30})
	}
}

// fell lets the members of the main etcd with the given ordinals be down.
func fell(w *preflight.Facts, ordinals ...int) {
	for _, ordinal := range ordinals {
		w.Etcds[0].Members[ordinal].Problem = "down"
	}
}

func alarm(w *preflight.Facts, kind string) {
	w.Etcds[0].Alarms = append(w.Etcds[0].Alarms, preflight.EtcdAlarm{Member: "seed-a-etcd-main-1", Type: kind})
}

// fill sets the sizes of the last member of the main etcd.
func fill(w *preflight.Facts, inUse, file int64) {
	w.Etcds[0].Members[2].DBSizeInUse, w.Etcds[0].Members[2].DBSize = inUse, file
}

// withGap makes the shoot one with one etcd member, whose users have agreed to a gap.
func withGap(w *preflight.Facts) {
	w.Shoot.Spec.ControlPlane = nil
	w.Shoot.Annotations = map[string]string{steps.AnnotationWithGap: "true"}
}

func hibernate(w *preflight.Facts, enabled, hibernated bool) {
	w.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: new(enabled)}
	w.Shoot.Status.IsHibernated = hibernated
}

func operate(
	w *preflight.Facts, operationType gardencorev1beta1.LastOperationType, state gardencorev1beta1.LastOperationState,
) {
	w.Shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: operationType, State: state}
}

func rotate(w *preflight.Facts) *gardencorev1beta1.ShootCredentialsRotation {
	if w.Shoot.Status.Credentials == nil {
		w.Shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{
			Rotation: &gardencorev1beta1.ShootCredentialsRotation{},
		}
	}
	return w.Shoot.Status.Credentials.Rotation
}
