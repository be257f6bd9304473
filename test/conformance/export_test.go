// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"time"
)

// ResolvingBy is exported for tests.
var ResolvingBy = resolvingBy

// Campaign is a campaign that never pauses.
type Campaign struct {
	List    *List
	Round   func(ctx context.Context, number int, seed int64) (*Round, error)
	Migrate func(ctx context.Context, timeline *Timeline) (Migration, error)
	Say     func(format string, args ...any)
}

// Run runs the campaign.
func (c *Campaign) Run(ctx context.Context) (*Verdict, error) {
	inner := &campaign{list: c.List, timeline: &Timeline{}, round: c.Round, say: c.Say,
		pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	inner.migrate = func(ctx context.Context) (Migration, error) { return c.Migrate(ctx, inner.timeline) }
	return inner.run(ctx)
}
