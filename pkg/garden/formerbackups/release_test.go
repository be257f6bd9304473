// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package formerbackups_test

import (
	"context"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/livecpm/livecpm/pkg/garden/formerbackups"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("The backup entry of a seed that was abandoned", func() {
	var (
		ctx    = context.Background()
		shoot  *gardencorev1beta1.Shoot
		entry  *gardencorev1beta1.BackupEntry
		seed   *gardencorev1beta1.Seed
		now    = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
		writes int
	)

	BeforeEach(func() {
		writes = 0
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live", UID: "uid",
				Annotations: map[string]string{steps.AnnotationIntent: "true", steps.AnnotationAbort: "true"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: ptr.To("seed-b")},
			Status: gardencorev1beta1.ShootStatus{
				SeedName: ptr.To("seed-a"), TechnicalID: "shoot--demo--live", UID: "status-uid",
				LiveMigration: &gardencorev1beta1.LiveMigration{},
			},
		}
		for _, condition := range steps.ConditionTypes() {
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: condition, Status: gardencorev1beta1.ConditionUnknown})
		}
		all := shoot.Status.LiveMigration.Conditions
		all[0].Status, all[0].Reason = gardencorev1beta1.ConditionFalse, string(steps.ReasonAborting)
		all[1].Status, all[1].Reason = gardencorev1beta1.ConditionFalse, string(steps.ReasonAbandoned)
		all[1].LastTransitionTime = metav1.NewTime(now.Add(-time.Minute))
		seed = &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-b"},
			Status: gardencorev1beta1.SeedStatus{Conditions: []gardencorev1beta1.Condition{{
				Type: gardencorev1beta1.GardenletReady, Status: gardencorev1beta1.ConditionUnknown}}}}
		entry = &gardencorev1beta1.BackupEntry{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "shoot--demo--live--status-uid",
				Annotations: map[string]string{"gardener.cloud/operation": "restore", "other": "kept"}},
			Spec:   gardencorev1beta1.BackupEntrySpec{BucketName: "uid-of-seed-b", SeedName: ptr.To("seed-b")},
			Status: gardencorev1beta1.BackupEntryStatus{SeedName: ptr.To("seed-b")},
		}
	})

	pass := func() (*gardencorev1beta1.BackupEntry, error) {
		GinkgoHelper()
		c := interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithObjects(shoot, entry, seed).WithStatusSubresource(entry).Build(),
			calls.Before(func(call calls.Call) error {
				if call.Writes() {
					writes++
				}
				return nil
			}))
		reconciler := &formerbackups.Reconciler{Client: c, APIReader: c, Clock: testclock.NewFakePassiveClock(now)}
		_, err := reconciler.Reconcile(ctx,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)})
		after := &gardencorev1beta1.BackupEntry{}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(entry), after)).To(Succeed())
		return after, err
	}

	It("should be the source's to take, as if the lost seed had released it", func() {
		after, err := pass()
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Spec.SeedName).To(HaveValue(Equal("seed-a")))
		Expect(after.Status.SeedName).To(BeNil())
		Expect(after.Status.LastOperation).To(HaveValue(And(
			HaveField("Type", gardencorev1beta1.LastOperationTypeMigrate),
			HaveField("State", gardencorev1beta1.LastOperationStateSucceeded))))
		Expect(after.Annotations).To(Equal(map[string]string{"other": "kept"}),
			"what the lost seed was asked for would be done to its bucket")
	})

	It("should also be taken from a seed that was lost while it released it", func() {
		entry.Spec.SeedName = ptr.To("seed-a")
		after, err := pass()
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Status.SeedName).To(BeNil())
	})

	It("should only be assigned at first while the gardenlet of that seed answers: that releases it", func() {
		seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionTrue
		after, err := pass()
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Spec.SeedName).To(HaveValue(Equal("seed-a")))
		Expect(after.Status.SeedName).To(HaveValue(Equal("seed-b")))
		Expect(after.Status.LastOperation).To(BeNil())
	})

	It("should be taken from a gardenlet that answers and has not released it in two minutes", func() {
		seed.Status.Conditions[0].Status = gardencorev1beta1.ConditionTrue
		shoot.Status.LiveMigration.Conditions[1].LastTransitionTime = metav1.NewTime(now.Add(-2 * time.Minute))
		after, err := pass()
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Status.SeedName).To(BeNil())
	})

	It("should be released again if a gardenlet that answers late has written that it is about to do so", func() {
		entry.Spec.SeedName, entry.Status.SeedName = ptr.To("seed-a"), nil
		entry.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeMigrate,
			State: gardencorev1beta1.LastOperationStateProcessing}
		after, err := pass()
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded))
	})

	DescribeTable("should be left alone", func(mutate func()) {
		mutate()
		_, err := pass()
		Expect(err).NotTo(HaveOccurred())
		Expect(writes).To(BeZero())
	},
		Entry("when the source has it", func() {
			entry.Spec.SeedName, entry.Status.SeedName = ptr.To("seed-a"), ptr.To("seed-a")
		}),
		Entry("while the source releases it: the destination was asked to prepare before its turn", func() {
			entry.Status.SeedName = ptr.To("seed-a")
		}),
		Entry("when the source may take it", func() {
			entry.Spec.SeedName, entry.Status.SeedName = ptr.To("seed-a"), nil
		}),
		Entry("before the members are out of the etcds", func() {
			shoot.Status.LiveMigration.Conditions[1].Reason = string(steps.ReasonAborting)
		}),
		Entry("when the abort is completed", func() {
			shoot.Status.LiveMigration.Conditions[0].Reason = string(steps.ReasonAborted)
		}),
		Entry("without the request", func() { delete(shoot.Annotations, steps.AnnotationAbort) }),
	)

	It("should not be taken from a third seed", func() {
		entry.Status.SeedName = ptr.To("seed-c")
		_, err := pass()
		Expect(err).To(MatchError(ContainSubstring("managed by seed \"seed-c\"")))
		Expect(writes).To(BeZero())
	})
})
