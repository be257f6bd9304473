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

// Settings say how and when the drain of a seed may start moves.
type Settings struct {
	// Permits are the ways other than a live migration that are permitted.
	Permits
	// InWindows reports that moves begin in the maintenance time window of their shoot only.
	InWindows bool
	// Freezes are times in which nothing begins.
	Freezes []Span
	// Canaries is how many shoots move at first, Soak the time between the arrival of the last of them and the next
	// move. There is no such stage if it is zero.
	Canaries int
	Soak     time.Duration
	// Problem names the first annotation that cannot be read, and what it should look like. Nothing begins while there
	// is one.
	Problem string
}

// Span is a span of time. The end is not part of it.
type Span struct{ Begin, End time.Time }

// Setting is an annotation of a Seed with which operators say how or when its drain moves shoots.
type Setting struct {
	// Annotation is its key.
	Annotation string
	// Name is the last part of that, after drain-.
	Name string
	// Form says what a value looks like.
	Form string
	// Means says what it does, for people.
	Means string

	read func(*Settings, string) error
}

// settingsPrefix is what the keys of all settings begin with.
const settingsPrefix = AnnotationDrain + "-"

// AllSettings returns all settings: first those that say how shoots leave, then those that say when.
func AllSettings() []Setting {
	all := []Setting{
		{Annotation: AnnotationFallback, Form: FallbackClassic, read: (*Settings).readFallback,
			Means: "let shoots that are not highly available leave by Gardener's own migration, which stops the API " +
				"server for minutes"},
		{Annotation: AnnotationHibernated, Form: HibernatedStay, read: (*Settings).readHibernated,
			Means: "keep hibernated shoots in the seed until they are awake"},
		{Annotation: AnnotationMaxHops, Form: fmt.Sprintf("a number from 1 to %d", hops.Max),
			read: (*Settings).readMaxHops, Means: "how many migrations one after the other may move a shoot whose " +
				"destinations are too far away for one"},
		{Annotation: AnnotationWindows, Form: WindowsMaintenance, read: (*Settings).readWindows,
			Means: "begin every move in the maintenance time window of its shoot"},
		{Annotation: AnnotationFreezes, read: (*Settings).readFreezes,
			Form:  "2026-12-20T00:00:00Z/2027-01-03T00:00:00Z, more of them separated by commas",
			Means: "times in which nothing begins, nor in the hour before"},
		{Annotation: AnnotationCanaries, Form: "a number that is not negative", read: (*Settings).readCanaries,
			Means: "how many shoots move first; the others wait until these have arrived"},
		{Annotation: AnnotationSoak, Form: "a duration that is not negative, for example 2h",
			read: (*Settings).readSoak, Means: "how long the others wait after that"},
	}
	for i := range all {
		all[i].Name = strings.TrimPrefix(all[i].Annotation, settingsPrefix)
	}
	return all
}

// SettingsOf reads the settings from the annotations of a Seed.
func SettingsOf(annotations map[string]string) Settings {
	var out Settings
	for _, setting := range AllSettings() {
		value, ok := annotations[setting.Annotation]
		if !ok {
			continue
		}
		if err := setting.read(&out, value); err != nil {
			return Settings{Problem: fmt.Sprintf("the annotation %s of the Seed is %q: %v; set it to %s, or remove it",
				setting.Annotation, value, err, setting.Form)}
		}
	}
	return out
}

func (s *Settings) readFallback(value string) error {
	s.Fallback = value == FallbackClassic
	if !s.Fallback {
		return errors.New("there is no such way")
	}
	return nil
}

func (s *Settings) readHibernated(value string) error {
	s.HibernatedStay = value == HibernatedStay
	if !s.HibernatedStay {
		return errors.New("nothing else can be asked for")
	}
	return nil
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
	if s.Hops, err = strconv.Atoi(value); err == nil && (s.Hops < 1 || s.Hops > hops.Max) {
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
