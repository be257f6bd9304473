// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"errors"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

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

// lone drives a migration whose cells are alone. Each second has twenty requests.
type lone struct {
	robustness.Director

	clock    *clocktesting.FakeClock
	begin    time.Time
	requests int
	shoot    *gardencorev1beta1.Shoot
	lookErr  error
	// looks is how often looking fails before it succeeds, if it is not to fail for ever.
	looks int
}

const perSecond = 20

// witnessedFault is one whose effect shows while it is in force.
type witnessedFault struct {
	testFault

	hit string
}

func (f *witnessedFault) Witness(_ context.Context, targets *fault.Targets) error {
	targets.Prove("%s", f.hit)
	return nil
}

func newLone(ctx context.Context, faults []fault.Fault, cells ...robustness.Cell) *lone {
	GinkgoHelper()
	l := &lone{begin: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	l.clock = clocktesting.NewFakeClock(l.begin)
	var err error
	l.Director, err = robustness.NewDirector(cells, robustness.Stage{
		Faults: faults, Clock: l.clock, Alone: &robustness.DefaultAlone, Targets: &fault.Targets{},
		LastAcknowledged: func() time.Time { return l.clock.Now().Add(time.Millisecond) },
		Requests:         func() int { return l.requests },
		Look: func(context.Context) (*gardencorev1beta1.Shoot, error) {
			if l.looks--; l.looks >= 0 {
				return nil, errors.New("a late answer")
			}
			return l.shoot, l.lookErr
		},
		Pause: func(context.Context, gardencorev1beta1.ConditionType) error {
			return nil
		},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(l.Begin(ctx)).To(Succeed())
	return l
}

// pass lets seconds pass with their load, while the shoot is as given.
func (l *lone) pass(ctx context.Context, seconds int, shoot *gardencorev1beta1.Shoot) {
	l.shoot = shoot
	for range seconds {
		l.clock.Step(time.Second)
		l.requests += perSecond
		l.Heal(ctx)
		l.Observe(ctx, shoot)
	}
}

// at is so many seconds after the beginning.
func (l *lone) at(second int) time.Time { return l.begin.Add(time.Duration(second) * time.Second) }

// recorded is what came of a run of so many seconds, in which writes were not acknowledged from one second to another.
func (l *lone) recorded(seconds, stalled, acknowledged int) *robustness.Result {
	h := &history.History{Begin: l.begin}
	for i := range seconds * perSecond {
		o := history.Operation{Kind: history.Create, Outcome: history.Done,
			Return: time.Duration(i) * time.Second / perSecond}
		if o.Return > time.Duration(stalled)*time.Second && o.Return < time.Duration(acknowledged)*time.Second {
			o.Kind, o.Outcome = history.Read, history.Done
		}
		h.Operations = append(h.Operations, o)
	}
	etcd := driver.EtcdReport{Voters: []int{3, 6, 3}, ClusterIDUnchanged: true}
	return &robustness.Result{
		Alone: &robustness.DefaultAlone, History: h, Verdict: &history.Verdict{Linearizable: "Ok"},
		Report: &demo.Report{
			Recording: recording.Recording{
				Etcd:      map[string]driver.EtcdReport{"main": etcd, "events": etcd},
				Ownership: &recording.Ownership{Samples: 9},
				Probe:     probe.Result{Details: &probe.Details{Verified: true}},
			},
			Details: demo.Details{Transitions: observed.Straight(l.begin)},
		},
	}
}

var _ = Describe("Cells that are alone", func() {
	var (
		notes []string
		kill  *testFault
		cut   *testFault
	)

	BeforeEach(func() {
		notes = nil
		kill = &testFault{name: "kill", notes: &notes, proof: "it is dead"}
		cut = &testFault{name: "cut", notes: &notes, proof: "it is cut", course: fault.Course{Lasts: 10 * time.Second}}
	})

	injected := func() int {
		n := 0
		for _, note := range notes {
			if note == "inject kill" || note == "inject cut" {
				n++
			}
		}
		return n
	}

	It("should refuse two cells of a step", func() {
		Expect(robustness.DefaultAlone.Check([]robustness.Cell{cell("cut", 1, fault.Boundary),
			cell("kill", 2, fault.Boundary), cell("cut", 2, fault.Inside)})).
			To(MatchError("kill at the start of DestinationEtcdPeersJoined and cut inside DestinationEtcdPeersJoined " +
				"cannot be in one migration: a step has one window"))
	})

	It("should hold the migration until there is enough load before the fault", func(ctx SpecContext) {
		l := newLone(ctx, []fault.Fault{kill}, cell("kill", 1, fault.Boundary))
		l.pass(ctx, 24, migrating(1, steps.ReasonPaused))
		Expect(injected()).To(Equal(0), "480 requests")
		l.pass(ctx, 1, migrating(1, steps.ReasonPaused))
		Expect(injected()).To(Equal(1), "500 requests")
	})

	It("should hold it for the time of load, however many requests there are", func(ctx SpecContext) {
		l := newLone(ctx, []fault.Fault{kill}, cell("kill", 1, fault.Boundary))
		l.requests = 10_000
		l.pass(ctx, 14, migrating(1, steps.ReasonPaused))
		Expect(injected()).To(Equal(0))
	})

	It("should fill the window of a fault before that of the next one begins", func(ctx SpecContext) {
		l := newLone(ctx, []fault.Fault{kill, cut}, cell("cut", 1, fault.Boundary), cell("kill", 3, fault.Boundary))
		l.pass(ctx, 25, migrating(1, steps.ReasonPaused))
		Expect(injected()).To(Equal(1))
		l.pass(ctx, 5, migrating(2, steps.ReasonPreparingDestination))
		// The cut ends at 35 s, its window is full at 60 s, and that of the kill has its load at 85 s.
		l.pass(ctx, 54, migrating(3, steps.ReasonPaused))
		Expect(injected()).To(Equal(1))
		l.pass(ctx, 1, migrating(3, steps.ReasonPaused))
		Expect(injected()).To(Equal(2))
		l.pass(ctx, 24, migrating(4, steps.ReasonStarted))
		Expect(l.Filled()).To(BeFalse())
		l.pass(ctx, 1, migrating(4, steps.ReasonStarted))
		Expect(l.Filled()).To(BeTrue())

		result := l.recorded(110, 0, 0)
		l.Judge(result, l.at(110))
		Expect(result.Err()).NotTo(HaveOccurred())
		Expect(result.Cells[0].Window).To(And(HaveField("Begin", l.at(0)), HaveField("End", l.at(60)),
			HaveField("Before.Requests", 500), HaveField("During.Requests", 200), HaveField("After.Requests", 500)))
		Expect(result.Cells[1].Window).To(And(HaveField("Begin", l.at(60)), HaveField("End", l.at(110)),
			HaveField("Before.Requests", 500), HaveField("During.Requests", 0), HaveField("After.Requests", 500)))
		Expect(result.Cells).To(HaveEach(HaveField("With", BeEmpty())))
		Expect(result.Cells[0].Proofs).To(Equal([]string{"it is cut"}))
	})

	It("should take over what a fault has hit while it was in force, once", func(ctx SpecContext) {
		witnessed := &witnessedFault{testFault: *cut}
		witnessed.proof, witnessed.hit = "", "it has hit"
		l := newLone(ctx, []fault.Fault{witnessed}, cell("cut", 1, fault.Boundary))
		l.pass(ctx, 25, migrating(1, steps.ReasonPaused))
		witnessed.healing = errors.New("not yet")
		l.pass(ctx, 12, migrating(1, steps.ReasonStarted))
		witnessed.healing = nil
		l.pass(ctx, 30, migrating(1, steps.ReasonStarted))
		result := l.recorded(70, 0, 0)
		l.Judge(result, l.at(70))
		Expect(result.Err()).NotTo(HaveOccurred())
		Expect(result.Cells[0].Proofs).To(Equal([]string{"it has hit"}))
	})

	It("should strike at a reason of the step, and not before it has begun", func(ctx SpecContext) {
		l := newLone(ctx, []fault.Fault{kill}, cell("kill", 6, fault.At(steps.ReasonWaitingForDNS)))
		l.pass(ctx, 25, migrating(6, steps.ReasonPaused))
		l.pass(ctx, 9, migrating(6, steps.ReasonSwitchingDNSRecords))
		Expect(injected()).To(Equal(0))
		l.pass(ctx, 1, migrating(6, steps.ReasonWaitingForDNS))
		Expect(injected()).To(Equal(1))
	})

	// strike lets one kill strike at 25 s, and judges a run of 60 s.
	strike := func(ctx context.Context, at robustness.Cell, spoil func(*lone), change func(*robustness.Result)) error {
		l := newLone(ctx, []fault.Fault{kill}, at)
		reason := steps.ReasonPaused
		l.pass(ctx, 24, migrating(1, reason))
		l.shoot = migrating(1, reason)
		spoil(l)
		l.clock.Step(time.Second)
		l.requests += perSecond
		l.Observe(ctx, migrating(1, reason))
		if r, ok := at.Moment.Reason(); ok {
			l.Observe(ctx, migrating(1, r))
		}
		result := l.recorded(60, 0, 0)
		change(result)
		l.Judge(result, l.at(60))
		return result.Err()
	}
	boundary := cell("kill", 1, fault.Boundary)
	asIs := func(*lone) {}

	It("should pass", func(ctx SpecContext) {
		Expect(strike(ctx, boundary, asIs, func(*robustness.Result) {})).To(Succeed())
	})

	It("should look again for the moment if there is no answer", func(ctx SpecContext) {
		Expect(strike(ctx, boundary, func(l *lone) { l.looks = 2 }, func(*robustness.Result) {})).To(Succeed())
	})

	DescribeTable("should prove nothing", func(ctx SpecContext, at robustness.Cell, spoil func(*lone), why string) {
		Expect(strike(ctx, at, spoil, func(*robustness.Result) {})).
			To(MatchError(And(ContainSubstring(": missed ("), ContainSubstring(why))))
	},
		Entry("without a proof", boundary, func(*lone) { kill.proof = "" }, "nobody has seen that the fault struck"),
		Entry("when the step is over", boundary, func(l *lone) { l.shoot = migrating(2, steps.ReasonPending) },
			"the step was over before the fault had struck"),
		Entry("when the moment is over", cell("kill", 1, fault.At(steps.ReasonPersistingShootState)),
			func(l *lone) { l.shoot = migrating(1, steps.ReasonShootStatePersisted) },
			"the moment was over before the fault had struck: SourceEtcdPreparedForPeerJoin says ShootStatePersisted"),
		Entry("when nobody can see the moment", boundary, func(l *lone) { l.lookErr = errors.New("no answer") },
			"nobody could see whether the moment had passed: no answer"),
	)

	DescribeTable("should fail or prove nothing", func(ctx SpecContext, change func(*robustness.Result), why string) {
		Expect(strike(ctx, boundary, asIs, change)).To(MatchError(ContainSubstring(why)))
	},
		Entry("with too little load before",
			func(r *robustness.Result) { r.History.Operations = r.History.Operations[1:] },
			"missed (too little load before the fault: 499 requests in 25.0 s, needed are 500 in 15 s"),
		Entry("with too little load after",
			func(r *robustness.Result) { r.History.Operations = r.History.Operations[:900] },
			"too little load after the fault: 400 requests in 35.0 s"),
		Entry("with a request that failed", func(r *robustness.Result) {
			r.History.Operations[700].Outcome = history.Unknown
		}, "FAILED (1 requests failed at the first try, permitted are 0"),
		Entry("with a stall across the fault", func(r *robustness.Result) {
			for i := 445; i < 560; i++ {
				r.History.Operations[i].Kind = history.Read
			}
		}, "FAILED (no write was acknowledged for 5.8 s, permitted are 5 s"),
		Entry("if somebody acts where it may not", func(r *robustness.Result) {
			r.Report.Ownership.Violations = []string{"a scheduler in seed-b"}
		}, "1 violations of who may act in which seed, the first: a scheduler in seed-b"),
		Entry("if nobody looked who acts", func(r *robustness.Result) { r.Report.Ownership = nil },
			"nobody looked at who acts in which seed"),
		Entry("with an event that came twice", func(r *robustness.Result) {
			r.Report.Probe.Details.Watches = []recording.Watch{{}, {Duplicates: 2}}
		}, "watch 2 of the load delivered 2 events twice"),
		Entry("with restarts of etcd that no fault has asked for", func(r *robustness.Result) {
			r.Report.SourceEtcdRestarts = 1
		}, "1 etcd pods of the source restarted, 0 by what the faults do"),
		Entry("with a write of the load that is lost", func(r *robustness.Result) {
			r.Report.Probe.Details.AcknowledgedWritesLost = 1
		}, "1 acknowledged writes of the load are lost"),
		Entry("with an event of the load that is lost", func(r *robustness.Result) {
			r.Report.Probe.WatchEventsLost = 2
		}, "2 watch events of the load are lost"),
	)
})
