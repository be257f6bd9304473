// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

var _ = Describe("Summarize", func() {
	var (
		begin = time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
		clk   *testclock.FakeClock
		shoot *gardencorev1beta1.Shoot

		// apply lets the owner of the step write its condition, as the agents do.
		apply = func(number int, status gardencorev1beta1.ConditionStatus, reason steps.Reason) {
			GinkgoHelper()
			step := steps.Table()[number-1]
			updated, err := conditions.Apply(clk, steps.Conditions(shoot), conditions.Change{
				Step: step, Role: step.Owner, Status: status,
				Reason: reason, Message: "a message",
			})
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
		}
		// finish finishes all steps before the given one, each within a minute.
		finish = func(until int) {
			GinkgoHelper()
			for number := 1; number < until; number++ {
				apply(number, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
				clk.Step(time.Minute)
				apply(number, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
			}
		}
		abort = func(role steps.Role, reason steps.Reason) {
			GinkgoHelper()
			updated, err := conditions.Abort(clk, steps.Conditions(shoot), conditions.AbortChange{
				Role: role, Reason: reason, Message: "a message",
			})
			Expect(err).NotTo(HaveOccurred())
			shoot.Status.LiveMigration.Conditions = updated
		}
		look = func() summary.Summary { return summary.Summarize(shoot, clk.Now()) }
	)

	BeforeEach(func() {
		clk = testclock.NewFakeClock(begin)
		shoot = &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
				Annotations: map[string]string{steps.AnnotationIntent: "true"}},
			Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b")},
			Status: gardencorev1beta1.ShootStatus{
				SeedName:      new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{Conditions: conditions.Initialize(clk, nil)},
			},
		}
	})

	It("should tell where the shoot is when nothing is asked for", func() {
		shoot.Annotations, shoot.Status.LiveMigration, shoot.Spec.SeedName = nil, nil, new("seed-a")
		Expect(look()).To(Equal(summary.Summary{Namespace: "garden-demo", Name: "live", Destination: "seed-a",
			State: summary.None}))
	})

	It("should know a classic migration", func() {
		shoot.Annotations, shoot.Status.LiveMigration = nil, nil
		Expect(look()).To(Equal(summary.Summary{Namespace: "garden-demo", Name: "live", Source: "seed-a",
			Destination: "seed-b", State: summary.Classic}))
	})

	DescribeTable("states", func(prepare func(), expected summary.State, step int, reason steps.Reason) {
		prepare()
		actual := look()
		Expect(actual.State).To(Equal(expected))
		Expect(actual.Reason).To(Equal(string(reason)))
		if step == 0 {
			Expect(actual.Step).To(BeEmpty())
			return
		}
		Expect(actual.Step).To(Equal(steps.Table()[step-1].String()))
		Expect(actual.Owner).To(Equal(string(steps.Table()[step-1].Owner)))
	},
		Entry("without conditions", func() { shoot.Status.LiveMigration = nil }, summary.Requested, 0,
			steps.Reason("")),
		Entry("with the conditions of an earlier migration", func() { finish(9) }, summary.Requested, 0,
			steps.Reason("")),
		Entry("with its own", func() {}, summary.Requested, 1, steps.ReasonPending),
		Entry("held before the first step", func() {
			apply(1, gardencorev1beta1.ConditionUnknown,
				steps.ReasonBastionExists)
		}, summary.Held, 1, steps.ReasonBastionExists),
		Entry("at work", func() { apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted) },
			summary.Processing, 1, steps.ReasonStarted),
		Entry("between two steps", func() { finish(3) }, summary.Processing, 3, steps.ReasonPending),
		Entry("held later", func() {
			finish(3)
			apply(3, gardencorev1beta1.ConditionUnknown, steps.ReasonGateNotInForce)
		}, summary.Held, 3, steps.ReasonGateNotInForce),
		Entry("held in the middle of a step", func() {
			finish(7)
			apply(7, gardencorev1beta1.ConditionProgressing, steps.ReasonVersionSkew)
		}, summary.Held, 7, steps.ReasonVersionSkew),
		Entry("paused", func() {
			finish(6)
			apply(6, gardencorev1beta1.ConditionUnknown, steps.ReasonPaused)
		}, summary.Paused, 6, steps.ReasonPaused),
		Entry("overdue", func() {
			finish(4)
			apply(4, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
			apply(4, gardencorev1beta1.ConditionFalse, steps.ReasonDeadlineExceeded)
		}, summary.Overdue, 4, steps.ReasonDeadlineExceeded),
		Entry("completed", func() {
			finish(9)
			shoot.Annotations, shoot.Status.SeedName = nil, new("seed-b")
		}, summary.Succeeded, 0, steps.Reason("")),
		Entry("abort of the destination", func() {
			finish(2)
			apply(2, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
			shoot.Annotations[steps.AnnotationAbort] = "true"
			abort(steps.Destination, steps.ReasonAborting)
		}, summary.Aborting, 2, steps.ReasonAborting),
		Entry("abort of the source", func() {
			apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
			shoot.Annotations[steps.AnnotationAbort] = "true"
			abort(steps.Source, steps.ReasonAborting)
		}, summary.Aborting, 1, steps.ReasonAborting),
		Entry("aborted", func() {
			shoot.Annotations[steps.AnnotationAbort] = "true"
			abort(steps.Source, steps.ReasonAborted)
		}, summary.Aborted, 0, steps.ReasonAborted),
		Entry("aborted, and the shoot has stayed", func() {
			shoot.Annotations[steps.AnnotationAbort] = "true"
			abort(steps.Source, steps.ReasonAborted)
			shoot.Annotations, shoot.Spec.SeedName = nil, new("seed-a")
		}, summary.Aborted, 0, steps.ReasonAborted),
		Entry("aborted, and asked for again", func() {
			abort(steps.Source, steps.ReasonAborted)
		}, summary.Requested, 0, steps.Reason("")),
	)

	It("should tell how long it and its steps have taken", func() {
		finish(4)
		apply(4, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		clk.Step(30 * time.Second)
		actual := look()
		Expect(actual.Started).To(HaveValue(Equal(begin)))
		Expect(actual.Seconds).To(Equal(210.0))
		Expect(actual.Progress).To(Equal(int32(35)))
		for i, step := range actual.Steps {
			elapsed, known := step.Elapsed()
			switch {
			case i < 3:
				Expect(known).To(BeTrue())
				Expect(elapsed).To(Equal(time.Minute), step.Condition)
				Expect(step.Finished()).To(BeTrue())
			case i == 3:
				Expect(elapsed).To(Equal(30*time.Second), step.Condition)
				Expect(step.Current).To(BeTrue())
			default:
				Expect(known).To(BeFalse(), step.Condition)
				Expect(step.Current).To(BeFalse())
			}
		}
	})

	It("should tell when it ended", func() {
		finish(9)
		shoot.Annotations, shoot.Status.SeedName = nil, new("seed-b")
		ended := clk.Now()
		clk.Step(time.Hour)
		Expect(look().Ended).To(HaveValue(Equal(ended)))
		Expect(look().Progress).To(Equal(int32(100)))
		Expect(look().Destination).To(Equal("seed-b"))
	})

	It("should name the page that helps", func() {
		Expect(look().Runbook()).To(BeEmpty())
		apply(1, gardencorev1beta1.ConditionUnknown, steps.ReasonBastionExists)
		Expect(look().Runbook()).To(Equal(pages.OfReason("BastionExists")))
		apply(1, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		apply(1, gardencorev1beta1.ConditionFalse, steps.ReasonDeadlineExceeded)
		Expect(look().Runbook()).To(Equal(pages.OfStep(steps.First())))
		shoot.Annotations[steps.AnnotationAbort] = "true"
		Expect(look().Runbook()).To(Equal(pages.Abort))
	})
})

var _ = Describe("FindStep", func() {
	DescribeTable("should find a step", func(name, expected string) {
		step, err := summary.FindStep(name)
		Expect(err).NotTo(HaveOccurred())
		Expect(step.String()).To(Equal(expected))
	},
		Entry("by its condition", "EtcdMigrationComplete", "EtcdMigrationComplete"),
		Entry("in any case", "etcdmigrationcomplete", "EtcdMigrationComplete"),
		Entry("by its number", "6", "EtcdMigrationComplete"),
	)

	It("should name the steps when there is no such one", func() {
		_, err := summary.FindStep("9")
		Expect(err).
			To(MatchError(SatisfyAll(ContainSubstring(`no step "9"`), ContainSubstring("8 MigrationCompleted"))))
	})
})
