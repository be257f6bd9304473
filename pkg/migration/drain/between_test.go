// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/drain"
)

// first returns the shoot on the first migration of a chain, from seed-a by way of seed-m to seed-b.
func first(shoot drain.Shoot, started time.Time) drain.Shoot {
	shoot = moved(shoot, "seed-m", started)
	shoot.Final, shoot.From, shoot.Hop = "seed-b", "seed-a", 1
	return shoot
}

// resting returns the shoot after that migration.
func resting(name string) drain.Shoot {
	return ended(first(at("seed-a", name), ago(30*time.Minute)), drain.Succeeded, ago(20*time.Minute))
}

// second returns the shoot on the second one.
func second(name string) drain.Shoot {
	shoot := resting(name)
	shoot.Spec, shoot.Destination, shoot.From, shoot.Hop, shoot.Intended = "seed-b", "seed-b", "seed-m", 2, true
	shoot.StartedAt, shoot.Result, shoot.EndedAt = ago(10*time.Minute), "", time.Time{}
	return shoot
}

// back returns the shoot when the second migration has failed and it is in seed-m as before.
func back(name string, result drain.Result) drain.Shoot {
	return ended(second(name), result, ago(9*time.Minute))
}

var _ = Describe("A shoot between two migrations", func() {
	// chained is a garden in which seed-b is out of reach of seed-a, and within that of seed-m.
	chained := func(shoots ...drain.Shoot) drain.Garden {
		w := garden(shoots...)
		w.Seeds = append(w.Seeds, drain.Seed{Name: "seed-m"})
		w.Assess = func(shoot drain.Shoot) drain.Assessment {
			out := drain.Assessment{Destination: "seed-b", Way: drain.Live, InMaintenanceWindow: true}
			if shoot.Status == "seed-a" {
				out.Destination, out.Final = "seed-m", "seed-b"
			}
			return out
		}
		return w
	}
	drained := func(seeds ...string) func(string) bool {
		return func(seed string) bool { return strings.Contains(strings.Join(seeds, " "), seed) }
	}

	DescribeTable("is told apart from others", func(shoot drain.Shoot, between bool, taken int) {
		Expect(shoot.Between()).To(Equal(between))
		Expect(shoot.Taken("seed-a")).To(Equal(taken))
		Expect(shoot.Taken("seed-m")).To(BeZero(), "another drain begins a chain of its own")
		by := shoot.Status
		if between {
			by = "seed-a"
		}
		Expect(shoot.MovedBy(drained("seed-a"))).To(Equal(by))
		Expect(shoot.MovedBy(drained("seed-a", "seed-m"))).To(Equal(shoot.Status))
	},
		Entry("in its seed", at("seed-a", "x"), false, 0),
		Entry("on the first migration", first(at("seed-a", "x"), now), false, 0),
		Entry("first migration refused", ended(first(at("seed-a", "x"), now), drain.Refused, now), false, 0),
		Entry("arrived in the seed on the way", resting("x"), true, 1),
		Entry("arrived there, not recorded yet", func() drain.Shoot {
			s := resting("x")
			s.Result = ""
			return s
		}(), true, 1),
		Entry("being restored there", handedOver(first(at("seed-a", "x"), now)), true, 1),
		Entry("on the second migration", second("x"), true, 1),
		Entry("second migration aborted", back("x", drain.Aborted), true, 1),
		Entry("second migration refused", back("x", drain.Refused), true, 1),
		Entry("at the end", ended(second("x"), drain.Succeeded, now), false, 0),
		Entry("at the end, and moved back to the seed on the way by hand", func() drain.Shoot {
			s := ended(second("x"), drain.Succeeded, now)
			s.Spec, s.Status = "seed-m", "seed-m"
			return s
		}(), false, 0),
		Entry("taken elsewhere by hand", func() drain.Shoot {
			s := resting("x")
			s.Spec, s.Status = "seed-c", "seed-c"
			return s
		}(), false, 0),
		Entry("brought back to its seed by hand", func() drain.Shoot {
			s := resting("x")
			s.Spec, s.Status = "seed-a", "seed-a"
			return s
		}(), false, 0),
		Entry("left where it is by an operator", func() drain.Shoot {
			s := resting("x")
			s.Final = ""
			return s
		}(), false, 0),
	)

	DescribeTable("is decided about", func(
		shoot drain.Shoot, change func(*drain.Garden), expected, text string, starts ...string,
	) {
		w := chained(shoot)
		change(&w)
		plan := drain.Make(w)
		Expect(lines(plan)).To(ContainElement("x " + expected))
		Expect(started(plan)).To(ConsistOf(starts))
		for _, entry := range plan.Seeds[0].Entries {
			if entry.Name == "x" {
				Expect(entry.Text).To(ContainSubstring(text))
			}
		}
	},
		Entry("begins with the seed on the way", at("seed-a", "x"), func(*drain.Garden) {}, "Waiting Next",
			"moves to seed seed-m next, and from there to seed seed-b", "x seed-a->seed-m Live"),
		Entry("is on the first migration", first(at("seed-a", "x"), now), func(*drain.Garden) {}, "Running Migrating",
			"on its way to seed seed-m, and from there to seed seed-b"),
		Entry("is being restored on the way", handedOver(first(at("seed-a", "x"), now)), func(*drain.Garden) {},
			"Running Migrating", "being restored in seed seed-m, and from there to seed seed-b"),
		Entry("moves on", resting("x"), func(*drain.Garden) {}, "Waiting Next",
			"in seed seed-m on its way to seed seed-b: moves to seed seed-b next", "x seed-m->seed-b Live"),
		Entry("is on the second migration", second("x"), func(*drain.Garden) {}, "Running Migrating",
			"on its way to seed seed-b"),
		Entry("is being restored at the end", handedOver(second("x")), func(*drain.Garden) {}, "Running Migrating",
			"being restored in seed seed-b"),
		Entry("is done at the end only", ended(second("x"), drain.Succeeded, now), func(*drain.Garden) {},
			"Done Moved", "moved to seed seed-b"),
		Entry("is done where an operator lets it stay", func() drain.Shoot {
			s := resting("x")
			s.Final = ""
			return s
		}(), func(*drain.Garden) {}, "Done Moved", "moved to seed seed-m"),
		Entry("is done where somebody has taken it", func() drain.Shoot {
			s := resting("x")
			s.Spec, s.Status = "seed-c", "seed-c"
			return s
		}(), func(*drain.Garden) {}, "Done Moved", "moved to seed seed-c"),
		Entry("is late on the second migration", func() drain.Shoot {
			s := second("x")
			s.LateSince = ago(time.Second)
			return s
		}(), func(*drain.Garden) {}, "Running DeadlineExceeded", "past the deadline"),
		Entry("is aborted on the second migration", func() drain.Shoot {
			s := second("x")
			s.Aborted = true
			return s
		}(), func(*drain.Garden) {}, "Blocked MigrationAborted",
			"in seed seed-m on its way to seed seed-b: the live migration to seed seed-b was aborted"),
		Entry("is aborted and set back", back("x", drain.Aborted), func(*drain.Garden) {}, "Blocked MigrationAborted",
			"in seed seed-m on its way to seed seed-b"),
		Entry("is tried again after the drain was resumed", back("x", drain.Aborted), func(w *drain.Garden) {
			w.Seeds[0].ResumedAt = ago(time.Minute)
		}, "Waiting Next", "moves to seed seed-b next", "x seed-m->seed-b Live"),
		Entry("is refused the second migration", back("x", drain.Refused), func(*drain.Garden) {},
			"Waiting RetryLater", "in seed seed-m on its way to seed seed-b: retried at"),
		Entry("stays on the way while something keeps it", resting("x"), func(w *drain.Garden) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Reason: "VersionSkew", Message: "versions differ"}
			}
		}, "Blocked VersionSkew", "in seed seed-m on its way to seed seed-b: versions differ"),
		Entry("takes another way than was planned", resting("x"), func(w *drain.Garden) {
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-n", Final: "seed-c", Way: drain.Live}
			}
		}, "Waiting Next", "in seed seed-m on its way to seed seed-c: moves to seed seed-n next, and from there",
			"x seed-m->seed-n Live"),
		Entry("waits in a change freeze", resting("x"), func(w *drain.Garden) {
			w.Seeds[0].Freezes = []drain.Span{{Begin: ago(time.Hour), End: now.Add(time.Hour)}}
		}, "Waiting ChangeFreeze", "in seed seed-m"),
		Entry("waits for its maintenance window", resting("x"), func(w *drain.Garden) {
			w.Seeds[0].InWindows = true
			w.Assess = func(drain.Shoot) drain.Assessment {
				return drain.Assessment{Destination: "seed-b", Way: drain.Live, WindowOpens: now.Add(time.Hour)}
			}
		}, "Waiting WaitingForMaintenanceWindow", "in seed seed-m"),
		Entry("waits for the pause after its own first migration", func() drain.Shoot {
			s := resting("x")
			s.EndedAt = ago(time.Second)
			return s
		}(), func(*drain.Garden) {}, "Waiting PauseAfterMigration", "in seed seed-m"),
		Entry("waits while as many as permitted leave the seed on the way", resting("x"), func(w *drain.Garden) {
			for _, name := range []string{"1", "2"} {
				other := at("seed-m", name)
				other.Spec = "seed-c"
				w.Shoots = append(w.Shoots, other)
			}
		}, "Waiting SourceBudgetUsed", "on their way out of the seed: 2 shoots"),
		Entry("does not wait for those that leave the drained seed", resting("x"), func(w *drain.Garden) {
			w.Shoots = append(w.Shoots, moved(at("seed-a", "1"), "seed-c", now), moved(at("seed-a", "2"), "seed-c",
				now))
		}, "Waiting Next", "in seed seed-m", "x seed-m->seed-b Live"),
		Entry("waits behind an open circuit", resting("x"), func(w *drain.Garden) {
			for _, name := range []string{"1", "2", "3"} {
				w.Shoots = append(w.Shoots, ended(moved(at("seed-a", name), "seed-c", ago(time.Minute)),
					drain.Aborted, ago(time.Second)))
			}
		}, "Waiting CircuitOpen", "in seed seed-m"),
		Entry("is held by settings that cannot be read", resting("x"), func(w *drain.Garden) {
			w.Seeds[0].Problem = "it is far"
		}, "Blocked SettingsInvalid", "in seed seed-m on its way to seed seed-b: it is far"),
		Entry("opts out on the way", func() drain.Shoot {
			s := resting("x")
			s.OptedOut = true
			return s
		}(), func(*drain.Garden) {}, "Blocked OptedOut", "in seed seed-m"),
		Entry("goes before shoots that have not left yet", resting("x"), func(w *drain.Garden) {
			w.Budget.Total = 1
			w.Shoots = append([]drain.Shoot{at("seed-a", "a")}, w.Shoots...)
		}, "Waiting Next", "in seed seed-m", "x seed-m->seed-b Live"),
	)

	It("should say in the decision which drain it is, where the chain ends, and the number of the migration", func() {
		Expect(drain.Make(chained(at("seed-a", "x"))).Starts).To(ConsistOf(drain.Start{
			Key: drain.Key{Namespace: "garden-demo", Name: "x"}, Source: "seed-a", Drain: "seed-a",
			Destination: "seed-m", Final: "seed-b", Hop: 1, Way: drain.Live}))
		Expect(drain.Make(chained(resting("x"))).Starts).To(ConsistOf(drain.Start{
			Key: drain.Key{Namespace: "garden-demo", Name: "x"}, Source: "seed-m", Drain: "seed-a",
			Destination: "seed-b", Final: "seed-b", Hop: 2, Way: drain.Live}))
		Expect(drain.Make(garden(at("seed-a", "x"))).Starts).To(ConsistOf(drain.Start{
			Key: drain.Key{Namespace: "garden-demo", Name: "x"}, Source: "seed-a", Drain: "seed-a",
			Destination: "seed-b", Way: drain.Live}))
	})

	It("should count a failure of any migration of the chain", func() {
		w := chained(back("1", drain.Aborted), back("2", drain.Refused),
			ended(first(at("seed-a", "3"), ago(time.Minute)), drain.Aborted, now))
		Expect(drain.Make(w).Seeds[0].CircuitCause).To(Equal("3 migrations in a row have failed"))
	})

	It("should be announced before each migration, by the drain that moves it", func() {
		w := chained(resting("x"))
		w.Notice = drain.Notice{Wanted: true, Lead: time.Hour}
		plan := drain.Make(w)
		Expect(lines(plan)).To(HaveExactElements("x Waiting Announced"))
		Expect(plan.Announcements).To(HaveExactElements(And(HaveField("Drain", "seed-a"), HaveField("Source", "seed-m"),
			HaveField("Destination", "seed-b"), HaveField("NotBefore", now.Add(time.Hour)))))
		w.Shoots[0].AnnouncedBy, w.Shoots[0].AnnouncedAt = "seed-a", ago(time.Hour)
		Expect(started(drain.Make(w))).To(HaveExactElements("x seed-m->seed-b Live"))
	})

	It("should be one of the canaries until it is at the end, and not wait for itself", func() {
		w := chained(at("seed-a", "a"), resting("x"))
		w.Seeds[0].Canaries = 1
		plan := drain.Make(w)
		Expect(lines(plan)).To(HaveExactElements("a Waiting CanaryStage", "x Waiting Next"))
		w.Shoots[1] = ended(second("x"), drain.Succeeded, ago(5*time.Minute))
		Expect(started(drain.Make(w))).To(HaveExactElements("a seed-a->seed-m Live"))
	})

	It("should be left to the drain of the seed in which it is, if there is one", func() {
		w := chained(resting("x"))
		w.Seeds[3] = draining("seed-m")
		plan := drain.Make(w)
		Expect(plan.Seeds).To(HaveLen(2))
		Expect(plan.Seeds[0].Entries).To(HaveExactElements(And(HaveField("State", drain.Waiting),
			HaveField("Reason", drain.ReasonOtherDrain))))
		Expect(plan.Seeds[0].Empty()).To(BeFalse())
		Expect(plan.Starts).To(HaveExactElements(And(HaveField("Drain", "seed-m"), HaveField("Source", "seed-m"),
			HaveField("Destination", "seed-b"), HaveField("Final", ""), HaveField("Hop", 0))))

		w.Shoots[0] = second("x")
		plan = drain.Make(w)
		Expect(plan.Starts).To(BeEmpty())
		for _, seed := range plan.Seeds {
			Expect(seed.Entries).To(HaveExactElements(HaveField("State", drain.Running)), seed.Name)
		}
	})

	It("should keep the drain from being complete", func() {
		w := chained(resting("x"))
		status, reason, _ := drain.Make(w).Seeds[0].Condition()
		Expect(status).To(Equal(gardencorev1beta1.ConditionProgressing))
		Expect(reason).To(Equal("Draining"))
	})

	It("should be told of after the drain was cancelled, until somebody decides", func() {
		w := chained(resting("x"), at("seed-a", "y"))
		w.Seeds[0].Draining, w.Seeds[0].Marked = false, false
		plan := drain.Make(w)
		Expect(plan.Starts).To(BeEmpty())
		Expect(lines(plan)).To(HaveExactElements("x Waiting Cancelled", "y Waiting Cancelled"))
		status, reason, message := plan.Seeds[0].Condition()
		Expect(status).To(Equal(gardencorev1beta1.ConditionFalse))
		Expect(reason).To(Equal("StoppedBetweenSeeds"))
		Expect(message).To(HavePrefix("The drain is cancelled. Between two migrations: 1 shoot (garden-demo/x is in " +
			"seed seed-m on its way to seed seed-b). Start the drain again to move on what is in between, or remove " +
			"the annotation migration.gardener.cloud/drain-final-destination from the Shoots that are to stay there."))
		row := plan.Seeds[0].Table().Shoots[0]
		Expect(row).To(And(HaveField("IntermediateSeed", "seed-m"), HaveField("FinalDestination", "seed-b")))

		w.Shoots[0] = second("x")
		_, reason, _ = drain.Make(w).Seeds[0].Condition()
		Expect(reason).To(Equal("Cancelling"), "the running migration finishes first")
		w.Shoots[0] = resting("x")
		w.Shoots[0].Final = ""
		Expect(drain.Make(w).Seeds).To(BeEmpty())
	})

	It("should have the connections measured when nothing else holds it, each of them once", func() {
		w := chained(at("seed-a", "x"), at("seed-a", "y"))
		w.Assess = func(drain.Shoot) drain.Assessment {
			return drain.Assessment{Destination: "seed-m", Final: "seed-b", Way: drain.Live, Waits: true,
				InMaintenanceWindow: true, Reason: drain.ReasonNotMeasured, Message: "nobody has measured it",
				Measure: []drain.Connection{drain.Between("seed-m", "seed-a"), drain.Between("seed-b", "seed-m")}}
		}
		plan := drain.Make(w)
		Expect(lines(plan)).To(HaveExactElements("x Waiting DistanceNotMeasured", "y Waiting DistanceNotMeasured"))
		Expect(plan.Measure).To(HaveExactElements(drain.Connection{One: "seed-a", Other: "seed-m"},
			drain.Connection{One: "seed-b", Other: "seed-m"}))
		Expect(plan.Seeds[0].Entries[0]).To(And(HaveField("To", "seed-m"), HaveField("Onward", "seed-b")))

		w.Seeds[0].Freezes = []drain.Span{{Begin: ago(time.Hour), End: now.Add(time.Hour)}}
		plan = drain.Make(w)
		Expect(lines(plan)).To(HaveExactElements("x Waiting ChangeFreeze", "y Waiting ChangeFreeze"))
		Expect(plan.Measure).To(BeEmpty(), "the result would not count any more at the end of the freeze")
	})
})
