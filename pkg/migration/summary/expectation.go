// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package summary

import "time"

// Basis says what an expected time is taken from. Scripts may rely on the values.
type Basis string

const (
	// BasisShoot means past migrations of the same shoot.
	BasisShoot Basis = "Shoot"
	// BasisSeeds means past migrations between the same seeds.
	BasisSeeds Basis = "Seeds"
	// BasisGarden means past migrations in the same garden.
	BasisGarden Basis = "Garden"
	// BasisBenchmark means a measurement on the landscape of the repository: there is no past migration.
	BasisBenchmark Basis = "Benchmark"
)

// Expectation is how long a migration is expected to take, and how much of that is over.
type Expectation struct {
	// Seconds is how long all steps take, without times for which the migration is held.
	Seconds float64 `json:"seconds"`
	// RemainingSeconds is how long it still takes from now on, if nothing holds it.
	RemainingSeconds float64 `json:"remainingSeconds"`
	// Progress is the percentage of Seconds that is over.
	Progress int32 `json:"progress"`
	// Late reports that the current step takes longer than expected: nobody knows what remains of it, and it counts
	// with nothing.
	Late bool `json:"late,omitempty"`
	// Basis is the weakest one of the steps.
	Basis Basis `json:"basis"`
	// Steps are all steps in their order.
	Steps []ExpectedStep `json:"steps"`
}

// ExpectedStep is how long one step is expected to take.
type ExpectedStep struct {
	// Condition is the step.
	Condition string `json:"condition"`
	// Seconds is how long it takes as a whole, WaitSeconds how much of that it waits for a time to pass.
	Seconds     float64 `json:"seconds"`
	WaitSeconds float64 `json:"waitSeconds,omitempty"`
	// RemainingSeconds is how long it still takes; nothing if it is finished.
	RemainingSeconds float64 `json:"remainingSeconds"`
	// Basis is what Seconds is taken from, Samples how many past migrations that are.
	Basis   Basis `json:"basis"`
	Samples int   `json:"samples,omitempty"`
}

// Remaining returns how long the migration still takes.
func (e Expectation) Remaining() time.Duration { return seconds(e.RemainingSeconds) }

// Total returns how long all steps take.
func (e Expectation) Total() time.Duration { return seconds(e.Seconds) }

// Step returns what is expected of the step; false if nothing is.
func (e Expectation) Step(condition string) (ExpectedStep, bool) {
	for _, step := range e.Steps {
		if step.Condition == condition {
			return step, true
		}
	}
	return ExpectedStep{}, false
}

// Total returns how long the step takes as a whole.
func (s ExpectedStep) Total() time.Duration { return seconds(s.Seconds) }

// Remaining returns how long the step still takes.
func (s ExpectedStep) Remaining() time.Duration { return seconds(s.RemainingSeconds) }

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

// Expect takes the expectation into the summary, whose progress then is that of the expected time. Without one nothing
// changes.
func (s *Summary) Expect(e *Expectation) {
	if e == nil {
		return
	}
	s.Expected, s.Progress = e, e.Progress
}
