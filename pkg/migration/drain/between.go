// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
)

// A shoot whose destinations are all too far away leaves by way of other seeds, if the operator of its seed permits
// that. Each migration of the chain is a move of its own: it is assessed, held and counted like any other. Between two
// of them nothing is remembered but what the annotations of the Shoot say, and the next migration is chosen by what the
// garden is like then.

// Connection is the connection between two seeds, whatever the direction.
type Connection struct {
	// One and Other are the seeds, in the order of their names.
	One, Other string
}

// Between returns the connection between two seeds.
func Between(a, b string) Connection { return Connection{min(a, b), max(a, b)} }

// from returns the seed that the last move has left, or was to leave.
func (s Shoot) from() string { return cmp.Or(s.From, s.StartedBy) }

// Between reports whether the shoot is past the first migration of a chain and not at its end: it rests in a seed on
// the way, or is on its way from there. Whoever has taken it elsewhere has ended the chain.
func (s Shoot) Between() bool {
	if s.Final == "" || s.StartedBy == "" || s.Status == "" || s.Status == s.StartedBy || s.Status == s.Final {
		return false
	}
	switch s.Status {
	case s.Destination:
		return s.Result == "" || s.Result == Succeeded
	case s.from():
		return s.Result != Succeeded
	}
	return false
}

// travels reports whether the drain of the seed moves the shoot on from another seed.
func (s Shoot) travels(seed string) bool { return s.StartedBy == seed && s.Between() }

// MovedBy returns the seed whose drain moves the shoot: the one in which it is, or the one that it has left if it is
// between two migrations. A seed on the way that is drained itself takes the shoot over.
func (s Shoot) MovedBy(drained func(seed string) bool) string {
	if s.Between() && !drained(s.Status) {
		return s.StartedBy
	}
	return s.Status
}

// Taken returns how many migrations of a chain the drain of the seed has completed with the shoot.
func (s Shoot) Taken(seed string) int {
	switch {
	case !s.travels(seed):
		return 0
	case s.Status == s.Destination:
		return max(s.Hop, 1)
	}
	return max(s.Hop-1, 1)
}

// startOf returns the decision to start the next move of the shoot.
func (p *planner) startOf(seed *seedState, shoot Shoot, assessment Assessment) Start {
	start := Start{Key: shoot.Key, Source: shoot.Status, Drain: seed.Name, Destination: assessment.Destination,
		Final: assessment.Final, Way: assessment.Way}
	if shoot.travels(seed.Name) {
		start.Final = cmp.Or(start.Final, start.Destination)
	}
	if start.Final != "" {
		start.Hop = shoot.Taken(seed.Name) + 1
	}
	return start
}

// tellOnTheWay adds to the entry of a shoot that rests in another seed where it is.
func (p *planner) tellOnTheWay(seed *seedState, out Entry) Entry {
	if out.State == Running || !out.travels(seed.Name) {
		return out
	}
	out.Resting = out.Status
	out.Onward = cmp.Or(out.Onward, out.Final)
	out.Text = fmt.Sprintf("in seed %s on its way to seed %s: %s", out.Status, out.Onward, out.Text)
	return out
}

// measure asks for what has to be measured before the shoot may begin, as soon as nothing else holds it: a result does
// not count for long.
func (p *planner) measure(seed *seedState, out Entry, assessment Assessment) Entry {
	for _, hold := range []func(*seedState, Entry, Assessment) (Entry, bool){p.byTrouble, p.byStage, p.byTime,
		p.byBudget} {
		if entry, held := hold(seed, out, assessment); held {
			p.lookAgain(entry.Until)
			return entry
		}
	}
	for _, connection := range assessment.Measure {
		if !slices.Contains(p.plan.Measure, connection) {
			p.plan.Measure = append(p.plan.Measure, connection)
		}
	}
	return out.waits(assessment.Reason, assessment.Until, "%s", assessment.Message)
}

// onward tells where the shoot goes from its next seed; empty if it stays there.
func onward(out Entry) string {
	if out.Onward == "" || out.Onward == out.To {
		return ""
	}
	return ", and from there to seed " + out.Onward
}

// between returns the shoots that rest in other seeds.
func (p SeedPlan) between() []Entry {
	return slices.DeleteFunc(slices.Clone(p.Entries), func(entry Entry) bool { return entry.Resting == "" })
}

// stoppedBetween tells where shoots rest whose drain was cancelled in the middle, and how to continue; empty if none
// does.
func (p SeedPlan) stoppedBetween() string {
	resting := p.between()
	if len(resting) == 0 {
		return ""
	}
	var names []string
	for i, entry := range resting {
		if i == named {
			names = append(names, "and others")
			break
		}
		names = append(names, fmt.Sprintf("%s is in seed %s on its way to seed %s", entry.Key, entry.Resting,
			entry.Onward))
	}
	return fmt.Sprintf("The drain is cancelled. Between two migrations: %s (%s). Start the drain again to move on "+
		"what is in between, or remove the annotation %s from the Shoots that are to stay there. ",
		conditions.Count(len(resting), "shoot"), strings.Join(names, "; "), AnnotationFinal)
}
