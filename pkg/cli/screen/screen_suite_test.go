// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/screen"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/expected"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func TestScreen(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "CLI Screen Suite")
}

// terminal gives messages to a model and runs what it commands, with a clock of its own. Nothing of it takes time.
type terminal struct {
	model  tea.Model
	clock  *testclock.FakePassiveClock
	due    []timer
	ended  bool
	width  int
	height int
}

type timer struct {
	at      time.Time
	message tea.Msg
}

func newTerminal(start time.Time) *terminal {
	return &terminal{clock: testclock.NewFakePassiveClock(start)}
}

// options are those of a screen that waits with the terminal's clock.
func (t *terminal) options() screen.Options {
	return screen.Options{Interval: 2 * time.Second, Clock: t.clock,
		After: func(wait time.Duration, message tea.Msg) tea.Cmd {
			return func() tea.Msg {
				t.due = append(t.due, timer{t.clock.Now().Add(wait), message})
				return nil
			}
		}}
}

// open shows the model in the size.
func (t *terminal) open(model tea.Model, width, height int) {
	t.model = model
	t.resize(width, height)
	t.run(model.Init())
}

func (t *terminal) resize(width, height int) {
	t.width, t.height = width, height
	t.send(tea.WindowSizeMsg{Width: width, Height: height})
}

func (t *terminal) send(message tea.Msg) {
	var command tea.Cmd
	t.model, command = t.model.Update(message)
	t.run(command)
}

func (t *terminal) run(command tea.Cmd) {
	if command == nil {
		return
	}
	switch message := command().(type) {
	case nil:
	case tea.BatchMsg:
		for _, one := range message {
			t.run(one)
		}
	case tea.QuitMsg:
		t.ended = true
	default:
		t.send(message)
	}
}

// pass lets time pass, and gives the messages that are due, in their order.
func (t *terminal) pass(d time.Duration) {
	until := t.clock.Now().Add(d)
	for {
		slices.SortStableFunc(t.due, func(a, b timer) int { return a.at.Compare(b.at) })
		if len(t.due) == 0 || t.due[0].at.After(until) {
			break
		}
		next := t.due[0]
		t.due = t.due[1:]
		t.clock.SetTime(next.at)
		t.send(next.message)
	}
	t.clock.SetTime(until)
}

// press presses keys, one after the other: the names of special ones, or characters.
func (t *terminal) press(keys ...string) {
	special := map[string]rune{"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp,
		"down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace,
		"right": tea.KeyRight, "left": tea.KeyLeft}
	for _, name := range keys {
		switch code, ok := special[name]; {
		case ok:
			t.send(tea.KeyPressMsg{Code: code})
		case name == "ctrl+c":
			t.send(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		case name == "shift+tab":
			t.send(tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift})
		default:
			for _, r := range name {
				t.send(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
	}
}

// shows returns what is on the screen, and makes sure that it fits.
func (t *terminal) shows() string {
	GinkgoHelper()
	shown := t.model.View()
	Expect(shown.AltScreen).To(BeTrue())
	lines := strings.Split(shown.Content, "\n")
	Expect(len(lines)).To(BeNumerically("<=", t.height), shown.Content)
	for _, line := range lines {
		Expect(lipgloss.Width(line)).To(BeNumerically("<=", t.width), line)
	}
	return shown.Content
}

// expectGolden compares what is on the screen with a file, without blanks at the ends of lines. With UPDATE_GOLDEN=1
// the file is written again; look at what has changed before you commit it.
func (t *terminal) expectGolden(name string) {
	GinkgoHelper()
	var out strings.Builder
	for line := range strings.SplitSeq(t.shows(), "\n") {
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	path := filepath.Join("testdata", "golden", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		Expect(os.WriteFile(path, []byte(out.String()), 0o644)).To(Succeed())
	}
	expected, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(out.String()).To(Equal(string(expected)), path)
}

// world is one of those that pkg/cli/view draws, with what is expected of its migration.
func world(name string) summary.ControlPlane {
	GinkgoHelper()
	var out summary.ControlPlane
	data, err := os.ReadFile(filepath.Join("..", "view", "testdata", "worlds", name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(data, &out)).To(Succeed())
	now := out.Now.Time
	out.Expected = expected.Of(summary.Summarize(out.Shoot, now), expected.Facts{TTL: 30 * time.Second}, now)
	return out
}

// source shows a world, and counts how often it was looked at.
type source struct {
	world  summary.ControlPlane
	err    error
	looks  int
	events []view.Event
	// eventsErr is what is missing in the events.
	eventsErr error
	reads     int
}

func (s *source) Look(context.Context) (summary.ControlPlane, error) {
	s.looks++
	return s.world, s.err
}

func (s *source) Events(context.Context) ([]view.Event, error) {
	s.reads++
	return s.events, s.eventsErr
}

// steering notes what it was asked for.
type steering struct {
	asked []string
	err   error
}

func (s *steering) does(what string) (screen.Answer, error) {
	s.asked = append(s.asked, what)
	return screen.Answer{Done: []string{"set the annotation " + what}, Not: []string{"nothing else was done"}}, s.err
}

func (s *steering) Pause(context.Context) (screen.Answer, error)  { return s.does("pause") }
func (s *steering) Resume(context.Context) (screen.Answer, error) { return s.does("resume") }
func (s *steering) Retry(context.Context) (screen.Answer, error)  { return s.does("retry") }
func (s *steering) Abort(context.Context) (screen.Answer, error)  { return s.does("abort") }

var (
	errRefused = errors.New("the API server refuses it")
	errEnough  = errors.New("nobody looks any more")
)
