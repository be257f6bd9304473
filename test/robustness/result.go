// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/observed"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/robustness/history"
)

// Outcome is what came of a cell.
type Outcome string

// The outcomes of cells.
const (
	// Passed means that the migration came to its end and nothing was lost.
	Passed Outcome = "ok"
	// Missed means that the fault did not strike: the step was over too soon, or there was nothing to hit.
	Missed Outcome = "missed"
	// Broken means that the migration did not come to its end, or that something was lost.
	Broken Outcome = "FAILED"
)

// CellResult is what came of a cell, and what its fault cost clients. Figures are from the moment when the fault struck
// until the next moment with faults, or the end of the run; and at least until the fault was healed.
type CellResult struct {
	Cell

	Outcome Outcome `json:"outcome"`
	// Late is true if the moment of the cell did not come, or was over before the fault had struck.
	Late bool `json:"late,omitempty"`
	// Short is true if something else ended the fault before its time.
	Short    bool     `json:"short,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Repro    string   `json:"repro"`

	Requests          int    `json:"requests"`
	FailedRequests    int    `json:"failedRequests"`
	LongestWriteGapMs int64  `json:"longestWriteGapMs"`
	LostWrites        int64  `json:"lostWrites"`
	Linearizable      string `json:"linearizable"`

	// Source and Destination are the seeds between which the shoot moved.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// Made is when the migration was over.
	Made time.Time `json:"made,omitzero"`
	// Struck is when the fault struck, StruckAt the reason that the step's condition had then, Seconds how long the
	// fault was in force.
	Struck   time.Time `json:"struck,omitzero"`
	StruckAt string    `json:"struckAt,omitempty"`
	Seconds  float64   `json:"seconds,omitempty"`
	// MigrationSeconds is how long the whole migration took, Together how many cells it had.
	MigrationSeconds float64 `json:"migrationSeconds"`
	Together         int     `json:"together"`
	// With names the faults that struck at the same moment, or while this one was in force, or that were in force as
	// this one struck. They share the figures.
	With []string `json:"with,omitempty"`

	// Commit is what was checked out, and Build names in Matrix.Builds what the result was made with. Both are empty in
	// results from before 2026-11-28.
	Commit string `json:"commit,omitempty"`
	Build  string `json:"build,omitempty"`
	// Window is the cell's own part of the run. It is nil in results from before 2026-11-28, and if the fault did not
	// strike.
	Window *Window `json:"window,omitempty"`
	// Proofs are the effects of the fault that were seen, each in a sentence.
	Proofs []string `json:"proofs,omitempty"`
	// Stale says why the result tells nothing of the present code any more; empty if it does. See Matrix.Assess.
	Stale string `json:"stale,omitempty"`
	// Earlier are the attempts before this one, the oldest first. They have no attempts of their own.
	Earlier []CellResult `json:"earlier,omitempty"`
}

// Result is what came of a migration with faults.
type Result struct {
	Report  *demo.Report
	History *history.History
	Verdict *history.Verdict
	// Alone is what the window of each cell needs; nil if the cells had to share theirs.
	Alone *Alone
	// Problems are those of the migration as a whole. They fail all its cells.
	Problems []string
	Cells    []CellResult
}

// Err returns an error if a cell has not passed.
func (r *Result) Err() error {
	var problems []string
	for _, cell := range r.Cells {
		if cell.Outcome != Passed {
			problems = append(problems, fmt.Sprintf("%s: %s (%s); repeat with: %s", cell.Cell, cell.Outcome,
				strings.Join(cell.Problems, "; "), cell.Repro))
		}
	}
	if len(r.Cells) == 0 {
		problems = append(problems, "no fault was injected")
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "\n"))
}

// judge fills in problems and cells. end is when the load ended.
func (r *Result) judge(strikes []*strike, end time.Time, errs ...error) {
	r.Problems = append(r.problems(errs...), r.violations(strikes)...)
	if r.Alone != nil {
		r.Problems = append(r.Problems, r.problemsAlone(strikes)...)
	}
	lost := int64(0)
	for _, etcd := range r.Report.Etcd {
		lost += etcd.AcknowledgedWritesLost
	}
	for _, s := range strikes {
		result := CellResult{
			Cell: s.cell, Outcome: Passed, Problems: append([]string{}, r.Problems...), Repro: s.cell.Repro(),
			LostWrites: lost, Linearizable: r.Verdict.Linearizable, Made: end.UTC(),
			Source: r.Report.Source, Destination: r.Report.Destination, MigrationSeconds: r.Report.DurationSeconds,
			Together: len(strikes),
		}
		if len(r.Problems) > 0 {
			result.Outcome = Broken
		}
		r.judgeStrike(&result, s, strikes, end)
		for _, other := range strikes {
			if other != s && (simultaneous(s, other) || overlap(s, other)) {
				result.With = append(result.With, other.cell.Fault)
			}
		}
		r.Cells = append(r.Cells, result)
	}
}

// judgeStrike adds what came of a strike, one among others.
func (r *Result) judgeStrike(result *CellResult, s *strike, strikes []*strike, end time.Time) {
	switch {
	case s.missed:
		result.Late = true
		result.miss("the step was over before the fault could strike")
	case s.err != nil:
		result.Late = s.late
		result.miss("the fault could not be injected: %v", s.err)
	case s.injected.IsZero():
		result.Late = true
		result.miss("the moment of the fault did not come")
	case s.short:
		result.Short = true
		result.miss("something else ended the fault before its time")
	default:
		next := until(s, strikes, end)
		r.measure(result, s, next)
		result.Window = r.window(s, since(s, strikes, r.History.Begin), next)
		result.Proofs = slices.Concat(s.proofs, s.seen)
		if s.passed != "" {
			result.Late = s.late
			result.miss("%s", s.passed)
		}
		if len(result.Proofs) == 0 {
			result.miss("nobody has seen that the fault struck")
		}
		if r.Alone != nil {
			r.judgeAlone(result, s, strikes, *r.Alone)
		}
	}
}

// miss adds why the cell proves nothing.
func (c *CellResult) miss(format string, args ...any) {
	c.Outcome, c.Problems = worse(c.Outcome, Missed), append(c.Problems, fmt.Sprintf(format, args...))
}

// violations says what the model of the steps does not permit. What a fault does to the members of an etcd is no step.
func (r *Result) violations(strikes []*strike) []string {
	migration := observed.Of(&r.Report.Recording, &r.Report.Details)
	for _, s := range strikes {
		if loss, ok := s.fault.(fault.MemberLoss); ok && !s.injected.IsZero() {
			migration.Lost = append(migration.Lost, observed.Loss{Role: loss.LosesMembers(), At: s.injected})
		}
	}
	return migration.Violations()
}

// unreported returns the results of a migration of which no report could be made. They have failed, whatever else may
// have come of them.
func unreported(strikes []*strike, end time.Time, err error) []CellResult {
	results := make([]CellResult, 0, len(strikes))
	for _, s := range strikes {
		results = append(results, CellResult{Cell: s.cell, Outcome: Broken, Repro: s.cell.Repro(), Made: end.UTC(),
			Struck: s.injected, StruckAt: s.at, Together: len(strikes),
			Problems: []string{fmt.Sprintf("no report could be made: %v", err)}})
	}
	return results
}

func worse(a, b Outcome) Outcome {
	if a == Broken {
		return a
	}
	return b
}

// simultaneous reports whether both strike at the same moment of a step, or at two that came at once: a reason may mark
// the midst of its step as well.
func simultaneous(a, b *strike) bool {
	return a.cell.Step == b.cell.Step &&
		(a.cell.Moment == b.cell.Moment || !a.due.IsZero() && a.due.Equal(b.due))
}

// overlap reports whether one of them struck while the other one was in force.
func overlap(a, b *strike) bool {
	if a.injected.IsZero() || b.injected.IsZero() {
		return false
	}
	within := func(at time.Time, s *strike) bool {
		return !at.Before(s.injected) && (s.healed.IsZero() || at.Before(s.healed))
	}
	return within(a.injected, b) || within(b.injected, a)
}

// until is when the next of the strikes happened that does not belong to the same moment, or when this one was healed
// if that was later.
func until(this *strike, strikes []*strike, end time.Time) time.Time {
	if !this.closed.IsZero() {
		return this.closed
	}
	next := end
	for _, s := range strikes {
		if s.injected.After(this.injected) && s.injected.Before(next) && !simultaneous(this, s) {
			next = s.injected
		}
	}
	if this.healed.After(next) {
		return this.healed
	}
	return next
}

// measure fills in what happened while the fault was the last one to have struck.
func (r *Result) measure(result *CellResult, s *strike, end time.Time) {
	window := r.History.Window(s.from, end)
	result.Requests, result.FailedRequests = window.Requests, window.Failed
	result.LongestWriteGapMs = window.LongestWriteGap.Milliseconds()
	for _, o := range r.Verdict.Lost {
		if at := r.History.Begin.Add(o.Return); !at.Before(s.from) && at.Before(end) {
			result.LostWrites++
		}
	}
	if details := r.Report.Probe.Details; details != nil {
		result.FailedRequests += failedRequests(details, s.from, end)
	}
	result.Struck, result.StruckAt = s.injected, s.at
	if s.healed.IsZero() {
		result.Outcome, result.Problems = Broken, append(result.Problems, "the fault could not be healed")
		return
	}
	result.Seconds = s.healed.Sub(s.injected).Seconds()
}

// failedRequests counts the requests of the load that failed in the time. The probe remembers only so many incidents;
// if there were more, the course of the run has to do, whose points are a bit coarser.
func failedRequests(details *probe.Details, begin, end time.Time) int {
	failed := 0
	if details.IncidentsDropped == 0 || details.Series == nil {
		for _, incident := range details.Incidents {
			if failedRequest(incident) && !incident.Time.Before(begin) && incident.Time.Before(end) {
				failed++
			}
		}
		return failed
	}
	interval := time.Duration(details.Series.IntervalSeconds * float64(time.Second))
	for i, point := range details.Series.Points {
		if at := details.Series.Begin.Add(time.Duration(i) * interval); at.Add(interval).After(begin) &&
			at.Before(end) {
			failed += point.Failed
		}
	}
	return failed
}

// failedRequest reports whether an incident of the probe is a request that failed, rather than one that was repaired
// behind the client's back.
func failedRequest(incident probe.Incident) bool {
	switch incident.Kind {
	case "read", "write", "watch":
		return true
	}
	return false
}

// problems says what must not happen in any migration, whatever strikes it. Failed requests are none: they are
// measured.
func (r *Result) problems(errs ...error) []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, err := range errs {
		if err != nil {
			add("%v", err)
		}
	}
	problems = append(problems, r.Verdict.Problems...)

	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		etcd, ok := r.Report.Etcd[role]
		switch {
		case !ok || len(etcd.Voters) == 0:
			add("etcd-%s was not observed", role)
			continue
		case !etcd.ClusterIDUnchanged:
			add("the cluster ID of etcd-%s changed", role)
		}
		if etcd.AcknowledgedWritesLost != 0 {
			add("%d acknowledged writes of etcd-%s are lost", etcd.AcknowledgedWritesLost, role)
		}
	}
	if details := r.Report.Probe.Details; details == nil || !details.Verified {
		add("the acknowledged writes of the load could not be verified")
	} else if details.StaleReads > 0 {
		add("%d reads of the load were older than what had been acknowledged", details.StaleReads)
	}
	if r.Report.DNSMomentsWithoutRecord > 0 {
		add("there were %d moments without a DNS record", r.Report.DNSMomentsWithoutRecord)
	}
	if len(r.Report.ControllersActiveInBothSeeds) > 0 {
		add("controllers were active in both seeds: %s", strings.Join(r.Report.ControllersActiveInBothSeeds, ", "))
	}
	if len(r.Report.Details.LeftInSource) > 0 {
		add("%d objects are left in the source seed", len(r.Report.Details.LeftInSource))
	}
	return problems
}
