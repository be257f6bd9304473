// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// Migrations are all migrations at one moment.
type Migrations struct {
	// Summaries are the migrations.
	Summaries []summary.Summary
	// Drains are the seeds that are to be drained.
	Drains []summary.Drain
	// Note says what could not be read beside the migrations; empty if nothing.
	Note string
}

// FleetSource is what a fleet shows.
type FleetSource interface {
	// Look looks at all migrations.
	Look(ctx context.Context) (Migrations, error)
	// Open returns what the screen of one of them shows, and steers it.
	Open(namespace, name string) (Source, Steering, error)
}

// Fleet is the screen of all migrations: those in flight, those that are over, and how far drains are. It ends when
// somebody leaves it.
type Fleet struct {
	ctx     context.Context
	source  FleetSource
	options Options
	title   string

	size   size
	help   bool
	seen   *Migrations
	failed error
	notice notice
	end    error
	// chosen is the key of the migration that the cursor is on; top is the first row that is shown.
	chosen string
	top    int
	// one is the screen of the migration that was opened; nil if none is.
	one *Migration
}

// fleetLooked is what a look at all migrations has shown.
type fleetLooked struct {
	migrations Migrations
	err        error
}

// fleetDue asks for another look at all migrations.
type fleetDue struct{}

// NewFleet returns the screen. The title says of which migrations; the context is that of its looks.
func NewFleet(ctx context.Context, title string, source FleetSource, options Options) *Fleet {
	return &Fleet{ctx: ctx, title: title, source: source, options: options.withDefaults()}
}

// Err returns why the screen has ended although nobody has left it.
func (f *Fleet) Err() error { return f.end }

// Init implements tea.Model.
func (f *Fleet) Init() tea.Cmd { return tea.Batch(f.look(), f.options.After(second, secondPassed{})) }

func (f *Fleet) look() tea.Cmd {
	return func() tea.Msg {
		migrations, err := f.source.Look(f.ctx)
		return fleetLooked{migrations, err}
	}
}

// Update implements tea.Model. What is not of the fleet goes to the migration that is open.
func (f *Fleet) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		f.size = f.size.of(message)
	case secondPassed:
		return f, f.options.After(second, secondPassed{})
	case fleetDue:
		return f, f.look()
	case fleetLooked:
		return f, f.take(message)
	case tea.KeyPressMsg:
		if f.one == nil {
			return f, f.press(message)
		}
	}
	if f.one == nil {
		return f, nil // What an earlier one has asked for may still arrive.
	}
	_, command := f.one.Update(message)
	if f.one.closed && f.one.end != nil {
		f.notice = notice{text: f.one.end.Error(), bad: true}
	}
	if f.one.closed {
		f.one = nil
	}
	return f, command
}

func (f *Fleet) take(message fleetLooked) tea.Cmd {
	f.failed = message.err
	switch {
	case f.ctx.Err() != nil:
		f.end = context.Cause(f.ctx)
		return tea.Quit
	case message.err == nil:
		message.migrations.Summaries = view.InFlightFirst(message.migrations.Summaries)
		f.seen = &message.migrations
		f.move(0)
	case view.Fatal(message.err):
		f.end = message.err
		return tea.Quit
	}
	return f.options.After(f.options.Interval, fleetDue{})
}

func (f *Fleet) press(pressed tea.KeyPressMsg) tea.Cmd {
	f.notice = notice{}
	switch {
	case key.Matches(pressed, keyQuit):
		return tea.Quit
	case key.Matches(pressed, keyBack):
		if f.help {
			f.help = false
			return nil
		}
		return tea.Quit
	case key.Matches(pressed, keyHelp):
		f.help = !f.help
	case key.Matches(pressed, keyOpen):
		return f.open()
	case key.Matches(pressed, keyMoveUp):
		f.move(-1)
	case key.Matches(pressed, keyMoveDn):
		f.move(1)
	case key.Matches(pressed, keyPageUp):
		f.move(-f.rows())
	case key.Matches(pressed, keyPageDn):
		f.move(f.rows())
	case key.Matches(pressed, keyTop):
		f.move(-f.count())
	case key.Matches(pressed, keyBottom):
		f.move(f.count())
	}
	return nil
}

func (f *Fleet) count() int {
	if f.seen == nil {
		return 0
	}
	return len(f.seen.Summaries)
}

// cursor is the row that the cursor is on.
func (f *Fleet) cursor() int {
	if f.seen == nil {
		return 0
	}
	at := slices.IndexFunc(f.seen.Summaries, func(s summary.Summary) bool { return s.Key() == f.chosen })
	return max(0, at)
}

// move moves the cursor by so many rows. It stays on its migration when others come or go.
func (f *Fleet) move(by int) {
	if f.count() == 0 {
		f.chosen = ""
		return
	}
	to := min(max(f.cursor()+by, 0), f.count()-1)
	f.chosen = f.seen.Summaries[to].Key()
	f.scroll(f.rows())
}

// scroll moves the rows as little as possible, so that the cursor is on one that is shown.
func (f *Fleet) scroll(lines int) {
	at := f.cursor()
	f.top = min(max(f.top, at-lines+1, 0), at, max(0, f.count()-lines))
}

// open opens the screen of the migration that the cursor is on.
func (f *Fleet) open() tea.Cmd {
	if f.count() == 0 {
		return nil
	}
	of := f.seen.Summaries[f.cursor()]
	source, steering, err := f.source.Open(of.Namespace, of.Name)
	if err != nil {
		f.notice = notice{text: err.Error(), bad: true}
		return nil
	}
	f.one = NewMigration(f.ctx, of.Key(), source, steering).With(f.options)
	f.one.opened, f.one.size, f.help = true, f.size, false
	return f.one.look()
}

// View implements tea.Model.
func (f *Fleet) View() tea.View {
	switch {
	case f.size.width == 0:
		return tea.NewView("") // The size is not known yet.
	case f.one != nil:
		return f.one.View()
	}
	head, foot := f.head(), f.foot()
	body := f.body(f.size.height - len(head) - len(foot))
	return f.options.show(slices.Concat(head, body, foot), f.size, "live migrations")
}

// head is the title with the counts, and the drains.
func (f *Fleet) head() []string {
	o := f.options
	out := []string{across(o.paint(bold, f.title), o.time(), f.size.width)}
	if f.seen == nil {
		return append(out, "Looking …", o.rule(f.size))
	}
	out = append(out, counts(f.seen.Summaries))
	for _, of := range f.seen.Drains {
		out = append(out, f.drainLine(of))
	}
	if f.seen.Note != "" {
		out = append(out, o.paint(faint, view.Cut(f.seen.Note, f.size.width)))
	}
	return append(out, o.rule(f.size))
}

// counts says how many migrations are in which state.
func counts(all []summary.Summary) string {
	numbers := map[summary.State]int{}
	flying := 0
	for _, s := range all {
		numbers[s.State]++
		if !s.State.Final() {
			flying++
		}
	}
	out := []string{fmt.Sprintf("%d in flight", flying)}
	for _, state := range []summary.State{summary.Overdue, summary.Held, summary.Paused, summary.Aborting,
		summary.Succeeded, summary.Aborted} {
		if numbers[state] > 0 {
			out = append(out, fmt.Sprintf("%d %s", numbers[state], strings.ToLower(string(state))))
		}
	}
	return strings.Join(out, ", ")
}

// drainLine is how far a drain is, as a bar and in numbers.
func (f *Fleet) drainLine(of summary.Drain) string {
	name := "Drain of " + of.Seed
	switch {
	case of.Unknown != "":
		return view.Cut(name+"  not known: "+of.Unknown, f.size.width)
	case of.Table == nil:
		return name + "  has not begun"
	}
	c := of.Table.Counts
	text := fmt.Sprintf("%d of %d done, %d running, %d waiting, %d blocked", c.Done, c.Total, c.Running, c.Waiting,
		c.Blocked)
	switch left, known := DrainLeft(*of.Table, f.seen.Summaries); {
	case of.Table.CircuitOpen:
		// It comes first: a narrow screen cuts off the end.
		text = "stopped after failures, " + text
	case of.Table.Cancelled:
		text = "cancelled, " + text
	case known:
		text += ", " + view.About(left) + " left"
	}
	length := min(30, f.size.width-len(name)-len(text)-6)
	if length < 8 || c.Total == 0 {
		return view.Cut(name+"  "+text, f.size.width)
	}
	return name + "  " + bar(float64(c.Done)/float64(c.Total), length) + "  " + text
}

// DrainLeft returns how long a drain still takes if it continues with as many migrations at once as it does now: what
// the running ones have left, and for each that waits what the running ones take as a whole. It returns false if none
// runs of which something is expected.
func DrainLeft(table drain.Table, all []summary.Summary) (time.Duration, bool) {
	var left, whole time.Duration
	running := 0
	for _, row := range table.Shoots {
		if row.State != drain.Running {
			continue
		}
		for _, s := range all {
			if s.Namespace == row.Namespace && s.Name == row.Name && s.Expected != nil {
				left += s.Expected.Remaining()
				whole += s.Expected.Total()
				running++
			}
		}
	}
	if running == 0 {
		return 0, false
	}
	waiting := time.Duration(table.Counts.Waiting) * whole / time.Duration(running)
	return (left + waiting) / time.Duration(running), true
}

// columns are what a row has; the narrow screen leaves out what the title of the migration's own screen says.
func (f *Fleet) columns() []column {
	now := f.options.Clock.Now()
	wide := []column{
		{"SHOOT", func(s summary.Summary) string { return s.Key() }},
		{"STATE", func(s summary.Summary) string { return string(s.State) }},
		{"DONE", func(s summary.Summary) string { return fmt.Sprintf("%d %%", s.Progress) }},
		{"LEFT", view.LeftInList},
		{"STEP", shortStep},
		{"REASON", func(s summary.Summary) string { return s.Reason }},
	}
	if f.size.width < 120 {
		return wide
	}
	seeds := column{"SEEDS", view.Seeds}
	age := column{"AGE", func(s summary.Summary) string { return view.Age(s, now) }}
	return slices.Concat(wide[:1], []column{seeds}, wide[1:], []column{age})
}

// column is a column of the table.
type column struct {
	title string
	of    func(summary.Summary) string
}

// rows is how many migrations fit.
func (f *Fleet) rows() int { return max(1, f.size.height-len(f.head())-len(f.foot())-1) }

// body is the table, as far as it fits into the lines.
func (f *Fleet) body(lines int) []string {
	var out []string
	switch {
	case f.help:
		text := allKeys([]key.Binding{keyMoveUp, keyMoveDn, keyPageUp, keyPageDn, keyTop, keyBottom},
			[]key.Binding{keyOpen, keyHelp, keyBack, keyQuit})(f.options, f.size)
		out = strings.Split(text, "\n")
	case f.seen == nil:
	case f.count() == 0:
		out = []string{"No live migrations."}
	default:
		out = f.table(lines - 1)
	}
	for len(out) < lines {
		out = append(out, "")
	}
	return out[:lines]
}

func (f *Fleet) table(lines int) []string {
	columns := f.columns()
	var titles []string
	for _, column := range columns {
		titles = append(titles, column.title)
	}
	var rows [][]string
	for _, s := range f.seen.Summaries {
		var row []string
		for _, column := range columns {
			text := column.of(s)
			if text == "" {
				text = "-"
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	all := strings.Split(strings.TrimSuffix(view.Table(titles, rows), "\n"), "\n")
	at := f.cursor()
	f.scroll(lines)
	out := []string{"  " + f.options.paint(bold, view.Cut(all[0], f.size.width-2))}
	for i := f.top; i < min(len(rows), f.top+lines); i++ {
		line := view.Cut(all[i+1], f.size.width-2)
		if i == at {
			out = append(out, "> "+f.options.paint(chosen, line))
			continue
		}
		out = append(out, "  "+line)
	}
	return out
}

func (f *Fleet) foot() []string {
	o := f.options
	out := []string{o.rule(f.size)}
	text, style := f.notice.text, failure
	if f.failed != nil {
		text = f.failed.Error() + "; retrying"
	}
	if text != "" {
		for _, line := range view.Wrap(text, f.size.width) {
			out = append(out, o.paint(style, line))
		}
	}
	position := ""
	if f.count() > 0 {
		position = fmt.Sprintf("%d of %d", f.cursor()+1, f.count())
	}
	keys := o.helper(f.size).ShortHelpView([]key.Binding{keyMove, keyOpen, keyHelp, keyQuit})
	return append(out, across(keys, position, f.size.width))
}
