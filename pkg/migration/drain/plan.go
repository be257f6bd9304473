// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
)

// Entry is one shoot in the drain of its seed.
type Entry struct {
	Shoot
	// State, Reason and Text tell where it stands.
	State  State
	Reason Reason
	Text   string
	// To is where it moves, or would move; empty if that is not known.
	To string
	// By is how.
	By Way
	// Until is until when it waits; zero if it does not, or nobody knows.
	Until time.Time
}

// Start is a decision to start a move.
type Start struct {
	Key
	// Source and Destination are the seeds.
	Source, Destination string
	// Way is how it moves.
	Way Way
}

// SeedPlan is what is decided for one seed.
type SeedPlan struct {
	Seed
	// Entries are the shoots that the drain is about, in the order in which they move.
	Entries []Entry
	// CircuitOpen reports that too many moves in a row have failed, FailuresInARow how many.
	CircuitOpen    bool
	FailuresInARow int
}

// Counts are how many shoots are in each state.
type Counts struct {
	Total   int `json:"total"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Blocked int `json:"blocked"`
}

// Counts counts the entries.
func (p SeedPlan) Counts() Counts {
	counts := Counts{Total: len(p.Entries)}
	for _, entry := range p.Entries {
		switch entry.State {
		case Done:
			counts.Done++
		case Running:
			counts.Running++
		case Waiting:
			counts.Waiting++
		case Blocked:
			counts.Blocked++
		}
	}
	return counts
}

// Empty reports that no shoot is left in the seed, on its way out of it or into it.
func (p SeedPlan) Empty() bool {
	counts := p.Counts()
	return counts.Done == counts.Total
}

// Plan is what is to be done.
type Plan struct {
	// Seeds are the plans of the seeds that are drained, or whose drain was cancelled and is not over, by name.
	Seeds []SeedPlan
	// Starts are the moves to start.
	Starts []Start
	// LookAgain is when something changes by time alone; zero if nothing does.
	LookAgain time.Time
}

// Make decides what is to be done in the garden.
func Make(g Garden) Plan {
	p := planner{Garden: g, outOf: map[string]int{}, into: map[string]int{}}
	for _, shoot := range g.Shoots {
		if source, destination, ok := shoot.onItsWay(); ok {
			p.take(source, destination)
		}
	}

	// Seeds take turns by name, so that two of them which share the budget are drained in a foreseeable order.
	seeds := slices.Clone(g.Seeds)
	slices.SortFunc(seeds, func(a, b Seed) int { return cmp.Compare(a.Name, b.Name) })
	for _, seed := range seeds {
		if seed.Draining || seed.Marked || p.outOf[seed.Name] > 0 {
			if plan, relevant := p.seed(seed); relevant {
				p.plan.Seeds = append(p.plan.Seeds, plan)
			}
		}
	}
	return p.plan
}

type planner struct {
	Garden
	plan        Plan
	outOf, into map[string]int
	total       int
}

func (p *planner) take(source, destination string) {
	p.outOf[source]++
	p.into[destination]++
	p.total++
}

// seed plans for one seed. The seed is of no concern if nobody asks for its drain and no drain has moved anything that
// still continues.
func (p *planner) seed(seed Seed) (SeedPlan, bool) {
	plan := SeedPlan{Seed: seed}
	var mine []Shoot
	ours := false
	for _, shoot := range p.Shoots {
		source, _, going := shoot.onItsWay()
		if shoot.Status == seed.Name || shoot.Spec == seed.Name || shoot.doneBy(seed) || going && source == seed.Name {
			mine = append(mine, shoot)
			ours = ours || going && shoot.StartedBy == seed.Name && shoot.Result == ""
		}
	}
	if !seed.Draining && !seed.Marked && !ours {
		return plan, false
	}
	slices.SortFunc(mine, Order)

	plan.FailuresInARow = p.failuresInARow(seed, mine)
	plan.CircuitOpen = p.Budget.Failures > 0 && plan.FailuresInARow >= p.Budget.Failures
	now := seedState{Seed: seed, circuitOpen: plan.CircuitOpen, pausedUntil: p.pausedUntil(seed, mine)}
	for _, shoot := range mine {
		plan.Entries = append(plan.Entries, p.entry(now, shoot))
	}
	return plan, true
}

func (s Shoot) doneBy(seed Seed) bool {
	return s.StartedBy == seed.Name && s.Status != seed.Name && s.Spec != seed.Name && s.Status == s.Spec &&
		!s.StartedAt.Before(seed.StartedAt) && !(s.Restoring && s.Result == "")
}

// seedState is what holds for all shoots that are to leave a seed.
type seedState struct {
	Seed
	// circuitOpen reports that too many moves in a row have failed.
	circuitOpen bool
	// pausedUntil is when the next move may start; zero if it may now.
	pausedUntil time.Time
}

// entry decides about one shoot. What it starts is taken from the budget at once.
func (p *planner) entry(seed seedState, shoot Shoot) Entry {
	is := func(state State, reason Reason, format string, args ...any) Entry {
		return Entry{Shoot: shoot, State: state, Reason: reason, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case shoot.doneBy(seed.Seed):
		entry := is(Done, ReasonMoved, "moved to seed %s", shoot.Status)
		entry.To, entry.By = shoot.Status, shoot.Way
		return entry
	case shoot.Aborted && shoot.Status == seed.Name:
		return is(Blocked, ReasonAborted,
			"the live migration to seed %s was aborted; set spec.seedName back, or remove the intent annotation to "+
				"migrate classically", shoot.Spec)
	case shoot.moving() && shoot.Status == seed.Name,
		shoot.Restoring && shoot.ours() && shoot.StartedBy == seed.Name:
		return p.running(shoot)
	case shoot.Status != seed.Name:
		return is(Waiting, ReasonArriving, "not in the seed yet; it leaves again as soon as it has arrived")
	case shoot.Restoring && shoot.FailedSince.IsZero():
		return is(Waiting, ReasonArriving, "being restored in the seed; it leaves again as soon as that is done")
	case shoot.Deleting:
		return is(Waiting, ReasonDeleting, "being deleted")
	case shoot.OptedOut:
		return is(Blocked, ReasonOptedOut, "the annotation %s is set; remove it to let the shoot go", AnnotationOptOut)
	case shoot.Ignored:
		return is(Blocked, ReasonIgnored,
			"Gardener ignores the shoot; remove the annotation shoot.gardener.cloud/ignore to let it go")
	case shoot.triedSince(seed.Seed) && shoot.Result == Aborted:
		return is(Blocked, ReasonAborted,
			"the live migration to seed %s was aborted at %s; cancel the drain and start it again to retry",
			shoot.Destination, FormatTime(shoot.EndedAt))
	case shoot.triedSince(seed.Seed) && shoot.Result == Refused && shoot.Attempts >= p.Budget.Attempts:
		return is(Blocked, ReasonRefused,
			"the garden refused the move to seed %s (%s); cancel the drain and start it again to retry. The "+
				"last time: %s", shoot.Destination, conditions.Count(shoot.Attempts, "time"), shoot.Message)
	case !seed.Draining:
		return is(Waiting, ReasonCancelled, "the drain was cancelled")
	}
	return p.candidate(seed, shoot)
}

// running tells how far the move of the shoot is.
func (p *planner) running(shoot Shoot) Entry {
	out := Entry{Shoot: shoot, State: Running, Reason: ReasonMigrating, To: shoot.Spec, By: Classic,
		Text: "on its way to seed " + shoot.Spec}
	switch {
	case shoot.Intended:
		out.By = Live
	case shoot.ours() && (shoot.Way.IsClassic() || shoot.Restoring):
		out.By = shoot.Way
	}
	if shoot.Restoring {
		out.Text = "being restored in seed " + shoot.Spec
	}
	switch {
	case !shoot.FailedSince.IsZero():
		out.Reason = ReasonOperationFailed
		out.Text += "; Gardener has given up: fix what status.lastErrors of the Shoot names, then annotate the Shoot " +
			"with gardener.cloud/operation=retry"
	case !shoot.LateSince.IsZero():
		out.Reason = ReasonDeadlineExceeded
		out.Text += ", and past the deadline of a step"
	case !p.lateSince(shoot).IsZero():
		out.Reason = ReasonDeadlineExceeded
		out.Text += fmt.Sprintf(" for more than %s; read status.lastOperation and the constraint ReadyForMigration of "+
			"the Shoot", ClassicDeadline)
	}
	return out
}

// lateSince returns since when the move of the shoot counts as a failure; zero if it does not.
func (p *planner) lateSince(shoot Shoot) time.Time {
	switch {
	case !shoot.FailedSince.IsZero():
		return shoot.FailedSince
	case !shoot.LateSince.IsZero():
		return shoot.LateSince
	case shoot.ours() && shoot.Way.IsClassic():
		if deadline := shoot.StartedAt.Add(ClassicDeadline); !p.Now.Before(deadline) {
			return deadline
		}
	}
	return time.Time{}
}

// candidate decides about a shoot that may leave as soon as its turn has come.
func (p *planner) candidate(seed seedState, shoot Shoot) Entry {
	assessment := p.Assess(shoot)
	out := Entry{Shoot: shoot, To: assessment.Destination, By: assessment.Way}
	is := func(state State, reason Reason, format string, args ...any) Entry {
		out.State, out.Reason, out.Text = state, reason, fmt.Sprintf(format, args...)
		return out
	}
	switch {
	case assessment.Waits:
		out.Until = assessment.Until
		return is(Waiting, assessment.Reason, "%s", assessment.Message)
	case assessment.Destination == "":
		out.By = ""
		return is(Blocked, assessment.Reason, "%s", assessment.Message)
	}

	retryAt := shoot.EndedAt.Add(p.Budget.RetryAfter)
	switch {
	case seed.circuitOpen:
		return is(Waiting, ReasonCircuitOpen, "too many migrations in a row have failed")
	case shoot.triedSince(seed.Seed) && shoot.Result == Refused && p.Now.Before(retryAt):
		p.lookAgain(retryAt)
		out.Until = retryAt
		return is(Waiting, ReasonRetryLater, "retried at %s, because the garden refused the move: %s",
			FormatTime(retryAt), shoot.Message)
	case assessment.Way == Classic && !assessment.InMaintenanceWindow:
		return is(Waiting, ReasonMaintenanceWindow, "moves classically to seed %s in its maintenance time window",
			assessment.Destination)
	case !seed.pausedUntil.IsZero():
		p.lookAgain(seed.pausedUntil)
		out.Until = seed.pausedUntil
		return is(Waiting, ReasonPause, "nothing is started before %s", FormatTime(seed.pausedUntil))
	case p.total >= p.Budget.Total:
		return is(Waiting, ReasonTotalBudget, "on their way in the garden: %s", conditions.Count(p.total, "shoot"))
	case p.outOf[seed.Name] >= p.Budget.PerSource:
		return is(Waiting, ReasonSourceBudget, "on their way out of the seed: %s",
			conditions.Count(p.outOf[seed.Name], "shoot"))
	case p.into[assessment.Destination] >= p.Budget.PerDestination:
		return is(Waiting, ReasonDestinationBudget, "on their way to seed %s: %s", assessment.Destination,
			conditions.Count(p.into[assessment.Destination], "shoot"))
	}
	p.take(seed.Name, assessment.Destination)
	p.plan.Starts = append(p.plan.Starts,
		Start{Key: shoot.Key, Source: seed.Name, Destination: assessment.Destination, Way: assessment.Way})
	if assessment.Way == ClassicWhileHibernated {
		return is(Waiting, ReasonNext, "moves to seed %s next, classically, because it is hibernated",
			assessment.Destination)
	}
	return is(Waiting, ReasonNext, "moves to seed %s next", assessment.Destination)
}

func (p *planner) lookAgain(at time.Time) {
	if p.plan.LookAgain.IsZero() || at.Before(p.plan.LookAgain) {
		p.plan.LookAgain = at
	}
}

// triedSince reports whether the last move that the drain of the seed has started counts: it is not from before the
// drain last continued.
func (s Shoot) triedSince(seed Seed) bool {
	return s.StartedBy == seed.Name && !s.StartedAt.Before(seed.ResumedAt)
}

// pausedUntil returns when the pause after the last move out of the seed ends, or the zero time if there is none.
func (p *planner) pausedUntil(seed Seed, shoots []Shoot) time.Time {
	var last time.Time
	for _, shoot := range shoots {
		// A refused start has changed nothing that would need to calm down.
		if shoot.StartedBy == seed.Name && (shoot.Result == Succeeded || shoot.Result == Aborted) &&
			shoot.EndedAt.After(last) {
			last = shoot.EndedAt
		}
	}
	if until := last.Add(p.Budget.Pause); !last.IsZero() && p.Now.Before(until) {
		return until
	}
	return time.Time{}
}

// failuresInARow counts the failures since the last success. A migration that is past a deadline, or that Gardener has
// given up, counts while it is.
func (p *planner) failuresInARow(seed Seed, shoots []Shoot) int {
	type outcome struct {
		at     time.Time
		failed bool
	}
	var outcomes []outcome
	for _, shoot := range shoots {
		switch {
		case !shoot.triedSince(seed):
		case shoot.Result == Succeeded || shoot.Result.Failed():
			outcomes = append(outcomes, outcome{shoot.EndedAt, shoot.Result.Failed()})
		case shoot.ours() || shoot.moving():
			if late := p.lateSince(shoot); !late.IsZero() {
				outcomes = append(outcomes, outcome{late, true})
			}
		}
	}
	// Of two at the same moment the success counts as the earlier one: to stop too early costs less.
	slices.SortStableFunc(outcomes, func(a, b outcome) int {
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
	failures := 0
	for _, outcome := range slices.Backward(outcomes) {
		if !outcome.failed {
			break
		}
		failures++
	}
	return failures
}

// purposes are in the order in which they leave. What most depends on comes last, when the most is known about how it
// goes.
var purposes = []gardencorev1beta1.ShootPurpose{
	gardencorev1beta1.ShootPurposeEvaluation,
	gardencorev1beta1.ShootPurposeTesting,
	gardencorev1beta1.ShootPurposeDevelopment,
	gardencorev1beta1.ShootPurposeInfrastructure,
	gardencorev1beta1.ShootPurposeProduction,
}

// Order compares two shoots by the order in which they leave a seed: by purpose, then the youngest first, then by name.
func Order(a, b Shoot) int {
	return cmp.Or(
		cmp.Compare(rank(a.Purpose), rank(b.Purpose)),
		b.CreatedAt.Compare(a.CreatedAt),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// rank puts purposes that are not known in the middle. Without any, a shoot is for evaluation as far as Gardener is
// concerned.
func rank(purpose gardencorev1beta1.ShootPurpose) int {
	if purpose == "" {
		return 0
	}
	if i := slices.Index(purposes, purpose); i >= 0 {
		return i
	}
	return slices.Index(purposes, gardencorev1beta1.ShootPurposeDevelopment)
}
