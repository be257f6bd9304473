// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package screen holds the screens of kubectl-livecpm: one migration (get -w), and all of them (list -w). They are
// models of bubbletea: a message comes in, and what is to be shown comes out. What they look at, and what keys ask for,
// is handed to them by interfaces; they know neither clients nor a terminal. Run gives one to a terminal.
package screen

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Source is what a screen shows of one migration.
type Source interface {
	// Look looks at it.
	Look(ctx context.Context) (summary.ControlPlane, error)
	// Events returns what was reported about it, in the order of time. It may return some and an error about the rest.
	Events(ctx context.Context) ([]view.Event, error)
}

// Steering is what keys ask for.
type Steering interface {
	// Pause holds the migration before its next step, Resume withdraws that.
	Pause(ctx context.Context) (Answer, error)
	Resume(ctx context.Context) (Answer, error)
	// Retry retries the current step, Abort undoes what was done.
	Retry(ctx context.Context) (Answer, error)
	Abort(ctx context.Context) (Answer, error)
}

// Answer is what was done, and what was not although one could expect it.
type Answer struct{ Done, Not []string }

// Options are how screens look and when they look.
type Options struct {
	// Color uses colors, ASCII nothing but ASCII.
	Color, ASCII bool
	// Zone is the time zone of the points in time on the screen; nil for UTC.
	Zone *time.Location
	// Interval is the time between two looks.
	Interval time.Duration
	// Clock is the clock. It defaults to the real one.
	Clock clock.PassiveClock
	// After returns a command that waits and then gives the message. It defaults to bubbletea's timer.
	After func(wait time.Duration, message tea.Msg) tea.Cmd
}

func (o Options) withDefaults() Options {
	if o.Interval == 0 {
		o.Interval = view.DefaultInterval
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.After == nil {
		o.After = func(wait time.Duration, message tea.Msg) tea.Cmd {
			return tea.Tick(wait, func(time.Time) tea.Msg { return message })
		}
	}
	return o
}

// second is how often countdowns are drawn again.
const second = time.Second

// The smallest screen that is drawn for. What does not fit into a smaller one is cut off.
const (
	smallestWidth  = 40
	smallestHeight = 12
)

// size is that of the terminal. It is known with the first message only.
type size struct{ width, height int }

func (s size) of(message tea.WindowSizeMsg) size {
	return size{max(message.Width, smallestWidth), max(message.Height, smallestHeight)}
}

// view returns how texts are drawn on a screen of the size.
func (o Options) view(s size) view.Options {
	return view.Options{Width: s.width, Color: o.Color, Zone: o.Zone}
}

var (
	bold    = lipgloss.NewStyle().Bold(true)
	chosen  = lipgloss.NewStyle().Reverse(true)
	faint   = lipgloss.NewStyle().Faint(true)
	failure = lipgloss.NewStyle().Foreground(lipgloss.Red)
	success = lipgloss.NewStyle().Foreground(lipgloss.Green)
)

// time is the time of day that stands on the screen.
func (o Options) time() string {
	zone := o.Zone
	if zone == nil {
		zone = time.UTC
	}
	return o.Clock.Now().In(zone).Format("15:04:05 MST")
}

// paint styles the text, if the screen has colors.
func (o Options) paint(style lipgloss.Style, text string) string {
	if !o.Color || text == "" {
		return text
	}
	return style.Render(text)
}

// show makes a view of the lines, each of which fits the screen.
func (o Options) show(lines []string, s size, title string) tea.View {
	if len(lines) > s.height {
		lines = lines[:s.height]
	}
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(s.width).Render(line)
	}
	content := strings.Join(lines, "\n")
	if o.ASCII {
		content = view.ASCII(content)
	}
	out := tea.NewView(content)
	out.AltScreen, out.WindowTitle = true, title
	return out
}

// rule is a line across the screen.
func (o Options) rule(s size) string { return o.paint(faint, strings.Repeat("─", s.width)) }

// across puts one text to the left and one to the right, as far as both fit.
func across(left, right string, width int) string {
	gap := width - lipgloss.Width(left) - lipgloss.Width(right)
	if gap < 1 {
		return left
	}
	return left + strings.Repeat(" ", gap) + right
}

// bar is as long as asked for, and filled as far as something is done.
func bar(done float64, length int) string {
	filled := int(min(max(done, 0), 1) * float64(length))
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", length-filled) + "]"
}
