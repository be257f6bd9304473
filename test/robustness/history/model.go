// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// state is what the store holds for one key. An empty value means that the object does not exist; its revision is then
// that of its last known life.
type state struct {
	value    string
	revision uint64
}

// follows reports whether a write with the revision may come after the state. Revisions that are not known say nothing.
func (s state) follows(revision uint64) bool {
	return revision == 0 || s.revision == 0 || revision > s.revision
}

func (s state) write(o Operation) state {
	return state{value: o.Value, revision: max(o.Revision, s.revision)}
}

// apply reports whether a single object that is in the state can have answered the operation as it did, and returns the
// state afterwards.
//
// A write whose outcome is unknown has no return time. The search may therefore put it after everything else, where it
// changes nothing that anybody sees: that is the case in which it was never carried out.
func (s state) apply(o Operation) (bool, state) {
	switch o.Kind {
	case Read:
		if o.Found != s.value {
			return false, s
		}
		if o.Found == "" || o.Revision == 0 {
			return true, s
		}
		if s.revision != 0 && s.revision != o.Revision {
			return false, s
		}
		return true, state{value: s.value, revision: o.Revision}
	case Create, Update:
		return s.change(o, s.write(o))
	case Delete:
		return s.change(o, state{revision: max(o.Revision, s.revision)})
	}
	return false, s
}

// asDemandedBy reports whether the object is as the write demands.
func (s state) asDemandedBy(o Operation) bool {
	if o.Kind == Create {
		return s.value == ""
	}
	return s.value != "" && s.value == o.Expect
}

// change is the part that all writes have in common. next is the state after a write that was carried out.
func (s state) change(o Operation, next state) (bool, state) {
	asDemanded := s.asDemandedBy(o)
	switch o.Outcome {
	case Done:
		return asDemanded && s.follows(o.Revision), next
	case Rejected:
		return !asDemanded, s
	case Unknown:
		if asDemanded {
			return true, next
		}
		return true, s
	}
	return false, s
}

// model is that of a store of independent objects, each a register with compare-and-swap.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: partition,
		Init:      func() any { return state{} },
		Step: func(current, input, _ any) (bool, any) {
			return current.(state).apply(input.(Operation))
		},
		Equal: func(a, b any) bool { return a.(state) == b.(state) },
		DescribeOperation: func(input, _ any) string {
			return describe(input.(Operation))
		},
		DescribeState: func(current any) string {
			s := current.(state)
			if s.value == "" {
				return "absent"
			}
			return fmt.Sprintf("%s at %d", s.value, s.revision)
		},
	}
}

// partition splits the operations by key: the objects are independent, and the search is exponential in what it has to
// look at together.
func partition(operations []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range operations {
		key := o.Input.(Operation).Key
		byKey[key] = append(byKey[key], o)
	}
	parts := make([][]porcupine.Operation, 0, len(byKey))
	for _, part := range byKey {
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b []porcupine.Operation) int {
		return cmp.Compare(a[0].Input.(Operation).Key, b[0].Input.(Operation).Key)
	})
	return parts
}

// describe is what the picture shows of an operation.
func describe(o Operation) string {
	var what string
	switch o.Kind {
	case Read:
		what = fmt.Sprintf("read %s: %s", o.Key, orAbsent(o.Found))
	case Create:
		what = fmt.Sprintf("create %s=%s", o.Key, o.Value)
	case Update:
		what = fmt.Sprintf("update %s=%s if %s", o.Key, o.Value, o.Expect)
	case Delete:
		what = fmt.Sprintf("delete %s if %s", o.Key, o.Expect)
	}
	if o.Outcome != Done {
		what += ": " + string(o.Outcome)
	}
	if o.Revision != 0 {
		what += fmt.Sprintf(" at %d", o.Revision)
	}
	return what
}

func orAbsent(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}

// forPorcupine turns the operations into what porcupine searches. Reads without an answer say nothing and are left out.
// An operation with an unknown outcome stays open to the end, on a line of its own, because its client continues
// meanwhile.
func forPorcupine(operations []Operation) []porcupine.Operation {
	lines := 0
	for _, o := range operations {
		lines = max(lines, o.Client+1)
	}
	out := make([]porcupine.Operation, 0, len(operations))
	for _, o := range operations {
		if o.Outcome == Failed {
			continue
		}
		client, end := o.Client, int64(o.Return)
		if o.Outcome == Unknown {
			client, end = lines, math.MaxInt64
			lines++
		}
		out = append(out, porcupine.Operation{ClientId: client, Input: o, Call: int64(o.Call), Output: o.Outcome,
			Return: end})
	}
	return out
}
