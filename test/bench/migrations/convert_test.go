// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
)

var begin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }

func members(at time.Time, names ...string) driver.MembersAt {
	out := driver.MembersAt{Time: at}
	for _, name := range names {
		learner := name[0] == '+'
		if learner {
			name = name[1:]
		}
		out.Members = append(out.Members, driver.Member{Name: name, Learner: learner})
	}
	return out
}

var _ = Describe("joins", func() {
	It("should measure from being added to being a voter", func() {
		Expect(joins([]driver.MembersAt{
			members(at(0), "a0", "a1"),
			members(at(10), "a0", "a1", "+unstarted-7"),
			members(at(12), "a0", "a1", "+b0"),
			members(at(15.26), "a0", "a1", "b0"),
			members(at(20), "a0", "a1", "b0", "+b1"),
			members(at(21), "a0", "a1", "b0", "b1", "+unstarted-8"),
			members(at(24), "a0", "a1", "b0", "b1", "b2"),
			members(at(25), "a0", "b0", "b1", "b2"),
		})).To(Equal([]data.Join{{Member: "b0", Seconds: 5.3}, {Member: "b1", Seconds: 1}, {Member: "b2", Seconds: 3}}))
	})

	It("should not count a learner that was taken away again", func() {
		Expect(joins([]driver.MembersAt{
			members(at(0), "a0"), members(at(1), "a0", "+unstarted-7"), members(at(2), "a0"),
			members(at(10), "a0", "+b0"), members(at(12), "a0", "b0"), members(at(13), "a0", "b0", "b1"),
		})).To(Equal([]data.Join{{Member: "b0", Seconds: 2}, {Member: "b1"}}))
	})
})

var _ = Describe("unavailable", func() {
	It("should sum up the intervals without a write, from the trigger on and without the last", func() {
		seconds, interval := unavailable(&probe.Series{Begin: begin, IntervalSeconds: 2,
			Points: []probe.Point{{}, {Writes: 1}, {}, {}, {Writes: 1}, {}}}, at(2))
		Expect(seconds).To(Equal(4.0))
		Expect(interval).To(Equal(2.0))
	})

	It("should know nothing without a series", func() {
		seconds, _ := unavailable(nil, begin)
		Expect(seconds).To(BeZero())
		seconds, _ = unavailable(&probe.Series{}, begin)
		Expect(seconds).To(BeZero())
	})
})

var _ = DescribeTable("outcome", func(err error, expected string) {
	result, reason := outcome(err)
	Expect(result).To(Equal(expected))
	if err == nil {
		Expect(reason).To(BeEmpty())
	} else {
		Expect(reason).To(Equal(err.Error()))
	}
},
	Entry("an end", nil, data.OutcomeCompleted),
	Entry("no end", errors.New("too late"), data.OutcomeStopped),
	Entry("no beginning", fmt.Errorf("wrapped: %w", demo.NewRefusedError(errors.New("no"))), data.OutcomeRefused),
)

var _ = Describe("figures", func() {
	report := func() *demo.Report {
		return &demo.Report{Recording: recording.Recording{
			Source: "seed-a", Destination: "seed-b", DurationSeconds: 400,
			Probe: probe.Result{
				Writes: 100, WritesFailed: 1, Reads: 200, ReadsFailed: 2, WatchEvents: 50, WatchEventsLost: 3,
				LongestWriteGapMs: 300, BaselineLongestWriteGapMs: 100,
				WriteP99Ms: probe.ByPhase{Before: 10, During: 20},
				Details: &probe.Details{
					AcknowledgedWritesLost: 1, AcknowledgedEventsLost: 2,
					WriteP50Ms:  probe.ByPhase{Before: 5, During: 6},
					Watches:     []probe.WatchDetails{{Resets: 1, MaxLagMs: 5}, {Resets: 2, MaxLagMs: 4}},
					Phases:      map[probe.Phase]time.Time{probe.PhaseBefore: at(-330), probe.PhaseDuring: begin},
					RequestsDue: 310, MissedTicks: 10,
					EventWrites: &recording.WriteFigures{Sent: 20, Failed: 1},
					OtherWrites: &recording.WriteFigures{Sent: 80, LongestGapMs: 301, BaselineLongestGapMs: 101,
						P50Ms: probe.ByPhase{Before: 5, During: 7}, P99Ms: probe.ByPhase{Before: 11, During: 21}},
					Series: &probe.Series{Begin: begin, IntervalSeconds: 2, Points: []probe.Point{{}, {}}},
				},
			},
			Etcd: map[string]driver.EtcdReport{driver.RoleMain: {SixMemberWindowSeconds: 7}},
			Steps: []driver.StepReport{{Condition: steps.First().Condition, Owner: string(steps.Source), Seconds: 30,
				WriteP99Ms: 12, WriteMaxMs: 345}},
		},
			Details: demo.Details{
				Triggered: begin,
				Etcd: map[string][]driver.MembersAt{
					driver.RoleMain: {members(at(0), "a0"), members(at(1), "a0", "+b0"), members(at(3), "a0", "b0")},
				},
				Machine: map[string]demo.Usage{"before": {CPUCores: 1, MaxMemoryMiB: 1000},
					"during": {CPUCores: 1.5, MaxMemoryMiB: 2000}},
			},
		}
	}

	It("should take everything of a live migration", func() {
		processes := map[string]data.Process{"livecpm-agent": {CPUSeconds: 1, PeakMiB: 2}}
		Expect(figures(report(), data.KindLive, 50*time.Millisecond, processes)).To(Equal(data.Migration{
			Kind: data.KindLive, Source: "seed-a", Destination: "seed-b", RoundTripMs: 50,
			Outcome: data.OutcomeCompleted, Seconds: 400, QuietSeconds: 330, RequestsDue: 310, RequestsUnsent: 10,
			Events: &data.Writes{Sent: 20, Failed: 1, Lost: 2},
			Others: &data.Writes{Sent: 80, Lost: 1, GapMs: data.ByPhase{Quiet: 101, During: 301},
				P50Ms: data.ByPhase{Quiet: 5, During: 7}, P99Ms: data.ByPhase{Quiet: 11, During: 21}},
			Writes: 100, WritesFailed: 1, Reads: 200, ReadsFailed: 2, WritesLost: 3, UnavailableSeconds: 2,
			IntervalSeconds: 2,
			WriteGapMs:      data.ByPhase{Quiet: 100, During: 300}, WriteP50Ms: data.ByPhase{Quiet: 5, During: 6},
			WriteP99Ms:  data.ByPhase{Quiet: 10, During: 20},
			WatchEvents: 50, WatchEventsLost: 3, WatchResets: 3, WatchLagMs: 5,
			Etcd: map[string]data.Etcd{
				driver.RoleMain: {SixMemberSeconds: 7, Joins: []data.Join{{Member: "b0", Seconds: 2}}},
			},
			Steps: []data.Step{{Name: steps.First().String(), Owner: "source", Seconds: 30,
				WriteP99Ms: 12, WriteMaxMs: 345}},
			Processes: processes,
			CPUCores:  data.ByPhase{Quiet: 1, During: 1.5}, MemoryMiB: data.ByPhase{Quiet: 1000, During: 2000},
		}))
	})

	It("should know nothing of parts that were not recorded", func() {
		former := report()
		former.Probe.Details.EventWrites, former.Probe.Details.OtherWrites = nil, nil
		delete(former.Probe.Details.Phases, probe.PhaseBefore)
		m := figures(former, data.KindLive, 0, nil)
		Expect(m.Events).To(BeNil())
		Expect(m.Others).To(BeNil())
		Expect(m.QuietSeconds).To(BeZero())
		Expect(m.Gap()).To(Equal(m.WriteGapMs))
	})

	It("should not look for a joint cluster in a classic one", func() {
		Expect(figures(report(), data.KindClassic, 0, nil).Etcd).To(BeNil())
	})

	It("should take what a join with data has seen", func() {
		out := &data.SizeRun{MiB: 10}
		sizeFigures(out, report(), at(42.34))
		Expect(out.Outcome).To(Equal(data.OutcomeCompleted))
		Expect(out.PrepareSeconds).To(Equal(30.0))
		Expect(out.JoinStepSeconds).To(Equal(12.3))
		Expect(out.LongestJoin()).To(Equal(2.0))
		Expect(out.WritesFailed).To(Equal(int64(1)))
	})
})

var _ = DescribeTable("joined", func(status gardencorev1beta1.ConditionStatus, message string, expected bool) {
	Expect(joined([]gardencorev1beta1.Condition{
		{Type: steps.First().Condition, Status: gardencorev1beta1.ConditionTrue},
		{Type: joinStep, Status: status, Message: message},
	})).To(Equal(expected))
},
	Entry("not yet", gardencorev1beta1.ConditionProgressing,
		"etcd-main: 4 voters (3 in the source, 1 in the destination), 4 healthy; etcd-events: 5 voters (3 in the "+
			"source, 2 in the destination), 5 healthy", false),
	Entry("etcd-main is ready", gardencorev1beta1.ConditionProgressing,
		"etcd-main: 5 voters (3 in the source, 2 in the destination), 5 healthy; etcd-events: 4 voters", true),
	Entry("the step is complete", gardencorev1beta1.ConditionTrue, "done", true),
)

var _ = It("should not take what a former migration has left for a join", func() {
	var conditions []gardencorev1beta1.Condition
	for _, step := range steps.Table() {
		conditions = append(conditions,
			gardencorev1beta1.Condition{Type: step.Condition, Status: gardencorev1beta1.ConditionTrue})
	}
	Expect(joined(conditions)).To(BeFalse())
})

var _ = Describe("usage", func() {
	It("should be cores and MiB", func() {
		Expect(usage(3*time.Second, 2*time.Second, 5<<20)).To(Equal(data.Usage{CPUCores: 1.5, MemoryMiB: 5}))
	})
})
