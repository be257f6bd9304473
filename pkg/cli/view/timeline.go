// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is something that was reported in the garden or in a seed.
type Event struct {
	// Time is when it was reported last, Where the garden or the name of the seed.
	Time  time.Time `json:"time"`
	Where string    `json:"where"`
	// Object is the kind and the name of what it is about, By who reports it.
	Object string `json:"object"`
	By     string `json:"by,omitempty"`
	// Warning reports that it is one. Reason and Message are those of the event, Count how often it was reported.
	Warning bool   `json:"warning,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Count   int32  `json:"count,omitempty"`
}

// LogLine is a line of a log.
type LogLine struct {
	// Time is when it was written, Where the name of the seed, Pod and Container what has written it.
	Time      time.Time `json:"time"`
	Where     string    `json:"where"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"`
	// Text is the line as it was written.
	Text string `json:"text"`
}

// SortEvents brings events into the order of time; what comes at once is ordered by where.
func SortEvents(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Where, b.Where))
	})
}

// SortLogs brings lines into the order of time. Lines of one container stay in theirs.
func SortLogs(lines []LogLine) {
	slices.SortStableFunc(lines, func(a, b LogLine) int { return a.Time.Compare(b.Time) })
}

// objectColumns is how much of an object's name is shown.
const objectColumns = 32

// messageColumns is the room that a message needs beside time and object. Where there is less, it goes below them.
const messageColumns = 60

// Events draws events, one after the other: each on a line, or on two and more where a line has no room for what it
// says.
func Events(events []Event, o Options) string {
	var out strings.Builder
	where, object := 0, 0
	for _, event := range events {
		where = max(where, utf8.RuneCountInString(event.Where))
		object = max(object, min(utf8.RuneCountInString(event.Object), objectColumns))
	}
	for _, event := range events {
		head := o.Moment(event.Time) + "  " + pad(event.Where, where) + "  " +
			pad(Cut(event.Object, objectColumns), object) + "  "
		left := utf8.RuneCountInString(head)
		switch text := event.text(o); {
		case o.Wide:
			out.WriteString(head + o.paint(event.color(), text) + "\n")
		case o.Width != 0 && o.width()-left < messageColumns:
			out.WriteString(event.below(o, where))
		default:
			out.WriteString(head + o.paint(event.color(), o.clip(text, left)) + "\n")
		}
	}
	return out.String()
}

func (e Event) color() color {
	if e.Warning {
		return yellow
	}
	return plain
}

// text is what an event says.
func (e Event) text(o Options) string {
	text := e.Reason + ": " + flat(e.Message)
	if e.Count > 1 {
		text += fmt.Sprintf(" (%d times)", e.Count)
	}
	if o.Wide && e.By != "" {
		text += " [" + e.By + "]"
	}
	return text
}

// below draws an event with what it says below of when and where, unless one line has room for all. Its day is left
// out: events live for an hour.
func (e Event) below(o Options, where int) string {
	const indent = "    "
	head, text := o.Clock(e.Time)+"  "+pad(e.Where, where)+"  ", e.text(o)
	if line := head + e.Object + "  "; utf8.RuneCountInString(line+text) <= o.width() {
		return line + o.paint(e.color(), text) + "\n"
	}
	var out strings.Builder
	out.WriteString(head + Cut(e.Object, o.width()-utf8.RuneCountInString(head)) + "\n")
	for _, line := range Wrap(text, o.width()-len(indent)) {
		out.WriteString(indent + o.paint(e.color(), line) + "\n")
	}
	return out.String()
}

// Logs draws lines of logs, one after the other. Nothing of a line is left out: it may be searched.
func Logs(lines []LogLine, o Options) string {
	var out strings.Builder
	where, pod := 0, 0
	for _, line := range lines {
		where = max(where, utf8.RuneCountInString(line.Where))
		pod = max(pod, utf8.RuneCountInString(line.Pod))
	}
	for _, line := range lines {
		name := line.Pod
		if o.Wide {
			name += "/" + line.Container
		}
		out.WriteString(o.paint(faint, o.Moment(line.Time)) + "  " + pad(line.Where, where) + "  " +
			pad(name, pod) + "  " + strings.TrimRight(line.Text, "\r\n") + "\n")
	}
	return out.String()
}
