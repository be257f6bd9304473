// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package expected_test

import (
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/history"
	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

const (
	prepare = iota
	join
	migrateEarly
	start
	release
	move
	clean
	complete
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func condition(i int) string { return steps.Table()[i].String() }

// record is a past migration in which every step took as long as given.
func record(name, from, to string, seconds ...float64) history.Record {
	out := history.Record{Name: name, Source: from, Destination: to, Result: history.Succeeded}
	for i, s := range seconds {
		out.Steps = append(out.Steps, history.Step{Condition: condition(i), Seconds: s})
	}
	return out
}

func of(facts expected.Facts, i int) summary.ExpectedStep { return facts.Steps()[i] }

func minutes(count int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(count) * time.Minute}
}

var _ = Describe("Facts", func() {
	// A landscape of two seeds in which every step takes 100 s, the last one 40 s.
	seconds := []float64{100, 100, 100, 100, 100, 300, 200, 40}

	It("should take what was measured on the landscape of the repository only where nothing was recorded", func() {
		for i, step := range (expected.Facts{}).Steps() {
			Expect(step.Basis).To(Equal(summary.BasisBenchmark))
			Expect(step.Samples).To(BeZero())
			Expect(step.Seconds).To(Equal(steps.Table()[i].Expected.Seconds()+step.WaitSeconds), step.Condition)
		}
		facts := expected.Facts{Source: "a", Destination: "b", Past: []history.Record{record("", "c", "d", seconds...)}}
		for i, step := range facts.Steps() {
			Expect(step.Basis).To(Equal(summary.BasisGarden))
			Expect(step.Samples).To(Equal(1))
			Expect(step.Seconds).To(Equal(seconds[i]), step.Condition)
		}
	})

	It("should take the default waits where nobody tells others", func() {
		Expect(of(expected.Facts{}, move).WaitSeconds).To(Equal(130.0),
			"TTL 120 s, which the source shortens to 30 s, margin 30 s, drain 70 s")
		Expect(of(expected.Facts{}, clean).WaitSeconds).To(Equal(60.0))
		Expect(of(expected.Facts{Workers: 1}, clean).WaitSeconds).To(Equal(120.0), "both doors")
		Expect(of(expected.Facts{GatewayKeepsTLS: true, Workers: 1}, move).WaitSeconds).To(Equal(160.0),
			"the source's kube-apiservers restart")
		Expect(of(expected.Facts{GatewayKeepsTLS: true, Workers: 1}, clean).WaitSeconds).To(BeZero())
		for _, i := range []int{prepare, join, migrateEarly, start, release, complete} {
			Expect(of(expected.Facts{}, i).WaitSeconds).To(BeZero())
		}
	})

	It("should take TTL and waits of this migration", func() {
		facts := expected.Facts{TTL: 10 * time.Minute,
			SourceWaits:      &seedfacts.Waits{DrainTimeout: minutes(7), GatewayDrain: minutes(5)},
			DestinationWaits: &seedfacts.Waits{DNSMargin: minutes(1), Drain: minutes(2)}}
		Expect(of(facts, move).WaitSeconds).To(Equal(13 * 60.0))
		Expect(of(facts, clean).WaitSeconds).To(Equal(5 * 60.0))
		facts.GatewayKeepsTLS = true
		Expect(of(facts, clean).WaitSeconds).To(BeZero(), "clients have left before")
	})

	DescribeTable("takes the TTL that is left when the records are switched",
		func(ttl, source, destination, record, left time.Duration) {
			wait := func(short time.Duration) *seedfacts.Waits {
				return &seedfacts.Waits{ShortTTL: metav1.Duration{Duration: short},
					RecordTTL: metav1.Duration{Duration: record}}
			}
			facts := expected.Facts{TTL: ttl, SourceWaits: wait(source), DestinationWaits: wait(destination)}
			Expect(of(facts, move).WaitSeconds).To(Equal(left.Seconds()))
		},
		Entry("the shortened one", 2*time.Minute, 30*time.Second, 10*time.Second, 2*time.Minute, 30*time.Second),
		Entry("what caches still have of the former one", 5*time.Minute, 30*time.Second, 30*time.Second, 5*time.Minute,
			3*time.Minute),
		Entry("its own if that is shorter", 20*time.Second, 30*time.Second, 30*time.Second, 2*time.Minute,
			20*time.Second),
		Entry("its own if the source wants none shorter", 2*time.Minute, time.Duration(0), 30*time.Second,
			2*time.Minute, 2*time.Minute),
		Entry("its own if the destination does not", 2*time.Minute, 30*time.Second, time.Duration(0), 2*time.Minute,
			2*time.Minute),
		Entry("its own if the gardenlet of the source gives records less", 5*time.Minute, 30*time.Second,
			30*time.Second, 2*time.Minute, 5*time.Minute),
	)

	It("should exchange the waits of past migrations for those of this one", func() {
		past := record("", "a", "b", seconds...)
		past.Waits = []history.Wait{
			{Condition: condition(move), For: waits.Caches, Seconds: 90},
			{Condition: condition(move), For: waits.Drain, Seconds: 70},
		}
		facts := expected.Facts{Past: []history.Record{past}, TTL: 5 * time.Minute}
		Expect(of(facts, move).Seconds).To(Equal(140.0 + 330 + 70))
		facts.TTL = 0
		Expect(of(facts, move).Seconds).To(Equal(300.0), "the same TTL as before, where it is not known")
	})

	It("should prefer past migrations of the shoot, then between its seeds, then of the garden", func() {
		own := record("", "c", "d", 1)
		own.UID = "own"
		facts := expected.Facts{UID: "own", Source: "a", Destination: "b", Past: []history.Record{
			own, record("", "a", "b", 2), record("", "b", "a", 2), record("", "a", "b", 2), record("", "e", "f", 3),
		}}
		Expect(of(facts, prepare)).To(And(HaveField("Seconds", 1.0), HaveField("Basis", summary.BasisShoot),
			HaveField("Samples", 1)))
		facts.UID = "another"
		Expect(of(facts, prepare)).To(And(HaveField("Seconds", 2.0), HaveField("Basis", summary.BasisSeeds),
			HaveField("Samples", 3)))
		facts.Destination = "z"
		Expect(of(facts, prepare)).To(And(HaveField("Seconds", 2.0), HaveField("Basis", summary.BasisGarden),
			HaveField("Samples", 5)))
		Expect(facts.Plan().Basis).To(Equal(summary.BasisBenchmark), "the other steps were never recorded")
	})

	It("should not learn from what was held, is not over, passed a deadline or has other workers", func() {
		held := record("", "a", "b", 10)
		held.Held = []string{condition(prepare)}
		running := record("", "a", "b", 10)
		running.Result = ""
		workers := record("", "a", "b", 10)
		workers.Workers = 3
		stuck := record("", "a", "b", steps.First().Deadline.Seconds()+1)
		facts := expected.Facts{Past: []history.Record{held, running, workers, stuck}}
		Expect(of(facts, prepare).Basis).To(Equal(summary.BasisBenchmark))
		facts.Workers = 1
		Expect(of(facts, prepare)).To(And(HaveField("Basis", summary.BasisGarden), HaveField("Seconds", 10.0)))
	})

	It("should take the one in the middle of the last ones", func() {
		facts := expected.Facts{}
		for range 20 {
			facts.Past = append(facts.Past, record("", "a", "b", 500))
		}
		for _, s := range []float64{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 600, 700} {
			facts.Past = append(facts.Past, record("", "a", "b", s))
		}
		Expect(of(facts, prepare)).To(And(HaveField("Seconds", 17.0), HaveField("Samples", 15)))
	})

	It("should count a larger database where it was not part of the past", func() {
		small, large := expected.Facts{Database: 20 << 20}, expected.Facts{Database: 1 << 30}
		Expect(of(small, join).Seconds).To(Equal(of(expected.Facts{}, join).Seconds))
		Expect(of(large, join).Seconds-of(small, join).Seconds).To(BeNumerically("~", 54, 1), "as measured")
		Expect(of(large, prepare).Seconds-of(small, prepare).Seconds).To(BeNumerically("~", 71, 2), "as measured")
		Expect(of(large, start)).To(Equal(of(small, start)))
		large.Rate = 10 << 20
		Expect(of(large, join).Seconds-of(small, join).Seconds).To(BeNumerically("~", 200, 1), "by the slow way")

		own := record("", "a", "b", seconds...)
		own.UID = "own"
		Expect(of(expected.Facts{UID: "own", Database: 1 << 30, Past: []history.Record{own}}, join).Seconds).
			To(Equal(100.0), "its own past has it")
		Expect(of(expected.Facts{Database: 1 << 30, Past: []history.Record{own}}, join).Seconds).
			To(BeNumerically(">", 130), "that of others has not")
	})

	It("should count the distance between the seeds", func() {
		facts := expected.Facts{Source: "a", Destination: "b",
			RoundTrips: map[expected.Pair]time.Duration{expected.Between("b", "a"): 100 * time.Millisecond}}
		Expect(of(facts, start).Seconds).To(Equal(of(expected.Facts{}, start).Seconds + 33))
		facts.Past = []history.Record{record("", "c", "d", seconds...)}
		Expect(of(facts, start).Seconds).To(Equal(100.0), "how far the others were is not known")
		facts.RoundTrips[expected.Between("c", "d")] = 20 * time.Millisecond
		Expect(of(facts, start).Seconds).To(BeNumerically("~", 126.4, 0.5), "80 ms farther than the others")
	})
})

var _ = Describe("#Of", func() {
	// migration is at the step, for so long.
	migration := func(current int, elapsed time.Duration, change ...func(*summary.Step)) summary.Summary {
		out := summary.Summary{State: summary.Processing, Step: condition(current)}
		for i, step := range steps.Table() {
			view := summary.Step{Number: i + 1, Condition: step.String(),
				Status: string(gardencorev1beta1.ConditionUnknown)}
			switch {
			case i < current:
				view.Status = string(gardencorev1beta1.ConditionTrue)
			case i == current:
				view.Status, view.Current = string(gardencorev1beta1.ConditionProgressing), true
				view.Seconds = new(elapsed.Seconds())
				for _, change := range change {
					change(&view)
				}
			}
			out.Steps = append(out.Steps, view)
		}
		return out
	}
	tells := func(reason steps.Reason, message string) func(*summary.Step) {
		return func(s *summary.Step) { s.Reason, s.Message = string(reason), message }
	}
	// Steps of 100 s, and no wait for caches but 60 s.
	facts := expected.Facts{TTL: 30 * time.Second}
	for range 3 {
		past := record("", "a", "b", 100, 100, 100, 100, 100, 230, 160, 100)
		past.Waits = []history.Wait{{Condition: condition(move), For: waits.Caches, Seconds: 60},
			{Condition: condition(move), For: waits.Drain, Seconds: 70},
			{Condition: condition(clean), For: waits.Gateway, Seconds: 60}}
		facts.Past = append(facts.Past, past)
	}
	const all = 990.0

	It("should expect all of a migration that has not begun", func() {
		for _, begun := range []summary.Summary{{State: summary.Requested}, migration(prepare, 0)} {
			e := expected.Of(begun, facts, now)
			Expect(e.Seconds).To(Equal(all))
			Expect(e.Remaining()).To(Equal(all * time.Second))
			Expect(e.Progress).To(BeZero())
		}
		Expect(facts.Plan().Total()).To(Equal(all * time.Second))
	})

	It("should count what is over", func() {
		e := expected.Of(migration(start, 40*time.Second), facts, now)
		Expect(e.RemainingSeconds).To(Equal(all - 340))
		Expect(e.Progress).To(BeEquivalentTo(34))
		Expect(e.Late).To(BeFalse())
		Expect(e.Steps[join].RemainingSeconds).To(BeZero())
		Expect(e.Steps[start].RemainingSeconds).To(Equal(60.0))
	})

	It("should say that a step takes longer than expected, and expect the others still", func() {
		e := expected.Of(migration(start, 10*time.Minute), facts, now)
		Expect(e.Late).To(BeTrue())
		Expect(e.RemainingSeconds).To(Equal(all - 400))
		Expect(e.Progress).To(BeEquivalentTo(40))
	})

	It("should not take a pause for work", func() {
		e := expected.Of(migration(start, 0, func(s *summary.Step) {
			s.Status, s.Seconds = string(gardencorev1beta1.ConditionUnknown), nil
		}), facts, now)
		Expect(e.RemainingSeconds).To(Equal(all - 300))
		Expect(e.Late).To(BeFalse())
	})

	It("should follow what a step says of its wait", func() {
		caches := waits.ForCaches(now.Add(-20*time.Second), 30*time.Second, 30*time.Second)
		e := expected.Of(migration(move, 30*time.Second, tells(steps.ReasonWaitingForDNS, caches.String())), facts, now)
		Expect(e.Steps[move].RemainingSeconds).To(Equal(200.0), "as expected")

		e = expected.Of(migration(move, 5*time.Minute, tells(steps.ReasonWaitingForDNS, caches.String())), facts, now)
		Expect(e.Steps[move].RemainingSeconds).To(Equal(40.0+70+50), "slow before: wait, drain, and half of the work")
		Expect(e.Late).To(BeFalse())

		caches = waits.ForCaches(now, 10*time.Minute, 30*time.Second)
		e = expected.Of(migration(move, 10*time.Second, tells(steps.ReasonWaitingForDNS, caches.String())), facts, now)
		Expect(e.Steps[move].WaitSeconds).To(Equal(700.0), "a longer TTL than was asked for")
		Expect(e.Steps[move].RemainingSeconds).To(Equal(790.0))

		drain := waits.Since(now.Add(-time.Minute), 70*time.Second, waits.Drain)
		e = expected.Of(migration(move, 3*time.Minute, tells(steps.ReasonDrainingClients, drain.String())), facts, now)
		Expect(e.Steps[move].RemainingSeconds).To(Equal(60.0))
	})

	It("should expect nothing of what is over, or goes back", func() {
		for _, state := range []summary.State{summary.None, summary.Classic, summary.Succeeded, summary.Aborting,
			summary.Aborted} {
			Expect(expected.Of(summary.Summary{State: state}, facts, now)).To(BeNil())
		}
	})

	It("should not be complete before the end", func() {
		Expect(expected.Of(migration(complete, time.Hour), facts, now).Progress).To(BeEquivalentTo(99))
	})
})
