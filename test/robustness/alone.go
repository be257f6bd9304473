// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"fmt"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Alone is what the window of a cell needs on each side of its fault, so that its figures and its verdict are its own.
type Alone struct {
	// Requests is how many requests of the clients whose history is judged must have ended.
	Requests int
	// Load is how long they must have been at work.
	Load time.Duration
}

// DefaultAlone is what the fault suite demands.
var DefaultAlone = Alone{Requests: 500, Load: 15 * time.Second}

const (
	// windowsTimeout is what a window adds to the time that a migration may take. Nothing else bounds how long a cell
	// holds it. The last window, which holds nothing, is waited for so long.
	windowsTimeout = 3 * time.Minute
	// windowInterval is how often the last window is looked at.
	windowInterval = time.Second
	// looks is how often it is tried to see whether a moment has passed.
	looks = 3
)

// Check returns an error unless each of the cells can have a window of its own in one migration. Those of one moment
// strike together, and share theirs.
func (a Alone) Check(cells []Cell) error {
	for i, cell := range cells {
		if i > 0 && cells[i-1].Step == cell.Step && cells[i-1].Moment != cell.Moment {
			return fmt.Errorf("%s and %s cannot be in one migration: a step has one window", cells[i-1], cell)
		}
	}
	return nil
}

// mark is a point in the load.
type mark struct {
	at       time.Time
	requests int
}

func (d *director) mark() mark {
	m := mark{at: d.clock.Now()}
	if d.requests != nil {
		m.requests = d.requests()
	}
	return m
}

// full reports whether there was enough load since the mark.
func (d *director) full(since mark) bool {
	now := d.mark()
	return now.at.Sub(since.at) >= d.alone.Load && now.requests-since.requests >= d.alone.Requests
}

// windowOpen reports whether the next fault may strike: the windows before are full and closed, and its own has the
// load that it needs before the fault.
func (d *director) windowOpen() bool {
	if d.alone == nil {
		return true
	}
	var open []*strike
	for _, s := range d.strikes[:d.next] {
		if s.injected.IsZero() || !s.closed.IsZero() {
			continue
		}
		if !d.full(s.over) {
			return false
		}
		open = append(open, s)
	}
	if len(open) > 0 {
		d.opened = d.mark()
	}
	for _, s := range open {
		s.closed = d.opened.at
	}
	return d.full(d.opened)
}

// filled reports whether the last window has the load that it needs after its fault, too.
func (d *director) filled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.alone == nil {
		return true
	}
	for _, s := range d.strikes {
		if !s.injected.IsZero() && s.closed.IsZero() && !d.full(s.over) {
			return false
		}
	}
	return true
}

// momentPassed looks once more after the fault has struck, and returns why the cell's moment is not known to have
// lasted so long; empty if it has. It is late if the moment is known to have been over.
func (d *director) momentPassed(ctx context.Context, s *strike) (why string, late bool) {
	shoot, err := d.look(ctx)
	for range looks - 1 {
		if err == nil || fault.HidesGarden(s.fault) {
			break
		}
		shoot, err = d.look(ctx)
	}
	if err != nil {
		if fault.HidesGarden(s.fault) {
			// Nobody can have changed the condition since.
			return "", false
		}
		return fmt.Sprintf("nobody could see whether the moment had passed: %v", err), false
	}
	conditions := steps.Conditions(shoot)
	step, unfinished := steps.Current(conditions)
	if !unfinished || step.Condition != s.cell.Step {
		return "the step was over before the fault had struck", true
	}
	reason, certain := s.cell.Moment.Reason()
	if now := conditionOf(conditions, step).Reason; certain && now != string(reason) {
		return fmt.Sprintf("the moment was over before the fault had struck: %s says %s", step, now), true
	}
	return "", false
}

// judgeAlone adds what makes a cell with a window of its own fail, or prove nothing.
// What strikes together may cost as much as all of it one after the other.
func (r *Result) judgeAlone(result *CellResult, s *strike, strikes []*strike, alone Alone) {
	w := result.Window
	for _, side := range []struct {
		name string
		part Part
	}{{"before", w.Before}, {"after", w.After}} {
		if side.part.Requests < alone.Requests || side.part.Seconds < alone.Load.Seconds() {
			result.miss("too little load %s the fault: %d requests in %.1f s, needed are %d in %.0f s", side.name,
				side.part.Requests, side.part.Seconds, alone.Requests, alone.Load.Seconds())
		}
	}
	step, _ := steps.Get(s.cell.Step)
	bounds := fault.BoundsOf(s.fault, step)
	for _, other := range strikes {
		if other != s && other.cell.Step == s.cell.Step {
			more := fault.BoundsOf(other.fault, step)
			bounds.Stall, bounds.Failed = bounds.Stall+more.Stall, bounds.Failed+more.Failed
		}
	}
	for _, problem := range w.exceeded(bounds) {
		result.Outcome, result.Problems = Broken, append(result.Problems, problem)
	}
}

// exceeded says which bounds the figures of the window exceed.
func (w *Window) exceeded(bounds fault.Bounds) []string {
	var (
		problems []string
		stall    time.Duration
		failed   int
	)
	for _, part := range []Part{w.Before, w.During, w.After} {
		stall = max(stall, time.Duration(part.LongestWriteGapMs)*time.Millisecond)
		failed += part.Failed + part.LoadFailed
	}
	stall = max(stall, time.Duration(w.LongestWriteGapMs)*time.Millisecond)
	if stall > bounds.Stall {
		problems = append(problems, fmt.Sprintf("no write was acknowledged for %.1f s, permitted are %.0f s",
			stall.Seconds(), bounds.Stall.Seconds()))
	}
	if failed > bounds.Failed {
		problems = append(problems, fmt.Sprintf("%d requests failed at the first try, permitted are %d", failed,
			bounds.Failed))
	}
	return problems
}

// problemsAlone says what must not happen in a migration whose cells are alone, beside what must not in any.
func (r *Result) problemsAlone(strikes []*strike) []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	switch ownership := r.Report.Ownership; {
	case ownership == nil || ownership.Samples == 0:
		add("nobody looked at who acts in which seed")
	case len(ownership.Violations) > 0:
		add("%d violations of who may act in which seed, the first: %s", len(ownership.Violations),
			ownership.Violations[0])
	}
	problems = append(problems, r.lostByLoad()...)
	permitted := 0
	for _, s := range strikes {
		permitted += fault.SourceEtcdRestarts(s.fault)
	}
	if restarts := r.Report.SourceEtcdRestarts; restarts > permitted {
		add("%d etcd pods of the source restarted, %d by what the faults do", restarts, permitted)
	}
	return problems
}

// lostByLoad says what the demo's load, whose requests are no part of the history, has lost or got twice.
func (r *Result) lostByLoad() []string {
	details := r.Report.Probe.Details
	if details == nil {
		return nil // a problem of every migration
	}
	var problems []string
	for _, lost := range []struct {
		what  string
		count int64
	}{
		{"acknowledged writes of the load are lost", details.AcknowledgedWritesLost},
		{"acknowledged Events of the load are lost", details.AcknowledgedEventsLost},
		{"watch events of the load are lost", r.Report.Probe.WatchEventsLost},
	} {
		if lost.count > 0 {
			problems = append(problems, fmt.Sprintf("%d %s", lost.count, lost.what))
		}
	}
	for i, watch := range details.Watches {
		if watch.Duplicates > 0 {
			problems = append(problems, fmt.Sprintf("watch %d of the load delivered %d events twice", i+1,
				watch.Duplicates))
		}
	}
	return problems
}
