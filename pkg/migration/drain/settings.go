// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/hops"
)

// Annotations with which operators say on a Seed when its drain may start moves. A value that cannot be read holds all
// of them.
const (
	// AnnotationWindows asks that moves begin in the maintenance time window of their shoot only, whichever way they
	// take. The only value is WindowsMaintenance.
	AnnotationWindows = "migration.gardener.cloud/drain-windows"
	// WindowsMaintenance are the windows in spec.maintenance.timeWindow of the Shoots.
	WindowsMaintenance = "maintenance"
	// AnnotationFreezes are times in which nothing begins: BEGIN/END, both in RFC 3339, separated by commas.
	AnnotationFreezes = "migration.gardener.cloud/drain-freezes"
	// AnnotationCanaries is how many shoots have to arrive before any other begins to move.
	AnnotationCanaries = "migration.gardener.cloud/drain-canaries"
	// AnnotationSoak is the time between the arrival of the last of these and the next move, as a duration of Go.
	AnnotationSoak = "migration.gardener.cloud/drain-soak"
)

// FreezeMargin is how long before a change freeze the drain stops to start moves, so that the last of them is over when
// the freeze begins.
const FreezeMargin = time.Hour

// Settings say when the drain of a seed may start moves.
type Settings struct {
	// InWindows reports that moves begin in the maintenance time window of their shoot only.
	InWindows bool
	// Freezes are times in which nothing begins.
	Freezes []Span
	// Canaries is how many shoots move at first, Soak the time between the arrival of the last of them and the next
	// move. There is no such stage if it is zero.
	Canaries int
	Soak     time.Duration
	// MaxHops is how many live migrations one after the other may move a shoot whose destinations are too far away for
	// one; zero if nothing is said, which means one.
	MaxHops int
	// Problem names the first annotation that cannot be read, and what it should look like. Nothing begins while there
	// is one.
	Problem string
}

// Span is a span of time. The end is not part of it.
type Span struct{ Begin, End time.Time }

// SettingsOf reads the settings from the annotations of a Seed.
func SettingsOf(annotations map[string]string) Settings {
	var out Settings
	for _, setting := range []struct {
		key, form string
		read      func(string) error
	}{
		{AnnotationWindows, WindowsMaintenance, out.readWindows},
		{AnnotationFreezes, "2026-12-20T00:00:00Z/2027-01-03T00:00:00Z, more of them separated by commas",
			out.readFreezes},
		{AnnotationCanaries, "a number that is not negative", out.readCanaries},
		{AnnotationSoak, "a duration that is not negative, for example 2h", out.readSoak},
		{AnnotationMaxHops, fmt.Sprintf("a number from 1 to %d", hops.Max), out.readMaxHops},
	} {
		value, ok := annotations[setting.key]
		if !ok {
			continue
		}
		if err := setting.read(value); err != nil {
			return Settings{Problem: fmt.Sprintf("the annotation %s of the Seed is %q: %v; set it to %s, or remove it",
				setting.key, value, err, setting.form)}
		}
	}
	return out
}

func (s *Settings) readWindows(value string) error {
	s.InWindows = value == WindowsMaintenance
	if !s.InWindows {
		return errors.New("there are no such windows")
	}
	return nil
}

func (s *Settings) readFreezes(value string) error {
	for part := range strings.SplitSeq(value, ",") {
		begin, end, _ := strings.Cut(strings.TrimSpace(part), "/")
		var span Span
		for _, point := range []struct {
			text string
			at   *time.Time
		}{{begin, &span.Begin}, {end, &span.End}} {
			at, err := time.Parse(time.RFC3339, point.text)
			if err != nil {
				return fmt.Errorf("%q is no time in RFC 3339", point.text)
			}
			*point.at = at
		}
		if !span.End.After(span.Begin) {
			return fmt.Errorf("%s is not after %s", end, begin)
		}
		s.Freezes = append(s.Freezes, span)
	}
	return nil
}

func (s *Settings) readCanaries(value string) (err error) {
	if s.Canaries, err = strconv.Atoi(value); err == nil && s.Canaries < 0 {
		err = errors.New("it is negative")
	}
	return err
}

func (s *Settings) readSoak(value string) (err error) {
	if s.Soak, err = time.ParseDuration(value); err == nil && s.Soak < 0 {
		err = errors.New("it is negative")
	}
	return err
}

func (s *Settings) readMaxHops(value string) (err error) {
	if s.MaxHops, err = strconv.Atoi(value); err == nil && (s.MaxHops < 1 || s.MaxHops > hops.Max) {
		err = errors.New("it is out of range")
	}
	return err
}

// frozenUntil returns when moves may begin again, or the zero time if they may now. Freezes between which no move fits
// are one.
func (s Settings) frozenUntil(now time.Time) time.Time {
	var until time.Time
	for at := now; ; at = until {
		next := at
		for _, freeze := range s.Freezes {
			if !at.Before(freeze.Begin.Add(-FreezeMargin)) && next.Before(freeze.End) {
				next = freeze.End
			}
		}
		if next.Equal(at) {
			return until
		}
		until = next
	}
}
