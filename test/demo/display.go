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

	"github.com/livecpm/livecpm/pkg/probe"
	"github.com/livecpm/livecpm/pkg/steps"
)

// view is one moment of a run.
type view struct {
	phase   string
	elapsed time.Duration
	// steps is empty before the trigger.
	steps []StepState
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
func newDisplay(out io.Writer, terminal bool, width int) display {
	if terminal {
		return &screen{out: out, width: max(width, 60)}
	}
	return &lines{out: out, begin: time.Now(), every: 15 * time.Second, steps: map[string]string{}, members: map[string]string{}}
}

// screen redraws the last lines of a terminal.
type screen struct {
	out   io.Writer
	width int

	mu    sync.Mutex
	drawn int
}

func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
	}
	s.drawn = 0
}

func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *screen) show(v view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	for _, text := range render(v) {
		fmt.Fprintln(s.out, cut(text, s.width-1))
		s.drawn++
	}
}

// render returns the lines of a moment.
func render(v view) []string {
	out := []string{"", fmt.Sprintf("%s  %s", clockText(v.elapsed), v.phase)}
	for _, state := range v.steps {
		out = append(out, stepLines(state)...)
	}
	for _, role := range []string{RoleMain, RoleEvents} {
		if text := memberText(v, role); text != "" {
			out = append(out, "  "+text)
		}
	}
	if v.load != nil {
		out = append(out, "  "+loadText(*v.load))
	}
	return out
}

func stepLines(state StepState) []string {
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
		parts = append(parts, fmt.Sprintf("%s %s%s", seed, text, strings.Repeat(" ", max(0, 3-utf8.RuneCountInString(text)))))
	}
	return strings.Join(parts, "  ")
}

func loadText(s probe.Snapshot) string {
	return fmt.Sprintf("writes %d (%d failed)  reads %d (%d failed)  watch events %d  hidden connection errors %d",
		s.Writes, s.WritesFailed, s.Reads, s.ReadsFailed, s.WatchEvents, s.RawConnectionErrors)
}

// lines prints what changes, and the load now and then.
type lines struct {
	out   io.Writer
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
		fmt.Fprintf(l.out, "%s  %s\n", clockText(at), part)
	}
}

func (l *lines) show(v view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != v.phase {
		l.phase = v.phase
		l.print(v.elapsed, v.phase)
	}
	for _, state := range v.steps {
		text := ""
		switch {
		case state.Finished:
			text = fmt.Sprintf("%s finished after %s", state.Step.Condition, clockText(state.Elapsed))
		case state.Current && state.Condition != nil && state.Condition.Reason != string(steps.ReasonPending):
			text = fmt.Sprintf("%s (%s): %s: %s", state.Step.Condition, state.Step.Owner, state.Condition.Reason, state.Condition.Message)
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
	for _, role := range []string{RoleMain, RoleEvents} {
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

// cut shortens a text to a number of columns.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:width-1]) + "…"
}
