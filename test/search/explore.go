// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Bounds end an exploration before it has seen everything.
type Bounds struct {
	// States is the number of states from which on no further one is expanded. Zero is no bound.
	States int
	// Depth is the number of events after which a state is not expanded. Zero is no bound.
	Depth int
	// Workers is how many states are expanded at the same time. It has no influence on the result. Zero is one.
	Workers int
}

// Result is what an exploration has found.
type Result struct {
	// States is how many different states there are, Moves how many events led to one, and Depth how many events lead
	// to the farthest one at least.
	States, Moves, Depth int
	// Unexpanded is how many states were not looked beyond because of the bounds. Zero means that these are all states.
	Unexpanded int
	// Goals is how many states are a goal, by its name.
	Goals map[string]int
	// Stuck is how many states have no way to a goal without a person. Each leads to states that nothing leads away
	// from but a fault, one state or several that follow each other, and there a person is asked for something.
	Stuck int
	// Asks is what a person is asked for there, and in how many of these states.
	Asks map[string]int
	// Examples are shortest schedules to one of these states, by what a person is asked for.
	Examples map[string]Schedule
	// Found is the state that must not be to which the fewest events lead: one with a violation, or one without a way
	// to any end. Nil if there is none.
	Found *Counterexample
}

// String returns the figures.
func (r Result) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d states, %d events between them, %d events deep", r.States, r.Moves, r.Depth)
	if r.Unexpanded > 0 {
		fmt.Fprintf(&out, ", %d states at the bound not looked beyond", r.Unexpanded)
	} else {
		out.WriteString(", complete")
	}
	for _, goal := range slices.Sorted(maps.Keys(r.Goals)) {
		fmt.Fprintf(&out, "\n%d states are the end %q", r.Goals[goal], goal)
	}
	fmt.Fprintf(&out, "\n%d states have no way to such an end without a person", r.Stuck)
	for _, asked := range slices.Sorted(maps.Keys(r.Asks)) {
		fmt.Fprintf(&out, "\n  asked in %d where these end: %s", r.Asks[asked], asked)
	}
	return out.String()
}

// digest stands for a key.
type digest [16]byte

func digestOf(key string) digest {
	sum := sha256.Sum256([]byte(key))
	return digest(sum[:16])
}

// node is a state that was seen.
type node struct {
	parent int32
	depth  int32
	action string
	goal   string
	asks   []string
	// expanded says that all that may follow was looked at.
	expanded bool
}

// exploration is an exploration under way.
type exploration struct {
	bounds Bounds
	known  map[digest]int32
	nodes  []node
	// before has, for each state, the states from which an event leads here that is no fault.
	before [][]int32
	result Result
}

// open is a state to be expanded.
type open struct {
	index int32
	world World
}

// successor is what an event leads to.
type successor struct {
	action    Action
	key       digest
	world     World
	violation string
	goal      string
	asks      string
	err       error
}

// Explore goes through all states that follow from the start, breadth first. It ends with the first violation.
// Otherwise it then looks, from every state, for a way to an end on which no fault happens. A state at the bounds
// counts as one that has such a way. The error is that of a world that refuses an action that it has named.
func Explore(start World, bounds Bounds) (Result, error) {
	e := &exploration{bounds: bounds, known: map[digest]int32{},
		result: Result{Goals: map[string]int{}, Asks: map[string]int{}, Examples: map[string]Schedule{}}}
	e.add(digestOf(start.Key()), node{parent: -1, goal: start.Goal()})
	frontier := []open{{0, start}}
	for len(frontier) > 0 && e.result.Found == nil {
		var err error
		if frontier, err = e.level(frontier); err != nil {
			return e.result, err
		}
	}
	e.result.States = len(e.nodes)
	if e.result.Found == nil {
		e.judge()
	}
	return e.result, nil
}

func (e *exploration) add(key digest, n node) int32 {
	index := int32(len(e.nodes)) // #nosec G115 -- Memory ends long before.
	e.known[key] = index
	e.nodes = append(e.nodes, n)
	e.before = append(e.before, nil)
	e.result.Depth = max(e.result.Depth, int(n.depth))
	if n.goal != "" {
		e.result.Goals[n.goal]++
	}
	return index
}

// chunk is how many states are expanded before their successors are compared with what is known. It bounds the memory.
const chunk = 256

// level expands all states of one depth and returns those of the next.
func (e *exploration) level(frontier []open) ([]open, error) {
	var next []open
	for part := range slices.Chunk(frontier, chunk) {
		if e.bounds.States > 0 && len(e.nodes) >= e.bounds.States ||
			e.bounds.Depth > 0 && int(e.nodes[part[0].index].depth) >= e.bounds.Depth {
			e.result.Unexpanded += len(part)
			continue
		}
		for i, successors := range e.expand(part) {
			added, err := e.take(part[i].index, successors)
			if err != nil || e.result.Found != nil {
				return nil, err
			}
			next = append(next, added...)
		}
		clear(part)
	}
	return next, nil
}

// expand lets everything happen that may happen in each of the states.
func (e *exploration) expand(part []open) [][]successor {
	var (
		out     = make([][]successor, len(part))
		group   sync.WaitGroup
		workers = max(1, e.bounds.Workers)
	)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(part); i += workers {
				out[i] = successorsOf(part[i].world)
			}
		})
	}
	group.Wait()
	return out
}

func successorsOf(world World) []successor {
	actions := world.Actions()
	out := make([]successor, 0, len(actions))
	for _, action := range actions {
		after := world.Clone()
		if err := after.Do(action.Name); err != nil {
			return append(out, successor{action: action, err: err})
		}
		out = append(out, successor{action: action, key: digestOf(after.Key()), world: after,
			violation: after.Violation(), goal: after.Goal(), asks: after.Asks()})
	}
	return out
}

// take notes what follows from a state, and returns the states that nobody has seen.
func (e *exploration) take(from int32, successors []successor) ([]open, error) {
	var added []open
	e.nodes[from].expanded = true
	for _, s := range successors {
		if s.err != nil {
			return nil, fmt.Errorf("failed to do %q after\n%s\n: %w", s.action.Name, e.schedule(from), s.err)
		}
		e.result.Moves++
		if s.violation != "" {
			e.result.Found = &Counterexample{Schedule: append(e.schedule(from), s.action.Name), Problem: s.violation}
			return nil, nil
		}
		if s.asks != "" && !s.action.Fault && !slices.Contains(e.nodes[from].asks, s.asks) {
			e.nodes[from].asks = append(e.nodes[from].asks, s.asks)
		}
		to, known := e.known[s.key]
		if !known {
			to = e.add(s.key, node{parent: from, depth: e.nodes[from].depth + 1, action: s.action.Name, goal: s.goal})
			if s.goal == "" {
				added = append(added, open{to, s.world})
			}
		}
		if !s.action.Fault && to != from {
			e.before[to] = append(e.before[to], from)
		}
	}
	return added, nil
}

// schedule returns the shortest way to a state.
func (e *exploration) schedule(index int32) Schedule {
	var out Schedule
	for ; e.nodes[index].parent >= 0; index = e.nodes[index].parent {
		out = append(out, e.nodes[index].action)
	}
	slices.Reverse(out)
	return out
}

// judge looks from every state for a way to an end.
func (e *exploration) judge() {
	ends := e.reaching(func(n node) bool { return n.goal != "" || !n.expanded })
	component, final := e.components()
	asking := map[int32]bool{}
	for i, n := range e.nodes {
		if ends[i] {
			continue
		}
		e.result.Stuck++
		if !final[component[i]] {
			continue
		}
		for _, asked := range n.asks {
			asking[component[i]] = true
			if e.result.Asks[asked]++; e.result.Asks[asked] == 1 {
				e.result.Examples[asked] = e.schedule(int32(i)) // #nosec G115 -- The index of a node.
			}
		}
	}
	for i := range e.nodes {
		if !ends[i] && final[component[i]] && !asking[component[i]] {
			e.result.Found = &Counterexample{Schedule: e.schedule(int32(i)), // #nosec G115 -- The index of a node.
				Problem: "no way leads from here to an end, and nobody is asked for anything"}
			return
		}
	}
}

// components returns, by the index of a state, a number that it shares with those to and from which there are ways
// without a fault, and which numbers are those of states that no such way leads away from. It is Tarjan's algorithm, on
// the ways turned round: the components are the same.
func (e *exploration) components() (component []int32, final map[int32]bool) {
	type visit struct{ state, next int32 }
	var (
		order, low     = make([]int32, len(e.nodes)), make([]int32, len(e.nodes))
		path           []visit
		stack          []int32
		counter, count int32
	)
	component, final = make([]int32, len(e.nodes)), map[int32]bool{}
	enter := func(state int32) {
		counter++
		order[state], low[state] = counter, counter
		stack, path = append(stack, state), append(path, visit{state, 0})
	}
	for start := range e.nodes {
		if order[start] == 0 {
			enter(int32(start)) // #nosec G115 -- The index of a node.
		}
		for len(path) > 0 {
			here := &path[len(path)-1]
			state := here.state
			if int(here.next) < len(e.before[state]) {
				to := e.before[state][here.next]
				here.next++
				if order[to] == 0 {
					enter(to)
				} else if component[to] == 0 {
					low[state] = min(low[state], order[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				parent := path[len(path)-1].state
				low[parent] = min(low[parent], low[state])
			}
			if low[state] == order[state] {
				count++
				final[count] = true
				for component[state] == 0 {
					component[stack[len(stack)-1]] = count
					stack = stack[:len(stack)-1]
				}
			}
		}
	}
	for to, sources := range e.before {
		for _, from := range sources {
			if component[from] != component[to] {
				final[component[from]] = false
			}
		}
	}
	return component, final
}

// reaching returns, by the index of a state, whether a way without a fault leads from it to one that is wanted.
func (e *exploration) reaching(wanted func(node) bool) []bool {
	var (
		out  = make([]bool, len(e.nodes))
		todo []int32
	)
	for i, n := range e.nodes {
		if wanted(n) {
			out[i] = true
			todo = append(todo, int32(i)) // #nosec G115 -- The index of a node.
		}
	}
	for len(todo) > 0 {
		to := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range e.before[to] {
			if !out[from] {
				out[from] = true
				todo = append(todo, from)
			}
		}
	}
	return out
}
