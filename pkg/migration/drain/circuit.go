// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"slices"
	"time"
)

// shareFrom is how many moves must have ended before the share of the failed ones counts. One of two says nothing.
const shareFrom = 10

// outcome is how a move has ended, or that it is late.
type outcome struct {
	at     time.Time
	failed bool
	// refused reports that it has failed before it began.
	refused bool
}

// outcomes returns how the moves of the drain have ended since it was last resumed, in their order. A migration that is
// past a deadline, or that Gardener has given up, counts as a failure while it is.
func (p *planner) outcomes(seed Seed, shoots []Shoot) []outcome {
	var out []outcome
	for _, shoot := range shoots {
		switch {
		case !shoot.triedSince(seed):
		case shoot.Result == Succeeded || shoot.Result.Failed():
			out = append(out, outcome{shoot.EndedAt, shoot.Result.Failed(), shoot.Result == Refused})
		case shoot.ours() || shoot.moving():
			if late := p.lateSince(shoot); !late.IsZero() {
				out = append(out, outcome{late, true, false})
			}
		}
	}
	// Of two at the same moment the success counts as the earlier one: to stop too early costs less.
	slices.SortStableFunc(out, func(a, b outcome) int {
		if order := a.at.Compare(b.at); order != 0 {
			return order
		}
		switch {
		case a.failed == b.failed:
			return 0
		case a.failed:
			return 1
		}
		return -1
	})
	return out
}

// judge sets how many moves have failed, and whether that is too many.
func (p *planner) judge(plan *SeedPlan, outcomes []outcome, canary canaryStage) {
	failed, begun := 0, 0
	for _, outcome := range outcomes {
		if outcome.failed {
			failed++
			if !outcome.refused {
				begun++
			}
		}
	}
	for _, outcome := range slices.Backward(outcomes) {
		if !outcome.failed {
			break
		}
		plan.FailuresInARow++
	}
	switch {
	case p.Budget.Failures > 0 && plan.FailuresInARow >= p.Budget.Failures:
		plan.CircuitCause = fmt.Sprintf("%d migrations in a row have failed", plan.FailuresInARow)
	case p.Budget.FailurePercent > 0 && len(outcomes) >= shareFrom &&
		failed*100 > p.Budget.FailurePercent*len(outcomes):
		plan.CircuitCause = fmt.Sprintf("%d of %d migrations have failed", failed, len(outcomes))
	case canary.running && begun > 0:
		plan.CircuitCause = "a migration of the canary stage has failed"
	}
	plan.CircuitOpen = plan.CircuitCause != ""
}

// canaryStage is how far the first stage of a drain is, in which only some shoots move.
type canaryStage struct {
	// running reports that the stage is not over.
	running bool
	// free is how many more may begin.
	free int
	// soakUntil is when the stage is over; zero while not all have arrived.
	soakUntil time.Time
}

// takeCanary takes the shoot for one of the first ones. One that is between two migrations is counted already.
func (s *seedState) takeCanary(shoot Shoot) {
	if !shoot.travels(s.Name) {
		s.canary.free--
	}
}

// canaries tells how far the canary stage of the seed's drain is. The stage belongs to the drain as a whole: a drain
// that was cancelled and resumed does not repeat it.
func (p *planner) canaries(seed Seed, shoots []Shoot) canaryStage {
	if seed.Canaries == 0 {
		return canaryStage{}
	}
	var arrived []time.Time
	underway := 0
	for _, shoot := range shoots {
		switch {
		case shoot.doneBy(seed) && shoot.Result == Succeeded:
			arrived = append(arrived, shoot.EndedAt)
		case shoot.carriedBy(seed.Name), shoot.travels(seed.Name):
			underway++
		}
	}
	if len(arrived) < seed.Canaries {
		return canaryStage{running: true, free: seed.Canaries - len(arrived) - underway}
	}
	slices.SortFunc(arrived, time.Time.Compare)
	until := arrived[seed.Canaries-1].Add(seed.Soak)
	return canaryStage{running: p.Now.Before(until), soakUntil: until}
}
