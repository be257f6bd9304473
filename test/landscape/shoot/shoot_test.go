// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package shoot_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"

	"github.com/livecpm/livecpm/test/landscape/apply"
	"github.com/livecpm/livecpm/test/landscape/config"
	. "github.com/livecpm/livecpm/test/landscape/shoot"
)

var _ = Describe("Shoot", func() {
	var (
		ctx     = context.Background()
		c       client.Client
		object  *gardencorev1beta1.Shoot
		shoot   *Shoot
		reports []string
	)

	BeforeEach(func() {
		cfg, err := config.New(config.Place{Prefix: "test", Network: "192.0.2", Repo: "/repo",
			State: GinkgoT().TempDir(), Cache: "/cache"})
		Expect(err).NotTo(HaveOccurred())
		reports = nil
		shoot = &Shoot{Config: cfg, Name: "live", Seed: "seed-a", Report: func(format string, args ...any) {
			reports = append(reports, fmt.Sprintf(format, args...))
		}}
		seedName := "seed-b"
		object = &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "live"},
			Spec: gardencorev1beta1.ShootSpec{SeedName: &seedName}}
		c = fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(object).
			WithStatusSubresource(object).Build()
	})

	operation := func(kind gardencorev1beta1.LastOperationType, state gardencorev1beta1.LastOperationState) {
		GinkgoHelper()
		object.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: kind, State: state, Description: "because",
			Progress: 7}
		Expect(c.Status().Update(ctx, object)).To(Succeed())
	}

	It("should leave a shoot alone that has moved to another seed", func() {
		Expect(shoot.Create(ctx, c)).To(Succeed())
		Expect(shoot.Created).To(BeFalse())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(*object.Spec.SeedName).To(Equal("seed-b"))
	})

	It("should be content with a shoot whose last operation has succeeded", func() {
		operation(gardencorev1beta1.LastOperationTypeRestore, gardencorev1beta1.LastOperationStateSucceeded)
		Expect(shoot.Wait(ctx, c)).To(Succeed())
		Expect(reports).To(ConsistOf("shoot live: Restore Succeeded"))
	})

	It("should say why a creation has failed", func() {
		operation(gardencorev1beta1.LastOperationTypeCreate, gardencorev1beta1.LastOperationStateFailed)
		Expect(shoot.Wait(ctx, c)).To(MatchError(ContainSubstring("Create has failed: because")))
	})

	DescribeTable("should be made as it is asked for", func(change func(*Shoot), highlyAvailable, hibernated bool) {
		change(shoot)
		manifest, err := shoot.Manifest("region-a", "1.36.0")
		Expect(err).NotTo(HaveOccurred())
		made := &gardencorev1beta1.Shoot{}
		Expect(yaml.UnmarshalStrict(manifest, made)).To(Succeed())
		Expect(v1beta1helper.IsHAControlPlaneConfigured(made)).To(Equal(highlyAvailable))
		Expect(v1beta1helper.HibernationIsEnabled(made)).To(Equal(hibernated))
		Expect(made.Spec.SeedName).To(HaveValue(Equal("seed-a")))
		Expect(made.Spec.Provider.Type).To(Equal("local"))
	},
		Entry("by default", func(*Shoot) {}, true, false),
		Entry("single", func(s *Shoot) { s.Single = true }, false, false),
		Entry("hibernated", func(s *Shoot) { s.Hibernated = true }, true, true),
	)

	DescribeTable("should have the agreement and the maintenance time window that are asked for", func(workers bool) {
		decode := func() *gardencorev1beta1.Shoot {
			GinkgoHelper()
			manifest, err := shoot.Manifest("region-a", "1.36.0")
			Expect(err).NotTo(HaveOccurred())
			objects, err := apply.Decode(manifest)
			Expect(err).NotTo(HaveOccurred())
			content, err := objects[len(objects)-1].MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			made := &gardencorev1beta1.Shoot{}
			Expect(yaml.UnmarshalStrict(content, made)).To(Succeed())
			return made
		}
		shoot.Workers = workers
		made := decode()
		Expect(made.Annotations).NotTo(HaveKey("migration.gardener.cloud/live-migrate-with-gap"))
		Expect(made.Spec.Maintenance.TimeWindow).To(BeNil())

		shoot.WithGap, shoot.MaintenanceFrom = true, time.Date(2026, 11, 29, 22, 3, 4, 0, time.UTC)
		made = decode()
		Expect(made.Annotations).To(HaveKeyWithValue("migration.gardener.cloud/live-migrate-with-gap", "true"))
		Expect(made.Spec.Maintenance.TimeWindow).To(HaveValue(Equal(gardencorev1beta1.MaintenanceTimeWindow{
			Begin: "220304+0000", End: "040304+0000"})))
	},
		Entry("without workers", false),
		Entry("with workers", true),
	)

	It("should have workers if that is asked for", func() {
		shoot.Workers = true
		manifest, err := shoot.Manifest("region-a", "1.36.0")
		Expect(err).NotTo(HaveOccurred())
		objects, err := apply.Decode(manifest)
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(HaveExactElements(HaveField("GetKind()", "Secret"),
			HaveField("GetKind()", "CredentialsBinding"), HaveField("GetKind()", "Shoot")))

		made := &gardencorev1beta1.Shoot{}
		content, err := objects[2].MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(content, made)).To(Succeed())
		Expect(v1beta1helper.IsWorkerless(made)).To(BeFalse())
		Expect(v1beta1helper.IsHAControlPlaneConfigured(made)).To(BeTrue())
		Expect(made.Spec.Provider.Workers).To(HaveExactElements(HaveField("Name", "one"), HaveField("Name", "two")))
		for _, pool := range made.Spec.Provider.Workers {
			Expect(pool.Minimum).To(Equal(pool.Maximum),
				"with another maximum, Gardener would want a cluster-autoscaler")
			Expect(pool.Minimum).To(BeEquivalentTo(2))
		}
		Expect(made.Spec.CredentialsBindingName).To(HaveValue(Equal(objects[1].GetName())))

		ranges := []string{*made.Spec.Networking.Nodes, *made.Spec.Networking.Pods, *made.Spec.Networking.Services}
		for _, seed := range shoot.Config.Seeds {
			ranges = append(ranges, seed.PodCIDR, seed.ServiceCIDR, seed.IP+"/32")
		}
		for i, one := range ranges {
			for _, other := range ranges[:i] {
				Expect(netip.MustParsePrefix(one).Overlaps(netip.MustParsePrefix(other))).To(BeFalse(),
					one+" and "+other)
			}
		}

		secret := &corev1.Secret{}
		content, err = objects[0].MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(content, secret)).To(Succeed())
		cloud, err := clientcmd.Load(secret.Data["kubeconfig"])
		Expect(err).NotTo(HaveOccurred())
		Expect(cloud.Clusters).To(ContainElement(HaveField("Server", "https://192.0.2.11:6443")))
	})

	It("should confirm the deletion of a shoot and wait until it is gone", func() {
		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		object.Finalizers = []string{"gardener"}
		Expect(c.Update(ctx, object)).To(Succeed())
		over, cancel := context.WithCancel(ctx)
		cancel()
		Expect(shoot.Remove(over, c)).To(MatchError(ContainSubstring("is not gone in time")))

		Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		Expect(object.Annotations).To(HaveKeyWithValue("confirmation.gardener.cloud/deletion", "true"))
		Expect(object.DeletionTimestamp).NotTo(BeNil())
		object.Finalizers = nil
		Expect(c.Update(ctx, object)).To(Succeed())
		Expect(shoot.Remove(ctx, c)).To(Succeed())
	})

	It("should say how far it was when time is over", func() {
		operation(gardencorev1beta1.LastOperationTypeCreate, gardencorev1beta1.LastOperationStateProcessing)
		over, cancel := context.WithCancel(ctx)
		cancel()
		Expect(shoot.Wait(over, c)).To(MatchError(ContainSubstring("Create Processing 7%: because")))
	})
})

var _ = Describe("SeedReady", func() {
	ctx := context.Background()

	seedWith := func(status gardencorev1beta1.ConditionStatus, identity *string,
		change ...func(*gardencorev1beta1.Seed)) client.Client {
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a", Generation: 2}}
		seed.Status.ClusterIdentity = identity
		seed.Status.ObservedGeneration = 2
		seed.Status.LastOperation = &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded,
			Description: "done",
		}
		for _, kind := range []gardencorev1beta1.ConditionType{
			gardencorev1beta1.GardenletReady, gardencorev1beta1.SeedExtensionsReady,
			gardencorev1beta1.SeedBackupBucketsReady, gardencorev1beta1.SeedSystemComponentsHealthy,
		} {
			seed.Status.Conditions = append(seed.Status.Conditions,
				gardencorev1beta1.Condition{Type: kind, Status: status, Message: "so it is"})
		}
		for _, change := range change {
			change(seed)
		}
		return fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(seed).Build()
	}

	It("should take a seed whose conditions are all True", func() {
		identity := "me"
		Expect(SeedReady(ctx, seedWith(gardencorev1beta1.ConditionTrue, &identity), "seed-a")).To(Succeed())
	})

	It("should name what a seed lacks", func() {
		Expect(SeedReady(ctx, seedWith(gardencorev1beta1.ConditionFalse, nil), "seed-a")).
			To(MatchError("condition GardenletReady is False: so it is"))
		Expect(SeedReady(ctx, seedWith(gardencorev1beta1.ConditionTrue, nil), "seed-a")).
			To(MatchError(ContainSubstring("cluster identity")))
		Expect(SeedReady(ctx, seedWith(gardencorev1beta1.ConditionTrue, nil), "seed-c")).
			To(MatchError(ContainSubstring("not registered")))
	})

	DescribeTable("should wait until the gardenlet has set up the seed as it is configured",
		func(change func(*gardencorev1beta1.Seed), message string) {
			identity := "me"
			Expect(SeedReady(ctx, seedWith(gardencorev1beta1.ConditionTrue, &identity, change), "seed-a")).
				To(MatchError("not set up by its gardenlet yet: " + message))
		},
		Entry("not begun", func(seed *gardencorev1beta1.Seed) { seed.Status.LastOperation = nil }, "no operation"),
		Entry("under way", func(seed *gardencorev1beta1.Seed) {
			seed.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
		}, "Reconcile Processing: done"),
		Entry("failed", func(seed *gardencorev1beta1.Seed) {
			seed.Status.LastOperation.State = gardencorev1beta1.LastOperationStateError
		}, "Reconcile Error: done"),
		Entry("with an older configuration", func(seed *gardencorev1beta1.Seed) { seed.Generation = 3 },
			"Reconcile Succeeded: done"),
	)
})
