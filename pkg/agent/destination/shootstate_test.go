// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/agent/destination"
	"github.com/livecpm/livecpm/pkg/agent/shootstate"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("The ShootState in the destination", func() {
	const timestamp = "gardener.cloud/timestamp"
	var (
		deps *destination.Deps
		m    *migration.Migration
	)

	// stored puts a ShootState with a record and a date into the garden.
	stored := func(record string, date time.Time) {
		GinkgoHelper()
		Expect(deps.Garden.Create(ctx, &gardencorev1beta1.ShootState{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Shoot.Namespace, Name: m.Shoot.Name, Annotations: map[string]string{
				shootstate.AnnotationTaken: record, timestamp: date.Format(time.RFC3339)},
		}})).To(Succeed())
	}
	date := func() string {
		GinkgoHelper()
		state := &gardencorev1beta1.ShootState{}
		Expect(deps.Garden.Get(ctx, client.ObjectKeyFromObject(m.Shoot), state)).To(Succeed())
		return state.Annotations[timestamp]
	}

	BeforeEach(func() {
		deps, m = newDeps(), newMigration()
		m.Log = logr.Discard()
	})

	DescribeTable("should hold what restores from it", func(record string, holds bool) {
		stored(record, now)
		for what, outcome := range map[string]func() (steps.Outcome, error){
			"step 4": func() (steps.Outcome, error) { return destination.Restorable(ctx, deps, m) },
			"step 8": func() (steps.Outcome, error) {
				m.Shoot.Spec.Provider.Workers = nil
				return destination.PrepareRestoration(ctx, deps, m)
			},
		} {
			got, err := outcome()
			Expect(err).NotTo(HaveOccurred(), what)
			Expect(got.Finished()).To(Equal(!holds), what)
			if holds {
				Expect(got.Reason).To(Equal(steps.ReasonShootStateDiffers), what)
				Expect(got.Reason.Fault()).To(BeTrue(), what)
			}
		}
	},
		Entry("when it has what was taken", `{"machines":0}`, false),
		Entry("when it lacks a machine", `{"machines":1}`, true),
		Entry("when it lacks a state", `{"machines":0,"states":{"Extension/audit":"00"}}`, true),
		Entry("when nobody knows what was taken", "", true),
		Entry("not when an operator accepts it", shootstate.TakenAccepted, false),
	)

	It("should keep the kube-apiserver from being rolled out while it is not what was taken", func() {
		stored(`{"machines":1}`, now)
		outcome, err := destination.StartKubeAPIServer(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		Expect(outcome.Reason).To(Equal(steps.ReasonShootStateDiffers))
	})

	It("should be dated for the gardenlet, which restores from it, only while it is what was taken", func() {
		ahead := now.Add(24 * time.Hour)
		stored(`{"machines":1}`, ahead)
		outcome, err := destination.DateForGardenlet(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeFalse())
		Expect(outcome.Reason).To(Equal(steps.ReasonShootStateDiffers))
		Expect(date()).To(Equal(ahead.Format(time.RFC3339)))

		state := &gardencorev1beta1.ShootState{}
		Expect(deps.Garden.Get(ctx, client.ObjectKeyFromObject(m.Shoot), state)).To(Succeed())
		state.Annotations[shootstate.AnnotationTaken] = `{"machines":0}`
		Expect(deps.Garden.Update(ctx, state)).To(Succeed())
		outcome, err = destination.DateForGardenlet(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(date()).To(Equal(now.Format(time.RFC3339)))
	})

	It("should not keep the controllers of a shoot with workers away, which the last step starts without it", func() {
		stored(`{"machines":1}`, now)
		m.Shoot.Spec.Provider.Workers = []gardencorev1beta1.Worker{{Name: "pool"}}
		outcome, err := destination.PrepareRestoration(ctx, deps, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(outcome.Finished()).To(BeTrue())
		Expect(date()).To(Equal(now.Add(24*time.Hour).Format(time.RFC3339)), "it is dated nevertheless")
	})

	It("should hold when it cannot be read", func() {
		_, err := destination.Restorable(ctx, deps, m)
		Expect(err).To(MatchError(ContainSubstring("failed to read ShootState garden-demo/live")))
	})

	DescribeTable("should be dated again", func(at int, status gardencorev1beta1.ConditionStatus, dated bool) {
		stored(`{"machines":0}`, now)
		m.Step = steps.Table()[at]
		m.Shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{
			Conditions: []gardencorev1beta1.Condition{{Type: m.Step.Condition, Status: status}}}
		destination.KeepShootState(ctx, deps, m)
		expected := now
		if dated {
			expected = now.Add(24 * time.Hour)
		}
		Expect(date()).To(Equal(expected.Format(time.RFC3339)))
	},
		Entry("not before the source has written it", 0, gardencorev1beta1.ConditionProgressing, false),
		Entry("in a pause before step 2", 1, gardencorev1beta1.ConditionUnknown, true),
		Entry("in step 4", 3, gardencorev1beta1.ConditionProgressing, true),
		Entry("in a hold before step 7", 6, gardencorev1beta1.ConditionUnknown, true),
		Entry("in a hold before step 8", 7, gardencorev1beta1.ConditionUnknown, true),
		Entry("not beside the last step, which gives it its last date", 7, gardencorev1beta1.ConditionProgressing,
			false),
	)
})
