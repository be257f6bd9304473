// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

var _ = Describe("Settings", func() {
	const prefix = "migration.gardener.cloud/drain-"
	set := func(pairs ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			out[prefix+pairs[i]] = pairs[i+1]
		}
		return out
	}
	day := func(n int) time.Time { return time.Date(2026, 12, n, 0, 0, 0, 0, time.UTC) }

	It("should be read from the annotations", func() {
		Expect(drain.SettingsOf(nil)).To(Equal(drain.Settings{}))
		Expect(drain.SettingsOf(set("windows", "maintenance", "canaries", "3", "soak", "90m", "max-hops", "3",
			"fallback", "classic", "hibernated", "stay",
			"freezes", "2026-12-20T00:00:00Z/2026-12-27T00:00:00Z, 2026-12-30T00:00:00Z/2026-12-31T00:00:00Z"))).
			To(Equal(drain.Settings{Permits: drain.Permits{Fallback: true, HibernatedStay: true, Hops: 3},
				InWindows: true, Canaries: 3, Soak: 90 * time.Minute,
				Freezes: []drain.Span{{Begin: day(20), End: day(27)}, {Begin: day(30), End: day(31)}}}))
	})

	DescribeTable("should hold everything if they cannot be read", func(key, value string, parts ...string) {
		w := garden(at("seed-a", "x"), moved(at("seed-a", "y"), "seed-b", ago(time.Minute)))
		w.Seeds[0].Settings = drain.SettingsOf(set(key, value))
		plan := drain.Make(w)
		Expect(lines(plan)).To(HaveExactElements("x Blocked SettingsInvalid", "y Running Migrating"))
		Expect(plan.Starts).To(BeEmpty())
		Expect(plan.Seeds[0].Entries[0].Text).To(ContainSubstring(prefix + key))
		for _, part := range parts {
			Expect(plan.Seeds[0].Entries[0].Text).To(ContainSubstring(part))
		}
	},
		Entry("another fallback", "fallback", "Classic", "there is no such way; set it to classic"),
		Entry("hibernated shoots that have to stay, said otherwise", "hibernated", "Stay",
			"nothing else can be asked for; set it to stay"),
		Entry("other windows", "windows", "true", "set it to maintenance"),
		Entry("a freeze without an end", "freezes", "2026-12-20T00:00:00Z", `"" is no time`),
		Entry("a freeze without a begin", "freezes", "/2026-12-20T00:00:00Z", `"" is no time`),
		Entry("a day is no time", "freezes", "2026-12-20/2026-12-27", `"2026-12-20" is no time`),
		Entry("a freeze that ends before it begins", "freezes", "2026-12-27T00:00:00Z/2026-12-20T00:00:00Z",
			"is not after"),
		Entry("the second of two freezes", "freezes", "2026-12-20T00:00:00Z/2026-12-27T00:00:00Z,x", `"x" is no time`),
		Entry("nothing", "freezes", "", `"" is no time`),
		Entry("no number", "canaries", "few", "number"),
		Entry("a negative number", "canaries", "-1", "negative"),
		Entry("no duration", "soak", "1", "duration"),
		Entry("a negative duration", "soak", "-1h", "negative"),
		Entry("no number of hops", "max-hops", "all", "set it to a number from 1 to 3"),
		Entry("no migration at all", "max-hops", "0", "set it to a number from 1 to 3"),
		Entry("too many migrations", "max-hops", "4", "set it to a number from 1 to 3"),
	)
})

var _ = Describe("When moves begin", func() {
	// waits returns reason and end of the wait of shoot x; the end relative to now.
	waits := func(w drain.Garden) string {
		GinkgoHelper()
		plan := drain.Make(w)
		entries := plan.Seeds[0].Entries
		entry := entries[slices.IndexFunc(entries, func(e drain.Entry) bool { return e.Name == "x" })]
		if entry.Until.IsZero() {
			return string(entry.Reason)
		}
		Expect(plan.LookAgain).NotTo(BeZero())
		Expect(plan.LookAgain).NotTo(BeTemporally(">", entry.Until))
		return fmt.Sprintf("%s %s", entry.Reason, entry.Until.Sub(now))
	}

	Describe("maintenance time windows", func() {
		closed := func(drain.Shoot) drain.Assessment {
			return drain.Assessment{Destination: "seed-b", Way: drain.Live, WindowOpens: now.Add(3 * time.Hour)}
		}

		It("should hold a live move if that is asked for", func() {
			w := garden(at("seed-a", "x"))
			w.Assess = closed
			Expect(waits(w)).To(Equal("Next"))
			w.Seeds[0].InWindows = true
			Expect(waits(w)).To(Equal("WaitingForMaintenanceWindow 3h0m0s"))
			w.Assess = to("seed-b")
			Expect(waits(w)).To(Equal("Next"))
		})
	})

	Describe("change freezes", func() {
		DescribeTable("hold what would reach into them", func(expected string, hours ...int) {
			w := garden(at("seed-a", "x"))
			for i := 0; i < len(hours); i += 2 {
				w.Seeds[0].Freezes = append(w.Seeds[0].Freezes, drain.Span{
					Begin: now.Add(time.Duration(hours[i]) * time.Hour),
					End:   now.Add(time.Duration(hours[i+1]) * time.Hour)})
			}
			Expect(waits(w)).To(Equal(expected))
			Expect(drain.Make(w).Starts).To(HaveLen(map[bool]int{true: 1, false: 0}[expected == "Next"]))
		},
			Entry("none", "Next"),
			Entry("over", "Next", -2, -1),
			Entry("just over", "Next", -1, 0),
			Entry("in one", "ChangeFreeze 1h0m0s", -1, 1),
			Entry("just begun", "ChangeFreeze 1h0m0s", 0, 1),
			Entry("soon", "ChangeFreeze 2h0m0s", 1, 2),
			Entry("later", "Next", 2, 3),
			Entry("two at once", "ChangeFreeze 3h0m0s", -1, 1, -2, 3),
			Entry("two in a row", "ChangeFreeze 5h0m0s", 2, 5, -1, 1),
			Entry("two with room between them", "ChangeFreeze 1h0m0s", -1, 1, 3, 5),
		)

		It("should let what has begun continue", func() {
			w := garden(moved(at("seed-a", "x"), "seed-b", ago(time.Minute)))
			w.Seeds[0].Freezes = []drain.Span{{Begin: ago(time.Second), End: now.Add(time.Hour)}}
			Expect(waits(w)).To(Equal("Migrating"))
		})
	})

	Describe("the canary stage", func() {
		var w drain.Garden
		arrived := func(name string, end time.Duration) drain.Shoot {
			return ended(moved(at("seed-a", name), "seed-b", ago(50*time.Minute)), drain.Succeeded, ago(end))
		}
		with := func(shoots ...drain.Shoot) drain.Garden {
			w = garden(append(shoots, at("seed-a", "x"), at("seed-a", "z"))...)
			w.Budget.Pause, w.Budget.PerSource, w.Budget.PerDestination = 0, 5, 5
			w.Seeds[0].Canaries, w.Seeds[0].Soak = 2, 20*time.Minute
			return w
		}

		It("should let so many begin, and no more before they have arrived", func() {
			Expect(started(drain.Make(with()))).To(HaveLen(2))
			Expect(started(drain.Make(with(at("seed-a", "a"))))).To(HaveExactElements("a seed-a->seed-b Live",
				"x seed-a->seed-b Live"))
			Expect(lines(drain.Make(w))).To(ContainElement("z Waiting CanaryStage"))
			Expect(started(drain.Make(with(moved(at("seed-a", "a"), "seed-b", ago(time.Minute)))))).To(HaveLen(1))
			Expect(waits(with(moved(at("seed-a", "a"), "seed-b", ago(time.Minute)),
				handedOver(moved(at("seed-a", "b"), "seed-b", ago(time.Minute)))))).To(Equal("CanaryStage"))
			Expect(waits(with(arrived("a", time.Minute), moved(at("seed-a", "b"), "seed-b", ago(time.Minute))))).
				To(Equal("CanaryStage"))
		})

		It("should let the others wait for a while after that", func() {
			Expect(waits(with(arrived("a", 19*time.Minute), arrived("b", 15*time.Minute)))).To(Equal("Soaking 5m0s"))
			Expect(started(drain.Make(w))).To(BeEmpty())
			Expect(waits(with(arrived("a", 30*time.Minute), arrived("b", 20*time.Minute)))).To(Equal("Next"))
			Expect(started(drain.Make(w))).To(HaveLen(2))
			Expect(waits(with(arrived("a", 30*time.Minute), arrived("b", 25*time.Minute), arrived("c", time.Minute)))).
				To(Equal("Next"), "the third belongs to the stage no more")
		})

		It("should not begin again when the drain is resumed", func() {
			w := with(arrived("a", 30*time.Minute), arrived("b", 25*time.Minute))
			w.Seeds[0].ResumedAt = ago(time.Second)
			Expect(waits(w)).To(Equal("Next"))
		})

		It("should open the circuit with the first failure", func() {
			failed := ended(moved(at("seed-a", "a"), "seed-b", ago(50*time.Minute)), drain.Aborted, ago(time.Minute))
			plan := drain.Make(with(failed))
			Expect(plan.Seeds[0].CircuitOpen).To(BeTrue())
			_, _, message := plan.Seeds[0].Condition()
			Expect(message).To(HavePrefix("a migration of the canary stage has failed, so no more are started"))
			refused := ended(moved(at("seed-a", "a"), "seed-b", ago(50*time.Minute)), drain.Refused, ago(time.Minute))
			Expect(drain.Make(with(refused)).Seeds[0].CircuitOpen).To(BeFalse(), "nobody was moved")
			Expect(drain.Make(with(failed, arrived("b", 30*time.Minute), arrived("c", 25*time.Minute))).Seeds[0].
				CircuitOpen).To(BeFalse(), "the stage is over")
		})
	})

	Describe("the share of failures", func() {
		share := func(failures, successes int) drain.SeedPlan {
			var shoots []drain.Shoot
			for i := range failures + successes {
				// The successes are the last, so that no failures are in a row.
				result, end := drain.Aborted, 40*time.Minute
				if i >= failures {
					result, end = drain.Succeeded, 20*time.Minute
				}
				shoots = append(shoots,
					ended(moved(at("seed-a", fmt.Sprint(i)), "seed-b", ago(50*time.Minute)), result, ago(end)))
			}
			w := garden(shoots...)
			w.Budget.FailurePercent = 20
			return drain.Make(w).Seeds[0]
		}

		It("should open the circuit when there are enough to judge by", func() {
			Expect(share(2, 8).CircuitOpen).To(BeFalse())
			Expect(share(3, 6).CircuitOpen).To(BeFalse(), "nine are not enough")
			Expect(share(3, 7).CircuitCause).To(Equal("3 of 10 migrations have failed"))
			Expect(share(3, 12).CircuitOpen).To(BeFalse())
		})
	})

	Describe("announcements", func() {
		var announced = func(shoot drain.Shoot, at time.Time) drain.Shoot {
			shoot.AnnouncedBy, shoot.AnnouncedAt = shoot.Status, at
			return shoot
		}
		with := func(shoots ...drain.Shoot) drain.Garden {
			w := garden(append(shoots, at("seed-a", "x"))...)
			w.Notice = drain.Notice{Wanted: true, Lead: 30 * time.Minute}
			return w
		}
		notices := func(w drain.Garden) []string {
			out := []string{}
			for _, notice := range drain.Make(w).Announcements {
				out = append(out, fmt.Sprintf("%s %s->%s %s", notice.Name, notice.Source, notice.Destination,
					notice.NotBefore.Sub(now)))
			}
			return out
		}

		It("should be made before a move begins", func() {
			w := with()
			Expect(waits(w)).To(Equal("Announced 30m0s"))
			Expect(notices(w)).To(Equal([]string{"x seed-a->seed-b 30m0s"}))
			Expect(drain.Make(w).Starts).To(BeEmpty())

			w.Shoots[0] = announced(w.Shoots[0], ago(20*time.Minute))
			Expect(waits(w)).To(Equal("Announced 10m0s"))
			Expect(notices(w)).To(BeEmpty())
			w.Shoots[0] = announced(w.Shoots[0], ago(30*time.Minute))
			Expect(waits(w)).To(Equal("Next"))
			Expect(notices(w)).To(BeEmpty())
		})

		It("should be made again after the drain was resumed, or by another drain", func() {
			w := with()
			w.Shoots[0] = announced(w.Shoots[0], ago(50*time.Minute))
			w.Seeds[0].ResumedAt = ago(40 * time.Minute)
			Expect(notices(w)).To(HaveLen(1))
			w = with()
			w.Shoots[0] = announced(w.Shoots[0], ago(50*time.Minute))
			w.Shoots[0].AnnouncedBy = "seed-c"
			Expect(notices(w)).To(HaveLen(1))
		})

		It("should be made for as many shoots as may leave at once, and more when they leave", func() {
			Expect(waits(with(at("seed-a", "a"), at("seed-a", "b")))).To(Equal("NotAnnounced"))
			Expect(waits(with(announced(at("seed-a", "y"), ago(time.Minute)), announced(at("seed-a", "z"), ago(0))))).
				To(Equal("NotAnnounced"), "those that are announced go first")
			Expect(waits(with(announced(at("seed-a", "y"), ago(time.Minute)),
				moved(at("seed-a", "z"), "seed-b", ago(time.Minute))))).To(Equal("Announced 30m0s"))
		})

		It("should not be held up by one that waits for its window", func() {
			w := with(announced(at("seed-a", "y"), ago(40*time.Minute)),
				announced(at("seed-a", "z"), ago(40*time.Minute)))
			w.Seeds[0].InWindows = true
			w.Assess = func(s drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-b", Way: drain.Live, InMaintenanceWindow: s.Name == "x",
					WindowOpens: now.Add(2 * time.Hour)}
			}
			Expect(waits(w)).To(Equal("Announced 30m0s"))
		})

		DescribeTable("should let the time be over when the window opens",
			func(opens time.Duration, expected string, expectedNotices ...string) {
				w := with()
				w.Seeds[0].InWindows = true
				w.Assess = func(drain.Shoot) drain.Assessment {
					return drain.Assessment{Destination: "seed-b", Way: drain.Live, WindowOpens: now.Add(opens)}
				}
				Expect(waits(w)).To(Equal(expected))
				Expect(notices(w)).To(HaveLen(len(expectedNotices)))
				for i, notice := range expectedNotices {
					Expect(notices(w)[i]).To(Equal(notice))
				}
			},
			Entry("far away", 2*time.Hour, "WaitingForMaintenanceWindow 2h0m0s"),
			Entry("just that far away", 30*time.Minute, "Announced 30m0s", "x seed-a->seed-b 30m0s"),
			Entry("nearer", 10*time.Minute, "Announced 30m0s", "x seed-a->seed-b 30m0s"),
		)

		It("should wait while they cannot be made, and be tried again", func() {
			w := with(at("seed-a", "y"))
			w.Notice.Problem, w.Notice.HeldUntil = "it answered 500", now.Add(time.Minute)
			Expect(waits(w)).To(Equal("NoticeFailed 1m0s"))
			Expect(notices(w)).To(BeEmpty())
			w.Notice.HeldUntil = now
			Expect(notices(w)).To(HaveLen(2))

			w = with()
			w.Shoots[0] = announced(w.Shoots[0], ago(30*time.Minute))
			w.Notice.Problem, w.Notice.HeldUntil = "it answered 500", now.Add(time.Minute)
			Expect(waits(w)).To(Equal("Next"), "it is announced")
		})

		It("should not be made for more canaries than there are to be, nor in a freeze", func() {
			w := with(at("seed-a", "a"))
			w.Seeds[0].Canaries = 1
			Expect(notices(w)).To(Equal([]string{"a seed-a->seed-b 30m0s"}))
			Expect(waits(w)).To(Equal("CanaryStage"))
			w = with()
			w.Seeds[0].Freezes = []drain.Span{{Begin: ago(0), End: now.Add(time.Hour)}}
			Expect(notices(w)).To(BeEmpty())
		})
	})
})
