// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package hops finds a way for a control plane between two seeds that are too far apart for one live migration: a chain
// of migrations by way of other seeds, each of which is near enough. It decides from what it is told and looks at
// nothing itself.
package hops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Max is how many migrations a chain has at most. Each costs the work of a whole migration, and room in one more seed.
const Max = 3

// State is what is known of a Hop. Tools may rely on the values.
type State string

const (
	// Near means that one migration may cover the hop: all guards that need the two seeds pass, by what is configured
	// and, where agents measure, by what they have measured.
	Near State = "Near"
	// NotMeasured means that nothing speaks against the hop, but that the agents have not measured the round trip. It
	// is never taken for near.
	NotMeasured State = "NotMeasured"
	// Unfit means that a guard refuses the hop, because of the distance or anything else, or cannot judge it.
	Unfit State = "Unfit"
)

// Hop is one migration of a chain.
type Hop struct {
	// From and To are the seeds.
	From, To string
	// State is what is known of it.
	State State
	// Distance is that of the regions, in the unit of the region ConfigMap; zero in one region.
	Distance int
	// RoundTrip is the longer one of those that both agents have measured; zero if they have not.
	RoundTrip time.Duration
	// Why tells why the state is not Near.
	Why string
}

// Chain are migrations one after the other. The empty one leads nowhere.
type Chain []Hop

// To returns where the chain ends; empty if it leads nowhere.
func (c Chain) To() string {
	if len(c) == 0 {
		return ""
	}
	return c[len(c)-1].To
}

// Via returns the seeds between its ends, as a text for people.
func (c Chain) Via() string {
	var out []string
	for _, hop := range c[:max(len(c)-1, 0)] {
		out = append(out, "seed "+hop.To)
	}
	return strings.Join(out, " and ")
}

// NotMeasured returns the hops whose round trip has to be measured before the first migration begins.
func (c Chain) NotMeasured() []Hop {
	var out []Hop
	for _, hop := range c {
		if hop.State == NotMeasured {
			out = append(out, hop)
		}
	}
	return out
}

// compare orders chains of the same length. Those with fewer hops without a figure come first: what is measured says
// more than what is configured. Then the smaller sum of round trips, then that of distances, then the names count.
func compare(a, b Chain) int {
	return cmp.Or(
		cmp.Compare(a.withoutFigure(), b.withoutFigure()),
		cmp.Compare(sum(a, func(h Hop) time.Duration { return h.RoundTrip }),
			sum(b, func(h Hop) time.Duration { return h.RoundTrip })),
		cmp.Compare(sum(a, func(h Hop) int { return h.Distance }), sum(b, func(h Hop) int { return h.Distance })),
		slices.CompareFunc(a, b, func(x, y Hop) int { return cmp.Compare(x.To, y.To) }),
	)
}

func (c Chain) withoutFigure() int {
	return len(slices.DeleteFunc(slices.Clone(c), func(h Hop) bool { return h.RoundTrip > 0 }))
}

func sum[N int | time.Duration](c Chain, of func(Hop) N) N {
	var out N
	for _, hop := range c {
		out += of(hop)
	}
	return out
}

// Search is a question for a chain.
type Search struct {
	// From is the seed in which the control plane is.
	From string
	// To are the seeds that are good to end in; any of them will do. None of them is near enough to From.
	To []string
	// By are the seeds that it may take on the way.
	By []string
	// Most is how many migrations it may take, at most Max. With less than two there is no chain.
	Most int
	// Look tells of a hop. It is asked once for each, however often the question is put, with another Most as well.
	Look func(from, to string) Hop

	seen map[ends]Hop
}

type ends struct{ from, to string }

// Shortest returns the best chain: that with the fewest migrations, then by smallest sum and by name. A chain of which
// all hops are near is better than any other. If there is none it returns one with hops that are NotMeasured, so that
// they can be measured; if there is none either, it returns nil. It fails if something is missing in the question.
func (s *Search) Shortest() (Chain, error) {
	if s.Look == nil || s.From == "" {
		return nil, fmt.Errorf("failed to search for a chain of migrations from seed %q: From and Look are needed",
			s.From)
	}
	for _, takes := range []func(Hop) bool{
		func(h Hop) bool { return h.State == Near },
		func(h Hop) bool { return h.State == Near || h.State == NotMeasured },
	} {
		for length := 2; length <= min(s.Most, Max); length++ {
			var best Chain
			s.extend(nil, length, takes, func(found Chain) {
				if best == nil || compare(found, best) < 0 {
					best = slices.Clone(found)
				}
			})
			if best != nil {
				return best, nil
			}
		}
	}
	return nil, nil
}

// extend reports all chains that begin with the given one and are so many hops longer. No seed is in a chain twice.
func (s *Search) extend(begun Chain, more int, takes func(Hop) bool, found func(Chain)) {
	at := cmp.Or(begun.To(), s.From)
	next := s.By
	if more == 1 {
		next = s.To
	}
	for _, to := range next {
		visited := slices.ContainsFunc(begun, func(h Hop) bool { return h.To == to })
		if visited || to == s.From || more > 1 && slices.Contains(s.To, to) {
			continue
		}
		hop := s.look(at, to)
		if !takes(hop) {
			continue
		}
		chain := append(slices.Clone(begun), hop)
		if more == 1 {
			found(chain)
			continue
		}
		s.extend(chain, more-1, takes, found)
	}
}

// look asks for a hop that has not been asked for yet.
func (s *Search) look(from, to string) Hop {
	key := ends{from, to}
	hop, known := s.seen[key]
	if !known {
		hop = s.Look(from, to)
		if s.seen == nil {
			s.seen = map[ends]Hop{}
		}
		s.seen[key] = hop
	}
	return hop
}
