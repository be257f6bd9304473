// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// testFault notes what is done to it.
type testFault struct {
	name    string
	course  fault.Course
	notes   *[]string
	fails   error
	healing error
	// proof is the effect that is seen.
	proof string
}

func (f *testFault) Name() string                          { return f.name }
func (f *testFault) Family() string                        { return f.name }
func (f *testFault) Applies(steps.Step, fault.Moment) bool { return f.name != "nowhere" }
func (f *testFault) Course() fault.Course                  { return f.course }

func (f *testFault) Inject(_ context.Context, targets *fault.Targets) error {
	*f.notes = append(*f.notes, "inject "+f.name)
	if f.proof != "" {
		targets.Prove("%s", f.proof)
	}
	return f.fails
}

func (f *testFault) Heal(context.Context, *fault.Targets) error {
	if f.healing == nil {
		*f.notes = append(*f.notes, "heal "+f.name)
	}
	return f.healing
}

// fleetingFault is one that something else may end.
type fleetingFault struct {
	testFault

	inForce bool
}

func (f *fleetingFault) InForce(context.Context, *fault.Targets) (bool, error) { return f.inForce, nil }

// losingFault is one that costs members of the source their data.
type losingFault struct{ testFault }

func (f *losingFault) LosesMembers() steps.Role { return steps.Source }

// migrating returns a shoot whose current step is the given one, with the given reason of its condition. Reasons of
// holds and Pending stand for a step that has not begun. With no step left the migration is over.
func migrating(current int, reason steps.Reason) *gardencorev1beta1.Shoot {
	shoot := &gardencorev1beta1.Shoot{
		Status: gardencorev1beta1.ShootStatus{LiveMigration: &gardencorev1beta1.LiveMigration{}},
	}
	for i, step := range steps.Table() {
		condition := gardencorev1beta1.Condition{Type: step.Condition, Status: gardencorev1beta1.ConditionUnknown,
			Reason: string(steps.ReasonPending)}
		switch {
		case i+1 < current:
			condition.Status, condition.Reason = gardencorev1beta1.ConditionTrue, string(steps.ReasonCompleted)
		case i+1 == current:
			condition.Reason = string(reason)
			if reason != steps.ReasonPending && reason != steps.ReasonPaused && reason != steps.ReasonVersionSkew {
				condition.Status = gardencorev1beta1.ConditionProgressing
			}
		}
		shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions, condition)
	}
	return shoot
}

func cell(name string, step int, moment fault.Moment) robustness.Cell {
	return robustness.Cell{Fault: name, Step: steps.Table()[step-1].Condition, Moment: moment}
}

var _ = Describe("Director", func() {
	var (
		clock *clocktesting.FakeClock
		notes []string
		acked time.Time
		kill, cut, slow, skew,
		nowhere *testFault
		pauseFails error
	)

	BeforeEach(func() {
		clock = clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		notes, pauseFails = nil, nil
		acked = clock.Now()
		kill = &testFault{name: "kill", notes: &notes}
		cut = &testFault{name: "cut", notes: &notes, course: fault.Course{Lasts: time.Minute}}
		slow = &testFault{name: "slow", notes: &notes, course: fault.Course{Lasts: time.Hour, ThroughStep: true}}
		skew = &testFault{name: "skew", notes: &notes, course: fault.Course{Lasts: time.Minute, Early: true}}
		nowhere = &testFault{name: "nowhere", notes: &notes}
	})

	direct := func(cells ...robustness.Cell) (robustness.Director, error) {
		return robustness.NewDirector(cells, robustness.Stage{
			Faults: []fault.Fault{kill, cut, slow, skew, nowhere},
			Clock:  clock, LastAcknowledged: func() time.Time { return acked },
			Pause: func(_ context.Context, condition gardencorev1beta1.ConditionType) error {
				if pauseFails == nil {
					notes = append(notes, fmt.Sprintf("pause %d", steps.Index(condition)+1))
				}
				return pauseFails
			},
		})
	}
	start := func(ctx context.Context, cells ...robustness.Cell) robustness.Director {
		GinkgoHelper()
		d, err := direct(cells...)
		Expect(err).NotTo(HaveOccurred())
		Expect(d.Begin(ctx)).To(Succeed())
		return d
	}
	// done returns what was done since the last call.
	done := func() []string {
		all := notes
		notes = nil
		return all
	}

	DescribeTable("should refuse", func(problem string, cells ...robustness.Cell) {
		_, err := direct(cells...)
		Expect(err).To(MatchError(ContainSubstring(problem)))
	},
		Entry("an unknown fault", `there is no fault "flood"`, cell("flood", 1, fault.Boundary)),
		Entry("an unknown step", `there is no step "Dance"`,
			robustness.Cell{Fault: "kill", Step: "Dance", Moment: fault.Inside}),
		Entry("a fault with nothing to hit", "has nothing to hit", cell("nowhere", 1, fault.Boundary)),
		Entry("cells out of order", "cannot follow", cell("kill", 2, fault.Boundary), cell("kill", 1, fault.Inside)),
		Entry("two of a kind in one step",
			"kill at the start of DestinationEtcdPeersJoined and kill inside DestinationEtcdPeersJoined cannot be in "+
				"one migration: they are of one kind",
			cell("kill", 2, fault.Boundary), cell("kill", 2, fault.Inside)),
		Entry("one that keeps the step from beginning, and one that strikes as it begins",
			"keeps the step from beginning", cell("kill", 2, fault.Boundary), cell("skew", 2, fault.Boundary)),
	)

	It("should do nothing without cells", func(ctx SpecContext) {
		d := start(ctx)
		d.Observe(ctx, migrating(1, steps.ReasonStarted))
		Expect(d.Finish(ctx)).To(Succeed())
		Expect(done()).To(BeEmpty())
	})

	It("should strike at the boundary right after the migration was let continue", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 2, fault.Boundary))
		Expect(done()).To(Equal([]string{"pause 2"}))
		d.Observe(ctx, &gardencorev1beta1.Shoot{})
		d.Observe(ctx, migrating(1, steps.ReasonStarted))
		d.Observe(ctx, migrating(2, steps.ReasonPending))
		Expect(done()).To(BeEmpty())
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 0", "inject kill"}))
		d.Observe(ctx, migrating(2, steps.ReasonStarted))
		Expect(done()).To(BeEmpty())
	})

	It("should strike before the migration may continue if the fault asks for it", func(ctx SpecContext) {
		d := start(ctx, cell("skew", 1, fault.Boundary))
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 1", "inject skew", "pause 0"}))
	})

	It("should strike inside a step when its reason appears", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 6, fault.Inside))
		d.Observe(ctx, migrating(6, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 6", "pause 0"}))
		d.Observe(ctx, migrating(6, steps.ReasonStarted))
		clock.Step(10 * time.Minute)
		d.Observe(ctx, migrating(6, steps.ReasonWaitingForDNS))
		Expect(done()).To(BeEmpty())
		d.Observe(ctx, migrating(6, steps.ReasonJoiningLastEtcdMember))
		d.Observe(ctx, migrating(6, steps.ReasonJoiningLastEtcdMember))
		Expect(done()).To(Equal([]string{"inject kill"}))
	})

	It("should strike inside a short step after its time", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 3, fault.Inside))
		d.Observe(ctx, migrating(3, steps.ReasonPaused))
		clock.Step(time.Minute)
		d.Observe(ctx, migrating(3, steps.ReasonPaused))
		d.Observe(ctx, migrating(3, steps.ReasonStarted))
		Expect(done()).To(Equal([]string{"pause 3", "pause 0"}))
		clock.Step(time.Second)
		d.Observe(ctx, migrating(3, steps.ReasonStarted))
		Expect(done()).To(Equal([]string{"inject kill"}))
	})

	It("should strike inside the shortest step as it begins", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 5, fault.Inside))
		d.Observe(ctx, migrating(5, steps.ReasonPaused))
		d.Observe(ctx, migrating(5, steps.ReasonPending))
		Expect(done()).To(Equal([]string{"pause 5", "pause 0"}))
		d.Observe(ctx, migrating(5, steps.ReasonStarted))
		Expect(done()).To(Equal([]string{"inject kill"}))
	})

	It("should hold before the next step that has a cell until the fault before is over and clients can write",
		func(ctx SpecContext) {
			d := start(ctx, cell("cut", 2, fault.Boundary), cell("kill", 4, fault.Inside))
			d.Observe(ctx, migrating(2, steps.ReasonPaused))
			Expect(done()).To(Equal([]string{"pause 2", "pause 4", "inject cut"}))

			clock.Step(59 * time.Second)
			d.Heal(ctx)
			d.Observe(ctx, migrating(4, steps.ReasonPaused))
			Expect(done()).To(BeEmpty())
			clock.Step(time.Second)
			d.Heal(ctx)
			d.Observe(ctx, migrating(4, steps.ReasonPaused))
			Expect(done()).To(Equal([]string{"heal cut"}), "no write has been acknowledged since")
			acked = clock.Now().Add(time.Millisecond)
			d.Observe(ctx, migrating(4, steps.ReasonPaused))
			Expect(done()).To(Equal([]string{"pause 0"}))
			d.Observe(ctx, migrating(4, steps.ReasonDeployingKubeAPIServer))
			Expect(done()).To(Equal([]string{"inject kill"}))
		})

	It("should strike at the boundary and inside of one step", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 2, fault.Boundary), cell("cut", 2, fault.Inside), cell("kill", 3, fault.Boundary))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 2", "pause 3", "inject kill"}))
		d.Observe(ctx, migrating(2, steps.ReasonStarted))
		Expect(done()).To(BeEmpty())
		d.Observe(ctx, migrating(2, steps.ReasonJoiningEtcdMembers))
		Expect(done()).To(Equal([]string{"inject cut"}))
	})

	It("should strike at a reason before the midst of the step, and at the midst then", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 2, fault.Inside), cell("cut", 2, fault.At(steps.ReasonPreparingDestination)),
			cell("kill", 3, fault.Boundary))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 2", "pause 3"}))
		d.Observe(ctx, migrating(2, steps.ReasonPreparingDestination))
		Expect(done()).To(Equal([]string{"inject cut"}))
		clock.Step(time.Minute)
		d.Heal(ctx)
		d.Observe(ctx, migrating(2, steps.ReasonJoiningEtcdMembers))
		Expect(done()).To(Equal([]string{"heal cut", "inject kill"}))
		acked = clock.Now().Add(time.Millisecond)
		d.Observe(ctx, migrating(2, steps.ReasonPreparingDestination))
		d.Observe(ctx, migrating(3, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 0", "inject kill"}))
	})

	It("should not wait for a reason that the step leaves out", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 6, fault.At(steps.ReasonWaitingForDNS)),
			cell("cut", 6, fault.At(steps.ReasonDrainingClients)), cell("kill", 7, fault.Boundary))
		d.Observe(ctx, migrating(6, steps.ReasonPaused))
		d.Observe(ctx, migrating(6, steps.ReasonSwitchingDNSRecords))
		d.Observe(ctx, migrating(6, steps.ReasonDrainingClients))
		Expect(done()).To(Equal([]string{"pause 6", "pause 7", "inject cut"}))
		clock.Step(time.Minute)
		d.Heal(ctx)
		acked = clock.Now().Add(time.Millisecond)
		d.Observe(ctx, migrating(7, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"heal cut", "pause 7", "pause 0", "inject kill"}), "the first one is missed")
	})

	It("should let faults of one moment strike together, those that last after the others", func(ctx SpecContext) {
		d := start(ctx, cell("cut", 2, fault.Boundary), cell("kill", 2, fault.Boundary), cell("slow", 6, fault.Inside),
			cell("kill", 6, fault.Inside))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 2", "pause 6", "inject kill", "inject cut"}))
		clock.Step(time.Minute)
		acked = clock.Now()
		d.Observe(ctx, migrating(6, steps.ReasonPaused))
		Expect(done()).To(BeEmpty(), "the cut is not healed")
		d.Heal(ctx)
		acked = clock.Now().Add(time.Millisecond)
		d.Observe(ctx, migrating(6, steps.ReasonPaused))
		d.Observe(ctx, migrating(6, steps.ReasonJoiningLastEtcdMember))
		Expect(done()).To(Equal([]string{"heal cut", "pause 0", "inject kill", "inject slow"}))
		d.Observe(ctx, migrating(6, steps.ReasonJoiningLastEtcdMember))
		Expect(done()).To(BeEmpty())
	})

	It("should end each of two faults that last at its own time", func(ctx SpecContext) {
		d := start(ctx, cell("cut", 2, fault.Boundary), cell("slow", 2, fault.Boundary),
			cell("kill", 3, fault.Boundary))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 2", "pause 3", "inject cut", "inject slow"}))
		clock.Step(time.Minute)
		d.Heal(ctx)
		Expect(done()).To(Equal([]string{"heal cut"}))
		d.Observe(ctx, migrating(2, steps.ReasonJoiningEtcdMembers))
		Expect(done()).To(BeEmpty())
		d.Observe(ctx, migrating(3, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"heal slow"}))
	})

	It("should let a fault strike early, before the migration may continue", func(ctx SpecContext) {
		d := start(ctx, cell("skew", 1, fault.Boundary), cell("kill", 1, fault.Inside))
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 1", "inject skew", "pause 0"}))
		d.Observe(ctx, migrating(1, steps.ReasonVersionSkew))
		Expect(done()).To(BeEmpty())
		clock.Step(time.Minute)
		d.Heal(ctx)
		d.Observe(ctx, migrating(1, steps.ReasonPersistingShootState))
		Expect(done()).To(Equal([]string{"heal skew", "inject kill"}))
	})

	It("should miss all faults of a moment together", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 2, fault.Inside), cell("cut", 2, fault.Inside), cell("kill", 5, fault.Boundary))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		done()
		d.Observe(ctx, migrating(4, steps.ReasonStarted))
		d.Observe(ctx, migrating(5, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 5", "pause 0", "inject kill"}))
	})

	It("should end a fault with its step if it asks for it", func(ctx SpecContext) {
		d := start(ctx, cell("slow", 2, fault.Boundary))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		d.Heal(ctx)
		d.Observe(ctx, migrating(2, steps.ReasonJoiningEtcdMembers))
		Expect(done()).To(Equal([]string{"pause 2", "pause 0", "inject slow"}))
		d.Observe(ctx, migrating(3, steps.ReasonPending))
		d.Observe(ctx, migrating(3, steps.ReasonStarted))
		Expect(done()).To(Equal([]string{"heal slow"}))
	})

	It("should end a fault of the last step with the migration", func(ctx SpecContext) {
		d := start(ctx, cell("slow", 8, fault.Boundary))
		d.Observe(ctx, migrating(8, steps.ReasonPaused))
		done()
		d.Observe(ctx, migrating(9, ""))
		Expect(done()).To(Equal([]string{"heal slow"}))
	})

	It("should not take the conditions of the migration before for its own", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 1, fault.Boundary))
		done()
		d.Observe(ctx, migrating(9, ""))
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 0", "inject kill"}))
	})

	It("should try again to let the migration continue", func(ctx SpecContext) {
		d := start(ctx, cell("skew", 1, fault.Boundary))
		done()
		pauseFails = errors.New("no answer")
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		pauseFails = nil
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"inject skew", "pause 0"}))
	})

	It("should try again to heal", func(ctx SpecContext) {
		d := start(ctx, cell("cut", 1, fault.Boundary))
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		done()
		cut.healing = errors.New("no answer")
		clock.Step(time.Minute)
		d.Heal(ctx)
		Expect(d.Finish(ctx)).
			To(MatchError(ContainSubstring("cut at the start of SourceEtcdPreparedForPeerJoin is not healed")))
		cut.healing = nil
		d.Heal(ctx)
		d.Heal(ctx)
		Expect(d.Finish(ctx)).To(Succeed())
		Expect(done()).To(Equal([]string{"heal cut"}))
	})

	It("should heal everything and let the migration continue at its end, once", func(ctx SpecContext) {
		d := start(ctx, cell("cut", 1, fault.Boundary), cell("kill", 3, fault.Boundary))
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		done()
		Expect(d.Finish(ctx)).To(Succeed())
		Expect(done()).To(Equal([]string{"heal cut", "pause 0"}))
	})

	It("should continue to the next cell if one is missed", func(ctx SpecContext) {
		d := start(ctx, cell("kill", 2, fault.Inside), cell("kill", 3, fault.Boundary), cell("kill", 5, fault.Boundary))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		done()
		d.Observe(ctx, migrating(4, steps.ReasonStarted))
		Expect(done()).To(Equal([]string{"pause 5"}))
		d.Observe(ctx, migrating(5, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 0", "inject kill"}))
	})

	It("should heal what a failed injection has done in part, and continue", func(ctx SpecContext) {
		cut.fails = errors.New("nothing to cut")
		d := start(ctx, cell("cut", 1, fault.Boundary), cell("kill", 2, fault.Boundary))
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		d.Observe(ctx, migrating(2, steps.ReasonPaused))
		Expect(done()).To(Equal([]string{"pause 1", "pause 2", "inject cut", "heal cut", "pause 0", "inject kill"}))
	})
})
