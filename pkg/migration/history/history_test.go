// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

var _ = Describe("History", func() {
	var (
		begin = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		clock *testclock.FakeClock
		shoot *gardencorev1beta1.Shoot
		past  history.History
	)

	set := func(all []gardencorev1beta1.Condition) {
		shoot.Status.LiveMigration = &gardencorev1beta1.LiveMigration{Conditions: all}
	}
	start := func(from, to string) {
		shoot.Annotations = map[string]string{steps.AnnotationIntent: "true"}
		shoot.Status.SeedName, shoot.Spec.SeedName = ptr.To(from), ptr.To(to)
		set(conditions.Initialize(clock, nil))
	}
	apply := func(step steps.Step, status gardencorev1beta1.ConditionStatus, reason steps.Reason) {
		GinkgoHelper()
		all, err := conditions.Apply(clock, steps.Conditions(shoot), conditions.Change{Step: step, Role: step.Owner,
			Status: status, Reason: reason, Message: "simulated"})
		Expect(err).NotTo(HaveOccurred())
		set(all)
	}
	withdraw := func(role steps.Role, reason steps.Reason) {
		GinkgoHelper()
		all, err := conditions.Abort(clock, steps.Conditions(shoot), conditions.AbortChange{Role: role, Reason: reason,
			Message: "simulated"})
		Expect(err).NotTo(HaveOccurred())
		set(all)
	}
	// finish lets every step take a minute.
	finish := func() {
		GinkgoHelper()
		for _, step := range steps.Table() {
			apply(step, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
			clock.Step(time.Minute)
			apply(step, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		}
		shoot.Annotations = nil
		shoot.Status.SeedName = shoot.Spec.SeedName
	}
	observe := func() bool { return past.Observe(shoot, clock.Now()) }

	BeforeEach(func() {
		clock = testclock.NewFakeClock(begin)
		past = history.History{}
		shoot = &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-demo", Name: "live",
			UID: "1"}}
	})

	It("should remember who has requested it, which the Shoot forgets", func() {
		start("seed-a", "seed-b")
		shoot.Annotations[steps.AnnotationRequestedBy] = "alice"
		observe()
		finish()
		observe()
		Expect(past.Records).To(ConsistOf(And(HaveField("Result", history.Succeeded),
			HaveField("RequestedBy", "alice"))))
	})

	It("should remember a migration with its seeds and the time of each step", func() {
		Expect(observe()).To(BeFalse(), "there is none")
		start("seed-a", "seed-b")
		Expect(observe()).To(BeTrue())
		Expect(observe()).To(BeFalse(), "it is known")
		Expect(past.Records).To(ConsistOf(HaveField("Result", BeEmpty())))

		finish()
		Expect(observe()).To(BeTrue())
		Expect(observe()).To(BeFalse(), "its end is known")
		Expect(past.Records).To(HaveLen(1))
		record := past.Records[0]
		Expect(record).To(And(HaveField("Namespace", "garden-demo"), HaveField("Name", "live"),
			HaveField("Source", "seed-a"), HaveField("Destination", "seed-b"), HaveField("Result", history.Succeeded)))
		took, ok := record.Duration()
		Expect(ok).To(BeTrue())
		Expect(took).To(Equal(time.Duration(len(steps.Table())) * time.Minute))
		Expect(record.Steps).To(HaveLen(len(steps.Table())))
		for i, step := range record.Steps {
			Expect(step).To(Equal(history.Step{Condition: steps.Table()[i].String(), Seconds: 60}))
		}
	})

	It("should remember what steps waited for that is a time, once each", func() {
		shoot.Spec.Provider.Workers = make([]gardencorev1beta1.Worker, 2)
		start("seed-a", "seed-b")
		Expect(observe()).To(BeTrue())
		for _, step := range steps.Table()[:5] {
			apply(step, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		}
		move, clean := steps.Table()[5], steps.Table()[6]
		tell := func(step steps.Step, reason steps.Reason, wait waits.Wait) {
			GinkgoHelper()
			all, err := conditions.Apply(clock, steps.Conditions(shoot), conditions.Change{Step: step, Role: step.Owner,
				Status: gardencorev1beta1.ConditionProgressing, Reason: reason, Message: wait.String()})
			Expect(err).NotTo(HaveOccurred())
			set(all)
		}
		apply(move, gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		Expect(observe()).To(BeFalse())
		tell(move, steps.ReasonWaitingForDNS, waits.ForCaches(clock.Now(), time.Minute, 30*time.Second))
		Expect(observe()).To(BeTrue())
		Expect(observe()).To(BeFalse(), "it is known")
		clock.Step(10 * time.Second)
		tell(move, steps.ReasonWaitingForDNS, waits.ForCaches(clock.Now(), time.Minute, 30*time.Second))
		Expect(observe()).To(BeTrue(), "it has begun again")
		tell(move, steps.ReasonDrainingClients, waits.Since(clock.Now(), 70*time.Second, waits.Drain))
		Expect(observe()).To(BeTrue())
		apply(move, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		for range 2 {
			clock.Step(time.Minute)
			tell(clean, steps.ReasonSourceControllersStopped, waits.Since(clock.Now(), time.Minute, waits.Gateway))
			Expect(observe()).To(BeTrue())
		}
		apply(clean, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		apply(steps.Last(), gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		shoot.Annotations, shoot.Status.SeedName = nil, shoot.Spec.SeedName
		Expect(observe()).To(BeTrue())
		record := past.Records[0]
		Expect(record.Workers).To(Equal(2))
		Expect(record.Waited(move.String())).To(Equal(160 * time.Second))
		Expect(record.Waited(clean.String())).To(Equal(2 * time.Minute))
		Expect(record.Waited(steps.First().String())).To(BeZero())
	})

	It("should remember which steps were held before they began, for they took longer than they have to", func() {
		start("seed-a", "seed-b")
		Expect(observe()).To(BeTrue())
		apply(steps.Table()[0], gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		Expect(observe()).To(BeFalse())
		apply(steps.Table()[1], gardencorev1beta1.ConditionUnknown, steps.ReasonPaused)
		Expect(observe()).To(BeTrue())
		Expect(observe()).To(BeFalse(), "it is known")
		Expect(past.Records[0].Held).To(ConsistOf(steps.Table()[1].String()))
	})

	It("should not forget the beginning in the last step, whose conditions do not tell it any more", func() {
		start("seed-a", "seed-b")
		Expect(observe()).To(BeTrue())
		for _, step := range steps.Table()[:len(steps.Table())-1] {
			apply(step, gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		}
		apply(steps.Last(), gardencorev1beta1.ConditionProgressing, steps.ReasonStarted)
		Expect(observe()).To(BeFalse())
		Expect(past.Records).To(ConsistOf(HaveField("Started", HaveValue(Equal(begin)))))
	})

	It("should remember an abort, and the migration that begins again afterwards", func() {
		start("seed-a", "seed-b")
		Expect(observe()).To(BeTrue())
		apply(steps.Table()[0], gardencorev1beta1.ConditionTrue, steps.ReasonCompleted)
		apply(steps.Table()[1], gardencorev1beta1.ConditionProgressing, steps.ReasonJoiningEtcdMembers)
		shoot.Annotations[steps.AnnotationAbort] = "true"
		withdraw(steps.Destination, steps.ReasonWithdrawn)
		Expect(observe()).To(BeFalse(), "it is not over")
		clock.Step(time.Minute)
		withdraw(steps.Source, steps.ReasonAborted)
		Expect(observe()).To(BeTrue())
		Expect(observe()).To(BeFalse())
		Expect(past.Records).To(ConsistOf(And(HaveField("Result", history.Aborted), HaveField("Source", "seed-a"),
			HaveField("Destination", "seed-b"), HaveField("Ended", HaveValue(Equal(begin.Add(time.Minute)))))))

		clock.Step(time.Hour)
		start("seed-a", "seed-b")
		finish()
		Expect(observe()).To(BeTrue(), "the beginning was not seen")
		Expect(past.Records).To(HaveExactElements(HaveField("Result", history.Aborted),
			And(HaveField("Result", history.Succeeded), HaveField("Source", BeEmpty()), HaveField("Started", BeNil()))))
	})

	It("should close what it has not seen the end of when another one begins", func() {
		start("seed-a", "seed-b")
		Expect(observe()).To(BeTrue())
		clock.Step(time.Hour)
		start("seed-b", "seed-c")
		Expect(observe()).To(BeTrue())
		Expect(past.Records).To(HaveExactElements(
			And(HaveField("Source", "seed-a"), HaveField("Result", history.Unknown)),
			And(HaveField("Source", "seed-b"), HaveField("Result", BeEmpty()))))
	})

	It("should remember two migrations of one shoot, and shoots of the same name apart", func() {
		start("seed-a", "seed-b")
		finish()
		Expect(observe()).To(BeTrue())
		clock.Step(time.Hour)
		start("seed-b", "seed-a")
		finish()
		Expect(observe()).To(BeTrue())
		shoot.UID = "2"
		Expect(observe()).To(BeTrue())
		Expect(past.Records).To(HaveLen(3))
	})

	It("should take no classic migration for a live one", func() {
		shoot.Status.SeedName, shoot.Spec.SeedName = ptr.To("seed-a"), ptr.To("seed-b")
		Expect(observe()).To(BeFalse())
		Expect(past.Records).To(BeEmpty())
	})

	It("should stay within what an object may have, and forget the oldest first", func() {
		for i := range history.MaxRecords + 10 {
			shoot.UID = types.UID(fmt.Sprintf("%036d", i))
			start("a-seed-with-a-name-of-thirty-c", "b-seed-with-a-name-of-thirty-c")
			Expect(observe()).To(BeTrue())
			finish()
			Expect(observe()).To(BeTrue())
		}
		Expect(past.Records).To(HaveLen(history.MaxRecords))
		Expect(past.Records[0].UID).To(BeEquivalentTo(fmt.Sprintf("%036d", 10)))
		content, err := past.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(len(content)).To(BeNumerically("<", 512<<10))
		Expect(history.Decode(content)).To(Equal(past))
	})

	It("should take nothing for an empty history, and refuse anything else", func() {
		Expect(history.Decode("")).To(HaveField("Records", BeEmpty()))
		_, err := history.Decode("{")
		Expect(err).To(MatchError(ContainSubstring("failed to decode the history")))
		_, err = history.Decode(`{"kind":"Another"}`)
		Expect(err).To(MatchError(ContainSubstring("Another")))
	})
})
