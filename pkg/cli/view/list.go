// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// InFlightFirst returns the migrations in the order of their names, those in flight first.
func InFlightFirst(summaries []summary.Summary) []summary.Summary {
	sorted := slices.Clone(summaries)
	slices.SortStableFunc(sorted, func(a, b summary.Summary) int {
		if a.State.Final() != b.State.Final() {
			if a.State.Final() {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Key(), b.Key())
	})
	return sorted
}

// List draws one line for each migration. Those in flight come first.
func List(summaries []summary.Summary, now time.Time, o Options) string {
	header := []string{"NAMESPACE", "NAME", "SEEDS", "STATE", "PROGRESS", "LEFT", "STEP", "REASON", "AGE"}
	if o.Wide {
		header = append(header, "MESSAGE")
	}
	var rows [][]string
	for _, s := range InFlightFirst(summaries) {
		row := []string{s.Namespace, s.Name, orDash(Seeds(s)), string(s.State), fmt.Sprintf("%d %%", s.Progress),
			LeftInList(s), orDash(s.Step), orDash(s.Reason), Age(s, now)}
		if o.Wide {
			row = append(row, orDash(flat(s.Message)))
		}
		rows = append(rows, row)
	}
	return Table(header, rows)
}

// LeftInList returns how long a migration still takes, in as few words as a column has place for.
func LeftInList(s summary.Summary) string {
	switch {
	case s.Expected == nil:
		return "-"
	case s.Expected.Late:
		return "late"
	}
	return About(s.Expected.Remaining())
}

// Age returns for how long a migration has been in flight, or how long ago it ended.
func Age(s summary.Summary, now time.Time) string {
	switch {
	case s.Ended != nil:
		return Duration(max(0, now.Sub(*s.Ended))) + " ago"
	case s.Started != nil:
		return Duration(max(0, now.Sub(*s.Started)))
	}
	return "-"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Line draws a migration as one line, for output that is no terminal. It changes only if something happens.
func Line(s summary.Summary, o Options) string {
	text := fmt.Sprintf("%s %s", s.Key(), o.paint(stateColor(s.State), string(s.State)))
	if len(s.Steps) > 0 && s.State != summary.Aborted {
		text += fmt.Sprintf(" %d %%", s.Progress)
	}
	if s.Step != "" {
		text += fmt.Sprintf(" %s (%s)", s.Step, s.Owner)
	}
	if s.Reason != "" {
		text += " " + s.Reason
	}
	if s.Message != "" {
		message := flat(messageOf(s, s.Message, o))
		if !o.Wide {
			message = Cut(message, 10*defaultWidth)
		}
		text += ": " + message
	}
	return text
}
