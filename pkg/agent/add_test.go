// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("#Predicate", func() {
	var shoot *gardencorev1beta1.Shoot

	BeforeEach(func() {
		w := newWorld()
		w.goTo(sixth)
		shoot = w.shoot()
	})

	DescribeTable("updates",
		func(change func(*gardencorev1beta1.Shoot), want bool) {
			after := shoot.DeepCopy()
			change(after)
			Expect(agent.Predicate().Update(event.UpdateEvent{ObjectOld: shoot, ObjectNew: after})).To(Equal(want))
		},
		Entry("nothing", func(*gardencorev1beta1.Shoot) {}, false),
		Entry("a message", func(s *gardencorev1beta1.Shoot) { s.Status.LiveMigration.Conditions[5].Message = "x" },
			false),
		Entry("a reason", func(s *gardencorev1beta1.Shoot) { s.Status.LiveMigration.Conditions[5].Reason = "x" },
			false),
		Entry("progress", func(s *gardencorev1beta1.Shoot) { s.Status.LastOperation.Progress = 99 }, false),
		Entry("a care condition", func(s *gardencorev1beta1.Shoot) { s.Status.Conditions = nil }, false),
		Entry("the reason that the peer waits for", func(s *gardencorev1beta1.Shoot) {
			s.Status.LiveMigration.Conditions[5].Reason = string(steps.ReasonReadyForSourceMemberRemoval)
		}, true),
		Entry("a status", func(s *gardencorev1beta1.Shoot) { s.Status.LiveMigration.Conditions[5].Status = isTrue },
			true),
		Entry("an annotation", func(s *gardencorev1beta1.Shoot) { s.Annotations["x"] = "y" }, true),
		Entry("spec.seedName", func(s *gardencorev1beta1.Shoot) { s.Spec.SeedName = ptr.To("x") }, true),
		Entry("status.seedName", func(s *gardencorev1beta1.Shoot) { s.Status.SeedName = ptr.To("x") }, true),
		Entry("deletion", func(s *gardencorev1beta1.Shoot) { s.DeletionTimestamp = ptr.To(metav1.Now()) }, true),
		Entry("the constraint", func(s *gardencorev1beta1.Shoot) {
			s.Status.Constraints = []gardencorev1beta1.Condition{
				{Type: gardencorev1beta1.ShootReadyForMigration, Status: isTrue},
			}
		}, true),
		Entry("an aborted last operation", func(s *gardencorev1beta1.Shoot) {
			s.Status.LastOperation.State = gardencorev1beta1.LastOperationStateAborted
		}, true),
		Entry("a foreign last operation", func(s *gardencorev1beta1.Shoot) {
			s.Status.LastOperation.Type = gardencorev1beta1.LastOperationTypeMigrate
		}, true),
	)

	It("should let in new shoots only if they have to do with a migration", func() {
		Expect(agent.Predicate().Create(event.CreateEvent{Object: shoot})).To(BeTrue())
		Expect(agent.Predicate().Create(event.CreateEvent{Object: &gardencorev1beta1.Shoot{}})).To(BeFalse())
		shoot.Spec.SeedName = shoot.Status.SeedName
		Expect(agent.Predicate().Create(event.CreateEvent{Object: shoot})).To(BeTrue())
		Expect(agent.Predicate().Delete(event.DeleteEvent{Object: shoot})).To(BeTrue())
	})

	It("should keep out other kinds", func() {
		Expect(agent.Predicate().Create(event.CreateEvent{Object: &corev1.Secret{}})).To(BeFalse())
		Expect(agent.Predicate().Update(event.UpdateEvent{ObjectOld: shoot, ObjectNew: &corev1.Secret{}})).To(BeFalse())
		Expect(agent.Predicate().Update(event.UpdateEvent{ObjectOld: &corev1.Secret{}, ObjectNew: shoot})).To(BeFalse())
	})
})
