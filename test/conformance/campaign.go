// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// lead is how long the specs run before the migration is asked for, so that requests are under way then.
const lead = 20 * time.Second

// campaign is a migration with rounds of specs around it.
type campaign struct {
	list     *List
	timeline *Timeline
	// round runs a round.
	round func(ctx context.Context, number int, seed int64) (*Round, error)
	// migrate asks for the migration, waits for its end, and tells the timeline of its steps. It returns when the
	// migration was asked for and when it was complete; completed is zero if it was not.
	migrate func(ctx context.Context) (triggered, completed time.Time, err error)
	// pause waits, or returns why the context ended.
	pause func(ctx context.Context, d time.Duration) error
	// say takes the progress.
	say func(format string, args ...any)

	mu     sync.Mutex
	rounds []*Round
	// last tells, by the begin of a round, whether it is the last one.
	last func(begin time.Time) bool
}

// run has a round at rest, then rounds without a pause until one is over that began after the end of the migration. If
// specs fail at rest, or if there is none, it does not ask for the migration. The verdict is of all that was seen, also
// if there is an error, unless it is nil.
func (c *campaign) run(ctx context.Context) (*Verdict, error) {
	c.timeline.Enter(time.Now(), Before)
	c.last = func(time.Time) bool { return false }
	if err := c.next(ctx); err != nil {
		return nil, err
	}
	evidence := Evidence{List: c.list, Timeline: c.timeline, Rounds: c.rounds}
	if verdict := Judge(evidence); len(verdict.Failures) > 0 || !c.rounds[0].good() {
		return verdict, errors.New("specs fail at rest, so the migration was not begun: find the fault, or exclude " +
			"them by name with the reason")
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looped := make(chan error, 1)
	go func() { looped <- c.loop(ctx) }()
	migrateErr := c.pause(ctx, lead)
	if migrateErr == nil {
		evidence.Triggered, evidence.Completed, migrateErr = c.migrate(ctx)
	}
	// After a migration that has failed the round that runs is the last one.
	c.end(func(begin time.Time) bool { return migrateErr != nil || begin.After(evidence.Completed) })
	loopErr := <-looped
	evidence.Rounds = c.rounds
	return Judge(evidence), errors.Join(migrateErr, loopErr)
}

// end says which round is the last one.
func (c *campaign) end(last func(begin time.Time) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = last
}

// loop runs rounds until the last one is over.
func (c *campaign) loop(ctx context.Context) error {
	for {
		if err := c.next(ctx); err != nil {
			return err
		}
		c.mu.Lock()
		over := c.last(c.rounds[len(c.rounds)-1].Begin)
		c.mu.Unlock()
		if over {
			return nil
		}
	}
}

// next runs one more round.
func (c *campaign) next(ctx context.Context) error {
	number := len(c.rounds) + 1
	round, err := c.round(ctx, number, rand.Int64N(1<<31))
	if err != nil {
		return fmt.Errorf("round %d did not come to its end: %w", number, err)
	}
	c.rounds = append(c.rounds, round)
	passed := 0
	for _, run := range round.Runs {
		if run.Passed {
			passed++
			continue
		}
		c.say("FAILED %q at %s, in step %q: %s", run.Spec, run.FailedAt.UTC().Format(time.TimeOnly),
			c.timeline.At(run.FailedAt), run.Message)
	}
	for _, problem := range round.Problems {
		c.say("round %d: %s", number, problem)
	}
	c.say("round %d: %d of %d specs passed within %.0f s (%s)", number, passed, len(c.list.Run),
		round.End.Sub(round.Begin).Seconds(), c.timeline.Between(round.Begin, round.End))
	return nil
}
