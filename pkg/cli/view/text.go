// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package view is what kubectl-livecpm shows: what its commands have found out, as text for people, as data for
// programs, and as exit codes. What draws is pure, so that whole screens can be compared with golden files. Loop, which
// draws again and again, is handed what looks and where to write.
package view

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

const (
	defaultWidth = 120
	// narrow is the width below which columns are left out.
	narrow = 100
	// smallest is the narrowest terminal that is drawn for.
	smallest = 40
)

// Options are how to draw.
type Options struct {
	// Width is the number of columns of the terminal; zero if there is none.
	Width int
	// Color uses colors.
	Color bool
	// Wide leaves nothing out.
	Wide bool
	// Zone is the time zone in which points in time are written; nil for UTC.
	Zone *time.Location
}

// Moment writes a point in time with its date and zone.
func (o Options) Moment(at time.Time) string { return o.in(at).Format(time.RFC3339) }

// Date writes a point in time as people read it, with its date and zone.
func (o Options) Date(at time.Time) string { return o.in(at).Format("2006-01-02 15:04:05 MST") }

// Clock writes the time of day with its zone.
func (o Options) Clock(at time.Time) string { return o.in(at).Format("15:04:05Z07:00") }

func (o Options) in(at time.Time) time.Time {
	if o.Zone == nil {
		return at.UTC()
	}
	return at.In(o.Zone)
}

func (o Options) width() int {
	if o.Width == 0 {
		return defaultWidth
	}
	return max(o.Width, smallest)
}

func (o Options) narrow() bool { return o.width() < narrow && !o.Wide }

type color string

const (
	plain  color = ""
	bold   color = "1"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	cyan   color = "36"
	faint  color = "2"
)

func (o Options) paint(c color, text string) string {
	if !o.Color || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Cut shortens the text to the number of columns.
func Cut(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(columns, 1)-1]), " ") + "…"
}

// flat makes one line of the text.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// Wrap breaks the text into lines of at most so many columns, between words where that is possible.
func Wrap(text string, columns int) []string { return wrap(text, max(columns, 1)) }

// wrap breaks the text into lines of at most so many columns, between words where that is possible.
func wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > columns {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			runes := []rune(word)
			lines, word = append(lines, string(runes[:columns])), string(runes[columns:])
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= columns:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// clip shortens a line so that it fits a terminal behind what stands to its left: a line that wraps would spoil the
// next screen. Without a terminal nothing is clipped.
func (o Options) clip(text string, left int) string {
	if o.Width == 0 {
		return text
	}
	return Cut(text, o.width()-left)
}

func pad(text string, columns int) string {
	if missing := columns - utf8.RuneCountInString(text); missing > 0 {
		return text + strings.Repeat(" ", missing)
	}
	return text
}

func padLeft(text string, columns int) string {
	if missing := columns - utf8.RuneCountInString(text); missing > 0 {
		return strings.Repeat(" ", missing) + text
	}
	return text
}

// Duration writes a duration as people read it.
func Duration(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		if d%time.Minute == 0 {
			return fmt.Sprintf("%dm", int(d.Minutes()))
		}
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// size writes a number of bytes.
func size(bytes int64) string {
	const kibi = 1 << 10
	switch {
	case bytes < kibi:
		return fmt.Sprintf("%d B", bytes)
	case bytes < kibi*kibi:
		return fmt.Sprintf("%.0f KiB", float64(bytes)/kibi)
	case bytes < kibi*kibi*kibi:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/kibi/kibi)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/kibi/kibi/kibi)
}

// Table aligns rows below their header.
func Table(header []string, rows [][]string) string {
	var aligned, out strings.Builder
	writer := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		_, _ = fmt.Fprintln(writer, strings.Join(row, "\t"))
	}
	_ = writer.Flush()
	// Empty cells at the end leave blanks.
	for line := range strings.Lines(aligned.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}
