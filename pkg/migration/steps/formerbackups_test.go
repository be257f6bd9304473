// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = DescribeTable("#FormerBackups", func(mutate func(*gardencorev1beta1.Shoot), holder, former string) {
	source, destination := "seed-a", "seed-b"
	shoot := &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{steps.AnnotationIntent: "true",
			steps.AnnotationDeleteFormerBackups: "true"}},
		Spec:   gardencorev1beta1.ShootSpec{SeedName: &destination},
		Status: gardencorev1beta1.ShootStatus{SeedName: &source, LiveMigration: &gardencorev1beta1.LiveMigration{}},
	}
	for _, condition := range steps.ConditionTypes() {
		status := gardencorev1beta1.ConditionTrue
		if condition == steps.Last().Condition {
			status = gardencorev1beta1.ConditionProgressing
		}
		shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions,
			gardencorev1beta1.Condition{Type: condition, Status: status})
	}
	mutate(shoot)

	gotHolder, gotFormer, ok := steps.FormerBackups(shoot)
	Expect(ok).To(Equal(holder != ""))
	if ok {
		Expect(gotHolder).To(Equal(holder))
		Expect(gotFormer).To(Equal(former))
	}
},
	Entry("the destination in the last step", func(*gardencorev1beta1.Shoot) {}, "seed-b", "seed-a"),
	Entry("the destination, though the last step is late", func(s *gardencorev1beta1.Shoot) {
		setStatus(s, len(steps.ConditionTypes())-1, gardencorev1beta1.ConditionFalse)
	}, "seed-b", "seed-a"),
	Entry("nobody who has not asked", func(s *gardencorev1beta1.Shoot) {
		delete(s.Annotations, steps.AnnotationDeleteFormerBackups)
	}, "", ""),
	Entry("nobody without the intent", func(s *gardencorev1beta1.Shoot) {
		delete(s.Annotations, steps.AnnotationIntent)
	}, "", ""),
	Entry("nobody before the last step has begun", func(s *gardencorev1beta1.Shoot) {
		setStatus(s, len(steps.ConditionTypes())-1, gardencorev1beta1.ConditionUnknown)
	}, "", ""),
	Entry("nobody in an earlier step", func(s *gardencorev1beta1.Shoot) {
		setStatus(s, len(steps.ConditionTypes())-2, gardencorev1beta1.ConditionProgressing)
	}, "", ""),
	Entry("nobody after the hand-over", func(s *gardencorev1beta1.Shoot) { s.Status.SeedName = s.Spec.SeedName }, "",
		""),
	Entry("nobody when all is complete", func(s *gardencorev1beta1.Shoot) {
		setStatus(s, len(steps.ConditionTypes())-1, gardencorev1beta1.ConditionTrue)
	}, "", ""),
	Entry("the source when the destination has withdrawn", abortWithdrawn, "seed-a", "seed-b"),
	Entry("nobody while the destination withdraws", abort, "", ""),
)

var _ = DescribeTable("The snapshots of the source beside those of the destination", func(told *string, here int,
	obstacle string) {
	shoot := &gardencorev1beta1.Shoot{}
	if told != nil {
		shoot.Annotations = map[string]string{steps.AnnotationSourceRevision: *told}
	}
	got := steps.MixingObstacle(shoot, int64(here))
	if obstacle == "" {
		Expect(got).To(BeEmpty())
		return
	}
	Expect(got).To(ContainSubstring(obstacle))
},
	Entry("should be older ones of one history", new("4711"), 4712, ""),
	Entry("should not be newer ones of a history that a rebuilt cluster does not have", new("4713"), 4712,
		"they reach revision 4713, but the newest full snapshot of the destination only revision 4712"),
	Entry("should not be as new, when only their times would order them", new("4712"), 4712, "only revision 4712"),
	Entry("should be none of which nobody has told how new they are", nil, 4712, "has not told"),
	Entry("should be none of which something else is told", new("many"), 4712, `is no revision: "many"`),
)

func setStatus(shoot *gardencorev1beta1.Shoot, index int, status gardencorev1beta1.ConditionStatus) {
	shoot.Status.LiveMigration.Conditions[index].Status = status
}

// abort makes the shoot one whose migration is being aborted in its second step.
func abort(shoot *gardencorev1beta1.Shoot) {
	shoot.Annotations[steps.AnnotationAbort] = "true"
	for i := range shoot.Status.LiveMigration.Conditions {
		if i > 1 {
			setStatus(shoot, i, gardencorev1beta1.ConditionUnknown)
		}
	}
	setStatus(shoot, 1, gardencorev1beta1.ConditionProgressing)
}

// abortWithdrawn does the same, and the destination has withdrawn.
func abortWithdrawn(shoot *gardencorev1beta1.Shoot) {
	abort(shoot)
	setStatus(shoot, 1, gardencorev1beta1.ConditionFalse)
	shoot.Status.LiveMigration.Conditions[1].Reason = string(steps.ReasonWithdrawn)
}
