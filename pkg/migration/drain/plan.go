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
	// Onward is where it goes from there by further migrations; empty if To is the end.
	Onward string
	// Resting is the seed on the way in which it is between two migrations; empty if it is not.
	Resting string
	// Until is until when it waits; zero if it does not, or nobody knows.
	Until time.Time
}

// Start is a decision to start a move.
type Start struct {
	Key
	// Source and Destination are the seeds.
	Source, Destination string
	// Drain is the seed whose drain moves it: Source, or the one that the shoot has left by migrations before.
	Drain string
	// Final is where the chain of migrations ends, and Hop the number of this one; empty and zero if it is the only
	// one.
	Final string
	Hop   int
	// Way is how it moves.
	Way Way
}

// SeedPlan is what is decided for one seed.
type SeedPlan struct {
	Seed
	// Entries are the shoots that the drain is about, in the order in which they move.
	Entries []Entry
	// CircuitOpen reports that too many moves have failed, CircuitCause how many. FailuresInARow are those since the
	// last success.
	CircuitOpen    bool
	CircuitCause   string
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
	// Announcements are the moves to announce.
	Announcements []Announcement
	// Measure are the connections between seeds that agents are to measure.
	Measure []Connection
	// LookAgain is when something changes by time alone; zero if nothing does.
	LookAgain time.Time
}

// Make decides what is to be done in the garden.
func Make(g Garden) Plan {
	p := planner{Garden: g, outOf: map[string]int{}, into: map[string]int{}, travelling: map[string]bool{},
		draining: map[string]bool{}}
	for _, shoot := range g.Shoots {
		if source, destination, ok := shoot.onItsWay(); ok {
			p.take(source, destination)
		}
		if shoot.Between() {
			p.travelling[shoot.StartedBy] = true
		}
	}
	for _, seed := range g.Seeds {
		p.draining[seed.Name] = seed.Draining
	}

	// Seeds take turns by name, so that two of them which share the budget are drained in a foreseeable order.
	seeds := slices.Clone(g.Seeds)
	slices.SortFunc(seeds, func(a, b Seed) int { return cmp.Compare(a.Name, b.Name) })
	for _, seed := range seeds {
		if seed.Draining || seed.Marked || p.outOf[seed.Name] > 0 || p.travelling[seed.Name] {
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
	// travelling are the seeds whose drains have moved shoots that are between two migrations, draining those that are
	// drained.
	travelling, draining map[string]bool
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
		carried := shoot.carriedBy(seed.Name)
		if shoot.Status == seed.Name || shoot.Spec == seed.Name || shoot.doneBy(seed) || carried ||
			shoot.travels(seed.Name) {
			mine = append(mine, shoot)
			ours = ours || carried || shoot.travels(seed.Name)
		}
	}
	if !seed.Draining && !seed.Marked && !ours {
		return plan, false
	}
	slices.SortFunc(mine, Order)

	now := &seedState{Seed: seed, canary: p.canaries(seed, mine), pausedUntil: p.pausedUntil(seed, mine),
		frozenUntil: seed.frozenUntil(p.Now)}
	p.judge(&plan, p.outcomes(seed, mine), now.canary)
	now.circuit = plan.CircuitCause
	plan.Entries = make([]Entry, len(mine))
	// What is announced goes first. How much of it waits says how much more is announced. Of both, what is between two
	// migrations goes first: it rests in a seed where it is not to stay.
	for turn := range 4 {
		for i, shoot := range mine {
			if turnOf(seed, shoot) == turn {
				plan.Entries[i] = p.tellOnTheWay(now, p.entry(now, shoot))
			}
		}
	}
	return plan, true
}

// turnOf returns when the shoot is decided about, from 0 to 3.
func turnOf(seed Seed, shoot Shoot) int {
	turn := 0
	if !shoot.announcedFor(seed) {
		turn += 2
	}
	if !shoot.travels(seed.Name) {
		turn++
	}
	return turn
}

func (s Shoot) doneBy(seed Seed) bool {
	return s.StartedBy == seed.Name && !s.Between() &&
		s.Status != seed.Name && s.Spec != seed.Name && s.Status == s.Spec &&
		!s.StartedAt.Before(seed.StartedAt) && !(s.Restoring && s.Result == "")
}

// seedState is what holds for all shoots that are to leave a seed.
type seedState struct {
	Seed
	// circuit tells that too many moves have failed; empty if not.
	circuit string
	// canary is how far the canary stage is.
	canary canaryStage
	// pausedUntil and frozenUntil are when the next move may start; zero if it may now.
	pausedUntil, frozenUntil time.Time
	// announced is how many shoots are announced and have not begun to move.
	announced int
}

// entry decides about one shoot. What it starts is taken from the budget at once.
func (p *planner) entry(seed *seedState, shoot Shoot) Entry {
	is := func(state State, reason Reason, format string, args ...any) Entry {
		return Entry{Shoot: shoot, State: state, Reason: reason, Text: fmt.Sprintf(format, args...)}
	}
	here := shoot.Status == seed.Name || shoot.travels(seed.Name)
	switch {
	case shoot.doneBy(seed.Seed):
		entry := is(Done, ReasonMoved, "moved to seed %s", shoot.Status)
		entry.To, entry.By = shoot.Status, shoot.Way
		return entry
	case shoot.Aborted && here:
		return is(Blocked, ReasonAborted,
			"the live migration to seed %s was aborted; set spec.seedName back, or remove the intent annotation to "+
				"migrate classically", shoot.Spec)
	case shoot.moving() && here,
		shoot.Restoring && shoot.ours() && shoot.StartedBy == seed.Name:
		return p.running(shoot)
	case !here:
		return is(Waiting, ReasonArriving, "not in the seed yet; it leaves again as soon as it has arrived")
	case shoot.Restoring && shoot.FailedSince.IsZero():
		return is(Waiting, ReasonArriving, "being restored in the seed; it leaves again as soon as that is done")
	case shoot.Status != seed.Name && p.draining[shoot.Status]:
		return is(Waiting, ReasonOtherDrain, "the seed is drained itself, and that drain moves it")
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
	case seed.Problem != "":
		return is(Blocked, ReasonSettingsInvalid, "%s", seed.Problem)
	}
	return p.candidate(seed, shoot)
}

// running tells how far the move of the shoot is.
func (p *planner) running(shoot Shoot) Entry {
	out := Entry{Shoot: shoot, State: Running, Reason: ReasonMigrating, To: shoot.Spec, By: Classic,
		Text: "on its way to seed " + shoot.Spec}
	switch {
	case shoot.Intended && shoot.WithGap:
		out.By = LiveWithGap
	case shoot.Intended:
		out.By = Live
	case shoot.ours() && (shoot.Way.IsClassic() || shoot.Restoring):
		out.By = shoot.Way
	}
	if shoot.Restoring {
		out.Text = "being restored in seed " + shoot.Spec
	}
	if shoot.ours() && shoot.Spec == shoot.Destination {
		out.Onward = shoot.Final
		out.Text += onward(out)
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
func (p *planner) candidate(seed *seedState, shoot Shoot) Entry {
	assessment := p.Assess(shoot)
	out := Entry{Shoot: shoot, To: assessment.Destination, By: assessment.Way, Onward: assessment.Final}
	switch {
	case len(assessment.Measure) > 0:
		return p.measure(seed, out, assessment)
	case assessment.Waits:
		p.lookAgain(assessment.Until)
		return out.waits(assessment.Reason, assessment.Until, "%s", assessment.Message)
	case assessment.Destination == "":
		out.State, out.Reason, out.Text, out.By = Blocked, assessment.Reason, assessment.Message, ""
		return out
	}
	for _, hold := range []func(*seedState, Entry, Assessment) (Entry, bool){p.byTrouble, p.byStage, p.byNotice,
		p.byTime, p.byBudget} {
		if entry, held := hold(seed, out, assessment); held {
			p.lookAgain(entry.Until)
			return entry
		}
	}
	seed.takeCanary(shoot)
	p.take(shoot.Status, assessment.Destination)
	p.plan.Starts = append(p.plan.Starts, p.startOf(seed, shoot, assessment))
	if assessment.Way == ClassicWhileHibernated {
		return out.waits(ReasonNext, time.Time{}, "moves to seed %s next, classically, because it is hibernated",
			out.To)
	}
	return out.waits(ReasonNext, time.Time{}, "moves to seed %s next%s", out.To, onward(out))
}

// waits returns the entry as one that waits, until a time if that is known.
func (e Entry) waits(reason Reason, until time.Time, format string, args ...any) Entry {
	e.State, e.Reason, e.Until, e.Text = Waiting, reason, until, fmt.Sprintf(format, args...)
	return e
}

// byTrouble holds what failures hold.
func (p *planner) byTrouble(seed *seedState, out Entry, _ Assessment) (Entry, bool) {
	if seed.circuit != "" {
		return out.waits(ReasonCircuitOpen, time.Time{}, "%s", seed.circuit), true
	}
	retryAt := out.EndedAt.Add(p.Budget.RetryAfter)
	if out.triedSince(seed.Seed) && out.Result == Refused && p.Now.Before(retryAt) {
		return out.waits(ReasonRetryLater, retryAt, "retried at %s, because the garden refused the move: %s",
			FormatTime(retryAt), out.Message), true
	}
	return out, false
}

// byStage holds what has to wait for the end of a change freeze, or of the canary stage.
func (p *planner) byStage(seed *seedState, out Entry, _ Assessment) (Entry, bool) {
	switch canary := seed.canary; {
	case !seed.frozenUntil.IsZero():
		return out.waits(ReasonFreeze, seed.frozenUntil, "nothing is started before the change freeze ends at %s",
			FormatTime(seed.frozenUntil)), true
	case canary.running && !canary.soakUntil.IsZero():
		return out.waits(ReasonSoaking, canary.soakUntil, "the canary stage lasts until %s",
			FormatTime(canary.soakUntil)), true
	case canary.running && canary.free <= 0 && !out.travels(seed.Name):
		return out.waits(ReasonCanaries, time.Time{}, "%s in the canary stage; the others wait until they have arrived",
			conditions.Count(seed.Canaries, "shoot")), true
	}
	return out, false
}

// byTime holds what has to wait for its maintenance time window, or for the pause after a move.
func (p *planner) byTime(seed *seedState, out Entry, assessment Assessment) (Entry, bool) {
	switch {
	case seed.windowed(assessment) && !assessment.InMaintenanceWindow:
		return out.waits(ReasonMaintenanceWindow, assessment.WindowOpens,
			"moves to seed %s (%s) in its maintenance time window", out.To, out.By), true
	case !seed.pausedUntil.IsZero():
		return out.waits(ReasonPause, seed.pausedUntil, "nothing is started before %s",
			FormatTime(seed.pausedUntil)), true
	}
	return out, false
}

// windowed reports whether the shoot moves in its maintenance time window only.
func (s *seedState) windowed(assessment Assessment) bool {
	return s.InWindows || assessment.Way == Classic || assessment.Way == LiveWithGap
}

// byBudget holds what does not fit beside the moves that continue.
func (p *planner) byBudget(_ *seedState, out Entry, _ Assessment) (Entry, bool) {
	switch {
	case p.total >= p.Budget.Total:
		return out.waits(ReasonTotalBudget, time.Time{}, "on their way in the garden: %s",
			conditions.Count(p.total, "shoot")), true
	case p.outOf[out.Status] >= p.Budget.PerSource:
		return out.waits(ReasonSourceBudget, time.Time{}, "on their way out of the seed: %s",
			conditions.Count(p.outOf[out.Status], "shoot")), true
	case p.into[out.To] >= p.Budget.PerDestination:
		return out.waits(ReasonDestinationBudget, time.Time{}, "on their way to seed %s: %s", out.To,
			conditions.Count(p.into[out.To], "shoot")), true
	}
	return out, false
}

// lookAgain asks for another look at the time, unless that is zero.
func (p *planner) lookAgain(at time.Time) {
	if at.IsZero() {
		return
	}
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
