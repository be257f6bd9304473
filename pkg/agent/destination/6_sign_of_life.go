// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"time"
)

// freshLife is how old a sign of life of the source may be, and how far ahead the source's clock. The source gives one
// with every look at the migration, every 15 s unless configured otherwise, and not more often than every 10 s.
const freshLife = time.Minute

// sourceSilence says what is missing for a fresh sign of life of the source; empty if nothing is.
//
// Four of six voters are a quorum, and three are in each seed: with the last member, each seed's loss becomes one of
// the quorum. That moment ends when the source retires its first member. A source whose agent is dead, or whose seed's
// API server does not answer, would never do so, and what has gone wrong there may take its members as well. With five
// voters the quorum survives the loss of the destination, and waiting costs nothing. What cannot be read counts as
// missing.
func (r *retirement) sourceSilence(ctx context.Context) string {
	now := r.migration.Clock.Now()
	if r.silence != "" && now.Sub(r.sourceLooked) < r.Timings.PollInterval {
		return r.silence
	}
	r.sourceLooked, r.silence = now, ""
	seen, err := r.migration.PeerSeen(ctx)
	switch {
	case err != nil:
		r.silence = err.Error()
	case seen.IsZero():
		r.silence = "its agent has never given one"
	case now.Sub(seen) > freshLife:
		r.silence = fmt.Sprintf("its agent, with its seed's API server, was last seen at %s, more than %s ago",
			seen.UTC().Format(time.RFC3339), freshLife)
	case seen.Sub(now) > freshLife:
		r.silence = fmt.Sprintf("its agent was last seen at %s, which is in the future: the clocks of the seeds differ",
			seen.UTC().Format(time.RFC3339))
	}
	if r.silence == "" {
		r.migration.Log.Info("The source is at work", "seen", seen.UTC(), "now", now.UTC())
	} else {
		r.migration.Log.Info("Not adding the last member: the source is silent", "why", r.silence)
	}
	return r.silence
}
