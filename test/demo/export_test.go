// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/outlook"
)

// Digest is digest for tests.
func Digest(state any) string { return digest(state) }

// RenderScreen returns what a terminal of the given width shows.
func RenderScreen(
	phase string, elapsed time.Duration, states []StepState, members *MemberTimeline, load probe.Snapshot, width int,
) string {
	var out bytes.Buffer
	newDisplay(nil, outlook.NewTerminalScreen(&out, width)).show(testView(phase, elapsed, states, members, load))
	return out.String()
}

// RenderLines returns what is printed where there is no terminal, for the same moment shown several times.
func RenderLines(
	times int, phase string, elapsed time.Duration, states []StepState, members *MemberTimeline, load probe.Snapshot,
) string {
	var out bytes.Buffer
	d := newDisplay(&out, nil)
	for range times {
		d.show(testView(phase, elapsed, states, members, load))
	}
	return out.String()
}

func testView(
	phase string, elapsed time.Duration, states []StepState, members *MemberTimeline, load probe.Snapshot,
) view {
	seeds := []string{"seed-a", "seed-b"}
	return view{
		phase:   phase,
		elapsed: elapsed,
		steps:   states,
		members: map[string]map[string]string{RoleMain: members.BySeed(seeds...)},
		seeds:   seeds,
		load:    &load,
	}
}
