// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Figures are what a search has seen of the protocol, whatever has been spent of the bounds on the way to a state.
type Figures struct {
	// States is how many states of Shoot, seeds and agents were looked at.
	States int
	// Longest is how many events it takes at most from one of them to an end, if no fault happens and persons do what
	// is named: the longest of all shortest ways.
	Longest int
	// Named is in how many states a person is named something to do, by what it is.
	Named map[string]int
	// Seen are the reasons that conditions have had.
	Seen map[string]bool
}

// String returns the figures, one per line.
func (f Figures) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states of the protocol, at most %d events from an end", f.States, f.Longest)
	for _, name := range slices.Sorted(maps.Keys(f.Named)) {
		fmt.Fprintf(&b, "\n%d of them name: %s", f.Named[name], name)
	}
	return b.String()
}

// Figures returns what the searches from the last Start have seen.
func (m *Model) Figures() Figures {
	out := Figures{States: len(m.known), Named: map[string]int{}, Seen: map[string]bool{}}
	before := map[string][]string{}
	distance := map[string]int{}
	var todo []string
	for state, following := range m.known {
		for _, e := range following.free {
			if e.fault {
				continue
			}
			if e.person {
				out.Named[e.name]++
			}
			to := e.next.core()
			before[to] = append(before[to], state)
			if _, found := distance[to]; !found && e.next.Goal() != "" {
				distance[to] = 0
				todo = append(todo, to)
			}
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		for _, state := range before[todo[0]] {
			if _, found := distance[state]; !found {
				distance[state] = distance[todo[0]] + 1
				out.Longest = max(out.Longest, distance[state])
				todo = append(todo, state)
			}
		}
	}
	for _, shoot := range m.shoots {
		for _, condition := range steps.Conditions(shoot) {
			out.Seen[condition.Reason] = true
		}
	}
	return out
}
