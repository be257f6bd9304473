// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Signs of life", func() {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

	// at returns a shoot in the given step (from 1), which has begun. The condition of each step was updated so many
	// minutes after noon as its number says.
	at := func(number int, annotations ...string) *gardencorev1beta1.Shoot {
		shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{
			LiveMigration: &gardencorev1beta1.LiveMigration{}}}
		for i, step := range steps.Table() {
			status := gardencorev1beta1.ConditionTrue
			switch {
			case i+1 == number:
				status = gardencorev1beta1.ConditionProgressing
			case i+1 > number:
				status = gardencorev1beta1.ConditionUnknown
			}
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
				gardencorev1beta1.Condition{Type: step.Condition, Status: status,
					LastUpdateTime: metav1.NewTime(noon.Add(time.Duration(i+1) * time.Minute))})
		}
		for _, annotation := range annotations {
			metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, annotation, "true")
		}
		return shoot
	}

	DescribeTable("#ShowsLife", func(number int, role steps.Role, expected bool, annotations ...string) {
		Expect(steps.ShowsLife(at(number, annotations...), steps.Table()[number-1], role)).To(Equal(expected))
	},
		Entry("the source, while the last members join", 6, steps.Source, true),
		Entry("not the owner of that step", 6, steps.Destination, false),
		Entry("not in another step of the destination", 2, steps.Source, false),
		Entry("not while a kube-apiserver starts", 4, steps.Source, false),
		Entry("the source, where the last members join before it", 4, steps.Source, true, steps.AnnotationForceShrink),
		Entry("not in a step of its own", 5, steps.Source, false),
		Entry("the source, where the destination may have to do without it", 7, steps.Source, true),
		Entry("not the destination there", 7, steps.Destination, false),
	)

	It("should not be shown before the step has begun", func() {
		Expect(steps.ShowsLife(at(5), steps.Table()[5], steps.Source)).To(BeFalse())
	})

	DescribeTable("#SeenAt", func(number int, role steps.Role, minutes int) {
		Expect(steps.SeenAt(steps.Conditions(at(number)), role)).
			To(Equal(noon.Add(time.Duration(minutes) * time.Minute)))
	},
		Entry("the step that the source has finished last", 6, steps.Source, 5),
		Entry("the step that the source works on", 5, steps.Source, 5),
		Entry("the step that the destination works on", 6, steps.Destination, 6),
		Entry("not a step that has not begun", 4, steps.Source, 3),
	)

	It("should not be known of a role that has done nothing", func() {
		Expect(steps.SeenAt(steps.Conditions(at(1)), steps.Destination)).To(BeZero())
		Expect(steps.SeenAt(nil, steps.Source)).To(BeZero())
	})

	It("should find the last step that a role has finished", func() {
		step, found := steps.LastFinishedOf(steps.Conditions(at(6)), steps.Source)
		Expect(found).To(BeTrue())
		Expect(step.Condition).To(Equal(gardencorev1beta1.ShootLiveMigrationMigrateDNSRecords))
		_, found = steps.LastFinishedOf(steps.Conditions(at(1)), steps.Source)
		Expect(found).To(BeFalse())
	})
})
