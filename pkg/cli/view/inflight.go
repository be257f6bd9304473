// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// InFlight draws what speaks against an upgrade or a removal, and the verdict on both.
func InFlight(in summary.InFlight, o Options) string {
	var out strings.Builder
	if len(in.Migrations) > 0 {
		rows := make([][]string, 0, len(in.Migrations))
		for _, m := range in.Migrations {
			rows = append(rows, []string{m.Namespace, m.Name, m.Source + " -> " + m.Destination, string(m.State),
				orDash(m.Step), orDash(m.Reason)})
		}
		out.WriteString(Table([]string{"NAMESPACE", "NAME", "SEEDS", "STATE", "STEP", "REASON"}, rows))
	}
	for _, seed := range in.Drains {
		fmt.Fprintf(&out, "Seed %s is to be drained, which starts migrations: kubectl livecpm drain cancel %s\n",
			seed, seed)
	}
	for _, left := range in.LeftBehind {
		fmt.Fprintf(&out, "Seed %s still has something of Shoot %s/%s, which its agent removes when the seed is back: "+
			"see "+pages.Abort+"\n", left.Seed, left.Namespace, left.Name)
	}
	where := ""
	if in.Seed != "" {
		where = " of seed " + in.Seed
	}
	for _, verdict := range []struct {
		what string
		may  bool
	}{{"Upgrade" + where, in.MayUpgrade}, {"Removal" + where, in.MayRemove}} {
		if verdict.may {
			out.WriteString(verdict.what + ": " + o.paint(green, "yes") + "\n")
		} else {
			out.WriteString(verdict.what + ": " + o.paint(red, "not now") + "\n")
		}
	}
	return out.String()
}
