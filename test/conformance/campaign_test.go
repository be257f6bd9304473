// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/conformance"
)

var _ = Describe("A campaign", func() {
	var (
		mu       sync.Mutex
		rounds   []*conformance.Round
		said     string
		broken   map[int]string
		cannot   error
		migrated atomic.Int32
		// late is during how many of the migrations a spec does not run.
		late     int32
		campaign *conformance.Campaign
	)

	begun := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(rounds)
	}
	// until waits until so many rounds are over.
	until := func(n int) {
		GinkgoHelper()
		Eventually(begun).WithTimeout(patient).WithPolling(time.Millisecond).Should(BeNumerically(">=", n))
	}

	BeforeEach(func() {
		rounds, said, broken, cannot = nil, "", map[int]string{}, nil
		migrated.Store(0)
		late = 0
		list := parse(listText)
		campaign = &conformance.Campaign{List: list,
			Round: func(ctx context.Context, number int, seed int64) (*conformance.Round, error) {
				mu.Lock()
				err := cannot
				mu.Unlock()
				if err != nil {
					return nil, err
				}
				round := &conformance.Round{Number: number, Seed: seed, Begin: time.Now()}
				time.Sleep(time.Millisecond)
				for _, spec := range list.Run {
					run := conformance.SpecRun{Spec: spec, Begin: round.Begin, End: time.Now(),
						Passed: broken[number] != spec}
					if !run.Passed {
						run.FailedAt, run.Message = run.End, "failed: EOF"
					}
					round.Runs = append(round.Runs, run)
				}
				round.End = time.Now()
				mu.Lock()
				defer mu.Unlock()
				rounds = append(rounds, round)
				return round, ctx.Err()
			},
			Migrate: func(_ context.Context, timeline *conformance.Timeline) (conformance.Migration, error) {
				migrated.Add(1)
				migration := conformance.Migration{Triggered: time.Now()}
				timeline.Enter(migration.Triggered, "somewhere")
				until(begun() + 3)
				migration.Completed = time.Now()
				timeline.Enter(migration.Completed, conformance.After)
				return migration, nil
			},
			Say: func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				said += fmt.Sprintf(format, args...) + "\n"
			},
		}
	})

	It("should have a round at rest, rounds through the whole migration, and a round after it", func(ctx SpecContext) {
		verdict, err := campaign.Run(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(verdict.Err()).NotTo(HaveOccurred())
		Expect(len(verdict.Rounds)).To(And(BeNumerically(">=", 5), Equal(len(rounds))))
		seeds := map[int64]bool{}
		for i, round := range verdict.Rounds {
			Expect(round.Number).To(Equal(i + 1))
			seeds[round.Seed] = true
		}
		Expect(seeds).To(HaveLen(len(rounds)), "each round has an order of its own")
		Expect(verdict.Migrations).To(HaveLen(1))
		Expect(rounds[0].End).To(BeTemporally("<", verdict.Migrations[0].Triggered))
		last := rounds[len(rounds)-1]
		Expect(last.Begin).To(BeTemporally(">", verdict.Migrations[0].Completed))
		Expect(said).To(ContainSubstring("round 1: 2 of 2 specs passed"))
	})

	It("should move the shoot again, up to three times, until each spec has run in a migration", func(ctx SpecContext) {
		round := campaign.Round
		campaign.Round = func(ctx context.Context, number int, seed int64) (*conformance.Round, error) {
			r, err := round(ctx, number, seed)
			if err == nil && migrated.Load() <= late {
				// As if the round had begun long ago.
				run := &r.Runs[1]
				run.Begin, run.End = time.Time{}, time.Time{}.Add(time.Second)
			}
			return r, err
		}
		late = 1
		verdict, err := campaign.Run(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(verdict.Err()).NotTo(HaveOccurred())
		Expect(verdict.Migrations).To(HaveLen(2))

		rounds, late = nil, 99
		migrated.Store(0)
		verdict, err = campaign.Run(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(verdict.Err()).To(MatchError(ContainSubstring("%q did not run during the migration", writes)))
		Expect(verdict.Migrations).To(HaveLen(3))
	})

	It("should fail if a single run failed in the migration, and go on to its end", func(ctx SpecContext) {
		broken[3] = writes
		verdict, err := campaign.Run(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(verdict.Err()).To(MatchError(And(ContainSubstring(writes), ContainSubstring("round 3"),
			ContainSubstring("failed: EOF"))))
		Expect(verdict.Failures).To(HaveLen(1))
		Expect(len(verdict.Rounds)).To(BeNumerically(">=", 5))
		Expect(said).To(ContainSubstring("FAILED %q", writes))
	})

	It("should not begin a migration if a spec fails at rest", func(ctx SpecContext) {
		broken[1] = reads
		verdict, err := campaign.Run(ctx)
		Expect(err).To(MatchError(ContainSubstring("specs fail at rest")))
		Expect(migrated.Load()).To(BeZero())
		Expect(verdict.Err()).To(MatchError(ContainSubstring(reads)))
		Expect(rounds).To(HaveLen(1))
	})

	It("should not begin a migration if no round can begin", func(ctx SpecContext) {
		cannot = errors.New("no such file")
		verdict, err := campaign.Run(ctx)
		Expect(err).To(MatchError("round 1 did not come to its end: no such file"))
		Expect(verdict).To(BeNil())
		Expect(migrated.Load()).To(BeZero())
	})

	It("should tell of a migration that fails, and of what the specs saw of it", func(ctx SpecContext) {
		campaign.Migrate = func(context.Context, *conformance.Timeline) (conformance.Migration, error) {
			migration := conformance.Migration{Triggered: time.Now()}
			until(3)
			return migration, errors.New("it did not complete")
		}
		verdict, err := campaign.Run(ctx)
		Expect(err).To(MatchError("it did not complete"))
		Expect(verdict.Err()).To(MatchError(ContainSubstring("a migration did not come to its end")))
		Expect(len(verdict.Rounds)).To(BeNumerically(">=", 3))
	})

	It("should follow the migration to its end also if no round can begin any more", func(ctx SpecContext) {
		campaign.Migrate = func(context.Context, *conformance.Timeline) (conformance.Migration, error) {
			migration := conformance.Migration{Triggered: time.Now()}
			until(3)
			mu.Lock()
			defer mu.Unlock()
			cannot = errors.New("no such file")
			migration.Completed = time.Now()
			return migration, nil
		}
		verdict, err := campaign.Run(ctx)
		Expect(err).To(MatchError(ContainSubstring("no such file")))
		Expect(verdict.Migrations).To(ConsistOf(HaveField("Completed", Not(BeZero()))))
		Expect(verdict.Err()).To(HaveOccurred())
	})

	It("should end when it is interrupted", func(ctx SpecContext) {
		interrupted, interrupt := contextOf(ctx)
		campaign.Migrate = func(ctx context.Context, _ *conformance.Timeline) (conformance.Migration, error) {
			migration := conformance.Migration{Triggered: time.Now()}
			interrupt()
			<-ctx.Done()
			return migration, context.Cause(ctx)
		}
		verdict, err := campaign.Run(interrupted)
		Expect(err).To(MatchError(ContainSubstring("enough")))
		Expect(verdict.Err()).To(HaveOccurred())
	})
})
