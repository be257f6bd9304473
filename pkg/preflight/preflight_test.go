// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"context"
	"errors"

	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/preflight"
)

// fit returns a world in which every check passes.
func fit() preflight.World {
	return preflight.World{
		Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Name: "live", Namespace: "garden-demo",
				Annotations: map[string]string{"migration.gardener.cloud/live-migrate": "true"},
			},
			Spec: gardencorev1beta1.ShootSpec{
				CloudProfile: &gardencorev1beta1.CloudProfileReference{Name: "local"},
				ControlPlane: &gardencorev1beta1.ControlPlane{HighAvailability: &gardencorev1beta1.HighAvailability{
					FailureTolerance: gardencorev1beta1.FailureTolerance{Type: gardencorev1beta1.FailureToleranceTypeNode},
				}},
				SeedName: new("seed-b"),
			},
			Status: gardencorev1beta1.ShootStatus{
				SeedName:      new("seed-a"),
				LastOperation: &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded},
			},
		},
		Source:           preflight.SeedView{Name: "seed-a", Seed: seed("seed-a", "region-a")},
		Destination:      preflight.SeedView{Name: "seed-b", Seed: seed("seed-b", "region-b")},
		RegionConfigMaps: []*corev1.ConfigMap{regions()},
		OwnSeed:          "seed-a",
		Gardenlet: &gardenletconfigv1alpha1.GardenletConfiguration{
			ETCDConfig: &gardenletconfigv1alpha1.ETCDConfig{FeatureGates: map[string]bool{"UpgradeEtcdVersion": true}},
		},
	}
}

func seed(name, region string) *gardencorev1beta1.Seed {
	return &gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: gardencorev1beta1.SeedSpec{
			Provider: gardencorev1beta1.SeedProvider{Type: "local", Region: region},
			Backup:   &gardencorev1beta1.Backup{Provider: "local"},
			DNS:      gardencorev1beta1.SeedDNS{Internal: &gardencorev1beta1.SeedDNSProviderConfig{Domain: "internal.example.com"}},
			Ingress:  &gardencorev1beta1.Ingress{Domain: "ingress." + name + ".example.com"},
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
	It("passes in a fit world, each check once", func() {
		findings := preflight.Evaluate(fit())
		Expect(preflight.Obstacles(findings)).To(BeEmpty())
		Expect(preflight.Sentences(findings)).To(BeEmpty())

		names := map[preflight.Name]int{}
		for _, finding := range findings {
			names[finding.Name]++
			Expect(finding.Evidence).NotTo(BeEmpty())
			Expect(finding.Remedy).To(BeEmpty())
		}
		Expect(names).To(HaveLen(14))
		Expect(names).To(HaveEach(1))
	})

	DescribeTable("one thing amiss",
		func(name preflight.Name, status preflight.Status, evidence string, change func(*preflight.World)) {
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
			Expect(preflight.Sentences(findings)).To(ConsistOf(And(HavePrefix(string(name)+" is "), ContainSubstring(finding.Remedy))))
		},

		Entry("no intent", preflight.Intent, preflight.Fail, `is ""`, func(w *preflight.World) { w.Shoot.Annotations = nil }),
		Entry("intent false", preflight.Intent, preflight.Fail, `is "false"`, func(w *preflight.World) { w.Shoot.Annotations["migration.gardener.cloud/live-migrate"] = "false" }),
		Entry("intent in another spelling", preflight.Intent, preflight.Pass, "from seed seed-a to seed seed-b", func(w *preflight.World) { w.Shoot.Annotations["migration.gardener.cloud/live-migrate"] = "1" }),
		Entry("equal seed names", preflight.Intent, preflight.Fail, `status.seedName is "seed-b"`, func(w *preflight.World) { w.Shoot.Status.SeedName = new("seed-b") }),
		Entry("no seed", preflight.Intent, preflight.Fail, `spec.seedName is ""`, func(w *preflight.World) { w.Shoot.Spec.SeedName = nil }),
		Entry("shoot in deletion", preflight.Intent, preflight.Fail, "being deleted", func(w *preflight.World) { w.Shoot.DeletionTimestamp = new(metav1.Now()) }),

		Entry("no control plane settings", preflight.HighAvailability, preflight.Fail, "not highly available", func(w *preflight.World) { w.Shoot.Spec.ControlPlane = nil }),
		Entry("no high availability", preflight.HighAvailability, preflight.Fail, "not highly available", func(w *preflight.World) { w.Shoot.Spec.ControlPlane.HighAvailability = nil }),
		Entry("failure tolerance zone", preflight.HighAvailability, preflight.Pass, "zone", func(w *preflight.World) {
			w.Shoot.Spec.ControlPlane.HighAvailability.FailureTolerance.Type = gardencorev1beta1.FailureToleranceTypeZone
		}),

		Entry("workers", preflight.Workerless, preflight.Fail, "1 worker pools", func(w *preflight.World) { w.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "a"}} }),

		Entry("hibernated", preflight.NotHibernated, preflight.Fail, "is hibernated", func(w *preflight.World) { hibernate(w, true, true) }),
		Entry("going to hibernate", preflight.NotHibernated, preflight.Fail, "into hibernation", func(w *preflight.World) { hibernate(w, true, false) }),
		Entry("waking up", preflight.NotHibernated, preflight.Fail, "waking up", func(w *preflight.World) { hibernate(w, false, true) }),
		Entry("waking up without hibernation settings", preflight.NotHibernated, preflight.Fail, "waking up", func(w *preflight.World) { w.Shoot.Status.IsHibernated = true }),
		Entry("hibernation schedules only", preflight.NotHibernated, preflight.Pass, "awake", func(w *preflight.World) { hibernate(w, false, false) }),

		Entry("never created", preflight.LastOperation, preflight.Fail, "no last operation", func(w *preflight.World) { w.Shoot.Status.LastOperation = nil }),
		Entry("create succeeded", preflight.LastOperation, preflight.Pass, "Create", func(w *preflight.World) { operate(w, "Create", "Succeeded") }),
		Entry("restore succeeded", preflight.LastOperation, preflight.Pass, "Restore", func(w *preflight.World) { operate(w, "Restore", "Succeeded") }),
		Entry("create processing", preflight.LastOperation, preflight.Fail, "Create is Processing", func(w *preflight.World) { operate(w, "Create", "Processing") }),
		Entry("reconcile in error", preflight.LastOperation, preflight.Fail, "Reconcile is Error", func(w *preflight.World) { operate(w, "Reconcile", "Error") }),
		Entry("reconcile failed", preflight.LastOperation, preflight.Fail, "Reconcile is Failed", func(w *preflight.World) { operate(w, "Reconcile", "Failed") }),
		Entry("reconcile aborted", preflight.LastOperation, preflight.Fail, "Reconcile is Aborted", func(w *preflight.World) { operate(w, "Reconcile", "Aborted") }),
		Entry("classic migration", preflight.LastOperation, preflight.Fail, "Migrate is Succeeded", func(w *preflight.World) { operate(w, "Migrate", "Succeeded") }),
		Entry("deletion", preflight.LastOperation, preflight.Fail, "Delete is Processing", func(w *preflight.World) { operate(w, "Delete", "Processing") }),
		Entry("this migration", preflight.LastOperation, preflight.Pass, "LiveMigrate", func(w *preflight.World) { operate(w, "LiveMigrate", "Processing") }),

		Entry("CA rotation preparing", preflight.CredentialsRotation, preflight.Fail, "certificate authorities: Preparing", func(w *preflight.World) {
			rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{Phase: gardencorev1beta1.RotationPreparing}
		}),
		Entry("CA rotation waiting for workers", preflight.CredentialsRotation, preflight.Fail, "WaitingForWorkersRollout", func(w *preflight.World) {
			rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{Phase: gardencorev1beta1.RotationWaitingForWorkersRollout}
		}),
		Entry("service account key completing", preflight.CredentialsRotation, preflight.Fail, "service account key: Completing", func(w *preflight.World) {
			rotate(w).ServiceAccountKey = &gardencorev1beta1.ServiceAccountKeyRotation{Phase: gardencorev1beta1.RotationCompleting}
		}),
		Entry("etcd encryption key preparing", preflight.CredentialsRotation, preflight.Fail, "etcd encryption key: Preparing", func(w *preflight.World) {
			rotate(w).ETCDEncryptionKey = &gardencorev1beta1.ETCDEncryptionKeyRotation{Phase: gardencorev1beta1.RotationPreparing}
		}),
		Entry("stable phases", preflight.CredentialsRotation, preflight.Pass, "no rotation", func(w *preflight.World) {
			rotate(w).CertificateAuthorities = &gardencorev1beta1.CARotation{Phase: gardencorev1beta1.RotationPrepared}
			rotate(w).ETCDEncryptionKey = &gardencorev1beta1.ETCDEncryptionKeyRotation{Phase: gardencorev1beta1.RotationCompleted}
		}),

		Entry("provider types differ", preflight.ProviderType, preflight.Fail, "seed-b of type other", func(w *preflight.World) { w.Destination.Seed.Spec.Provider.Type = "other" }),

		Entry("patch versions differ", preflight.GardenletVersion, preflight.Fail, "seed-b is v1.150.1", func(w *preflight.World) { w.Destination.Seed.Status.Gardener.Version = "v1.150.1" }),
		Entry("version not reported", preflight.GardenletVersion, preflight.Unknown, "seed seed-a has not reported", func(w *preflight.World) { w.Source.Seed.Status.Gardener.Version = "" }),

		Entry("destination not ready", preflight.SeedHealth, preflight.Fail, "seed seed-b", func(w *preflight.World) {
			w.Destination.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionUnknown
		}),
		Entry("destination with sick components", preflight.SeedHealth, preflight.Fail, "seed seed-b", func(w *preflight.World) {
			w.Destination.Seed.Status.Conditions[1].Status = gardencorev1beta1.ConditionFalse
		}),
		Entry("source with sick components, which is a reason to leave it", preflight.SeedHealth, preflight.Pass, "healthy", func(w *preflight.World) {
			w.Source.Seed.Status.Conditions[1].Status = gardencorev1beta1.ConditionFalse
		}),
		Entry("source without its gardenlet", preflight.SeedHealth, preflight.Fail, "seed seed-a: condition GardenletReady is Unknown", func(w *preflight.World) {
			w.Source.Seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionUnknown
		}),
		Entry("source never ready", preflight.SeedHealth, preflight.Unknown, "seed seed-a has no condition GardenletReady", func(w *preflight.World) { w.Source.Seed.Status.Conditions = nil }),
		Entry("destination behind its specification", preflight.SeedHealth, preflight.Fail, "observed generation", func(w *preflight.World) { w.Destination.Seed.Generation = 2 }),
		Entry("destination in deletion", preflight.SeedHealth, preflight.Fail, "being deleted", func(w *preflight.World) { w.Destination.Seed.DeletionTimestamp = new(metav1.Now()) }),
		Entry("source in deletion, which is a reason to leave it", preflight.SeedHealth, preflight.Pass, "healthy", func(w *preflight.World) { w.Source.Seed.DeletionTimestamp = new(metav1.Now()) }),

		Entry("too far", preflight.RegionDistance, preflight.Fail, "is 181, the threshold is 180", func(w *preflight.World) { w.Destination.Seed.Spec.Provider.Region = "region-c" }),
		Entry("too far but allowed", preflight.RegionDistance, preflight.Pass, "allowed", func(w *preflight.World) {
			w.Destination.Seed.Spec.Provider.Region = "region-c"
			w.Shoot.Annotations["migration.gardener.cloud/allow-distant-regions"] = "true"
		}),
		Entry("at the threshold", preflight.RegionDistance, preflight.Pass, "is 180 of at most 180", func(*preflight.World) {}),
		Entry("own threshold", preflight.RegionDistance, preflight.Fail, "is 180, the threshold is 100", func(w *preflight.World) {
			w.RegionConfigMaps[0].Annotations["migration.gardener.cloud/inter-region-distance-threshold"] = "100"
		}),
		Entry("broken threshold", preflight.RegionDistance, preflight.Unknown, `is "far"`, func(w *preflight.World) {
			w.RegionConfigMaps[0].Annotations["migration.gardener.cloud/inter-region-distance-threshold"] = "far"
		}),
		Entry("negative threshold", preflight.RegionDistance, preflight.Unknown, `is "-1"`, func(w *preflight.World) {
			w.RegionConfigMaps[0].Annotations["migration.gardener.cloud/inter-region-distance-threshold"] = "-1"
		}),
		Entry("no distances", preflight.RegionDistance, preflight.Fail, `no region ConfigMap for cloud profile "local"`, func(w *preflight.World) { w.RegionConfigMaps = nil }),
		Entry("source region not listed", preflight.RegionDistance, preflight.Fail, "region region-x is not in", func(w *preflight.World) { w.Source.Seed.Spec.Provider.Region = "region-x" }),
		Entry("destination region not listed", preflight.RegionDistance, preflight.Fail, "to region region-x is not in", func(w *preflight.World) { w.Destination.Seed.Spec.Provider.Region = "region-x" }),
		Entry("distances cannot be parsed", preflight.RegionDistance, preflight.Unknown, "cannot be parsed", func(w *preflight.World) { w.RegionConfigMaps[0].Data["region-a"] = "- x" }),
		Entry("distances cannot be read", preflight.RegionDistance, preflight.Unknown, "boom", func(w *preflight.World) { w.RegionConfigMaps, w.RegionError = nil, errors.New("boom") }),
		Entry("same region needs no distances", preflight.RegionDistance, preflight.Pass, "in region region-a", func(w *preflight.World) {
			w.Destination.Seed.Spec.Provider.Region = "region-a"
			w.RegionConfigMaps, w.RegionError = nil, errors.New("boom")
		}),

		Entry("no backup in the source", preflight.Backup, preflight.Fail, "seed seed-a has no backup", func(w *preflight.World) { w.Source.Seed.Spec.Backup = nil }),
		Entry("no backup in the destination", preflight.Backup, preflight.Fail, "seed seed-b has no backup", func(w *preflight.World) { w.Destination.Seed.Spec.Backup = nil }),
		Entry("bucket not ready", preflight.Backup, preflight.Fail, "seed seed-b: no bucket", func(w *preflight.World) {
			w.Destination.Seed.Status.Conditions[2] = gardencorev1beta1.Condition{Type: gardencorev1beta1.SeedBackupBucketsReady, Status: gardencorev1beta1.ConditionFalse, Message: "no bucket"}
		}),

		Entry("internal domains differ", preflight.InternalDomain, preflight.Fail, `seed seed-b is "other.example.com"`, func(w *preflight.World) { w.Destination.Seed.Spec.DNS.Internal.Domain = "other.example.com" }),
		Entry("internal domain missing", preflight.InternalDomain, preflight.Fail, `seed seed-a is ""`, func(w *preflight.World) { w.Source.Seed.Spec.DNS.Internal = nil }),

		Entry("no ingress", preflight.Exposure, preflight.Fail, "seed seed-b has no ingress domain", func(w *preflight.World) { w.Destination.Seed.Spec.Ingress = nil }),
		Entry("same ingress domain", preflight.Exposure, preflight.Fail, "both seeds have", func(w *preflight.World) { w.Destination.Seed.Spec.Ingress.Domain = w.Source.Seed.Spec.Ingress.Domain }),

		Entry("gate off", preflight.EtcdMemberNames, preflight.Fail, "off in seed seed-a", func(w *preflight.World) { w.Gardenlet.ETCDConfig.FeatureGates["UpgradeEtcdVersion"] = false }),
		Entry("gate not set", preflight.EtcdMemberNames, preflight.Fail, "off in seed seed-a", func(w *preflight.World) { w.Gardenlet.ETCDConfig = nil }),
	)

	It("cannot say anything about seeds that it cannot read", func() {
		world := fit()
		world.Destination = preflight.SeedView{Name: "seed-b", Error: errors.New("forbidden")}
		obstacles := preflight.Obstacles(preflight.Evaluate(world))
		Expect(obstacles).To(HaveLen(7))
		Expect(obstacles).To(HaveEach(And(
			HaveField("Status", preflight.Unknown),
			HaveField("Evidence", "seed seed-b could not be read: forbidden"),
		)))
	})

	It("names all obstacles", func() {
		world := fit()
		world.Shoot.Spec.ControlPlane = nil
		world.Destination.Seed.Status.Gardener.Version = "v1.150.1"
		Expect(preflight.Sentences(preflight.Evaluate(world))).To(ConsistOf(HavePrefix("HighAvailability is Fail: "), HavePrefix("GardenletVersion is Fail: ")))
	})
})

var _ = Describe("Checker", func() {
	var (
		ctx     = context.Background()
		world   preflight.World
		objects []client.Object
		funcs   interceptor.Funcs
	)

	BeforeEach(func() {
		world, funcs = fit(), interceptor.Funcs{}
		objects = []client.Object{world.Source.Seed, world.Destination.Seed, regions()}
	})

	check := func() []preflight.Finding {
		c := fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
		return preflight.New(preflight.Options{Reader: c, OwnSeed: world.OwnSeed, Gardenlet: world.Gardenlet}).Check(ctx, world.Shoot)
	}

	It("reads the seeds and the distances", func() {
		Expect(preflight.Sentences(check())).To(BeEmpty())
		Expect(find(check(), preflight.RegionDistance).Evidence).To(Equal("the distance from region region-a to region region-b is 180 of at most 180"))
	})

	It("takes the name of the cloud profile also from the old field", func() {
		world.Shoot.Spec.CloudProfile = nil
		world.Shoot.Spec.CloudProfileName = new("local") //nolint:staticcheck // Deprecated, but older shoots have nothing else.
		Expect(preflight.Sentences(check())).To(BeEmpty())
	})

	It("leaves out what it has no configuration for", func() {
		world.Gardenlet = nil
		Expect(check()).NotTo(ContainElement(HaveField("Name", preflight.EtcdMemberNames)))
	})

	It("reads nothing for a shoot that does not migrate", func() {
		funcs.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			Fail("nothing is to be read")
			return nil
		}
		world.Shoot.Status.SeedName = world.Shoot.Spec.SeedName
		Expect(preflight.Obstacles(check())).To(ConsistOf(HaveField("Name", preflight.Intent)))
	})

	It("says Unknown when it cannot read", func() {
		funcs.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no lists today")
		}
		Expect(find(check(), preflight.RegionDistance)).To(And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring("no lists today"))))

		objects = objects[1:]
		Expect(find(check(), preflight.SeedHealth)).To(And(HaveField("Status", preflight.Unknown), HaveField("Evidence", ContainSubstring(`"seed-a" not found`))))
	})
})

func hibernate(w *preflight.World, enabled, hibernated bool) {
	w.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: new(enabled)}
	w.Shoot.Status.IsHibernated = hibernated
}

func operate(w *preflight.World, operationType gardencorev1beta1.LastOperationType, state gardencorev1beta1.LastOperationState) {
	w.Shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: operationType, State: state}
}

func rotate(w *preflight.World) *gardencorev1beta1.ShootCredentialsRotation {
	if w.Shoot.Status.Credentials == nil {
		w.Shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{Rotation: &gardencorev1beta1.ShootCredentialsRotation{}}
	}
	return w.Shoot.Status.Credentials.Rotation
}
