// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func budget() drain.Budget {
	return drain.Budget{PerSource: 2, PerDestination: 2, Total: 5, Pause: time.Minute, Failures: 3, Attempts: 3,
		RetryAfter: 10 * time.Minute}
}

func draining(name string) drain.Seed {
	return drain.Seed{Name: name, Draining: true, Marked: true, StartedAt: ago(time.Hour), ResumedAt: ago(time.Hour)}
}

func at(seed, name string) drain.Shoot {
	return drain.Shoot{Key: drain.Key{Namespace: "garden-demo", Name: name}, Spec: seed, Status: seed,
		CreatedAt: ago(24 * time.Hour)}
}

// moved returns the shoot with a move that the drain of its seed has started.
func moved(shoot drain.Shoot, to string, started time.Time) drain.Shoot {
	shoot.StartedBy, shoot.Destination, shoot.Way, shoot.StartedAt, shoot.Attempts = shoot.Status, to, drain.Live,
		started, 1
	shoot.Spec, shoot.Intended = to, true
	return shoot
}

func ended(shoot drain.Shoot, result drain.Result, end time.Time) drain.Shoot {
	shoot.Result, shoot.EndedAt, shoot.Intended = result, end, false
	if result == drain.Succeeded {
		shoot.Status = shoot.Spec
	} else {
		shoot.Spec = shoot.Status
	}
	return shoot
}

// handedOver returns the shoot when its source is done with it, and its destination is not.
func handedOver(shoot drain.Shoot) drain.Shoot {
	shoot.Status, shoot.Intended, shoot.Restoring = shoot.Spec, false, true
	return shoot
}

// to returns an assessment that lets every shoot go to the seed.
func to(seed string) func(drain.Shoot) drain.Assessment {
	return func(drain.Shoot) drain.Assessment {
		return drain.Assessment{Destination: seed, Way: drain.Live, InMaintenanceWindow: true}
	}
}

func garden(shoots ...drain.Shoot) drain.Garden {
	return drain.Garden{
		Now: now, Budget: budget(), Seeds: []drain.Seed{draining("seed-a"), {Name: "seed-b"}, {Name: "seed-c"}},
		Shoots: shoots, Assess: to("seed-b"),
	}
}

// lines returns "name state reason" for the entries of the only seed.
func lines(plan drain.Plan) []string {
	GinkgoHelper()
	Expect(plan.Seeds).To(HaveLen(1))
	var out []string
	for _, entry := range plan.Seeds[0].Entries {
		out = append(out, fmt.Sprintf("%s %s %s", entry.Name, entry.State, entry.Reason))
	}
	return out
}

func started(plan drain.Plan) []string {
	out := []string{}
	for _, start := range plan.Starts {
		out = append(out, fmt.Sprintf("%s %s->%s %s", start.Name, start.Source, start.Destination, start.Way))
	}
	return out
}

var _ = Describe("Make", func() {
	DescribeTable("decides about one shoot",
		func(change func(*drain.Garden, *drain.Shoot), expected string, starts ...string) {
			w := garden()
			shoot := at("seed-a", "x")
			change(&w, &shoot)
			w.Shoots = append(w.Shoots, shoot)
			plan := drain.Make(w)
			Expect(lines(plan)).To(ContainElement("x " + expected))
			Expect(started(plan)).To(HaveLen(len(starts)))
			for i, start := range starts {
				Expect(started(plan)[i]).To(Equal(start))
			}
		},
		Entry("goes live", func(*drain.Garden, *drain.Shoot) {}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("opted out", func(_ *drain.Garden, s *drain.Shoot) { s.OptedOut = true }, "Blocked OptedOut"),
		Entry("ignored", func(_ *drain.Garden, s *drain.Shoot) { s.Ignored = true }, "Blocked Ignored"),
		Entry("being deleted", func(_ *drain.Garden, s *drain.Shoot) { s.Deleting = true }, "Waiting BeingDeleted"),
		Entry("not created yet", func(_ *drain.Garden, s *drain.Shoot) { s.Status = "" }, "Waiting Arriving"),
		Entry("on its way into the seed", func(_ *drain.Garden, s *drain.Shoot) { s.Status = "seed-c" },
			"Waiting Arriving"),
		Entry("on its way, started by somebody", func(_ *drain.Garden, s *drain.Shoot) {
			s.Spec, s.Intended = "seed-c", true
		}, "Running Migrating"),
		Entry("on its way, started by the drain", func(_ *drain.Garden, s *drain.Shoot) {
			*s = moved(*s, "seed-b", ago(time.Minute))
		}, "Running Migrating"),
		Entry("late", func(_ *drain.Garden, s *drain.Shoot) {
			*s = moved(*s, "seed-b", ago(time.Minute))
			s.LateSince = ago(time.Second)
		}, "Running DeadlineExceeded"),
		Entry("aborted on the way", func(_ *drain.Garden, s *drain.Shoot) {
			*s = moved(*s, "seed-b", ago(time.Minute))
			s.Aborted = true
		}, "Blocked MigrationAborted"),
		Entry("aborted and set back", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Hour)), drain.Aborted, ago(30*time.Minute))
		}, "Blocked MigrationAborted"),
		Entry("aborted before the drain was resumed", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(2*time.Hour)), drain.Aborted, ago(90*time.Minute))
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("aborted by the drain of another seed", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Hour)), drain.Aborted, ago(30*time.Minute))
			s.StartedBy = "seed-c"
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("refused just now", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Minute)), drain.Refused, ago(time.Minute))
		}, "Waiting RetryLater"),
		Entry("refused a while ago", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Minute)), drain.Refused, ago(10*time.Minute))
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("refused for the last time", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Hour)), drain.Refused, ago(time.Hour))
			s.Attempts = 3
		}, "Blocked StartRefused"),
		Entry("moved", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Minute)), drain.Succeeded, ago(time.Second))
		}, "Done Moved"),
		Entry("moved, not recorded yet", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(time.Minute)), drain.Succeeded, ago(time.Second))
			s.Result, s.EndedAt = "", time.Time{}
		}, "Done Moved"),
		Entry("moved away and back again", func(_ *drain.Garden, s *drain.Shoot) {
			*s = ended(moved(*s, "seed-b", ago(50*time.Minute)), drain.Succeeded, ago(40*time.Minute))
			s.Spec, s.Status = "seed-a", "seed-a"
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("blocked by a prerequisite", func(w *drain.Garden, _ *drain.Shoot) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Reason: "NotHighlyAvailable", Message: "one etcd member"}
			}
		}, "Blocked NotHighlyAvailable"),
		Entry("classic outside of its window", func(w *drain.Garden, _ *drain.Shoot) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-b", Way: drain.Classic}
			}
		}, "Waiting WaitingForMaintenanceWindow"),
		Entry("hibernated goes classically at any time", func(w *drain.Garden, _ *drain.Shoot) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-b", Way: drain.ClassicWhileHibernated}
			}
		}, "Waiting Next", "x seed-a->seed-b ClassicWhileHibernated"),
		Entry("going into hibernation", func(w *drain.Garden, _ *drain.Shoot) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Waits: true, Reason: drain.ReasonHibernating}
			}
		}, "Waiting Hibernating"),
		Entry("waking up soon", func(w *drain.Garden, _ *drain.Shoot) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-b", Way: drain.ClassicWhileHibernated, Waits: true,
					Reason: drain.ReasonWakeUpDue}
			}
		}, "Waiting WakeUpDue"),
		Entry("being restored by its destination", func(_ *drain.Garden, s *drain.Shoot) {
			*s = handedOver(moved(*s, "seed-b", ago(time.Minute)))
		}, "Running Migrating"),
		Entry("given up by Gardener on the way", func(_ *drain.Garden, s *drain.Shoot) {
			*s = moved(*s, "seed-b", ago(time.Minute))
			s.FailedSince = ago(time.Second)
		}, "Running OperationFailed"),
		Entry("given up by Gardener in the destination", func(_ *drain.Garden, s *drain.Shoot) {
			*s = handedOver(moved(*s, "seed-b", ago(time.Minute)))
			s.FailedSince = ago(time.Second)
		}, "Running OperationFailed"),
		Entry("classic and late", func(_ *drain.Garden, s *drain.Shoot) {
			*s = moved(*s, "seed-b", ago(time.Hour))
			s.Way, s.Intended = drain.Classic, false
		}, "Running DeadlineExceeded"),
		Entry("classic and not late yet", func(_ *drain.Garden, s *drain.Shoot) {
			*s = moved(*s, "seed-b", ago(time.Hour-time.Second))
			s.Way, s.Intended = drain.Classic, false
		}, "Running Migrating"),
		Entry("being restored in the seed", func(_ *drain.Garden, s *drain.Shoot) { s.Restoring = true },
			"Waiting Arriving"),
		Entry("given up while it was restored in the seed", func(w *drain.Garden, s *drain.Shoot) {
			s.Restoring, s.FailedSince = true, ago(time.Second)
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Reason: "ShootNotReconciled", Message: "Restore is Failed"}
			}
		}, "Blocked ShootNotReconciled"),
		Entry("source full of shoots that are being restored elsewhere", func(w *drain.Garden, _ *drain.Shoot) {
			for i := range 2 {
				w.Shoots = append(w.Shoots,
					handedOver(moved(at("seed-a", fmt.Sprint(i)), "seed-c", ago(time.Minute))))
			}
		}, "Waiting SourceBudgetUsed"),
		Entry("destination full of shoots that it restores, whoever has moved them",
			func(w *drain.Garden, _ *drain.Shoot) {
				for i := range 2 {
					other := at("seed-b", fmt.Sprint(i))
					other.Restoring = true
					w.Shoots = append(w.Shoots, other)
				}
			}, "Waiting DestinationBudgetUsed"),
		Entry("a restoration that Gardener has given up, and that no drain has begun, takes no budget",
			func(w *drain.Garden, _ *drain.Shoot) {
				for i := range 2 {
					other := at("seed-b", fmt.Sprint(i))
					other.Restoring, other.FailedSince = true, ago(time.Minute)
					w.Shoots = append(w.Shoots, other)
				}
			}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("classic in its window", func(w *drain.Garden, _ *drain.Shoot) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-b", Way: drain.Classic, InMaintenanceWindow: true}
			}
		}, "Waiting Next", "x seed-a->seed-b Classic"),
		Entry("source full", func(w *drain.Garden, _ *drain.Shoot) {
			for i := range 2 {
				w.Shoots = append(w.Shoots, moved(at("seed-a", fmt.Sprint(i)), "seed-c", ago(time.Minute)))
			}
		}, "Waiting SourceBudgetUsed"),
		Entry("destination full of other moves", func(w *drain.Garden, _ *drain.Shoot) {
			for i := range 2 {
				other := at("seed-c", fmt.Sprint(i))
				other.Spec = "seed-b"
				w.Shoots = append(w.Shoots, other)
			}
		}, "Waiting DestinationBudgetUsed"),
		Entry("an aborted move takes no budget", func(w *drain.Garden, _ *drain.Shoot) {
			for i := range 2 {
				other := moved(at("seed-c", fmt.Sprint(i)), "seed-b", ago(time.Minute))
				other.Aborted = true
				w.Shoots = append(w.Shoots, other)
			}
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("garden full", func(w *drain.Garden, _ *drain.Shoot) {
			for i := range 5 {
				other := at(fmt.Sprint("from-", i), fmt.Sprint(i))
				other.Spec = fmt.Sprint("to-", i)
				w.Shoots = append(w.Shoots, other)
			}
		}, "Waiting TotalBudgetUsed"),
		Entry("in the pause", func(w *drain.Garden, _ *drain.Shoot) {
			w.Shoots = append(w.Shoots,
				ended(moved(at("seed-a", "y"), "seed-b", ago(time.Hour)), drain.Succeeded, ago(59*time.Second)))
		}, "Waiting PauseAfterMigration"),
		Entry("after the pause", func(w *drain.Garden, _ *drain.Shoot) {
			w.Shoots = append(w.Shoots,
				ended(moved(at("seed-a", "y"), "seed-b", ago(time.Hour)), drain.Succeeded, ago(time.Minute)))
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("no pause after a move out of another seed", func(w *drain.Garden, _ *drain.Shoot) {
			w.Shoots = append(w.Shoots,
				ended(moved(at("seed-c", "y"), "seed-b", ago(time.Hour)), drain.Succeeded, ago(time.Second)))
		}, "Waiting Next", "x seed-a->seed-b Live"),
		Entry("cancelled", func(w *drain.Garden, _ *drain.Shoot) { w.Seeds[0].Draining = false }, "Waiting Cancelled"),
	)

	It("should tell in which way the running ones move", func() {
		way := func(change func(*drain.Shoot)) drain.Way {
			GinkgoHelper()
			shoot := moved(at("seed-a", "x"), "seed-b", ago(time.Minute))
			change(&shoot)
			plan := drain.Make(garden(shoot))
			Expect(plan.Seeds[0].Entries).To(HaveLen(1))
			return plan.Seeds[0].Entries[0].By
		}
		Expect(way(func(*drain.Shoot) {})).To(Equal(drain.Live))
		Expect(way(func(s *drain.Shoot) { *s = handedOver(*s) })).To(Equal(drain.Live))
		Expect(way(func(s *drain.Shoot) { s.Intended = false })).
			To(Equal(drain.Classic), "somebody has removed the intent")
		Expect(way(func(s *drain.Shoot) { s.Intended, s.Way = false, drain.ClassicWhileHibernated })).
			To(Equal(drain.ClassicWhileHibernated))
		Expect(way(func(s *drain.Shoot) { s.Intended, s.StartedBy = false, "" })).To(Equal(drain.Classic))
	})

	It("should tell until when a shoot waits, if that is known", func() {
		until := func(change func(*drain.Garden)) time.Time {
			GinkgoHelper()
			w := garden(at("seed-a", "x"))
			change(&w)
			entries := drain.Make(w).Seeds[0].Entries
			return entries[slices.IndexFunc(entries, func(e drain.Entry) bool { return e.Name == "x" })].Until
		}
		Expect(until(func(*drain.Garden) {})).To(BeZero())
		Expect(until(func(w *drain.Garden) {
			w.Shoots = append(w.Shoots,
				ended(moved(at("seed-a", "y"), "seed-b", ago(time.Hour)), drain.Succeeded, ago(20*time.Second)))
		})).To(Equal(now.Add(40 * time.Second)))
		Expect(until(func(w *drain.Garden) {
			w.Shoots[0] = ended(moved(w.Shoots[0], "seed-b", ago(time.Minute)), drain.Refused, ago(time.Minute))
		})).To(Equal(now.Add(9 * time.Minute)))
		Expect(until(func(w *drain.Garden) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Waits: true, Reason: drain.ReasonWakeUpDue, Until: now.Add(time.Hour)}
			}
		})).To(Equal(now.Add(time.Hour)))
	})

	It("should tell when to look again because of the time alone", func() {
		w := garden(at("seed-a", "x"),
			ended(moved(at("seed-a", "y"), "seed-b", ago(time.Hour)), drain.Succeeded, ago(20*time.Second)))
		Expect(drain.Make(w).LookAgain).To(Equal(now.Add(40 * time.Second)))
		Expect(drain.Make(garden(at("seed-a", "x"))).LookAgain).To(BeZero())
	})

	It("should start the least important first, and the youngest of those", func() {
		shoot := func(name string, purpose gardencorev1beta1.ShootPurpose, age time.Duration) drain.Shoot {
			s := at("seed-a", name)
			s.Purpose, s.CreatedAt = purpose, ago(age)
			return s
		}
		w := garden(
			shoot("production", gardencorev1beta1.ShootPurposeProduction, time.Hour),
			shoot("infrastructure", gardencorev1beta1.ShootPurposeInfrastructure, time.Hour),
			shoot("development", gardencorev1beta1.ShootPurposeDevelopment, time.Hour),
			shoot("unheard-of", "unheard-of", 2*time.Hour),
			shoot("testing", gardencorev1beta1.ShootPurposeTesting, time.Hour),
			shoot("old", gardencorev1beta1.ShootPurposeEvaluation, 2*time.Hour),
			shoot("young-b", gardencorev1beta1.ShootPurposeEvaluation, time.Hour),
			shoot("young-a", "", time.Hour),
		)
		plan := drain.Make(w)
		var order []string
		for _, entry := range plan.Seeds[0].Entries {
			order = append(order, entry.Name)
		}
		Expect(order).To(HaveExactElements("young-a", "young-b", "old", "testing", "development", "unheard-of",
			"infrastructure", "production"))
		Expect(started(plan)).To(HaveExactElements("young-a seed-a->seed-b Live", "young-b seed-a->seed-b Live"))
	})

	It("should pass over what waits for a destination", func() {
		w := garden(at("seed-a", "a"), at("seed-a", "b"), at("seed-c", "c"), at("seed-c", "d"))
		w.Shoots[2].Spec, w.Shoots[3].Spec = "seed-b", "seed-b"
		w.Assess = func(s drain.Shoot) drain.Assessment {
			if s.Name == "a" {
				return to("seed-b")(s)
			}
			return to("seed-d")(s)
		}
		Expect(started(drain.Make(w))).To(HaveExactElements("b seed-a->seed-d Live"))
	})

	Describe("the circuit breaker", func() {
		failed := func(name string, end time.Duration) drain.Shoot {
			return ended(moved(at("seed-a", name), "seed-b", ago(50*time.Minute)), drain.Aborted, ago(end))
		}
		open := func(shoots ...drain.Shoot) drain.SeedPlan {
			plan := drain.Make(garden(append(shoots, at("seed-a", "next"))...))
			Expect(plan.Seeds).To(HaveLen(1))
			Expect(plan.Starts).To(HaveLen(map[bool]int{true: 0, false: 1}[plan.Seeds[0].CircuitOpen]))
			return plan.Seeds[0]
		}

		It("should open after so many failures in a row, of whichever kind", func() {
			Expect(open(failed("1", 30*time.Minute), failed("2", 20*time.Minute)).CircuitOpen).To(BeFalse())
			Expect(open(failed("1", 30*time.Minute), failed("2", 20*time.Minute), failed("3", 10*time.Minute)).
				CircuitOpen).To(BeTrue())

			refused := ended(moved(at("seed-a", "r"), "seed-b", ago(40*time.Minute)), drain.Refused,
				ago(40*time.Minute))
			late := moved(at("seed-a", "l"), "seed-b", ago(30*time.Minute))
			Expect(open(failed("1", 30*time.Minute), refused, late).FailuresInARow).To(Equal(2))
			late.LateSince = ago(time.Minute)
			plan := open(failed("1", 30*time.Minute), refused, late)
			Expect(plan.FailuresInARow).To(Equal(3))
			status, reason, message := plan.Condition()
			Expect(status).To(Equal(gardencorev1beta1.ConditionFalse))
			Expect(reason).To(Equal("CircuitOpen"))
			Expect(message).To(ContainSubstring("3 migrations in a row have failed"))
		})

		It("should count what Gardener has given up, and classic moves that take too long", func() {
			given := handedOver(moved(at("seed-a", "g"), "seed-b", ago(30*time.Minute)))
			given.FailedSince = ago(time.Minute)
			slow := moved(at("seed-a", "s"), "seed-b", ago(time.Hour))
			slow.Way, slow.Intended = drain.ClassicWhileHibernated, false
			Expect(open(failed("1", 30*time.Minute), given, slow).FailuresInARow).To(Equal(3))

			given.FailedSince = time.Time{}
			Expect(drain.Make(garden(failed("1", 30*time.Minute), given, slow)).Seeds[0].FailuresInARow).
				To(Equal(2), "somebody has retried")
		})

		It("should count from the last success on", func() {
			success := ended(moved(at("seed-a", "s"), "seed-b", ago(50*time.Minute)), drain.Succeeded,
				ago(15*time.Minute))
			Expect(open(failed("1", 30*time.Minute), failed("2", 20*time.Minute), success, failed("3", 10*time.Minute)).
				FailuresInARow).To(Equal(1))
		})

		It("should close when the drain continues after a cancellation", func() {
			w := garden(failed("1", 30*time.Minute), failed("2", 20*time.Minute), failed("3", 10*time.Minute),
				at("seed-a", "next"))
			w.Seeds[0].ResumedAt = ago(time.Second)
			plan := drain.Make(w)
			Expect(plan.Seeds[0].CircuitOpen).To(BeFalse())
			Expect(plan.Starts).To(HaveLen(2))
		})
	})

	Describe("cancellation", func() {
		It("should let what runs finish, and then have nothing to say", func() {
			w := garden(moved(at("seed-a", "runs"), "seed-b", ago(time.Minute)), at("seed-a", "stays"))
			w.Seeds[0].Draining, w.Seeds[0].Marked = false, false
			plan := drain.Make(w)
			Expect(lines(plan)).To(HaveExactElements("runs Running Migrating", "stays Waiting Cancelled"))
			status, reason, _ := plan.Seeds[0].Condition()
			Expect(status).To(Equal(gardencorev1beta1.ConditionProgressing))
			Expect(reason).To(Equal("Cancelling"))

			w.Shoots[0] = ended(w.Shoots[0], drain.Succeeded, now)
			Expect(drain.Make(w).Seeds).To(BeEmpty())
		})

		It("should not be bothered by moves that somebody else has started", func() {
			w := garden(at("seed-a", "x"))
			w.Seeds[0].Draining, w.Seeds[0].Marked = false, false
			w.Shoots[0].Spec, w.Shoots[0].Intended = "seed-b", true
			Expect(drain.Make(w).Seeds).To(BeEmpty())
		})
	})

	It("should not count what an earlier drain has moved", func() {
		w := garden(ended(moved(at("seed-a", "x"), "seed-b", ago(2*time.Hour)), drain.Succeeded, ago(90*time.Minute)))
		Expect(lines(drain.Make(w))).To(BeEmpty())
	})

	// A garden in which everything may happen at any time: the budget holds whatever comes.
	It("should never exceed the budget", func() {
		random := rand.New(rand.NewPCG(1, uint64(GinkgoRandomSeed())))
		pick := func(n int) int { return random.IntN(n) }
		starts := 0
		for round := range 300 {
			b := drain.Budget{PerSource: 1 + pick(3), PerDestination: 1 + pick(3), Total: 1 + pick(6),
				Pause: time.Duration(pick(2)) * time.Minute, Failures: 1 + pick(4), Attempts: 1 + pick(3),
				RetryAfter: time.Minute}
			seeds := make([]drain.Seed, 2+pick(4))
			for i := range seeds {
				seeds[i] = drain.Seed{Name: fmt.Sprint("seed-", i)}
				if pick(2) == 0 {
					seeds[i] = draining(seeds[i].Name)
				}
			}
			shoots := make([]drain.Shoot, 30)
			for i := range shoots {
				shoots[i] = at(seeds[pick(len(seeds))].Name, fmt.Sprint("shoot-", i))
			}
			clock := now
			for range 40 {
				clock = clock.Add(time.Duration(pick(90)) * time.Second)
				w := drain.Garden{Now: clock, Budget: b, Seeds: seeds, Shoots: shoots,
					Assess: func(s drain.Shoot) drain.Assessment {
						return drain.Assessment{Destination: seeds[pick(len(seeds))].Name, Way: drain.Live,
							InMaintenanceWindow: true}
					}}
				before := traffic(shoots)
				moving := map[drain.Key]bool{}
				for _, shoot := range shoots {
					moving[shoot.Key] = shoot.Spec != shoot.Status
				}
				for _, start := range drain.Make(w).Starts {
					starts++
					Expect(moving[start.Key]).To(BeFalse(), "round %d: %s is on its way already", round, start.Key)
					moving[start.Key] = true
					for i := range shoots {
						if shoots[i].Key == start.Key {
							shoots[i] = moved(shoots[i], start.Destination, clock)
							shoots[i].Result = ""
						}
					}
				}
				after := traffic(shoots)
				for what, count := range after {
					limit := b.Total
					switch {
					case strings.HasPrefix(what, "out of "):
						limit = b.PerSource
					case strings.HasPrefix(what, "into "):
						limit = b.PerDestination
					}
					// What others have started may be more than the budget; then nothing is added.
					Expect(count).To(BeNumerically("<=", max(limit, before[what])), "round %d: %s", round, what)
				}
				for i := range shoots {
					switch {
					case shoots[i].Spec != shoots[i].Status && pick(4) == 0:
						shoots[i] = ended(shoots[i],
							[]drain.Result{drain.Succeeded, drain.Succeeded, drain.Aborted}[pick(3)], clock)
					case shoots[i].Spec == shoots[i].Status && pick(40) == 0:
						shoots[i].Spec = seeds[pick(len(seeds))].Name
					}
				}
			}
		}
		Expect(starts).To(BeNumerically(">", 300), "there was enough to judge")
	})
})

// traffic counts what is on its way.
func traffic(shoots []drain.Shoot) map[string]int {
	out := map[string]int{}
	for _, shoot := range shoots {
		if shoot.Spec != shoot.Status {
			out["total"]++
			out["out of "+shoot.Status]++
			out["into "+shoot.Spec]++
		}
	}
	return out
}

var _ = Describe("ShootOf", func() {
	full := func() *gardencorev1beta1.Shoot {
		return &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Name: "x", Namespace: "garden-demo", CreationTimestamp: metav1.NewTime(now),
				Annotations: map[string]string{
					"migration.gardener.cloud/live-migrate":      "true",
					"migration.gardener.cloud/drain-opt-out":     "1",
					"shoot.gardener.cloud/ignore":                "true",
					"migration.gardener.cloud/drain-started-by":  "seed-a",
					"migration.gardener.cloud/drain-started-at":  "2026-03-04T11:00:00Z",
					"migration.gardener.cloud/drain-ended-at":    "yesterday",
					"migration.gardener.cloud/drain-destination": "seed-b",
					"migration.gardener.cloud/drain-way":         "Live",
					"migration.gardener.cloud/drain-attempts":    "2",
					"migration.gardener.cloud/drain-message":     "no",
					"migration.gardener.cloud/drain-from":        "seed-a",
					"migration.gardener.cloud/drain-hop":         "1",

					"migration.gardener.cloud/drain-final-destination": "seed-c",
				},
			},
			Spec: gardencorev1beta1.ShootSpec{SeedName: new("seed-b"),
				Purpose: new(gardencorev1beta1.ShootPurposeProduction)},
			Status: gardencorev1beta1.ShootStatus{SeedName: new("seed-a"),
				LiveMigration: &gardencorev1beta1.LiveMigration{
					Conditions: []gardencorev1beta1.Condition{},
				}},
		}
	}

	It("should read what the annotations say", func() {
		Expect(drain.ShootOf(full())).To(Equal(drain.Shoot{
			Key: drain.Key{Namespace: "garden-demo", Name: "x"}, Spec: "seed-b", Status: "seed-a",
			Purpose: gardencorev1beta1.ShootPurposeProduction, CreatedAt: now, OptedOut: true, Ignored: true,
			Intended:  true,
			StartedBy: "seed-a", StartedAt: ago(time.Hour), Destination: "seed-b", Way: drain.Live, Attempts: 2,
			Message: "no", Final: "seed-c", From: "seed-a", Hop: 1,
		}))
		Expect(drain.ShootOf(&gardencorev1beta1.Shoot{})).To(Equal(drain.Shoot{}))
	})

	conditions := func(shoot *gardencorev1beta1.Shoot, first gardencorev1beta1.Condition) {
		for _, conditionType := range steps.ConditionTypes() {
			condition := gardencorev1beta1.Condition{Type: conditionType, Status: gardencorev1beta1.ConditionUnknown,
				Reason: "Pending"}
			if conditionType == steps.First().Condition {
				condition = first
				condition.Type = conditionType
			}
			shoot.Status.LiveMigration.Conditions = append(shoot.Status.LiveMigration.Conditions, condition)
		}
	}

	It("should see that a step is past its deadline, or that the migration was aborted", func() {
		late := full()
		conditions(late, gardencorev1beta1.Condition{Status: gardencorev1beta1.ConditionFalse,
			Reason: "DeadlineExceeded", LastTransitionTime: metav1.NewTime(ago(time.Minute))})
		Expect(drain.ShootOf(late).LateSince).To(Equal(ago(time.Minute)))
		Expect(drain.ShootOf(late).Aborted).To(BeFalse())

		aborted := full()
		conditions(aborted, gardencorev1beta1.Condition{Status: gardencorev1beta1.ConditionFalse, Reason: "Aborted",
			LastTransitionTime: metav1.NewTime(ago(time.Minute))})
		Expect(drain.ShootOf(aborted).LateSince).To(BeZero())
		Expect(drain.ShootOf(aborted).Aborted).To(BeTrue())

		again := full()
		conditions(again, gardencorev1beta1.Condition{Status: gardencorev1beta1.ConditionFalse, Reason: "Aborted",
			LastTransitionTime: metav1.NewTime(ago(2 * time.Hour))})
		Expect(drain.ShootOf(again).Aborted).To(BeFalse(), "that was the migration before")
		delete(again.Annotations, "migration.gardener.cloud/drain-started-by")
		Expect(drain.ShootOf(again).Aborted).To(BeTrue())
	})

	It("should take the conditions for those of a former migration on every migration of a chain", func() {
		again := full()
		again.Annotations["migration.gardener.cloud/drain-started-by"] = "seed-0"
		conditions(again, gardencorev1beta1.Condition{Status: gardencorev1beta1.ConditionFalse, Reason: "Aborted",
			LastTransitionTime: metav1.NewTime(ago(2 * time.Hour))})
		Expect(drain.ShootOf(again).Aborted).To(BeFalse())
		again.Annotations["migration.gardener.cloud/drain-from"] = "seed-0"
		Expect(drain.ShootOf(again).Aborted).To(BeTrue(), "it is another one that leaves this seed")
	})

	DescribeTable("sees how far Gardener's own migration is",
		func(status string, kind gardencorev1beta1.LastOperationType, state gardencorev1beta1.LastOperationState,
			restoring, failed bool) {
			shoot := full()
			delete(shoot.Annotations, "migration.gardener.cloud/live-migrate")
			shoot.Status.SeedName = &status
			shoot.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: kind, State: state,
				LastUpdateTime: metav1.NewTime(ago(time.Minute))}
			seen := drain.ShootOf(shoot)
			Expect(seen.Restoring).To(Equal(restoring))
			Expect(seen.FailedSince.IsZero()).To(Equal(!failed))
			if failed {
				Expect(seen.FailedSince).To(Equal(ago(time.Minute)))
			}
		},
		Entry("not begun", "seed-a", gardencorev1beta1.LastOperationTypeReconcile,
			gardencorev1beta1.LastOperationStateSucceeded, false, false),
		Entry("given up long before", "seed-a", gardencorev1beta1.LastOperationTypeReconcile,
			gardencorev1beta1.LastOperationStateFailed, false, false),
		Entry("in the source", "seed-a", gardencorev1beta1.LastOperationTypeMigrate,
			gardencorev1beta1.LastOperationStateProcessing, false, false),
		Entry("repeated in the source", "seed-a", gardencorev1beta1.LastOperationTypeMigrate,
			gardencorev1beta1.LastOperationStateError, false, false),
		Entry("given up in the source", "seed-a", gardencorev1beta1.LastOperationTypeMigrate,
			gardencorev1beta1.LastOperationStateFailed, false, true),
		Entry("handed over", "seed-b", gardencorev1beta1.LastOperationTypeMigrate,
			gardencorev1beta1.LastOperationStateSucceeded, true, false),
		Entry("in the destination", "seed-b", gardencorev1beta1.LastOperationTypeRestore,
			gardencorev1beta1.LastOperationStateProcessing, true, false),
		Entry("repeated in the destination", "seed-b", gardencorev1beta1.LastOperationTypeRestore,
			gardencorev1beta1.LastOperationStateError, true, false),
		Entry("given up in the destination", "seed-b", gardencorev1beta1.LastOperationTypeRestore,
			gardencorev1beta1.LastOperationStateFailed, true, true),
		Entry("restored", "seed-b", gardencorev1beta1.LastOperationTypeRestore,
			gardencorev1beta1.LastOperationStateSucceeded, false, false),
		Entry("reconciled since", "seed-b", gardencorev1beta1.LastOperationTypeReconcile,
			gardencorev1beta1.LastOperationStateFailed, false, false),
	)

	DescribeTable("knows when a move is over", func(change func(*drain.Shoot), result drain.Result) {
		shoot := moved(at("seed-a", "x"), "seed-b", now)
		change(&shoot)
		got, over := shoot.Ended()
		Expect(got).To(Equal(result))
		Expect(over).To(Equal(result != ""))
	},
		Entry("on its way", func(*drain.Shoot) {}, drain.Result("")),
		Entry("arrived", func(s *drain.Shoot) { s.Status = "seed-b" }, drain.Succeeded),
		Entry("handed over, but not restored", func(s *drain.Shoot) { *s = handedOver(*s) }, drain.Result("")),
		Entry("set back and being restored", func(s *drain.Shoot) { s.Spec, s.Restoring = "seed-a", true },
			drain.Aborted),
		Entry("recorded", func(s *drain.Shoot) { s.Status, s.Result = "seed-b", drain.Succeeded }, drain.Result("")),
		Entry("aborted", func(s *drain.Shoot) { s.Aborted = true }, drain.Aborted),
		Entry("set back", func(s *drain.Shoot) { s.Spec = "seed-a" }, drain.Aborted),
		Entry("started by nobody", func(s *drain.Shoot) { s.StartedBy = "" }, drain.Result("")),
	)
})

var _ = Describe("SeedOf", func() {
	It("should read what the annotations say", func() {
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a", Annotations: map[string]string{
			"migration.gardener.cloud/drain": "true", "migration.gardener.cloud/drain-fallback": "classic",
			"migration.gardener.cloud/drain-hibernated":         "stay",
			"migration.gardener.cloud/drain-max-hops":           "2",
			"migration.gardener.cloud/drain-scheduling-visible": "false",
			"migration.gardener.cloud/drain-started-at":         "2026-03-04T11:00:00Z",
			"migration.gardener.cloud/drain-resumed-at":         "2026-03-04T11:00:00Z",
		}}}
		expected := draining("seed-a")
		expected.Permits = drain.Permits{Fallback: true, HibernatedStay: true, Hops: 2}
		Expect(drain.SeedOf(seed)).To(Equal(expected))
		seed.Annotations = map[string]string{"migration.gardener.cloud/drain": "no"}
		Expect(drain.SeedOf(seed)).To(Equal(drain.Seed{Name: "seed-a"}))
	})

	It("should permit nothing that is not said as it has to be", func() {
		seed := &gardencorev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "seed-a", Annotations: map[string]string{
			"migration.gardener.cloud/drain-fallback": "true"}}}
		Expect(drain.SeedOf(seed).Permits).To(BeZero())
		Expect(drain.SeedOf(seed).Problem).To(ContainSubstring("drain-fallback"))
	})
})

var _ = Describe("SeedPlan", func() {
	plan := func(w drain.Garden) drain.SeedPlan {
		GinkgoHelper()
		seeds := drain.Make(w).Seeds
		Expect(seeds).To(HaveLen(1))
		return seeds[0]
	}
	stays := func(s drain.Shoot) drain.Assessment {
		return drain.Assessment{Reason: drain.Reason("Reason" + s.Name[:1]), Message: "message"}
	}

	DescribeTable("#Condition", func(w drain.Garden, status gardencorev1beta1.ConditionStatus, reason, message string) {
		gotStatus, gotReason, gotMessage := plan(w).Condition()
		Expect(gotStatus).To(Equal(status))
		Expect(gotReason).To(Equal(reason))
		Expect(gotMessage).To(Equal(message))
	},
		Entry("empty", garden(), gardencorev1beta1.ConditionTrue, "Empty",
			"No shoot is left in the seed. 0 shoots: 0 done, 0 running, 0 waiting, 0 blocked"),
		Entry("all done", garden(ended(moved(at("seed-a", "x"), "seed-b", ago(time.Minute)), drain.Succeeded, now)),
			gardencorev1beta1.ConditionTrue, "Empty",
			"No shoot is left in the seed. 1 shoot: 1 done, 0 running, 0 waiting, 0 blocked"),
		Entry("going on", garden(at("seed-a", "x"), moved(at("seed-a", "y"), "seed-b", ago(time.Minute))),
			gardencorev1beta1.ConditionProgressing, "Draining",
			"2 shoots: 0 done, 1 running, 1 waiting, 0 blocked"),
		Entry("blocked", func() drain.Garden {
			w := garden(at("seed-a", "a1"), at("seed-a", "a2"), at("seed-a", "b1"))
			w.Assess = stays
			return w
		}(), gardencorev1beta1.ConditionFalse, "ShootsBlocked",
			"The remaining shoots stay until nothing blocks them any more. 3 shoots: 0 done, 0 running, 0 waiting, 3 "+
				"blocked (Reasona: 2, Reasonb: 1)"),
		Entry("blocked for many reasons", func() drain.Garden {
			w := garden(at("seed-a", "a"), at("seed-a", "b"), at("seed-a", "c"), at("seed-a", "d"), at("seed-a", "e"),
				at("seed-a", "f"))
			w.Assess = stays
			return w
		}(), gardencorev1beta1.ConditionFalse, "ShootsBlocked",
			"The remaining shoots stay until nothing blocks them any more. 6 shoots: 0 done, 0 running, 0 waiting, 6 "+
				"blocked (Reasona: 1, Reasonb: 1, Reasonc: 1, Reasond: 1, Reasone: 1, and others)"),
	)

	It("should publish a table that can be read again", func() {
		w := garden(at("seed-a", "a"), moved(at("seed-a", "b"), "seed-b", ago(time.Minute)),
			ended(moved(at("seed-a", "c"), "seed-b", ago(10*time.Minute)), drain.Succeeded, ago(5*time.Minute)))
		w.Shoots[0].Purpose = gardencorev1beta1.ShootPurposeProduction
		content, err := plan(w).Table().Encode()
		Expect(err).NotTo(HaveOccurred())
		table, err := drain.DecodeTable(content)
		Expect(err).NotTo(HaveOccurred())
		Expect(table).To(Equal(drain.Table{
			APIVersion: "drain.livecpm.gardener.cloud/v1alpha1", Kind: "DrainTable", Seed: "seed-a",
			StartedAt: "2026-03-04T11:00:00Z", ResumedAt: "2026-03-04T11:00:00Z",
			Counts: drain.Counts{Total: 3, Done: 1, Running: 1, Waiting: 1},
			Shoots: []drain.TableRow{
				{Namespace: "garden-demo", Name: "b", State: drain.Running, Reason: drain.ReasonMigrating,
					Message: "on its way to seed seed-b", Destination: "seed-b", Way: drain.Live, Attempts: 1,
					StartedAt: "2026-03-04T11:59:00Z"},
				{Namespace: "garden-demo", Name: "c", State: drain.Done, Reason: drain.ReasonMoved,
					Message: "moved to seed seed-b", Destination: "seed-b", Way: drain.Live, Attempts: 1,
					StartedAt: "2026-03-04T11:50:00Z", EndedAt: "2026-03-04T11:55:00Z", Result: drain.Succeeded},
				{Namespace: "garden-demo", Name: "a", Purpose: "production", State: drain.Waiting,
					Reason: drain.ReasonNext, Message: "moves to seed seed-b next", Destination: "seed-b",
					Way: drain.Live},
			},
		}))
	})

	It("should publish no table that no object could hold", func() {
		var shoots []drain.Shoot
		for i := range 3000 {
			shoots = append(shoots, at("seed-a", fmt.Sprint("shoot-", i)))
		}
		w := garden(shoots...)
		w.Assess = func(drain.Shoot) drain.Assessment {
			return drain.Assessment{Reason: drain.ReasonNoCandidate, Message: strings.Repeat("x", 1000)}
		}
		content, err := plan(w).Table().Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(len(content)).To(BeNumerically("<", 900<<10))
		table, err := drain.DecodeTable(content)
		Expect(err).NotTo(HaveOccurred())
		Expect(table.Shoots).To(HaveLen(3000))
		Expect(table.Shoots[0].Message).To(BeEmpty())
		Expect(table.Shoots[0].Reason).To(Equal(drain.ReasonNoCandidate))
	})

	DescribeTable("refuses to read something else as a table", func(content string) {
		_, err := drain.DecodeTable(content)
		Expect(err).To(MatchError(ContainSubstring("failed to read the table of a drain")))
	},
		Entry("nothing", ""),
		Entry("another version", `{"apiVersion":"drain.livecpm.gardener.cloud/v2","kind":"DrainTable"}`),
		Entry("another kind", `{"apiVersion":"drain.livecpm.gardener.cloud/v1alpha1","kind":"Table"}`),
	)
})
