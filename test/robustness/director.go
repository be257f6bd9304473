// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// faultTimeout bounds an attempt to inject or to heal a fault.
const faultTimeout = 30 * time.Second

// strike is what came of the injection of one cell.
type strike struct {
	cell  Cell
	fault fault.Fault

	// injected is when the fault had struck, healed when it was over. Both are zero if that never happened.
	injected, healed time.Time
	// from is when its injection began: what clients met from then on counts.
	from time.Time
	// missed is true if the step was over before the moment of the cell came.
	missed bool
	// short is true if the fault was over before it was healed.
	short bool
	// healing is true once its healing has been tried.
	healing bool
	// err is why the fault could not be injected.
	err error
	// at is what the step's condition said when the fault struck.
	at string

	// opened is where the window of the fault begins, over where it stood when the fault was over, and closed when it
	// was full. All are zero if the director was not asked for windows.
	opened, over mark
	closed       time.Time
	// proofs are the effects that were seen as the fault struck, and seen those that were while it was in force.
	proofs, seen []string
	// passed says why the moment of the cell is not known to have lasted until the fault had struck; empty if it is.
	// late is true if it is known that it has not.
	passed string
	late   bool
	// due is when the moment of the cell was seen. Those of one step that are due at once strike together.
	due time.Time
}

// open reports whether the moment of the cell may still come.
func (s *strike) open() bool { return !s.missed && s.injected.IsZero() && s.err == nil }

// done reports whether the next cell may follow.
func (s *strike) done() bool {
	return s.missed || !s.healed.IsZero() || (s.err != nil && s.injected.IsZero())
}

// director lets the faults of a migration strike at their moments. Steps can be over within a second, so the migration
// is held before every step that has a cell (the annotation pause-before). It may continue when the faults before are
// over and clients can write again. Each cell of the step then strikes as its moment is seen, in whichever order the
// moments come. Cells of one moment strike together.
type director struct {
	clock   clock.PassiveClock
	targets *fault.Targets
	// pause makes the migration hold before a step, and lets it continue if it holds before another one. An empty
	// condition type lets it continue for good.
	pause func(ctx context.Context, condition gardencorev1beta1.ConditionType) error
	// lastAcknowledged is when the last write of a client was acknowledged.
	lastAcknowledged func() time.Time
	log              func(format string, args ...any)
	// alone is what the window of each cell needs; nil if faults may strike one after the other without.
	alone *Alone
	// requests is how many requests of clients have ended.
	requests func() int
	// look returns the shoot as it is now, to find out whether a moment has passed.
	look func(ctx context.Context) (*gardencorev1beta1.Shoot, error)

	mu      sync.Mutex
	strikes []*strike
	// next is the index of the first cell of the step that comes next or is under way, armed whether that step was let
	// continue, began when it was seen to have begun.
	next    int
	armed   bool
	began   time.Time
	started bool
	// opened is where the window of the next moment begins.
	opened mark
}

func newDirector(cells []Cell, lookup func(name string) (fault.Fault, bool)) (*director, error) {
	d := &director{clock: clock.RealClock{}, log: func(string, ...any) {}}
	for i, cell := range cells {
		f, ok := lookup(cell.Fault)
		if !ok {
			return nil, fmt.Errorf("there is no fault %q", cell.Fault)
		}
		step, ok := steps.Get(cell.Step)
		if !ok {
			return nil, fmt.Errorf("there is no step %q", cell.Step)
		}
		if !f.Applies(step, cell.Moment) {
			return nil, fmt.Errorf("%s has nothing to hit", cell)
		}
		if i > 0 {
			before := cells[i-1]
			if before.compare(cell) > 0 {
				return nil, fmt.Errorf("%s cannot follow %s in one migration", cell, before)
			}
		}
		for _, other := range d.strikes {
			if other.cell.Step != cell.Step {
				continue
			}
			if reason, ok := bearable(other.cell, other.fault, cell, f); !ok {
				return nil, fmt.Errorf("%s and %s cannot be in one migration: %s", other.cell, cell, reason)
			}
		}
		d.strikes = append(d.strikes, &strike{cell: cell, fault: f})
	}
	return d, nil
}

// begin holds the migration before the first step that has a cell. It has not been triggered yet.
func (d *director) begin(ctx context.Context) error {
	if len(d.strikes) == 0 {
		return nil
	}
	d.opened = d.mark()
	return d.pause(ctx, d.strikes[0].cell.Step)
}

// heal heals the faults whose time is over. A failure is retried with the next call.
func (d *director) heal(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.strikes {
		if !s.injected.IsZero() && s.healed.IsZero() && d.clock.Since(s.injected) >= s.fault.Course().Lasts {
			d.healOne(ctx, s)
		}
	}
}

func (d *director) healOne(ctx context.Context, s *strike) {
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	// A healing that has failed may have ended the fault nevertheless.
	if fleeting, ok := s.fault.(fault.Fleeting); ok && !s.healing {
		inForce, err := fleeting.InForce(ctx, d.targets)
		if err != nil {
			d.log("failed to find out whether %s is in force: %v", s.cell, err)
			return
		}
		if !inForce {
			s.short = true
			d.log("%s was over before its time", s.cell)
		}
	}
	d.witness(ctx, s)
	s.healing = true
	if err := s.fault.Heal(ctx, d.targets); err != nil {
		d.log("failed to heal %s: %v", s.cell, err)
		return
	}
	s.healed = d.clock.Now()
	s.over = d.mark()
	if s.fault.Course().Lasts > 0 {
		d.log("healed %s after %s", s.cell, s.healed.Sub(s.injected).Round(time.Second))
	}
}

// witness takes over what the fault has hit while it was in force. It is called again if the healing fails.
func (d *director) witness(ctx context.Context, s *strike) {
	witnessed, ok := s.fault.(fault.Witnessed)
	if !ok || len(s.seen) > 0 {
		return
	}
	d.targets.TakeProofs()
	if err := witnessed.Witness(ctx, d.targets); err != nil {
		d.log("failed to find out what %s has hit: %v", s.cell, err)
	}
	s.seen = d.targets.TakeProofs()
}

// finish heals everything that is still in force and takes the hold away, whatever has become of the migration. It may
// be called again.
func (d *director) finish(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, s := range d.strikes {
		if s.injected.IsZero() || !s.healed.IsZero() {
			continue
		}
		if d.healOne(ctx, s); s.healed.IsZero() {
			errs = append(errs, fmt.Errorf("%s is not healed", s.cell))
		}
	}
	if d.next < len(d.strikes) {
		errs = append(errs, d.pause(ctx, ""))
	}
	return errors.Join(errs...)
}

// observe acts on the shoot as it is now.
func (d *director) observe(ctx context.Context, shoot *gardencorev1beta1.Shoot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conditions := steps.Conditions(shoot)
	if !steps.Initialized(conditions) {
		if d.started {
			// The migration is over: all its conditions are True.
			d.pass(ctx, len(steps.Table()))
		}
		return
	}
	d.started = true
	current, _ := steps.Current(conditions)
	d.pass(ctx, steps.Index(current.Condition))
	if d.next == len(d.strikes) {
		return
	}

	due := d.due()
	step, _ := steps.Get(due[0].cell.Step)
	condition := conditionOf(conditions, step)
	if !d.armed {
		d.arm(ctx, due, condition)
		return
	}
	if d.began.IsZero() && steps.Begun(conditions, step) {
		d.began = d.clock.Now()
	}
	d.injectAll(ctx, d.reached(due, step, condition), condition)
	d.advance()
}

// arm lets a step continue that is held before its cells, if nothing speaks against that, and those of its boundary
// strike.
func (d *director) arm(ctx context.Context, due []*strike, condition gardencorev1beta1.Condition) {
	if condition.Reason != string(steps.ReasonPaused) || !d.settled() || !d.windowOpen() {
		return
	}
	var boundary []*strike
	early := false
	for _, s := range due {
		if s.cell.Moment == fault.Boundary {
			boundary, early = append(boundary, s), early || s.fault.Course().Early
		}
	}
	if early {
		d.injectAll(ctx, boundary, condition)
	}
	if err := d.release(ctx); err != nil {
		// The step does not begin, and the next observation tries again.
		d.log("failed to let the migration continue: %v", err)
		return
	}
	d.armed = true
	d.injectAll(ctx, boundary, condition) // Those that have struck early do not strike again.
	d.advance()
}

// reached are those of the strikes whose moment is now. A step may report its reasons in another order than the model
// has them, and leave some out: none has to wait for another one.
func (d *director) reached(due []*strike, step steps.Step, condition gardencorev1beta1.Condition) []*strike {
	var reached []*strike
	for _, s := range due {
		now := step.Midst.Reached(d.clock.Now(), d.began, steps.Reason(condition.Reason))
		if reason, ok := s.cell.Moment.Reason(); ok {
			now = !d.began.IsZero() && condition.Reason == string(reason)
		}
		if now && s.open() {
			reached = append(reached, s)
		}
	}
	return reached
}

// due are all strikes of the step that comes next or is under way.
func (d *director) due() []*strike {
	step := d.strikes[d.next].cell.Step
	end := d.next
	for end < len(d.strikes) && d.strikes[end].cell.Step == step {
		end++
	}
	return d.strikes[d.next:end]
}

// injectAll lets the faults strike: first the momentary ones, because one that lasts may keep the others from striking.
func (d *director) injectAll(ctx context.Context, due []*strike, condition gardencorev1beta1.Condition) {
	now := d.clock.Now()
	for _, s := range due {
		if s.open() {
			s.due = now
		}
	}
	for _, lasting := range []bool{false, true} {
		for _, s := range due {
			if (s.fault.Course().Lasts > 0) == lasting {
				d.inject(ctx, s, condition)
			}
		}
	}
}

// pass notes which step the migration has got to: faults that last as long as a step end with it, and cells whose step
// is over were missed.
func (d *director) pass(ctx context.Context, reached int) {
	for _, s := range d.strikes {
		if !s.injected.IsZero() && s.healed.IsZero() && s.fault.Course().ThroughStep &&
			steps.Index(s.cell.Step) < reached {
			d.healOne(ctx, s)
		}
	}
	missed := false
	for d.next < len(d.strikes) && steps.Index(d.strikes[d.next].cell.Step) < reached {
		for _, s := range d.due() {
			if s.open() {
				s.missed, missed = true, true
				d.log("missed %s: the step is over", s.cell)
			}
		}
		d.advance()
	}
	if missed && d.next < len(d.strikes) {
		if err := d.pause(ctx, d.strikes[d.next].cell.Step); err != nil {
			d.log("failed to hold the migration: %v", err)
		}
	}
}

// settled reports whether all faults so far are over and clients have been able to write since.
func (d *director) settled() bool {
	acknowledged := d.lastAcknowledged()
	for _, s := range d.strikes[:d.next] {
		if !s.done() || !acknowledged.After(s.healed) {
			return false
		}
	}
	return true
}

// release lets the step continue and holds before the next step that has a cell.
func (d *director) release(ctx context.Context) error {
	for _, s := range d.strikes[d.next:] {
		if s.cell.Step != d.strikes[d.next].cell.Step {
			return d.pause(ctx, s.cell.Step)
		}
	}
	return d.pause(ctx, "")
}

func (d *director) inject(ctx context.Context, s *strike, condition gardencorev1beta1.Condition) {
	if !s.open() {
		return
	}
	d.log("injecting %s (%s: %s)", s.cell, condition.Type, condition.Reason)
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	s.at, s.from = condition.Reason, d.clock.Now()
	if d.alone != nil {
		s.opened = d.opened
	}
	d.targets.TakeProofs()
	if s.err = s.fault.Inject(ctx, d.targets); s.err != nil {
		d.log("failed to inject %s: %v", s.cell, s.err)
		// It may have struck in part.
		if err := s.fault.Heal(ctx, d.targets); err != nil {
			d.log("failed to heal %s: %v", s.cell, err)
			s.injected = d.clock.Now()
		}
		// What it has cost is nothing of the next window.
		d.opened = d.mark()
		_, s.late = d.momentPassed(ctx, s)
		return
	}
	s.injected, s.proofs = d.clock.Now(), d.targets.TakeProofs()
	if s.fault.Course().Lasts == 0 {
		s.healed, s.over = s.injected, d.mark()
	}
	s.passed, s.late = d.momentPassed(ctx, s)
}

// advance continues to the next step with cells when none of this one is left.
func (d *director) advance() {
	due := d.due()
	if slices.ContainsFunc(due, (*strike).open) {
		return
	}
	d.next += len(due)
	d.armed, d.began = false, time.Time{}
}

func conditionOf(conditions []gardencorev1beta1.Condition, step steps.Step) gardencorev1beta1.Condition {
	if condition := v1beta1helper.GetCondition(conditions, step.Condition); condition != nil {
		return *condition
	}
	return gardencorev1beta1.Condition{Type: step.Condition}
}
