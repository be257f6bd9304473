// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"context"
	"slices"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// eventsInterval is the time between two looks at events. They are many, and two API servers are asked for them.
const eventsInterval = 10 * time.Second

// tab is one of the views of a migration.
type tab int

const (
	tabSteps tab = iota
	tabEtcd
	tabEvents
	tabProbe
	tabs
)

var tabNames = [tabs]string{"Steps", "etcd", "Events", "Probe"}

// Migration is the screen of one migration. It ends when the migration does.
type Migration struct {
	ctx      context.Context
	name     string
	source   Source
	steering Steering
	options  Options

	size  size
	tab   tab
	wide  bool
	help  bool
	body  viewport.Model
	world *summary.ControlPlane
	// events are what was reported; eventsErr is what is missing in them, and eventsSeen when they were read.
	events     []view.Event
	eventsErr  error
	eventsSeen time.Time
	reading    bool

	prompt *prompt
	notice notice
	// failed is why the last look failed.
	failed error
	// end is why it has ended although the migration has not.
	end error
	// opened reports that another screen has opened it, and closed that it is to be left.
	opened, closed bool
}

// notice is what the screen says about the last key.
type notice struct {
	text string
	bad  bool
}

// The messages of the screens. Those of a migration name the screen that they are for: another one may be open when
// they arrive.
type (
	// secondPassed asks for another drawing.
	secondPassed struct{}
	// lookDue asks for another look, looked is what it has shown.
	lookDue struct{ of *Migration }
	looked  struct {
		of    *Migration
		world summary.ControlPlane
		err   error
	}
	// eventsDue and eventsRead are the same for events.
	eventsDue  struct{ of *Migration }
	eventsRead struct {
		of     *Migration
		events []view.Event
		err    error
	}
	// answered is what came of a key.
	answered struct {
		of     *Migration
		answer Answer
		err    error
	}
)

// NewMigration returns the screen for the migration of the shoot with the name. The context is that of its looks.
func NewMigration(ctx context.Context, name string, source Source, steering Steering) *Migration {
	return &Migration{ctx: ctx, name: name, source: source, steering: steering, body: viewport.New()}
}

// With sets how it looks, and returns it.
func (m *Migration) With(options Options) *Migration {
	m.options = options.withDefaults()
	return m
}

// World returns what was seen last; nil if nothing was.
func (m *Migration) World() *summary.ControlPlane { return m.world }

// Err returns why the screen has ended although the migration has not, and nobody has left it.
func (m *Migration) Err() error { return m.end }

// Init implements tea.Model.
func (m *Migration) Init() tea.Cmd {
	return tea.Batch(m.look(), m.options.After(second, secondPassed{}))
}

func (m *Migration) look() tea.Cmd {
	return func() tea.Msg {
		world, err := m.source.Look(m.ctx)
		return looked{m, world, err}
	}
}

// readEvents reads the events, unless that is under way, was done a short while ago, or nobody looks at them.
func (m *Migration) readEvents() tea.Cmd {
	recent := m.options.Clock.Now().Sub(m.eventsSeen) < eventsInterval
	if m.tab != tabEvents || m.reading || recent && !m.eventsSeen.IsZero() {
		return nil
	}
	m.reading = true
	return func() tea.Msg {
		events, err := m.source.Events(m.ctx)
		return eventsRead{m, events, err}
	}
}

// Update implements tea.Model.
func (m *Migration) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.size = m.size.of(message)
	case tea.KeyPressMsg:
		return m, m.press(message)
	case secondPassed:
		return m, m.options.After(second, secondPassed{})
	default:
		return m, m.receive(message)
	}
	return m, nil
}

// receive takes what was asked for.
func (m *Migration) receive(message tea.Msg) tea.Cmd {
	switch message := message.(type) {
	case lookDue:
		if message.of == m {
			return m.look()
		}
	case looked:
		if message.of == m {
			return m.take(message)
		}
	case eventsDue:
		if message.of == m {
			return m.readEvents()
		}
	case eventsRead:
		if message.of != m {
			return nil
		}
		m.events, m.eventsErr, m.reading, m.eventsSeen = message.events, message.err, false, m.options.Clock.Now()
		m.fill()
		return m.options.After(eventsInterval, eventsDue{m})
	case answered:
		if message.of == m {
			m.notice = noticeOf(message)
		}
	}
	return nil
}

// take takes what a look has shown.
func (m *Migration) take(message looked) tea.Cmd {
	m.failed = message.err
	switch {
	case m.ctx.Err() != nil:
		m.end = context.Cause(m.ctx)
		return m.leave()
	case message.err == nil:
		m.world = &message.world
		if view.Summary(message.world).State.Final() && !m.opened {
			return m.leave()
		}
	case view.Fatal(message.err):
		m.end = message.err
		return m.leave()
	}
	return m.options.After(m.options.Interval, lookDue{m})
}

// leave ends the screen, or goes back to the one that has opened it.
func (m *Migration) leave() tea.Cmd {
	m.closed = true
	if m.opened {
		return nil
	}
	return tea.Quit
}

// press does what a key asks for.
func (m *Migration) press(pressed tea.KeyPressMsg) tea.Cmd {
	if m.prompt != nil {
		return m.decide(pressed)
	}
	m.notice = notice{}
	switch {
	case key.Matches(pressed, keyQuit):
		m.closed = true
		return tea.Quit
	case key.Matches(pressed, keyBack):
		if m.help {
			m.help = false
			return nil
		}
		return m.leave()
	case key.Matches(pressed, keyHelp):
		m.help = !m.help
	case key.Matches(pressed, keyWide):
		m.wide = !m.wide
	case key.Matches(pressed, keyNext):
		return m.open((m.tab + 1) % tabs)
	case key.Matches(pressed, keyBefore):
		return m.open((m.tab + tabs - 1) % tabs)
	case key.Matches(pressed, keyViews):
		return m.open(tab(slices.Index(keyViews.Keys(), pressed.String())))
	case key.Matches(pressed, keyTop):
		m.body.GotoTop()
	case key.Matches(pressed, keyBottom):
		m.body.GotoBottom()
	case key.Matches(pressed, keyUp, keyDown, keyPageUp, keyPageDn):
		m.body, _ = m.body.Update(pressed)
	case key.Matches(pressed, keyPause, keyResume, keyRetry, keyAbort):
		m.ask(pressed)
	}
	return nil
}

// open shows another view, from its beginning; events from their end.
func (m *Migration) open(to tab) tea.Cmd {
	m.tab, m.help = to, false
	m.fill()
	if m.body.GotoTop(); to == tabEvents {
		m.body.GotoBottom()
	}
	return m.readEvents()
}

// ask opens the prompt of a key, or says why there is nothing to ask.
func (m *Migration) ask(pressed tea.KeyPressMsg) {
	if m.world == nil {
		return
	}
	may := possible(*m.world)
	switch {
	case key.Matches(pressed, keyPause) && may.pause:
		m.prompt = &prompt{question: "Pause before the next step?", act: m.steering.Pause}
	case key.Matches(pressed, keyResume) && may.resume:
		m.prompt = &prompt{question: "Resume the migration?", act: m.steering.Resume}
	case key.Matches(pressed, keyRetry) && may.retry:
		m.prompt = &prompt{question: "Retry the current step now, with its whole deadline?", act: m.steering.Retry}
	case key.Matches(pressed, keyAbort) && may.abort:
		m.prompt = &prompt{question: "Abort the live migration of " + m.name + " and undo what was done?",
			word: m.world.Shoot.Name, act: m.steering.Abort}
	default:
		m.notice = notice{text: may.why(pressed)}
	}
}

// decide gives a key to the prompt.
func (m *Migration) decide(pressed tea.KeyPressMsg) tea.Cmd {
	asked := m.prompt
	switch asked.press(pressed) {
	case confirmed:
		m.prompt = nil
		return func() tea.Msg {
			answer, err := asked.act(m.ctx)
			return answered{m, answer, err}
		}
	case dismissed:
		m.prompt = nil
		m.notice = notice{text: "Nothing was changed."}
	}
	return nil
}

func noticeOf(message answered) notice {
	if message.err != nil {
		return notice{text: message.err.Error(), bad: true}
	}
	text := ""
	for _, done := range message.answer.Done {
		text += sentence(done) + " "
	}
	for _, not := range message.answer.Not {
		text += "Note: " + not + ". "
	}
	return notice{text: text}
}

// now is the time for which the screen is drawn, and the world that it shows then.
func (m *Migration) now() (summary.ControlPlane, time.Time) {
	now := m.options.Clock.Now()
	world := *m.world
	world.Now = metav1.NewTime(now)
	return world, now
}
