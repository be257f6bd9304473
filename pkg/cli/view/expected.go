// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

// about marks a time that is expected, not measured.
const about = "~"

// About writes a time that is expected: in five seconds below two minutes, in halves of a minute below ten, in minutes
// above. More would promise more than anybody knows.
func About(d time.Duration) string {
	unit := time.Minute
	switch {
	case d < 2*time.Minute:
		unit = 5 * time.Second
	case d < 10*time.Minute:
		unit = 30 * time.Second
	}
	return about + Duration(max(unit, d.Round(unit)))
}

// Left writes how long a migration still takes; empty if nothing is expected.
func Left(s summary.Summary) string {
	switch {
	case s.Expected == nil:
		return ""
	case s.Expected.Late && s.Expected.RemainingSeconds == 0:
		return "longer than expected"
	case s.Expected.Late:
		return "more than " + About(s.Expected.Remaining()) + " left"
	case s.State == summary.Paused || s.State == summary.Held:
		return About(s.Expected.Remaining()) + " left when it resumes"
	}
	return About(s.Expected.Remaining()) + " left"
}

// basisWords are what expected times are taken from, the best first.
var basisWords = []struct {
	basis summary.Basis
	words string
}{
	{summary.BasisShoot, "as in past migrations of this shoot"},
	{summary.BasisSeeds, "as in past migrations between these seeds"},
	{summary.BasisGarden, "as in past migrations of this garden"},
	{summary.BasisBenchmark, "as on the landscape of the repository"},
}

// Basis writes what the expected times of steps are taken from: that of most of them is not that of each, because what
// was held in a past migration tells nothing of how long it takes.
func Basis(all []PlannedStep) string {
	of := map[summary.Basis][]string{}
	for i, step := range all {
		of[step.Basis] = append(of[step.Basis], strconv.Itoa(i+1))
	}
	if len(of[summary.BasisBenchmark]) == len(all) {
		return "as on the landscape of the repository, because no migration is recorded here"
	}
	var out []string
	for _, known := range basisWords {
		numbers := of[known.basis]
		switch {
		case len(numbers) == 0:
		case len(out) == 0:
			out = append(out, known.words)
		case len(numbers) == 1:
			out = append(out, "step "+numbers[0]+" "+known.words)
		default:
			out = append(out, "steps "+strings.Join(numbers, ", ")+" "+known.words)
		}
	}
	return strings.Join(out, "; ")
}

// waitNames are what waits are called where they are counted down.
var waitNames = map[waits.For]string{
	waits.Caches:  "DNS caches",
	waits.Drain:   "Clients leave the source",
	waits.Clients: "Requests finish",
	waits.Gateway: "Gateway drains",
}

// Countdown writes how long a step still waits for a time to pass, as in "DNS caches: 23s of 1m left". It returns false
// if the message tells of no such wait.
func Countdown(step summary.Step, now time.Time) (string, bool) {
	wait, ok := waits.Told(step.Reason, step.Message)
	switch {
	case !ok:
		return "", false
	case wait.Left(now) == 0:
		return waitNames[wait.For] + ": over", true
	case wait.Total == 0:
		return fmt.Sprintf("%s: %s left", waitNames[wait.For], Duration(wait.Left(now))), true
	}
	return fmt.Sprintf("%s: %s of %s left", waitNames[wait.For], Duration(wait.Left(now)), Duration(wait.Total)), true
}
