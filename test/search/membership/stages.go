// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strings"
)

// Stage is where a search begins. From the beginning, a search with all faults does not come far: so others begin
// later.
type Stage string

const (
	// Beginning is the beginning of step 2.
	Beginning Stage = "beginning"
	// Five is when etcd-main and etcd-events have five voters, and step 6 may begin.
	Five Stage = "five voters"
	// Six is when etcd-main has its sixth voter.
	Six Stage = "six voters"
	// Left is when the first member of the source has left both etcds.
	Left Stage = "first has left"
	// Aborted is when a person has aborted the migration with five voters.
	Aborted Stage = "abort"
)

// Stages are all of them.
var Stages = []Stage{Beginning, Five, Six, Left, Aborted}

// At returns a world at a stage. What leads there is always the same, and no fault is among it.
func At(stage Stage, model Model) *World {
	calm := Model{Both: model.Both, Broken: Broken{Narrow: model.Broken.Narrow}, Abort: true}
	w := New(calm)
	reached := map[Stage]func() bool{
		Beginning: func() bool { return true },
		Five:      func() bool { return w.phase == five },
		Six:       func() bool { return w.votersOf(etcdMain, destination) == members },
		Left: func() bool {
			return w.votersOf(etcdMain, source) < members && w.votersOf(etcdEvents, source) < members
		},
		Aborted: func() bool { return w.phase == five },
	}[stage]
	const enough = 500
	for range enough {
		if reached() {
			break
		}
		w.step()
	}
	if !reached() {
		panic("no way without a fault leads to the stage " + string(stage))
	}
	if stage == Aborted {
		if err := w.Do("a person aborts the migration"); err != nil {
			panic(err)
		}
	}
	w.model, w.known, w.actions = &model, nil, nil
	return w
}

// step makes the first move that changes something: those of containers and controllers before those of agents, and
// time does not pass.
func (w *World) step() {
	var names []string
	for _, m := range w.moves() {
		if !m.Fault && !m.optional && m.Name != timePasses {
			names = append(names, m.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Index(a, "agent of the") - strings.Index(b, "agent of the")
	})
	before := w.Key()
	for _, name := range names {
		if err := w.Do(name); err != nil {
			panic(err)
		}
		if w.Key() != before {
			return
		}
	}
}
