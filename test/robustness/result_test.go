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
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/observed"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/robustness/history"
)

var _ = Describe("Result", func() {
	var (
		begin  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		notes  []string
		result *robustness.Result
		kill   *testFault
		cells  []robustness.Cell
	)

	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

	BeforeEach(func() {
		kill = &testFault{name: "kill", notes: &notes, proof: "it is dead"}
		cells = []robustness.Cell{cell("kill", 1, fault.Boundary), cell("kill", 2, fault.Boundary),
			cell("kill", 3, fault.Boundary)}
		etcd := driver.EtcdReport{Voters: []int{3, 6, 3}, ClusterIDUnchanged: true}
		h := &history.History{Begin: begin}
		for second := range 60 {
			outcome := history.Done
			if second > 25 && second < 29 {
				outcome = history.Unknown
			}
			h.Operations = append(h.Operations,
				history.Operation{Kind: history.Create, Outcome: outcome, Return: time.Duration(second) * time.Second})
		}
		result = &robustness.Result{
			History: h,
			Verdict: &history.Verdict{Linearizable: "Ok"},
			Report: &demo.Report{Recording: recording.Recording{
				Source: "seed-a", Destination: "seed-b", DurationSeconds: 40,
				Etcd: map[string]driver.EtcdReport{"main": etcd, "events": etcd},
				Probe: probe.Result{Details: &probe.Details{Verified: true, Incidents: []probe.Incident{
					{Time: at(24), Kind: "write"}, {Time: at(31), Kind: "connection lost"},
					{Time: at(36), Kind: "read"},
				}}},
			}},
		}
		result.Report.Details.Transitions = observed.Straight(begin)
	})

	// judge lets the faults strike at seconds 10, 20 and 30 and judges what the result holds.
	judge := func(ctx context.Context, errs ...error) {
		GinkgoHelper()
		clock := clocktesting.NewFakeClock(begin)
		d, err := robustness.NewDirector(cells, robustness.Stage{
			Faults: []fault.Fault{kill, &testFault{name: "stop", notes: &notes, proof: "it stands"},
				&losingFault{testFault{name: "lose", notes: &notes, proof: "it is lost"}}},
			Clock: clock, LastAcknowledged: func() time.Time { return clock.Now().Add(time.Second) },
			Pause: func(context.Context, gardencorev1beta1.ConditionType) error { return nil },
		})
		Expect(err).NotTo(HaveOccurred())
		for step := range 3 {
			clock.SetTime(at(10 * (step + 1)))
			d.Observe(ctx, migrating(step+1, steps.ReasonPaused))
		}
		d.Judge(result, at(60), errs...)
	}

	It("should measure each fault until the next one, and the last one to the end", func(ctx SpecContext) {
		judge(ctx)
		Expect(result.Err()).NotTo(HaveOccurred())
		Expect(result.Cells).To(HaveLen(3))
		for _, c := range result.Cells {
			Expect(c.Outcome).To(Equal(robustness.Passed))
			Expect(c.Linearizable).To(Equal("Ok"))
			Expect(c.StruckAt).To(Equal("Paused"))
			Expect(c.LostWrites).To(BeZero())
			Expect(c.Together).To(Equal(3))
			Expect([]string{c.Source, c.Destination}).To(Equal([]string{"seed-a", "seed-b"}))
		}
		Expect(result.Cells[0]).To(And(HaveField("Requests", 10), HaveField("FailedRequests", 0),
			HaveField("LongestWriteGapMs", BeEquivalentTo(1000))))
		Expect(result.Cells[1]).To(And(HaveField("Requests", 10), HaveField("FailedRequests", 3+1),
			HaveField("LongestWriteGapMs", BeEquivalentTo(4000))))
		Expect(result.Cells[2]).To(And(HaveField("Requests", 30), HaveField("FailedRequests", 1)))
	})

	It("should count failed requests of which the probe has not remembered the words", func(ctx SpecContext) {
		result.Report.Probe.Details.IncidentsDropped = 1
		result.Report.Probe.Details.Series = &probe.Series{Begin: at(0), IntervalSeconds: 5,
			Points: make([]probe.Point, 12)}
		for _, point := range []int{1, 4, 5, 11} {
			result.Report.Probe.Details.Series.Points[point].Failed = 100 + point
		}
		judge(ctx)
		Expect(result.Cells[0].FailedRequests).To(Equal(0))
		Expect(result.Cells[1].FailedRequests).To(Equal(104 + 105 + 3))
		Expect(result.Cells[2].FailedRequests).To(Equal(111))
	})

	It("should give the figures of a moment to all its faults, and name the others", func(ctx SpecContext) {
		cells = []robustness.Cell{cells[0], cells[1], {Fault: "stop", Step: cells[1].Step, Moment: cells[1].Moment},
			cells[2]}
		judge(ctx)
		Expect(result.Cells[0]).To(And(HaveField("Requests", 10), HaveField("With", BeEmpty())))
		Expect(result.Cells[1]).
			To(And(HaveField("Requests", 10), HaveField("FailedRequests", 3+1), HaveField("With", []string{"stop"})))
		Expect(result.Cells[2]).
			To(And(HaveField("Requests", 10), HaveField("FailedRequests", 3+1), HaveField("With", []string{"kill"})))
		Expect(result.Cells[3]).To(And(HaveField("Requests", 30), HaveField("With", BeEmpty())))
	})

	It("should measure a fault for as long as it is in force, and name those that struck meanwhile",
		func(ctx SpecContext) {
			clock := clocktesting.NewFakeClock(begin)
			slow := &testFault{name: "slow", notes: &notes, proof: "it is slow",
				course: fault.Course{Lasts: time.Hour, ThroughStep: true}}
			d, err := robustness.NewDirector([]robustness.Cell{cell("slow", 2, fault.Boundary),
				cell("kill", 2, fault.Inside), cell("kill", 3, fault.Boundary)}, robustness.Stage{
				Faults: []fault.Fault{kill, slow},
				Clock:  clock, LastAcknowledged: func() time.Time { return clock.Now().Add(time.Second) },
				Pause: func(context.Context, gardencorev1beta1.ConditionType) error { return nil },
			})
			Expect(err).NotTo(HaveOccurred())
			for _, observed := range []struct {
				second, step int
				reason       steps.Reason
			}{{10, 2, steps.ReasonPaused}, {20, 2, steps.ReasonJoiningEtcdMembers}, {30, 3, steps.ReasonPaused},
				{31, 3, steps.ReasonPaused}} {
				clock.SetTime(at(observed.second))
				d.Observe(ctx, migrating(observed.step, observed.reason))
			}
			d.Judge(result, at(60))
			Expect(result.Err()).NotTo(HaveOccurred())
			Expect(result.Cells[0]).To(And(HaveField("Requests", 20), HaveField("FailedRequests", 3+1),
				HaveField("With", []string{"kill"}), HaveField("Seconds", 20.)))
			Expect(result.Cells[1]).
				To(And(HaveField("Requests", 10), HaveField("FailedRequests", 3+1),
					HaveField("With", []string{"slow"})))
			Expect(result.Cells[2]).To(And(HaveField("Requests", 30), HaveField("With", BeEmpty())))
		})

	It("should give each cell a window of its own, from the fault before to the fault after", func(ctx SpecContext) {
		judge(ctx)
		Expect(result.Cells[0].Window).To(And(HaveField("Begin", at(0)), HaveField("End", at(20))))
		Expect(result.Cells[2].Window).To(And(HaveField("Begin", at(20)), HaveField("End", at(60))))
		window := result.Cells[1].Window
		Expect(window).To(And(HaveField("Begin", at(10)), HaveField("End", at(30)),
			HaveField("Before", robustness.Part{Seconds: 10, Requests: 10, LongestWriteGapMs: 1000}),
			HaveField("During", robustness.Part{}),
			HaveField("After", robustness.Part{Seconds: 10, Requests: 10, Failed: 3, LoadFailed: 1,
				LongestWriteGapMs: 4000}),
			HaveField("Linearizable", "Ok")))
		digest, err := result.History.Digest(at(10), at(30))
		Expect(err).NotTo(HaveOccurred())
		Expect(window.History).To(Equal(digest))
	})

	It("should say in which window no order explains the answers any more, and fail all cells", func(ctx SpecContext) {
		result.History.Operations = nil
		for second, found := range []string{"", "a", "b"} {
			o := history.Operation{Kind: history.Read, Key: "k", Outcome: history.Done, Found: found,
				Call: time.Duration(10*second+1) * time.Second, Return: time.Duration(10*second+2) * time.Second}
			if found == "a" {
				o.Kind, o.Value, o.Found, o.Revision = history.Create, "a", "", 7
			}
			result.History.Operations = append(result.History.Operations, o)
		}
		result.Verdict = history.Check(result.History, history.Requirements{Timeout: time.Minute})
		Expect(result.Verdict.Linearizable).To(Equal("Illegal"))
		judge(ctx)
		Expect(result.Cells[0].Window.Linearizable).To(Equal("Ok"))
		Expect(result.Cells[1].Window.Linearizable).To(Equal("Illegal"))
		Expect(result.Cells).To(HaveEach(HaveField("Outcome", robustness.Broken)))
	})

	It("should keep the attempts of a migration without a report as failed ones", func(ctx SpecContext) {
		d, err := robustness.NewDirector(cells, robustness.Stage{Faults: []fault.Fault{kill},
			Clock: clocktesting.NewFakeClock(at(10)), LastAcknowledged: func() time.Time { return at(11) },
			Pause: func(context.Context, gardencorev1beta1.ConditionType) error { return nil }})
		Expect(err).NotTo(HaveOccurred())
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		attempts := d.Unreported(at(60), errors.New("no answer"))
		Expect(attempts).To(HaveLen(3))
		Expect(attempts).To(HaveEach(And(HaveField("Outcome", robustness.Broken), HaveField("Made", at(60)),
			HaveField("Problems", []string{"no report could be made: no answer"}))))
		Expect(attempts[0].Struck).To(Equal(at(10)))
	})

	It("should find the cell in which a write was lost", func(ctx SpecContext) {
		result.Verdict = &history.Verdict{Linearizable: "Illegal", Problems: []string{"gone"},
			Lost: []history.Operation{{Return: 21 * time.Second}}}
		judge(ctx)
		Expect(result.Cells[1].LostWrites).To(BeEquivalentTo(1))
		Expect(result.Cells[2].LostWrites).To(BeZero())
		Expect(result.Cells).
			To(HaveEach(And(HaveField("Outcome", robustness.Broken), HaveField("Problems", ContainElement("gone")),
				HaveField("Linearizable", "Illegal"))))
	})

	DescribeTable("should fail all cells of a migration",
		func(ctx SpecContext, spoil func(*robustness.Result), problem string) {
			spoil(result)
			judge(ctx)
			Expect(result.Cells).To(HaveEach(HaveField("Outcome", robustness.Broken)))
			Expect(result.Err()).
				To(MatchError(And(ContainSubstring(problem),
					ContainSubstring("repeat with: make test-e2e LABELS=faults FAULT=kill "+
						"STEP=SourceEtcdPreparedForPeerJoin"))))
		},
		Entry("that lost a write of the load", func(r *robustness.Result) {
			r.Report.Etcd["main"] = driver.EtcdReport{Voters: []int{3}, ClusterIDUnchanged: true,
				AcknowledgedWritesLost: 2}
		}, "2 acknowledged writes of etcd-main are lost"),
		Entry("that does not follow the model", func(r *robustness.Result) {
			r.Report.Details.Transitions[1].Reason = "Dancing"
		}, "condition SourceEtcdPreparedForPeerJoin has no reason Dancing while it is True"),
		Entry("with another cluster", func(r *robustness.Result) {
			r.Report.Etcd["events"] = driver.EtcdReport{Voters: []int{3}}
		}, "the cluster ID of etcd-events changed"),
		Entry("whose etcd was not seen", func(r *robustness.Result) { delete(r.Report.Etcd, "events") },
			"etcd-events was not observed"),
		Entry("whose writes were not verified", func(r *robustness.Result) { r.Report.Probe.Details.Verified = false },
			"could not be verified"),
		Entry("with stale reads", func(r *robustness.Result) { r.Report.Probe.Details.StaleReads = 1 },
			"1 reads of the load were older"),
		Entry("without a DNS record", func(r *robustness.Result) { r.Report.DNSMomentsWithoutRecord = 1 },
			"1 moments without a DNS record"),
		Entry("with controllers in both seeds", func(r *robustness.Result) {
			r.Report.ControllersActiveInBothSeeds = []string{"kcm"}
		}, "active in both seeds: kcm"),
		Entry("that left something behind", func(r *robustness.Result) {
			r.Report.Details.LeftInSource = []string{"pod x"}
		}, "1 objects are left in the source seed"),
	)

	It("should let members join again that a fault has deprived of their data, and none before", func(ctx SpecContext) {
		member := func(seed string, number int) recording.Member {
			return recording.Member{Name: fmt.Sprintf("%s-etcd-main-%d", seed, number)}
		}
		three := []recording.Member{member("seed-a", 0), member("seed-a", 1), member("seed-a", 2)}
		list := func(second int, members ...recording.Member) recording.Members {
			return recording.Members{Time: at(second), Since: at(second - 1), ClusterID: 7, Members: members}
		}
		cells = []robustness.Cell{cell("lose", 1, fault.Boundary), cell("kill", 2, fault.Boundary),
			cell("kill", 3, fault.Boundary)}
		result.Report.Details.Transitions = result.Report.Details.Transitions[:2]
		result.Report.Details.Etcd = map[string][]recording.Members{"main": {list(0, three...),
			list(11, three[:2]...),
			list(12, append(three[:2:2], recording.Member{Name: "unstarted-a", Learner: true})...), list(13, three...)}}
		judge(ctx)
		Expect(result.Err()).NotTo(HaveOccurred())

		result.Report.Details.Etcd["main"][1].Time = at(9)
		result.Cells = nil
		judge(ctx)
		Expect(result.Err()).To(MatchError(ContainSubstring("voter seed-a-etcd-main-2 of the source has left")))
	})

	It("should fail all cells of a migration that met an error", func(ctx SpecContext) {
		judge(ctx, nil, errors.New("the migration is not complete"))
		Expect(result.Err()).To(MatchError(ContainSubstring("the migration is not complete")))
	})

	It("should not accept a cell whose fault could not be injected", func(ctx SpecContext) {
		kill.fails = errors.New("no such pod")
		judge(ctx)
		Expect(result.Cells).To(HaveEach(And(HaveField("Outcome", robustness.Missed), HaveField("Late", false))))
		Expect(result.Err()).To(MatchError(ContainSubstring("the fault could not be injected: no such pod")))
	})

	It("should call a cell late whose moment was over before its fault could be injected", func(ctx SpecContext) {
		kill.fails = errors.New("no voter answers")
		for over, at := range map[bool]int{false: 1, true: 2} {
			d, err := robustness.NewDirector(cells[:1], robustness.Stage{
				Faults: []fault.Fault{kill}, Clock: clocktesting.NewFakeClock(begin),
				LastAcknowledged: func() time.Time { return begin.Add(time.Second) },
				Pause:            func(context.Context, gardencorev1beta1.ConditionType) error { return nil },
				Look: func(context.Context) (*gardencorev1beta1.Shoot, error) {
					return migrating(at, steps.ReasonPaused), nil
				},
			})
			Expect(err).NotTo(HaveOccurred())
			d.Observe(ctx, migrating(1, steps.ReasonPaused))
			result.Cells = nil
			d.Judge(result, begin.Add(time.Minute))
			Expect(result.Cells).To(HaveExactElements(And(HaveField("Outcome", robustness.Missed),
				HaveField("Late", over))))
		}
	})

	// skewed lets a fault strike that something else may end within its minute.
	skewed := func(ctx context.Context) (robustness.Director, *fleetingFault, *clocktesting.FakeClock) {
		GinkgoHelper()
		skew := &fleetingFault{
			testFault: testFault{name: "skew", notes: &notes, proof: "it differs",
				course: fault.Course{Lasts: time.Minute}}, inForce: true,
		}
		clock := clocktesting.NewFakeClock(begin)
		d, err := robustness.NewDirector([]robustness.Cell{cell("skew", 1, fault.Boundary)}, robustness.Stage{
			Faults: []fault.Fault{skew},
			Clock:  clock, LastAcknowledged: func() time.Time { return clock.Now() },
			Pause: func(context.Context, gardencorev1beta1.ConditionType) error { return nil },
		})
		Expect(err).NotTo(HaveOccurred())
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		return d, skew, clock
	}

	It("should not accept a cell whose fault something else has ended before its time", func(ctx SpecContext) {
		for _, inForce := range []bool{true, false} {
			d, skew, clock := skewed(ctx)
			skew.inForce = inForce
			clock.SetTime(at(60))
			d.Heal(ctx)
			result.Cells = nil
			d.Judge(result, at(60))
			if inForce {
				Expect(result.Err()).NotTo(HaveOccurred())
				continue
			}
			Expect(result.Cells[0]).To(And(HaveField("Outcome", robustness.Missed), HaveField("Short", true)))
			Expect(result.Err()).To(MatchError(ContainSubstring("something else ended the fault before its time")))
			Expect(result.Excuse([]robustness.Cell{cell("skew", 1, fault.Boundary)})).To(BeEmpty())
			Expect(result.Excuse(nil)).To(Equal([]string{"skew at the start of SourceEtcdPreparedForPeerJoin: " +
				"something else ended the fault before its time"}))
		}
	})

	It("should not take a fault for over before its time that its own healing has ended, and was not done with",
		func(ctx SpecContext) {
			d, skew, clock := skewed(ctx)
			clock.SetTime(at(60))
			skew.healing = errors.New("it is started, but not ready in time")
			d.Heal(ctx)
			skew.healing, skew.inForce = nil, false
			d.Heal(ctx)
			result.Cells = nil
			d.Judge(result, at(60))
			Expect(result.Err()).NotTo(HaveOccurred())
		})

	It("should not accept a cell without a proof that its fault has struck", func(ctx SpecContext) {
		kill.proof = ""
		judge(ctx)
		Expect(result.Cells).To(HaveEach(And(HaveField("Outcome", robustness.Missed), HaveField("Late", false))))
		Expect(result.Err()).To(MatchError(ContainSubstring("nobody has seen that the fault struck")))
		Expect(result.Excuse(nil)).To(BeEmpty())
		Expect(result.Excuse(cells)).To(HaveLen(3), "they did strike")
	})

	It("should keep what was seen of a fault", func(ctx SpecContext) {
		judge(ctx)
		Expect(result.Cells).To(HaveEach(HaveField("Proofs", []string{"it is dead"})))
	})

	It("should measure faults of a step in the order in which they struck", func(ctx SpecContext) {
		clock := clocktesting.NewFakeClock(begin)
		d, err := robustness.NewDirector([]robustness.Cell{cell("kill", 6, fault.Inside),
			cell("stop", 6, fault.At(steps.ReasonWaitingForDNS)),
			cell("lose", 6, fault.At(steps.ReasonJoiningLastEtcdMember))}, robustness.Stage{
			Faults: []fault.Fault{kill, &testFault{name: "stop", notes: &notes, proof: "it stands"},
				&testFault{name: "lose", notes: &notes, proof: "it is lost"}},
			Clock: clock, LastAcknowledged: func() time.Time { return clock.Now().Add(time.Second) },
			Pause: func(context.Context, gardencorev1beta1.ConditionType) error { return nil },
		})
		Expect(err).NotTo(HaveOccurred())
		for second, reason := range []steps.Reason{steps.ReasonPaused, steps.ReasonStarted, steps.ReasonWaitingForDNS,
			steps.ReasonJoiningLastEtcdMember} {
			clock.SetTime(at(10 * second))
			d.Observe(ctx, migrating(6, reason))
		}
		d.Judge(result, at(60))
		Expect(result.Err()).NotTo(HaveOccurred())
		// The two that strike at one reason share their figures.
		Expect(result.Cells).To(HaveExactElements(
			And(HaveField("Requests", 30), HaveField("Window.Begin", at(20)), HaveField("With", []string{"lose"})),
			And(HaveField("Requests", 10), HaveField("Window.Begin", at(0)), HaveField("Window.End", at(30)),
				HaveField("With", BeEmpty())),
			And(HaveField("Requests", 30), HaveField("Window.Begin", at(20)), HaveField("With", []string{"kill"})),
		))
	})

	It("should not accept a cell whose moment was over, and excuse it", func(ctx SpecContext) {
		d, err := robustness.NewDirector(cells[:1], robustness.Stage{Faults: []fault.Fault{kill},
			Clock: clocktesting.NewFakeClock(at(10)), LastAcknowledged: func() time.Time { return at(11) },
			Pause: func(context.Context, gardencorev1beta1.ConditionType) error { return nil },
			Look: func(context.Context) (*gardencorev1beta1.Shoot, error) {
				return migrating(2, steps.ReasonPending), nil
			}})
		Expect(err).NotTo(HaveOccurred())
		d.Observe(ctx, migrating(1, steps.ReasonPaused))
		d.Judge(result, at(60))
		Expect(result.Cells[0]).To(And(HaveField("Outcome", robustness.Missed), HaveField("Late", true)))
		Expect(result.Excuse(cells)).To(Equal([]string{"kill at the start of SourceEtcdPreparedForPeerJoin: the " +
			"step was over before the fault had struck"}))
		Expect(result.Cells).To(BeEmpty())
	})

	It("should excuse a moment that did not come only if the cell is not required", func(ctx SpecContext) {
		late := cell("kill", 7, fault.Inside)
		cells = append(cells, late)
		judge(ctx)
		Expect(result.Excuse([]robustness.Cell{late})).To(BeEmpty())
		Expect(result.Cells).To(HaveLen(4))
		Expect(result.Excuse(cells[:3])).To(HaveExactElements(
			"kill inside SourceSeedCleanup: the moment of the fault did not come"))
		Expect(result.Cells).To(HaveLen(3))
		Expect(result.Err()).NotTo(HaveOccurred())
	})

	It("should excuse neither a fault that could not be injected nor a migration that has failed, in one line",
		func(ctx SpecContext) {
			kill.fails = errors.New("no such pod")
			judge(ctx)
			Expect(result.Excuse(nil)).To(BeEmpty())

			kill.fails, result.Cells = nil, nil
			cells = append(cells, cell("kill", 7, fault.Inside))
			judge(ctx, errors.New("not complete"))
			Expect(result.Excuse(nil)).To(BeEmpty())

			late := robustness.CellResult{Cell: cells[3], Outcome: robustness.Missed, Late: true,
				Problems: []string{"one\ntwo", "three"}}
			result.Cells = []robustness.CellResult{late}
			Expect(result.Excuse(nil)).To(Equal([]string{"kill inside SourceSeedCleanup: one; two; three"}))
		})

	It("should not accept a cell whose moment did not come", func(ctx SpecContext) {
		cells = append(cells, cell("kill", 7, fault.Inside))
		judge(ctx)
		Expect(result.Cells[3]).To(And(HaveField("Outcome", robustness.Missed), HaveField("Late", true)))
		Expect(result.Err()).To(MatchError(ContainSubstring("the moment of the fault did not come")))
	})

	It("should not accept a run without faults", func(ctx SpecContext) {
		cells = nil
		judge(ctx)
		Expect(result.Err()).To(MatchError("no fault was injected"))
	})
})

var _ = Describe("Completed", func() {
	complete := func() *gardencorev1beta1.Shoot {
		shoot := migrating(9, "")
		shoot.Status.SeedName = ptr.To("seed-b")
		shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{
			Type: gardencorev1beta1.LastOperationTypeReconcile, State: gardencorev1beta1.LastOperationStateSucceeded,
		}
		return shoot
	}

	It("should accept a shoot that the destination has reconciled", func() {
		Expect(robustness.Completed(complete(), "seed-b")).To(Succeed())
	})

	DescribeTable("should tell where a migration stands", func(change func(*gardencorev1beta1.Shoot), problem string) {
		shoot := complete()
		change(shoot)
		Expect(robustness.Completed(shoot, "seed-b")).To(MatchError(ContainSubstring(problem)))
	},
		Entry("in a step", func(s *gardencorev1beta1.Shoot) {
			s.Status.LiveMigration = migrating(4, steps.ReasonQuorumLost).Status.LiveMigration
		},
			"DestinationKubeAPIServerReady is Progressing (QuorumLost"),
		Entry("elsewhere", func(s *gardencorev1beta1.Shoot) { s.Status.SeedName = ptr.To("seed-a") },
			`on seed "seed-a", not on "seed-b"`),
		Entry("not reconciled", func(s *gardencorev1beta1.Shoot) {
			s.Status.LastOperation.State = gardencorev1beta1.LastOperationStateProcessing
		}, "has not reconciled the shoot"),
	)
})
