// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package trigger_test

import (
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/test/integration/framework"
	"github.com/livecpm/livecpm/test/simulation"
)

// Every case is judged twice: by gardener-apiserver when spec.seedName changes, and by the agents' own check. They have
// to agree, as the agents check again what may have changed after the trigger.
var _ = Describe("Trigger", func() {
	var (
		count                int
		source, destination  *gardencorev1beta1.Seed
		shoot                *gardencorev1beta1.Shoot
		regions              *corev1.ConfigMap
		annotations          map[string]string
		sourceStatus, status func(*gardencorev1beta1.SeedStatus)
		shootStatus          func(*gardencorev1beta1.ShootStatus)

		// create makes the objects and waits until the admission plugins know the seeds.
		create = func() {
			GinkgoHelper()
			if regions != nil {
				Expect(garden.Client.Create(ctx, regions)).To(Succeed())
				DeferCleanup(func() { Expect(garden.Client.Delete(ctx, regions)).To(Succeed()) })
			}
			for _, seed := range []*gardencorev1beta1.Seed{source, destination} {
				Expect(garden.CreateSeed(ctx, seed)).To(Succeed())
			}
			for _, change := range []struct {
				seed   *gardencorev1beta1.Seed
				mutate func(*gardencorev1beta1.SeedStatus)
			}{{source, sourceStatus}, {destination, status}} {
				if change.mutate != nil {
					change.mutate(&change.seed.Status)
					Expect(garden.Client.Status().Update(ctx, change.seed)).To(Succeed())
				}
			}
			Expect(garden.CreateShoot(ctx, shoot)).To(Succeed())
			if shootStatus != nil {
				patch := client.MergeFrom(shoot.DeepCopy())
				shootStatus(&shoot.Status)
				Expect(garden.Client.Status().Patch(ctx, shoot, patch)).To(Succeed())
			}
			patch := client.MergeFrom(shoot.DeepCopy())
			for key, value := range annotations {
				metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, key, value)
			}
			Expect(garden.Client.Patch(ctx, shoot, patch)).To(Succeed())
		}
		// bind triggers and expects the answer. The informers of the admission plugins may lag behind a little.
		bind = func(answer gomegatypes.GomegaMatcher) {
			GinkgoHelper()
			Eventually(func() error {
				return garden.Bind(ctx, shoot.DeepCopy(), destination.Name)
			}).WithPolling(50 * time.Millisecond).Should(answer)
		}
		// check asks the agents' check for the shoot as it would be after the trigger.
		check = func() []preflight.Finding {
			triggered := &gardencorev1beta1.Shoot{}
			Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), triggered)).To(Succeed())
			triggered.Spec.SeedName = new(destination.Name)
			checker, err := simulation.NewChecker(garden.Client, source.Name, framework.GardenletVersion)
			Expect(err).NotTo(HaveOccurred())
			return checker.Check(ctx, triggered)
		}
		// exposureClass makes an ExposureClass whose handler has another name, and lets the shoot ask for it.
		exposureClass = func() {
			GinkgoHelper()
			class := &gardencorev1beta1.ExposureClass{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("private-%d", count)}, Handler: "intranet"}
			Expect(garden.Client.Create(ctx, class)).To(Succeed())
			shoot.Spec.ExposureClassName = new(class.Name)
		}
		distances = func(annotation string) *corev1.ConfigMap {
			configMap := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("regions-%d", count), Namespace: v1beta1constants.GardenNamespace,
					Labels: map[string]string{
						v1beta1constants.SchedulingPurpose: v1beta1constants.SchedulingPurposeRegionConfig,
					},
					Annotations: map[string]string{
						v1beta1constants.AnnotationSchedulingCloudProfiles: framework.CloudProfile,
					},
				},
				Data: map[string]string{"region": "near: 180\nfar: 181\n"},
			}
			if annotation != "" {
				configMap.Annotations[v1beta1constants.AnnotationMigrationInterRegionDistanceThreshold] = annotation
			}
			return configMap
		}
	)

	BeforeEach(func() {
		count++
		source = framework.NewSeed(fmt.Sprintf("source-%d", count))
		destination = framework.NewSeed(fmt.Sprintf("destination-%d", count))
		shoot = framework.NewShoot(fmt.Sprintf("t%d", count), source.Name)
		regions, sourceStatus, status, shootStatus = nil, nil, nil, nil
		annotations = map[string]string{v1beta1constants.AnnotationMigrationLiveMigrate: "true"}
	})

	It("should work through shoots/binding with the annotation, and only there", func() {
		create()
		Expect(preflight.Sentences(check())).To(BeEmpty())

		patch := client.MergeFrom(shoot.DeepCopy())
		direct := shoot.DeepCopy()
		direct.Spec.SeedName = new(destination.Name)
		Expect(garden.Client.Patch(ctx, direct, patch)).
			To(MatchError(ContainSubstring("please use the shoots/binding subresource")))

		bind(Succeed())
		Expect(garden.Client.Get(ctx, client.ObjectKeyFromObject(shoot), shoot)).To(Succeed())
		Expect(shoot.Spec.SeedName).To(HaveValue(Equal(destination.Name)))
		Expect(shoot.Status.SeedName).To(HaveValue(Equal(source.Name)))
		Expect(preflight.Sentences(check())).To(BeEmpty())
	})

	DescribeTable("what gardener-apiserver admits, and the agents refuse", func(name preflight.Name, prepare func()) {
		prepare()
		create()
		bind(Succeed())
		Expect(preflight.Obstacles(check())).To(ConsistOf(HaveField("Name", name)))
	},
		Entry("no handler of the ExposureClass", preflight.ExposureClass, func() {
			exposureClass()
			metav1.SetMetaDataAnnotation(&destination.ObjectMeta, seedfacts.AnnotationExposureClassHandlers,
				`["private"]`)
		}),
		Entry("nobody says which ExposureClasses are handled", preflight.ExposureClass, func() { exposureClass() }),
		Entry("IPv6 besides IPv4", preflight.IPFamilies, func() {
			destination.Spec.Networks.IPFamilies = []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv4,
				gardencorev1beta1.IPFamilyIPv6}
		}),
		Entry("IPv6 instead of IPv4", preflight.IPFamilies, func() {
			destination.Spec.Networks.IPFamilies = []gardencorev1beta1.IPFamily{gardencorev1beta1.IPFamilyIPv6}
			destination.Spec.Networks.Nodes, destination.Spec.Networks.Pods = new("fd00:1::/48"), "fd00:2::/48"
			destination.Spec.Networks.Services = "fd00:3::/108"
			destination.Spec.Networks.ShootDefaults = nil
		}),
	)

	It("should find the handler of the ExposureClass in the destination", func() {
		exposureClass()
		metav1.SetMetaDataAnnotation(&destination.ObjectMeta, seedfacts.AnnotationExposureClassHandlers,
			`["intranet","private"]`)
		create()
		bind(Succeed())
		Expect(preflight.Obstacles(check())).To(BeEmpty())
	})

	DescribeTable("seeds with the same IP families in the same order", func(families ...gardencorev1beta1.IPFamily) {
		for _, seed := range []*gardencorev1beta1.Seed{source, destination} {
			seed.Spec.Networks.IPFamilies = families
		}
		create()
		bind(Succeed())
		Expect(preflight.Obstacles(check())).To(BeEmpty())
	},
		Entry("IPv4", gardencorev1beta1.IPFamilyIPv4),
		Entry("both", gardencorev1beta1.IPFamilyIPv4, gardencorev1beta1.IPFamilyIPv6),
	)

	It("should be refused on creation", func() {
		Expect(garden.CreateSeed(ctx, source)).To(Succeed())
		shoot.Annotations = annotations
		Eventually(func() error { return garden.Client.Create(ctx, shoot.DeepCopy()) }).
			Should(MatchError(ContainSubstring("annotation must not be set on shoot creation")))
	})

	DescribeTable("prerequisites",
		func(name preflight.Name, refusal string, prepare func()) {
			prepare()
			create()

			if refusal == "" {
				bind(Succeed())
				Expect(preflight.Obstacles(check())).To(BeEmpty())
				return
			}
			bind(MatchError(ContainSubstring(refusal)))
			Expect(preflight.Obstacles(check())).To(ConsistOf(HaveField("Name", name)))
		},
		Entry("no high availability", preflight.HighAvailability,
			"must be configured for high availability", func() { shoot.Spec.ControlPlane = nil }),
		Entry("hibernated", preflight.NotHibernated, "not supported for hibernated", func() {
			shootStatus = func(s *gardencorev1beta1.ShootStatus) { s.IsHibernated = true }
		}),
		Entry("another provider type", preflight.ProviderType,
			"must use the same provider type", func() { destination.Spec.Provider.Type = framework.OtherProviderType }),
		Entry("another patch version", steps.GardenletVersion, "must run the same gardenlet version", func() {
			status = func(s *gardencorev1beta1.SeedStatus) { s.Gardener.Version = "v1.150.1" }
		}),
		Entry("version not reported", steps.GardenletVersion, "gardenlet version not reported for source seed", func() {
			sourceStatus = func(s *gardencorev1beta1.SeedStatus) { s.Gardener = nil }
		}),
		Entry("other region without distances", preflight.RegionDistance,
			"no scheduler region ConfigMap found", func() { destination.Spec.Provider.Region = "near" }),
		Entry("other region, near", preflight.RegionDistance, "", func() {
			destination.Spec.Provider.Region, regions = "near", distances("")
		}),
		Entry("other region, far", preflight.RegionDistance, "exceeds threshold 180", func() {
			destination.Spec.Provider.Region, regions = "far", distances("")
		}),
		Entry("other region, far but allowed", preflight.RegionDistance, "", func() {
			destination.Spec.Provider.Region = "far"
			annotations[v1beta1constants.AnnotationMigrationAllowDistantRegions] = "true"
		}),
		Entry("own threshold", preflight.RegionDistance, "exceeds threshold 100", func() {
			destination.Spec.Provider.Region, regions = "near", distances("100")
		}),
		Entry("broken threshold", preflight.RegionDistance, "invalid value", func() {
			destination.Spec.Provider.Region, regions = "near", distances("many")
		}),
		Entry("region not listed", preflight.RegionDistance, "not configured in region ConfigMap", func() {
			destination.Spec.Provider.Region, regions = "elsewhere", distances("")
		}),
		Entry("no backup", preflight.Backup, "backup is not configured", func() { destination.Spec.Backup = nil }),
		Entry("another internal domain", preflight.InternalDomain, "internal domain would change", func() {
			destination.Spec.DNS.Internal.Domain = "internal.example.org"
		}),
	)
})
