// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

// View implements tea.Model.
func (m *Migration) View() tea.View {
	if m.size.width == 0 {
		return tea.NewView("") // The size is not known yet.
	}
	m.fill()
	lines := append(m.head(), strings.Split(m.body.View(), "\n")...)
	return m.options.show(append(lines, m.foot()...), m.size, m.name)
}

// fill puts the text of the view into what scrolls.
func (m *Migration) fill() {
	m.body.SetWidth(m.size.width)
	m.body.SetHeight(max(1, m.size.height-len(m.head())-len(m.foot())))
	follows := m.tab == tabEvents && m.body.AtBottom()
	m.body.SetContent(strings.TrimSuffix(m.text(), "\n"))
	if follows {
		m.body.GotoBottom()
	}
}

// head is what stands above what scrolls.
func (m *Migration) head() []string {
	o := m.options
	if m.world == nil {
		return []string{across(o.paint(bold, m.name), o.time(), m.size.width), "Looking …", "", "", m.tabLine(),
			o.rule(m.size)}
	}
	world, now := m.now()
	s := view.Summary(world)
	return []string{
		across(o.paint(bold, m.name)+"  "+view.Seeds(s), o.time(), m.size.width),
		m.stateLine(s),
		m.stepLine(s),
		m.waitLine(s, now),
		m.tabLine(),
		o.rule(m.size),
	}
}

// stateLine is the state, the progress as a bar of what place there is, and the times.
func (m *Migration) stateLine(s summary.Summary) string {
	state := view.State(s, m.options.view(m.size))
	times := view.Times(s)
	if len(s.Steps) == 0 || s.State == summary.Aborted {
		return across(state, times, m.size.width)
	}
	right := fmt.Sprintf("%3d %%", s.Progress)
	if times != "" {
		right += "  " + times
	}
	length := min(50, m.size.width-len(string(s.State))-len(right)-6)
	if length < 8 {
		return across(state, right, m.size.width)
	}
	return state + "  " + bar(float64(s.Progress)/100, length) + " " + right
}

// stepLine is the current step, and how long it has taken.
func (m *Migration) stepLine(s summary.Summary) string {
	for _, step := range s.Steps {
		if !step.Current {
			continue
		}
		left := fmt.Sprintf("Step %d of %d  %s", step.Number, len(s.Steps), step.Condition)
		if m.size.width >= 100 {
			left += "  (" + step.Owner + ")"
		}
		return across(left, view.StepTime(s, step), m.size.width)
	}
	return ""
}

// waitLine counts down: what the step waits for, how long it may still take, and what a held one waits for.
func (m *Migration) waitLine(s summary.Summary, now time.Time) string {
	for _, step := range s.Steps {
		if !step.Current {
			continue
		}
		deadline := deadlineOf(step)
		text, waits := view.Countdown(step, now)
		if !waits {
			return across(step.Reason, deadline, m.size.width)
		}
		if total, passed, known := passedOf(step, now); known && m.size.width >= 60 {
			text += "  " + bar(passed.Seconds()/total.Seconds(), 12)
		}
		return across(text, deadline, m.size.width)
	}
	return ""
}

func passedOf(step summary.Step, now time.Time) (total, passed time.Duration, known bool) {
	wait, ok := waits.Told(step.Reason, step.Message)
	return wait.Total, wait.Passed(now), ok && wait.Total > 0
}

// deadlineOf says for how long the step may still take before it calls an operator.
func deadlineOf(step summary.Step) string {
	took, begun := step.Elapsed()
	if !begun || step.DeadlineSeconds == 0 {
		return ""
	}
	left := time.Duration(step.DeadlineSeconds*float64(time.Second)) - took
	if left <= 0 {
		return "deadline passed"
	}
	return "deadline in " + view.Duration(left)
}

// tabLine names the views. The brackets tell the chosen one also without colors.
func (m *Migration) tabLine() string {
	var out []string
	for i, name := range tabNames {
		label := fmt.Sprintf(" %d %s ", i+1, name)
		if tab(i) == m.tab {
			label = m.options.paint(chosen, fmt.Sprintf("[%d %s]", i+1, name))
		}
		out = append(out, label)
	}
	return strings.Join(out, " ")
}

// text is the text of the view.
func (m *Migration) text() string {
	switch {
	case m.help:
		may := []key.Binding{keyPause, keyResume, keyRetry, keyAbort}
		return allKeys([]key.Binding{keyNext, keyBefore, keyViews, keyUp, keyDown, keyPageUp, keyPageDn, keyTop,
			keyBottom}, may, []key.Binding{keyWide, keyHelp, keyBack, keyQuit})(m.options, m.size)
	case m.world == nil:
		return ""
	}
	world, _ := m.now()
	o := m.options.view(m.size)
	o.Wide = m.wide
	switch m.tab {
	case tabEtcd:
		return orElse(view.ControlPlanes(world, o), "Nothing is known of the seeds.")
	case tabEvents:
		return m.eventsText(o)
	case tabProbe:
		return orElse(untitled(view.Probe(world, o)), fmt.Sprintf("No probe runs on this machine. Start one in "+
			"another terminal:\n\n  kubectl livecpm probe %s -n %s --until-complete", world.Shoot.Name,
			world.Shoot.Namespace))
	}
	s := view.Summary(world)
	out := untitled(view.Steps(world, o))
	if page := s.Runbook(); page != "" {
		out += "\n" + strings.Join(view.Wrap("See "+page, m.size.width), "\n") + "\n"
	}
	return orElse(out, view.Explain(s.State))
}

func (m *Migration) eventsText(o view.Options) string {
	out := view.Events(m.events, o)
	switch {
	case m.eventsSeen.IsZero():
		return "Reading events …"
	case m.eventsErr != nil:
		out += "Not complete: " + strings.Join(view.Wrap(m.eventsErr.Error(), m.size.width-14), "\n  ") + "\n"
	case len(m.events) == 0:
		return "No events. API servers keep them for an hour."
	}
	return out
}

// foot is what stands below what scrolls: a question, an answer, or the keys.
func (m *Migration) foot() []string {
	o := m.options
	out := []string{o.rule(m.size)}
	switch {
	case m.prompt != nil:
		for _, line := range m.prompt.lines() {
			out = append(out, view.Wrap(line, m.size.width)...)
		}
		return out
	case m.notice.text != "":
		style := success
		if m.notice.bad {
			style = failure
		}
		for _, line := range view.Wrap(m.notice.text, m.size.width) {
			out = append(out, o.paint(style, line))
		}
	case m.failed != nil:
		for _, line := range view.Wrap(m.failed.Error()+"; retrying", m.size.width) {
			out = append(out, o.paint(failure, line))
		}
	}
	return append(out, o.helper(m.size).ShortHelpView(m.keys()))
}

// keys are those that do something now.
func (m *Migration) keys() []key.Binding {
	out := []key.Binding{keyNext}
	if m.world != nil {
		out = append(out, possible(*m.world).keys()...)
	}
	out = append(out, keyWide, keyHelp)
	if m.opened {
		return append(out, keyBack)
	}
	return append(out, keyQuit)
}

// untitled takes the title away: the name of the view says it.
func untitled(section string) string {
	_, rest, _ := strings.Cut(section, "\n")
	return rest
}

func orElse(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}

// sentence makes a sentence of what was done.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// shortStep is the number of the current step; empty if there is none.
func shortStep(s summary.Summary) string {
	for _, step := range s.Steps {
		if step.Current {
			return fmt.Sprintf("%d/%d", step.Number, len(steps.Table()))
		}
	}
	return ""
}
