// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Evidence is what is judged.
type Evidence struct {
	List *List
	// Rounds are all that were run, in their order.
	Rounds []*Round
	// Timeline knows the steps.
	Timeline *Timeline
	// Migrations are those that were asked for, in their order.
	Migrations []Migration
}

// Migration is when a migration was.
type Migration struct {
	// Triggered is when it was asked for.
	Triggered time.Time `json:"triggered"`
	// Completed is when the destination's gardenlet had reconciled the shoot; it is zero if it did not come to that.
	Completed time.Time `json:"completed,omitzero"`
}

// SpecResult counts the runs of a spec.
type SpecResult struct {
	Spec   string `json:"spec"`
	Passed int    `json:"passed"`
	Failed int    `json:"failed"`
	// Before counts the runs that were over before the first migration was asked for, During those of which a part was
	// within a migration, After all others.
	Before int `json:"before"`
	During int `json:"during"`
	After  int `json:"after"`
	// LongestSeconds is how long the longest run took.
	LongestSeconds float64 `json:"longestSeconds"`
}

// Failure is a run that failed.
type Failure struct {
	Spec  string `json:"spec"`
	Round int    `json:"round"`
	Seed  int64  `json:"seed"`
	// Begin is when the run began, At when it failed, Step the step in which the migration was then, and Steps those of
	// the whole run.
	Begin   time.Time `json:"begin"`
	At      time.Time `json:"at"`
	Step    string    `json:"step"`
	Steps   string    `json:"steps"`
	Message string    `json:"message"`
}

// RoundResult is what is kept of a round.
type RoundResult struct {
	Number  int       `json:"number"`
	Seed    int64     `json:"seed"`
	Begin   time.Time `json:"begin"`
	Seconds float64   `json:"seconds"`
	Steps   string    `json:"steps"`
	Passed  int       `json:"passed"`
	Failed  int       `json:"failed"`
}

// Verdict says what came of all runs.
type Verdict struct {
	Kubernetes string        `json:"kubernetes"`
	Migrations []Migration   `json:"migrations"`
	Rounds     []RoundResult `json:"rounds"`
	Specs      []SpecResult  `json:"specs"`
	Failures   []Failure     `json:"failures"`
	// Problems are why the runs do not say what they are to say.
	Problems []string `json:"problems"`
}

// Judge counts the runs of each spec. A run passes or fails, nothing else: a spec that skips itself, that needs a
// second attempt or that does not run in a round has failed in it.
func Judge(evidence Evidence) *Verdict {
	j := &judge{Evidence: evidence, results: map[string]*SpecResult{}, verdict: &Verdict{
		Kubernetes: evidence.List.Kubernetes, Migrations: append([]Migration{}, evidence.Migrations...),
		Rounds: []RoundResult{}, Specs: []SpecResult{}, Failures: []Failure{}, Problems: []string{}}}
	for _, spec := range evidence.List.Run {
		j.results[spec] = &SpecResult{Spec: spec}
	}
	for _, round := range evidence.Rounds {
		j.round(round)
	}
	for _, spec := range evidence.List.Run {
		j.verdict.Specs = append(j.verdict.Specs, *j.results[spec])
	}
	j.coverage()
	return j.verdict
}

type judge struct {
	Evidence
	results map[string]*SpecResult
	verdict *Verdict
}

func (j *judge) problem(format string, args ...any) {
	j.verdict.Problems = append(j.verdict.Problems, fmt.Sprintf(format, args...))
}

// coverage demands that each spec has run at rest in the one seed, in the migration, and at rest in the other seed.
func (j *judge) coverage() {
	if len(j.Migrations) == 0 {
		j.problem("there was no migration")
		return
	}
	for _, migration := range j.Migrations {
		if migration.Completed.IsZero() {
			j.problem("a migration did not come to its end")
			return
		}
	}
	for _, result := range j.verdict.Specs {
		runs := map[string]int{"before": result.Before, "during": result.During, "after": result.After}
		for part, count := range runs {
			if count == 0 {
				j.problem("%q did not run %s the migration", result.Spec, part)
			}
		}
	}
	slices.Sort(j.verdict.Problems)
}

func (j *judge) round(round *Round) {
	summary := RoundResult{Number: round.Number, Seed: round.Seed, Begin: round.Begin,
		Seconds: round.End.Sub(round.Begin).Round(time.Second).Seconds(),
		Steps:   j.Timeline.Between(round.Begin, round.End)}
	for _, problem := range round.Problems {
		j.problem("round %d: %s", round.Number, problem)
	}
	ran := map[string]bool{}
	for _, run := range round.Runs {
		ran[run.Spec] = true
		if j.count(run) {
			summary.Passed++
			continue
		}
		summary.Failed++
		j.failed(round, run)
	}
	for _, spec := range j.List.Run {
		if !ran[spec] {
			summary.Failed++
			j.results[spec].Failed++
			j.failed(round, SpecRun{Spec: spec, Begin: round.Begin, FailedAt: round.End, Message: "it did not run"})
		}
	}
	j.verdict.Rounds = append(j.verdict.Rounds, summary)
}

// count adds the run to the counts of its spec, and reports whether it passed. What is not in the list must not run.
func (j *judge) count(run SpecRun) bool {
	result, listed := j.results[run.Spec]
	if !listed {
		if run.Passed {
			j.problem("%q ran, and is not in the list", run.Spec)
		}
		return run.Passed
	}
	result.LongestSeconds = max(result.LongestSeconds, run.End.Sub(run.Begin).Round(time.Second/10).Seconds())
	switch {
	case len(j.Migrations) == 0 || run.End.Before(j.Migrations[0].Triggered):
		result.Before++
	case slices.ContainsFunc(j.Migrations, run.within):
		result.During++
	default:
		result.After++
	}
	if run.Passed {
		result.Passed++
	} else {
		result.Failed++
	}
	return run.Passed
}

// within reports whether a part of the run was within the migration.
func (r SpecRun) within(migration Migration) bool {
	return !r.End.Before(migration.Triggered) &&
		(migration.Completed.IsZero() || !r.Begin.After(migration.Completed))
}

// covered reports whether each spec ran in a migration.
func (v *Verdict) covered() bool {
	return !slices.ContainsFunc(v.Specs, func(spec SpecResult) bool { return spec.During == 0 })
}

func (j *judge) failed(round *Round, run SpecRun) {
	j.verdict.Failures = append(j.verdict.Failures, Failure{Spec: run.Spec, Round: round.Number, Seed: round.Seed,
		Begin: run.Begin, At: run.FailedAt, Step: j.Timeline.At(run.FailedAt),
		Steps: j.Timeline.Between(run.Begin, run.FailedAt), Message: run.Message})
}

// Err returns an error unless each run of each spec passed, and each spec ran before, during and after the migration.
func (v *Verdict) Err() error {
	var errs []error
	for _, f := range v.Failures {
		errs = append(errs, fmt.Errorf("%q failed in round %d (seed %d) at %s, step %q, having run through %q: %s",
			f.Spec, f.Round, f.Seed, f.At.UTC().Format(time.TimeOnly), f.Step, f.Steps, f.Message))
	}
	for _, problem := range v.Problems {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}

// Markdown returns the counts of each spec, the rounds, and the failures.
func (v *Verdict) Markdown() string {
	var b strings.Builder
	runs, failed := 0, 0
	for _, spec := range v.Specs {
		runs += spec.Passed + spec.Failed
		failed += spec.Failed
	}
	fmt.Fprintf(&b, "%d conformance specs of Kubernetes %s: %d runs, %d failed; rounds: %d, migrations: %d.\n\n",
		len(v.Specs), v.Kubernetes, runs, failed, len(v.Rounds), len(v.Migrations))
	b.WriteString("| round | seed | began | seconds | passed | failed | steps |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range v.Rounds {
		fmt.Fprintf(&b, "| %d | %d | %s | %.0f | %d | %d | %s |\n", r.Number, r.Seed,
			r.Begin.UTC().Format(time.TimeOnly), r.Seconds, r.Passed, r.Failed, r.Steps)
	}
	b.WriteString("\n| spec | passed | failed | before | during | after | longest in seconds |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range v.Specs {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %.1f |\n", s.Spec, s.Passed, s.Failed, s.Before, s.During,
			s.After, s.LongestSeconds)
	}
	if err := v.Err(); err != nil {
		fmt.Fprintf(&b, "\nWhat is wrong:\n\n```\n%v\n```\n", err)
	}
	return b.String()
}

// Write writes the verdict into the folder, for people and for programs.
func (v *Verdict) Write(folder string) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the verdict: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make folder for the verdict: %w", err)
	}
	for name, text := range map[string][]byte{"result.json": append(content, '\n'), "result.md": []byte(v.Markdown())} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("failed to write the verdict: %w", err)
		}
	}
	return nil
}
