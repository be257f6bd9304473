// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// lead is how long a round runs before a migration is asked for, so that requests are under way then.
	lead = 10 * time.Second
	// migrations is how often the shoot moves at most, there and back, until each spec has run in a migration: which
	// of them do in one is up to the order of its rounds.
	migrations = 3
)

// campaign are migrations with rounds of specs around them.
type campaign struct {
	list     *List
	timeline *Timeline
	// round runs a round.
	round func(ctx context.Context, number int, seed int64) (*Round, error)
	// migrate asks for a migration to the seed that the shoot is not on, waits for its end, and tells the timeline of
	// its steps.
	migrate func(ctx context.Context) (Migration, error)
	// pause waits, or returns why the context ended.
	pause func(ctx context.Context, d time.Duration) error
	// say takes the progress.
	say func(format string, args ...any)

	rounds []*Round
	moves  []Migration
	// moving gets the end of the migration that is under way, and is nil while there is none.
	moving chan outcome
	failed error
}

// outcome is how a migration ended. It is not asked for if the context ends before.
type outcome struct {
	migration Migration
	err       error
}

// run has a round at rest, then rounds without a pause until one is over that began after the end of the last
// migration. If specs fail at rest at the beginning, or if there is no round, it does not ask for a migration. The
// verdict is of all that was seen, also if there is an error, unless it is nil.
func (c *campaign) run(ctx context.Context) (*Verdict, error) {
	c.timeline.Enter(time.Now(), Before)
	if err := c.next(ctx); err != nil {
		return nil, err
	}
	if verdict := c.verdict(); len(verdict.Failures) > 0 || !c.rounds[0].good() {
		return verdict, errors.New("specs fail at rest, so the migration was not begun: find the fault, or exclude " +
			"them by name with the reason")
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.begin(ctx)
	err := c.next(ctx)
	for ; err == nil && !c.over(ctx); err = c.next(ctx) {
	}
	// A migration is followed to its end also if no round can begin any more.
	if c.moving != nil {
		c.ended(<-c.moving)
	}
	return c.verdict(), errors.Join(c.failed, err)
}

// verdict judges what was seen so far.
func (c *campaign) verdict() *Verdict {
	return Judge(Evidence{List: c.list, Timeline: c.timeline, Rounds: c.rounds, Migrations: c.moves})
}

// begin has a migration begin beside the next round.
func (c *campaign) begin(ctx context.Context) {
	c.moving = make(chan outcome, 1)
	go func(moving chan<- outcome) {
		if err := c.pause(ctx, lead); err != nil {
			moving <- outcome{err: err}
			return
		}
		migration, err := c.migrate(ctx)
		moving <- outcome{migration, err}
	}(c.moving)
}

func (c *campaign) ended(o outcome) {
	c.moving, c.failed = nil, o.err
	if !o.migration.Triggered.IsZero() {
		c.moves = append(c.moves, o.migration)
	}
}

// over is asked between two rounds whether the one before was the last. It begins another migration if a spec has not
// run in one yet.
func (c *campaign) over(ctx context.Context) bool {
	if c.moving != nil {
		select {
		case o := <-c.moving:
			c.ended(o)
		default:
			return false
		}
	}
	if c.failed != nil {
		return true
	}
	if !c.rounds[len(c.rounds)-1].Begin.After(c.moves[len(c.moves)-1].Completed) {
		return false
	}
	if len(c.moves) == migrations || c.verdict().covered() {
		return true
	}
	c.say("not all specs ran in a migration yet, so there is another one")
	c.begin(ctx)
	return false
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
