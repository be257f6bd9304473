// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/probe"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/outlook"
)

// view is one moment of a run.
type view struct {
	phase   string
	elapsed time.Duration
	// left is how long the run still takes, empty if that is not known.
	left string
	// steps is empty before the trigger.
	steps []driver.StepState
	// members gives, by role and seed, a filled circle per voter and an empty one per learner.
	members map[string]map[string]string
	seeds   []string
	load    *probe.Snapshot
}

// display shows how the run proceeds.
type display interface {
	show(v view)
	// line prints something that shall stay.
	line(format string, args ...any)
}

// newDisplay returns one that redraws in place on a terminal and one that prints plain lines elsewhere.
func newDisplay(out io.Writer, on *outlook.Screen) display {
	if on == nil {
		on = outlook.NewPlainScreen(out)
	}
	if on.Terminal() {
		return &screen{on}
	}
	return &lines{out: on, begin: time.Now(), every: 15 * time.Second, steps: map[string]string{},
		members: map[string]string{}}
}

// screen redraws the last lines of a terminal.
type screen struct{ *outlook.Screen }

func (s *screen) line(format string, args ...any) { s.Line(format, args...) }

func (s *screen) show(v view) { s.Block(render(v)...) }

// render returns the lines of a moment.
func render(v view) []string {
	phase := v.phase
	if v.left != "" {
		phase += ", " + v.left + " left until the report"
	}
	out := []string{"", fmt.Sprintf("%s  %s", clockText(v.elapsed), phase)}
	for _, state := range v.steps {
		out = append(out, stepLines(state)...)
	}
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		if text := memberText(v, role); text != "" {
			out = append(out, "  "+text)
		}
	}
	if v.load != nil {
		out = append(out, "  "+loadText(*v.load))
	}
	return out
}

func stepLines(state driver.StepState) []string {
	mark, took := "·", ""
	switch {
	case state.Finished:
		mark, took = "✓", clockText(state.Elapsed)
	case state.Current:
		mark, took = "▸", clockText(state.Elapsed)
	}
	out := []string{fmt.Sprintf("  %s %-11s  %-5s  %s", mark, state.Step.Owner, took, state.Step.Title)}
	if state.Current && state.Condition != nil && state.Condition.Reason != "" {
		out = append(out, fmt.Sprintf("      %s: %s", state.Condition.Reason, state.Condition.Message))
	}
	return out
}

func memberText(v view, role string) string {
	members := v.members[role]
	if len(members) == 0 {
		return ""
	}
	parts := []string{fmt.Sprintf("etcd-%-6s", role)}
	for _, seed := range v.seeds {
		text := members[seed]
		parts = append(parts,
			fmt.Sprintf("%s %s%s", seed, text, strings.Repeat(" ", max(0, 3-utf8.RuneCountInString(text)))))
	}
	return strings.Join(parts, "  ")
}

func loadText(s probe.Snapshot) string {
	return fmt.Sprintf("writes %d (%d failed)  reads %d (%d failed)  watch events %d  hidden connection errors %d",
		s.Writes, s.WritesFailed, s.Reads, s.ReadsFailed, s.WatchEvents, s.RawConnectionErrors)
}

// lines prints what changes, and the load now and then.
type lines struct {
	out   *outlook.Screen
	begin time.Time
	every time.Duration

	mu      sync.Mutex
	phase   string
	steps   map[string]string
	members map[string]string
	failed  int64
	last    time.Duration
}

func (l *lines) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print(time.Since(l.begin), fmt.Sprintf(format, args...))
}

func (l *lines) print(at time.Duration, text string) {
	for part := range strings.SplitSeq(text, "\n") {
		l.out.Line("%s  %s", clockText(at), part)
	}
}

func (l *lines) show(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != v.phase {
		l.phase = v.phase
		text := v.phase
		if v.left != "" {
			text += ", " + v.left + " left until the report"
		}
		l.print(v.elapsed, text)
	}
	for _, state := range v.steps {
		text := ""
		switch {
		case state.Finished:
			text = fmt.Sprintf("%s finished after %s", state.Step.Condition, clockText(state.Elapsed))
		case state.Current && state.Condition != nil && state.Condition.Reason != string(steps.ReasonPending):
			text = fmt.Sprintf("%s (%s): %s: %s", state.Step.Condition, state.Step.Owner, state.Condition.Reason,
				state.Condition.Message)
		case state.Current:
			text = fmt.Sprintf("%s (%s)", state.Step.Condition, state.Step.Owner)
		default:
			continue
		}
		if name := state.Step.String(); l.steps[name] != text {
			l.steps[name] = text
			l.print(v.elapsed, text)
		}
	}
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		if text := memberText(v, role); text != "" && l.members[role] != text {
			l.members[role] = text
			l.print(v.elapsed, text)
		}
	}
	if v.load != nil {
		failed := v.load.WritesFailed + v.load.ReadsFailed + v.load.RawConnectionErrors
		if failed != l.failed || v.elapsed-l.last >= l.every {
			l.failed, l.last = failed, v.elapsed
			l.print(v.elapsed, loadText(*v.load))
		}
	}
}

func clockText(d time.Duration) string {
	total := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", total/60, total%60)
}
