// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
	"github.com/livecpm/livecpm/pkg/migration/hops"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Detour is the way to a destination that is too far away for one migration, by way of other seeds.
type Detour struct {
	// Hops are the migrations in their order. There are none if the destination cannot be reached.
	Hops []DetourHop `json:"hops"`
	// ExpectedSeconds is how long all of them take.
	ExpectedSeconds float64 `json:"expectedSeconds,omitempty"`
	// Measure is the command that lets the agents measure what is not measured; empty if all is.
	Measure string `json:"measure,omitempty"`
	// Commands move the shoot by hand, one after the other.
	Commands []string `json:"commands,omitempty"`
}

// DetourHop is one migration of a Detour.
type DetourHop struct {
	// Source and Destination are its seeds.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// State is what is known of the connection between them, Why tells why it is not Near.
	State hops.State `json:"state"`
	Why   string     `json:"why,omitempty"`
	// Distance is that of the regions by the region ConfigMap, zero in one region.
	Distance int `json:"distance"`
	// RoundTripSeconds is what the agents have measured; zero if they have not.
	RoundTripSeconds float64 `json:"roundTripSeconds,omitempty"`
	// ExpectedSeconds is how long the migration takes, Basis what that is taken from.
	ExpectedSeconds float64       `json:"expectedSeconds"`
	Basis           summary.Basis `json:"basis"`
}

// NotMeasured returns the migrations whose connection is not measured.
func (d Detour) NotMeasured() []DetourHop {
	var out []DetourHop
	for _, hop := range d.Hops {
		if hop.State == hops.NotMeasured {
			out = append(out, hop)
		}
	}
	return out
}

// text draws the way.
func (d Detour) text(o Options) string {
	if len(d.Hops) == 0 {
		return strings.Join(wrap(fmt.Sprintf("Nothing but the distance is in the way, and no chain of at most %s "+
			"leads there by way of other seeds.", conditions.Count(hops.Max, "migration")), o.width()), "\n") + "\n"
	}
	var via []string
	var rows [][]string
	for i, hop := range d.Hops {
		if i > 0 {
			via = append(via, "seed "+hop.Source)
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), hop.Source, hop.Destination, strconv.Itoa(hop.Distance),
			hop.roundTrip(), About(time.Duration(hop.ExpectedSeconds * float64(time.Second)))})
	}
	var out strings.Builder
	out.WriteString(o.paint(bold, "BY WAY OF "+strings.Join(via, " and ")) + " (" +
		conditions.Count(len(d.Hops), "migration") + ", expected " +
		About(time.Duration(d.ExpectedSeconds*float64(time.Second))) + ")\n")
	out.WriteString(Table([]string{"#", "FROM", "TO", "DISTANCE", "ROUND TRIP", "EXPECTED"}, rows))
	if missing := d.NotMeasured(); len(missing) > 0 {
		var names []string
		for _, hop := range missing {
			names = append(names, fmt.Sprintf("from seed %s to seed %s", hop.Source, hop.Destination))
		}
		for _, line := range wrap(fmt.Sprintf("Not measured in the last 30 minutes, and not known to be near: %s. Let "+
			"the agents measure it before you begin, so that the shoot does not come to rest on the way:",
			strings.Join(names, ", ")), o.width()) {
			out.WriteString(line + "\n")
		}
		out.WriteString("  " + d.Measure + "\n")
	}
	out.WriteString("To move the shoot by hand, run one after the other:\n")
	for _, command := range d.Commands {
		out.WriteString("  " + command + "\n")
	}
	return out.String()
}

// roundTrip writes what the agents have measured.
func (h DetourHop) roundTrip() string {
	switch {
	case h.RoundTripSeconds > 0:
		return time.Duration(h.RoundTripSeconds * float64(time.Second)).Round(10 * time.Microsecond).String()
	case h.State == hops.NotMeasured:
		return "not measured"
	}
	return "no probes"
}
