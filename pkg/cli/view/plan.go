// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Candidate is a seed that the shoot could move to.
type Candidate struct {
	// Seed is its name, Region its region.
	Seed   string `json:"seed"`
	Region string `json:"region"`
	// Shoots and Allocatable are how many it has and can have; nil if that is not known or limited.
	Shoots      *int   `json:"shoots,omitempty"`
	Allocatable *int64 `json:"allocatable,omitempty"`
	// Fit reports whether every check passed with it, or is left to the agents.
	Fit bool `json:"fit"`
	// Obstacles are the names of the checks that did not pass.
	Obstacles []steps.Check `json:"obstacles,omitempty"`
}

// PlannedStep is a step that will run.
type PlannedStep struct {
	// Condition, Owner and Title are those of the step table.
	Condition string     `json:"condition"`
	Owner     steps.Role `json:"owner"`
	Title     string     `json:"title"`
	// ExpectedSeconds is how long it is expected to take, WaitSeconds how much of that it waits for a time to pass.
	ExpectedSeconds float64 `json:"expectedSeconds"`
	WaitSeconds     float64 `json:"waitSeconds,omitempty"`
	// Basis is what that is taken from, Samples how many past migrations that are.
	Basis   summary.Basis `json:"basis"`
	Samples int           `json:"samples,omitempty"`
	// DeadlineSeconds is how long it may take.
	DeadlineSeconds float64 `json:"deadlineSeconds"`
	// Abortable and PointOfNoReturn are those of the step table.
	Abortable       bool `json:"abortable,omitempty"`
	PointOfNoReturn bool `json:"pointOfNoReturn,omitempty"`
}

// Plan is what would happen.
type Plan struct {
	// Namespace and Shoot name the shoot.
	Namespace string `json:"namespace"`
	Shoot     string `json:"shoot"`
	// Source and Destination are the seeds. There is no destination if none was given and none is suitable.
	Source      string `json:"source"`
	Destination string `json:"destination,omitempty"`
	// Candidates are the seeds that were compared if no destination was given.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Checks are the checks with the destination, or with the first candidate.
	Checks []Check `json:"checks"`
	// Steps are the steps that will run.
	Steps []PlannedStep `json:"steps"`
	// ExpectedSeconds is how long all of them take, Basis the weakest of what that is taken from.
	ExpectedSeconds float64       `json:"expectedSeconds"`
	Basis           summary.Basis `json:"basis"`
	// Detour is the way to the destination by way of other seeds, if nothing but the distance is in the way; nil if
	// something else is, or nothing.
	Detour *Detour `json:"detour,omitempty"`
	// ProbeTimedOut says what the probe of the connection was waited for in vain; empty if it has ended, or was not
	// asked for.
	ProbeTimedOut string `json:"probeTimedOut,omitempty"`
	// CanGo reports whether the shoot is ready to migrate.
	CanGo bool `json:"canGo"`
	// Next is the next command.
	Next string `json:"next"`
}

// Text draws the plan.
func (p Plan) Text(o Options) string {
	var out strings.Builder
	destination := p.Destination
	if destination == "" {
		destination = "no suitable seed"
	}
	fmt.Fprintf(&out, "Plan for %s/%s: %s -> %s\n", p.Namespace, p.Shoot, p.Source, destination)

	if len(p.Candidates) > 0 {
		out.WriteString("\n" + o.paint(bold, "CANDIDATES") + "\n" + candidates(p))
		out.WriteString("\n" + o.paint(bold, "CHECKS with seed "+p.Candidates[0].Seed) + "\n")
	} else {
		out.WriteString("\n" + o.paint(bold, "CHECKS") + "\n")
	}
	for _, check := range p.Checks {
		out.WriteString(checkLines(check, o))
	}

	out.WriteString("\n" + o.paint(bold, "STEPS") + " (expected " + Basis(p.Steps) + ")\n" + planSteps(p))
	if p.Detour != nil {
		out.WriteString("\n" + p.Detour.text(o))
	}
	out.WriteString("\n" + verdict(p, o) + "\n")
	out.WriteString("Next: " + p.Next + "\n")
	return out.String()
}

func candidates(p Plan) string {
	var rows [][]string
	for _, candidate := range p.Candidates {
		used, limit, verdict := "?", "unlimited", "suitable"
		if candidate.Shoots != nil {
			used = strconv.Itoa(*candidate.Shoots)
		}
		if candidate.Allocatable != nil {
			limit = strconv.FormatInt(*candidate.Allocatable, 10)
		}
		if !candidate.Fit {
			var names []string
			for _, name := range candidate.Obstacles {
				names = append(names, string(name))
			}
			verdict = "not suitable: " + strings.Join(names, ", ")
		}
		rows = append(rows, []string{candidate.Seed, candidate.Region, used + " of " + limit, verdict})
	}
	return Table([]string{"SEED", "REGION", "SHOOTS", "VERDICT"}, rows)
}

func planSteps(p Plan) string {
	var rows [][]string
	var waits time.Duration
	for i, step := range p.Steps {
		expected := time.Duration(step.ExpectedSeconds * float64(time.Second))
		wait, waited := time.Duration(step.WaitSeconds*float64(time.Second)), ""
		if waits += wait; wait > 0 {
			waited = Duration(wait)
		}
		note := ""
		switch {
		case step.Abortable:
			note = "can be aborted"
		case step.PointOfNoReturn:
			note = "point of no return"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), step.Condition, string(step.Owner), About(expected), waited,
			Duration(time.Duration(step.DeadlineSeconds * float64(time.Second))), note})
	}
	rows = append(rows, []string{"", "all", "", About(time.Duration(p.ExpectedSeconds * float64(time.Second))),
		Duration(waits), "", ""})
	return Table([]string{"#", "STEP", "OWNER", "EXPECTED", "WAITS", "DEADLINE", ""}, rows)
}

func verdict(p Plan, o Options) string {
	failed, left := 0, 0
	for _, check := range p.Checks {
		switch {
		case check.Hinders():
			failed++
		case check.Deferred:
			left++
		}
	}
	text := ""
	switch {
	case p.CanGo && left > 0:
		which := "one"
		if left == 1 {
			which = "it"
		}
		text = fmt.Sprintf("Ready to migrate. The agents make %s first, and hold the migration if %s does not pass.",
			conditions.Count(left, "more check"), which)
	case p.CanGo:
		text = "Ready to migrate."
	default:
		text = fmt.Sprintf("Not ready to migrate: %s did not pass.", conditions.Count(failed, "check"))
	}
	if p.CanGo {
		return o.paint(green, text)
	}
	return o.paint(red, text)
}
