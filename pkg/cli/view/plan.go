// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/cli/plan"
	"github.com/livecpm/livecpm/pkg/preflight"
)

// Plan draws a plan.
func Plan(p plan.Plan, o Options) string {
	var out strings.Builder
	destination := p.Destination
	if destination == "" {
		destination = "no seed is fit"
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

	out.WriteString("\n" + o.paint(bold, "STEPS") +
		" (expected: measured on the landscape of the repository, with a small etcd)\n" + planSteps(p))
	out.WriteString("\n" + verdict(p, o) + "\n")
	out.WriteString("Next: " + p.Next + "\n")
	return out.String()
}

func candidates(p plan.Plan) string {
	var rows [][]string
	for _, candidate := range p.Candidates {
		used, limit, verdict := "?", "unlimited", "fit"
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
			verdict = "not fit: " + strings.Join(names, ", ")
		}
		rows = append(rows, []string{candidate.Seed, candidate.Region, used + " of " + limit, verdict})
	}
	return Table([]string{"SEED", "REGION", "SHOOTS", "VERDICT"}, rows)
}

func checkLines(check plan.Check, o Options) string {
	symbol, c := "✔", green
	switch {
	case check.Status == preflight.Pass:
	case check.Deferred:
		symbol, c = "?", yellow
	default:
		symbol, c = "✖", red
	}
	const nameColumns, left = 24, 34
	columns := max(o.width()-left, smallest)
	lines := wrap(check.Evidence, columns)
	// What the agents look at anyway needs no word per check.
	if check.Status != preflight.Pass && check.Remedy != "" && (!check.Deferred || o.Wide) {
		lines = append(lines, wrap("-> "+check.Remedy, columns)...)
	}
	head := o.paint(c, symbol+" "+pad(string(check.Status), 8)) + pad(string(check.Name), nameColumns)
	return head + strings.Join(lines, "\n"+strings.Repeat(" ", left)) + "\n"
}

func planSteps(p plan.Plan) string {
	var rows [][]string
	var total time.Duration
	for i, step := range p.Steps {
		expected := time.Duration(step.ExpectedSeconds * float64(time.Second))
		total += expected
		note := ""
		switch {
		case step.Abortable:
			note = "can be aborted"
		case step.PointOfNoReturn:
			note = "point of no return"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), step.Condition, string(step.Owner), Duration(expected),
			Duration(time.Duration(step.DeadlineSeconds * float64(time.Second))), note})
	}
	rows = append(rows, []string{"", "all", "", Duration(total), "", ""})
	return Table([]string{"#", "STEP", "OWNER", "EXPECTED", "DEADLINE", ""}, rows)
}

func verdict(p plan.Plan, o Options) string {
	failed, left := 0, 0
	for _, check := range p.Checks {
		switch {
		case check.Status == preflight.Pass:
		case check.Deferred:
			left++
		default:
			failed++
		}
	}
	text := ""
	switch {
	case p.CanGo && left > 0:
		text = fmt.Sprintf("It can go. %d checks could not be made from here; the agents make them, and hold the "+
			"migration if one does not pass.", left)
	case p.CanGo:
		text = "It can go."
	case failed == 1:
		text = "It cannot go: 1 check speaks against it."
	default:
		text = fmt.Sprintf("It cannot go: %d checks speak against it.", failed)
	}
	if p.CanGo {
		return o.paint(green, text)
	}
	return o.paint(red, text)
}
