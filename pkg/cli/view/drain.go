// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

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
		out.WriteString(drainBlocked(*d.Table, o))
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
	header := []string{"NAMESPACE", "NAME", "PURPOSE", "STATE", "REASON", "TO", "WAY", "ATTEMPTS"}
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
			orDash(shoot.Destination), orDash(string(shoot.Way)), orDash(attempts),
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
