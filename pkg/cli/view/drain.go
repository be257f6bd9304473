// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// DrainLine writes the progress of a seed's drain as one line, which changes only if something happens.
func DrainLine(d summary.Drain) string {
	switch {
	case d.Condition != nil:
		return fmt.Sprintf("Seed %s: %s is %s (%s): %s", d.Seed, d.Condition.Type, d.Condition.Status,
			d.Condition.Reason, flat(d.Condition.Message))
	case d.Requested:
		return fmt.Sprintf("Seed %s: drain requested, livecpm-controller-manager has not begun", d.Seed)
	}
	return fmt.Sprintf("Seed %s: no drain requested", d.Seed)
}

// Drain draws the progress of a seed's drain, with one line for each shoot, and the obstacles of those that are
// blocked.
func Drain(d summary.Drain, o Options) string {
	var out strings.Builder
	requested := "no drain requested"
	if d.Requested {
		requested = "drain requested"
	}
	fmt.Fprintf(&out, "Seed %s: %s\n", d.Seed, requested)
	if condition := d.Condition; condition != nil {
		head := fmt.Sprintf("%s is %s (%s)", condition.Type, condition.Status, condition.Reason)
		out.WriteString(o.paint(drainedColor(*condition), head) + "\n")
		for _, line := range wrap(condition.Message, o.width()-2) {
			out.WriteString("  " + line + "\n")
		}
	} else if d.Requested {
		out.WriteString("The Seed has no condition " + string(drain.ConditionDrained) +
			" yet: livecpm-controller-manager has not seen the request, or its drain is disabled.\n")
	}

	switch {
	case d.Unknown != "":
		for _, line := range wrap("The table of its shoots could not be read: "+d.Unknown, o.width()) {
			out.WriteString(line + "\n")
		}
	case d.Table == nil:
		out.WriteString("There is no table of its shoots.\n")
	case len(d.Table.Shoots) > 0:
		out.WriteString("\n" + drainRows(*d.Table, o))
		out.WriteString(drainBetween(*d.Table, o))
		out.WriteString(drainBlocked(*d.Table, o))
	}
	return out.String()
}

// towards writes where the shoot goes, and where from there.
func towards(shoot drain.TableRow) string {
	var seeds []string
	for _, seed := range []string{shoot.Destination, shoot.FinalDestination} {
		if seed != "" {
			seeds = append(seeds, seed)
		}
	}
	return orDash(strings.Join(seeds, ", "))
}

// drainBetween lists the shoots that rest in a seed on the way.
func drainBetween(table drain.Table, o Options) string {
	var out strings.Builder
	for _, shoot := range table.Shoots {
		if shoot.IntermediateSeed == "" {
			continue
		}
		if out.Len() == 0 {
			out.WriteString("\n" + o.paint(bold, "BETWEEN two migrations") + "\n")
		}
		fmt.Fprintf(&out, "    %s/%s is in seed %s on its way to seed %s\n", shoot.Namespace, shoot.Name,
			shoot.IntermediateSeed, cmp.Or(shoot.FinalDestination, shoot.Destination))
	}
	return out.String()
}

// DrainPlan is what a drain of a seed would do.
type DrainPlan struct {
	// Seed is its name.
	Seed string `json:"seed"`
	// Counts are how many shoots would move, and how many would not.
	Counts drain.Counts `json:"counts"`
	// Shoots are the shoots in the order in which they would leave. Those that are Waiting move by themselves.
	Shoots []drain.TableRow `json:"shoots"`
}

// Text draws the plan.
func (p DrainPlan) Text(o Options) string {
	if p.Counts.Total == 0 {
		return fmt.Sprintf("No shoot is in seed %s.\n", p.Seed)
	}
	var (
		out  strings.Builder
		rows [][]string
	)
	for _, shoot := range p.Shoots {
		reason := string(shoot.Reason)
		if shoot.Reason == drain.ReasonNext {
			reason = ""
		}
		row := []string{shoot.Namespace, shoot.Name, orDash(shoot.Purpose), towards(shoot),
			orDash(string(shoot.Way)), orDash(reason), until(shoot, o)}
		if o.Wide {
			row = append(row, orDash(flat(shoot.Message)))
		}
		rows = append(rows, row)
	}
	header := []string{"NAMESPACE", "NAME", "PURPOSE", "TO", "WAY", "REASON", "UNTIL"}
	if o.Wide {
		header = append(header, "MESSAGE")
	}
	fmt.Fprintf(&out, "Plan for the drain of seed %s, in the order in which its shoots leave\n\n", p.Seed)
	out.WriteString(Table(header, rows))
	out.WriteString(drainBlocked(drain.Table{Shoots: p.Shoots}, o) + "\n" + p.ways())
	if p.Counts.Blocked > 0 {
		out.WriteString(o.paint(red, fmt.Sprintf("%d of %s would stay.", p.Counts.Blocked,
			conditions.Count(p.Counts.Total, "shoot"))) + "\n")
	} else {
		out.WriteString(o.paint(green, "All shoots would leave.") + "\n")
	}
	fmt.Fprintf(&out, "Next: kubectl livecpm drain %s\n", p.Seed)
	return out.String()
}

// until writes until when the shoot waits.
func until(shoot drain.TableRow, o Options) string {
	at, err := time.Parse(time.RFC3339, shoot.Until)
	if err != nil {
		return orDash(shoot.Until)
	}
	return o.Moment(at)
}

// ways tells how many shoots would leave in each way, and what their users notice.
func (p DrainPlan) ways() string {
	counts := map[drain.Way]int{}
	for _, shoot := range p.Shoots {
		if shoot.State == drain.Waiting {
			counts[shoot.Way]++
		}
	}
	var out strings.Builder
	for _, way := range []struct {
		way  drain.Way
		text string
	}{
		{drain.Live, "Live, the API server keeps answering"},
		{drain.LiveWithGap, "Live with one gap of " + steps.ExpectedGap + ", begins in the maintenance time window"},
		{drain.ClassicWhileHibernated, "Classic while hibernated, no API server runs that could stop"},
		{drain.Classic, "Classic in the maintenance time window, the API server stops for minutes"},
		{"", "Not known yet, read the reason"},
	} {
		if counts[way.way] > 0 {
			fmt.Fprintf(&out, "%s: %s.\n", way.text, conditions.Count(counts[way.way], "shoot"))
		}
	}
	return out.String()
}

func drainedColor(condition gardencorev1beta1.Condition) color {
	switch condition.Status {
	case gardencorev1beta1.ConditionTrue:
		return green
	case gardencorev1beta1.ConditionFalse:
		return red
	}
	return cyan
}

func drainRows(table drain.Table, o Options) string {
	header := []string{"NAMESPACE", "NAME", "PURPOSE", "STATE", "REASON", "UNTIL", "TO", "WAY",
		"ATTEMPTS"}
	if o.Wide {
		header = append(header, "MESSAGE")
	}
	var rows [][]string
	for _, shoot := range table.Shoots {
		attempts := ""
		if shoot.Attempts > 0 {
			attempts = fmt.Sprint(shoot.Attempts)
		}
		row := []string{
			shoot.Namespace, shoot.Name, orDash(shoot.Purpose), string(shoot.State), string(shoot.Reason),
			until(shoot, o), towards(shoot), orDash(string(shoot.Way)), orDash(attempts),
		}
		if o.Wide {
			row = append(row, orDash(flat(shoot.Message)))
		}
		rows = append(rows, row)
	}
	return Table(header, rows)
}

// drainBlocked lists each obstacle once, with the shoots that it blocks.
func drainBlocked(table drain.Table, o Options) string {
	type obstacle struct{ reason, message string }
	var (
		order  []obstacle
		shoots = map[obstacle][]string{}
	)
	for _, shoot := range table.Shoots {
		if shoot.State != drain.Blocked {
			continue
		}
		key := obstacle{string(shoot.Reason), shoot.Message}
		if shoots[key] == nil {
			order = append(order, key)
		}
		shoots[key] = append(shoots[key], shoot.Namespace+"/"+shoot.Name)
	}
	if len(order) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("\n" + o.paint(bold, "BLOCKED") + " until you remove the obstacle\n")
	for _, key := range order {
		out.WriteString(o.paint(red, "✖ "+key.reason) + "\n")
		for _, text := range []string{strings.Join(shoots[key], ", "), key.message} {
			for _, line := range wrap(text, o.width()-4) {
				out.WriteString("    " + line + "\n")
			}
		}
	}
	return out.String()
}
