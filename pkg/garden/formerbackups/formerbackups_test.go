// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package formerbackups_test

import (
	"context"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/formerbackups"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Reconciler", func() {
	const (
		own    = "shoot--demo--live--status-uid"
		former = "source-" + own
	)
	var (
		ctx   = context.Background()
		shoot *gardencorev1beta1.Shoot
		entry *gardencorev1beta1.BackupEntry
	)

	BeforeEach(func() {
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "garden-demo", Name: "live", UID: "uid",
				Annotations: map[string]string{steps.AnnotationIntent: "true",
					steps.AnnotationDeleteFormerBackups: "true"},
			},
			Spec: gardencorev1beta1.ShootSpec{SeedName: ptr.To("seed-b"),
				Purpose: ptr.To(gardencorev1beta1.ShootPurposeTesting)},
			Status: gardencorev1beta1.ShootStatus{
				SeedName: ptr.To("seed-a"), TechnicalID: "shoot--demo--live", UID: "status-uid",
				LiveMigration: &gardencorev1beta1.LiveMigration{},
			},
		}
		for _, condition := range steps.ConditionTypes() {
			status := gardencorev1beta1.ConditionTrue
			if condition == steps.Last().Condition {
				status = gardencorev1beta1.ConditionProgressing
			}
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: condition, Status: status})
		}
		entry = &gardencorev1beta1.BackupEntry{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: own},
			Spec:       gardencorev1beta1.BackupEntrySpec{BucketName: "uid-of-seed-b", SeedName: ptr.To("seed-b")},
			Status:     gardencorev1beta1.BackupEntryStatus{SeedName: ptr.To("seed-b")},
		}
	})

	garden := func() client.WithWatch {
		seed := func(name string) *gardencorev1beta1.Seed {
			return &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
		}
		return fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithObjects(shoot, entry, seed("seed-a"), seed("seed-b")).Build()
	}
	pass := func(c client.Client) error {
		_, err := (&formerbackups.Reconciler{Client: c, APIReader: c}).Reconcile(ctx,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
		return err
	}
	created := func(c client.Client) []gardencorev1beta1.BackupEntry {
		GinkgoHelper()
		list := &gardencorev1beta1.BackupEntryList{}
		Expect(c.List(ctx, list)).To(Succeed())
		var out []gardencorev1beta1.BackupEntry
		for _, item := range list.Items {
			if item.Name != own {
				out = append(out, item)
			}
		}
		return out
	}

	It("should create the entry of the source's bucket for the destination that completes a migration", func() {
		c := garden()
		Expect(pass(c)).To(Succeed())
		Expect(created(c)).To(ConsistOf(And(
			HaveField("Name", former), HaveField("Namespace", "garden-demo"),
			HaveField("Spec.BucketName", "uid-of-seed-a"), HaveField("Spec.SeedName", HaveValue(Equal("seed-b"))),
			HaveField("OwnerReferences",
				ConsistOf(And(HaveField("Kind", "Shoot"), HaveField("Name", "live"),
					HaveField("Controller", HaveValue(BeTrue()))))),
			HaveField("Annotations", HaveKeyWithValue("shoot.gardener.cloud/purpose", "testing")),
		)))
		Expect(pass(c)).To(Succeed(), "an entry that is there is left alone")
	})

	It("should create the entry of the destination's bucket for the source after an abort", func() {
		shoot.Annotations[steps.AnnotationAbort] = "true"
		for i := range shoot.Status.LiveMigration.Conditions {
			shoot.Status.LiveMigration.Conditions[i].Status = gardencorev1beta1.ConditionUnknown
		}
		shoot.Status.LiveMigration.Conditions[0].Status = gardencorev1beta1.ConditionTrue
		shoot.Status.LiveMigration.Conditions[1].Status = gardencorev1beta1.ConditionFalse
		shoot.Status.LiveMigration.Conditions[1].Reason = string(steps.ReasonWithdrawn)
		entry.Spec = gardencorev1beta1.BackupEntrySpec{BucketName: "uid-of-seed-a", SeedName: ptr.To("seed-a")}
		entry.Status.SeedName = ptr.To("seed-a")

		c := garden()
		Expect(pass(c)).To(Succeed())
		Expect(created(c)).To(ConsistOf(And(
			HaveField("Name", former), HaveField("Spec.BucketName", "uid-of-seed-b"),
			HaveField("Spec.SeedName", HaveValue(Equal("seed-a"))),
		)))
	})

	DescribeTable("should never open a bucket in which the shoot's own backups may be", func(mutate func()) {
		mutate()
		c := garden()
		Expect(pass(c)).To(MatchError(ContainSubstring("are not deleted")))
		Expect(created(c)).To(BeEmpty())
	},
		Entry("they are there", func() { entry.Spec.BucketName = "uid-of-seed-a" }),
		Entry("another seed has them", func() { entry.Spec.SeedName = ptr.To("seed-a") }),
		Entry("the seed has not taken them yet", func() { entry.Status.SeedName = nil }),
	)

	It("should create nothing when it does not find the shoot's own entry", func() {
		entry.Name = "other"
		Expect(pass(garden())).To(MatchError(ContainSubstring("failed to read BackupEntry garden-demo/" + own)))
	})

	It("should create nothing that is not asked for, and not mind a Shoot that is gone", func() {
		delete(shoot.Annotations, steps.AnnotationDeleteFormerBackups)
		c := garden()
		Expect(pass(c)).To(Succeed())
		Expect(created(c)).To(BeEmpty())
		Expect(c.Delete(ctx, shoot)).To(Succeed())
		Expect(pass(c)).To(Succeed())
	})

	It("should not create again what the agent has just deleted", func() {
		c := garden()
		// The agent takes its request away and deletes the entry after the first look at the Shoot.
		racing := interceptor.NewClient(c,
			interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				object client.Object, opts ...client.GetOption) error {
				if key.Name == former {
					current := &gardencorev1beta1.Shoot{}
					Expect(c.Get(ctx, client.ObjectKeyFromObject(shoot), current)).To(Succeed())
					delete(current.Annotations, steps.AnnotationDeleteFormerBackups)
					Expect(c.Update(ctx, current)).To(Succeed())
				}
				return c.Get(ctx, key, object, opts...)
			}})
		Expect(pass(racing)).To(Succeed())
		Expect(created(c)).To(BeEmpty())
	})
})
