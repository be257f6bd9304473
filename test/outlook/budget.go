// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

const (
	// EnvUntil names the environment variable with the second after which nothing of a run may run any more.
	EnvUntil = "LIVECPM_UNTIL"
	// EnvSlowness names the environment variable that tells, in percent, how long what was done so far took against
	// what it takes on a usual machine.
	EnvSlowness = "LIVECPM_SLOWNESS"
)

// Budget is the time that a run has, if it has been given one.
type Budget struct {
	// Until is when it is over; the zero time says that there is no end.
	Until time.Time
	// Slowness is by what usual durations are to be multiplied.
	Slowness float64
}

// BudgetFromEnvironment returns the budget that the environment gives.
func BudgetFromEnvironment() (Budget, error) {
	b := Budget{Slowness: 1}
	if text := os.Getenv(EnvUntil); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return b, fmt.Errorf("%s must be a time in seconds: %w", EnvUntil, err)
		}
		b.Until = time.Unix(seconds, 0)
	}
	if text := os.Getenv(EnvSlowness); text != "" {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || percent <= 0 {
			return b, fmt.Errorf("%s must be a positive number of percent, and is %q", EnvSlowness, text)
		}
		b.Slowness = percent / 100
	}
	return b, nil
}

// Fits reports whether something that usually takes so long ends in time when it begins now; if not, why says by how
// much.
func (b Budget) Fits(now time.Time, usually time.Duration) (fits bool, why string) {
	if b.Until.IsZero() {
		return true, ""
	}
	takes, left := time.Duration(float64(usually)*b.Slowness), b.Until.Sub(now)
	if takes <= left {
		return true, ""
	}
	return false, fmt.Sprintf("it takes up to %s, and %s are left", takes.Round(time.Second),
		max(left, 0).Round(time.Second))
}

// loadAtMost is the share of the processors that a load may take by itself. A migration takes half as much again as its
// load does (1.7 processors of the reference instead of 1.1 to 1.2). More than this leaves less than half of that.
const loadAtMost = 0.8

// Saturated reports whether a load leaves a migration too little of a machine's processors to answer in time. The load
// used so many cores by itself, before the migration was triggered; why gives the figures.
func Saturated(used float64, cores int) (saturated bool, why string) {
	most := loadAtMost * float64(cores)
	if used <= most {
		return false, ""
	}
	return true, fmt.Sprintf("the load takes %.2f of %d processors by itself, more than %.1f", used, cores, most)
}
