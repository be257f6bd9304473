// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package history is the record of the live migrations of a garden that have ended. A Shoot knows its last migration
// only, and not where it came from; events live for an hour. livecpm-controller-manager keeps the record in a ConfigMap
// in the garden. It is bounded: the oldest migrations are forgotten.
package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/migration/waits"
)

const (
	// ConfigMapName is the name of the ConfigMap, which is in the garden namespace.
	ConfigMapName = "livecpm-history"
	// Key is the key of the record in it.
	Key = "history.json"
	// MaxRecords is how many migrations are remembered. One takes less than a kibibyte, and an object may have a
	// mebibyte.
	MaxRecords = 300

	// kind tells the record from something else that has its place.
	kind = "LiveMigrationHistory"
	// sameEnd is by how much two looks at the end of one migration may differ.
	sameEnd = time.Minute
)

// Result is how a migration has ended.
type Result string

const (
	// Succeeded means that the shoot is in its destination.
	Succeeded Result = "Succeeded"
	// Aborted means that it has stayed in its source.
	Aborted Result = "Aborted"
	// Unknown means that the end was not seen, and another migration of the same shoot has begun since.
	Unknown Result = "Unknown"
)

// Record is one migration.
type Record struct {
	// Namespace, Name and UID are those of the Shoot.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Source and Destination are the seeds; empty if they are not known.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	// Workers is how many pools of workers the shoot had.
	Workers int `json:"workers,omitempty"`
	// RequestedBy is the user who has requested it, as the Shoot said; empty if it named nobody.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Result is how it has ended; empty as long as it is in flight.
	Result Result `json:"result,omitempty"`
	// Started and Ended are when; nil if that is not known, or has not come.
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	// Steps are how long the steps that have finished took.
	Steps []Step `json:"steps,omitempty"`
	// Waits are what its steps waited for that is a time: those of them that were seen.
	Waits []Wait `json:"waits,omitempty"`
	// Held are the steps that were seen to be paused or held before they began. The time counts in Steps.
	Held []string `json:"held,omitempty"`
}

// Wait is a wait of a step for a time to pass.
type Wait struct {
	// Condition is the step, For what it waits for.
	Condition string    `json:"condition"`
	For       waits.For `json:"for"`
	// Seconds is how long the wait is as a whole, Until when it ends.
	Seconds float64   `json:"seconds"`
	Until   time.Time `json:"until"`
}

// Waited returns how long a step waited for a time to pass; zero if nothing is known of that.
func (r Record) Waited(condition string) time.Duration {
	seconds := 0.0
	for _, wait := range r.Waits {
		if wait.Condition == condition {
			seconds += wait.Seconds
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// Step is how long a step took.
type Step struct {
	// Condition is the step, Seconds how long it took.
	Condition string  `json:"condition"`
	Seconds   float64 `json:"seconds"`
}

// Duration returns how long the migration took, or false if that is not known.
func (r Record) Duration() (time.Duration, bool) {
	if r.Started == nil || r.Ended == nil {
		return 0, false
	}
	return r.Ended.Sub(*r.Started), true
}

// History is the record of all migrations, in the order in which they began to be known.
type History struct {
	// Kind is what the record is.
	Kind string `json:"kind"`
	// Records are the migrations. Those in flight are among them, so that their beginning and their source are known
	// when they end.
	Records []Record `json:"records"`
}

// Decode reads what Encode has written. Nothing is a history without records; anything else is an error, and nobody may
// overwrite it.
func Decode(content string) (History, error) {
	if content == "" {
		return History{Kind: kind}, nil
	}
	var out History
	if err := json.Unmarshal([]byte(content), &out); err != nil {
		return History{}, fmt.Errorf("failed to decode the history of migrations: %w", err)
	}
	if out.Kind != kind {
		return History{}, fmt.Errorf("the history of migrations has kind %q instead of %s", out.Kind, kind)
	}
	return out, nil
}

// Encode writes the history.
func (h History) Encode() (string, error) {
	content, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("failed to encode the history of migrations: %w", err)
	}
	return string(content), nil
}

// Observe takes into the history what the Shoot shows, and reports whether that was something new. It may see the same
// again and again, and need not see everything: a migration that it sees only at its end has no beginning and no
// source.
func (h *History) Observe(shoot *gardencorev1beta1.Shoot, now time.Time) bool {
	migration := summary.Summarize(shoot, now)
	switch migration.State {
	case summary.Succeeded:
		return h.end(shoot, migration, Succeeded)
	case summary.Aborted:
		return h.end(shoot, migration, Aborted)
	case summary.None, summary.Classic:
		return false
	}
	if len(migration.Steps) == 0 {
		return false // The source has not taken it up.
	}
	began := h.begin(shoot, migration)
	waiting := h.wait(shoot, migration)
	held := h.hold(shoot, migration)
	return began || waiting || held
}

// Waiting returns what the current step of the migration waits for, if that is a time.
func Waiting(migration summary.Summary) (Wait, bool) {
	for _, step := range migration.Steps {
		if !step.Current {
			continue
		}
		if wait, ok := waits.Told(step.Reason, step.Message); ok && wait.Total > 0 {
			return Wait{Condition: step.Condition, For: wait.For, Seconds: wait.Total.Seconds(),
				Until: wait.Until}, true
		}
	}
	return Wait{}, false
}

// wait notes what the migration waits for. A wait that has begun again takes the place of the first, except at the
// gateway, which is waited for once for each door.
func (h *History) wait(shoot *gardencorev1beta1.Shoot, migration summary.Summary) bool {
	record := h.open(shoot.UID)
	wait, ok := Waiting(migration)
	if record == nil || !ok {
		return false
	}
	same := func(other Wait) bool { return other.Condition == wait.Condition && other.For == wait.For }
	known := func(other Wait) bool { return same(other) && other.Until.Equal(wait.Until) }
	if slices.ContainsFunc(record.Waits, known) {
		return false
	}
	if wait.For != waits.Gateway {
		record.Waits = slices.DeleteFunc(record.Waits, same)
	}
	record.Waits = append(record.Waits, wait)
	return true
}

// Holding returns the step that does not begin because of a pause or a guard; empty if there is none.
func Holding(migration summary.Summary) string {
	if migration.State == summary.Paused || migration.State == summary.Held {
		return migration.Step
	}
	return ""
}

// hold notes that a step is held.
func (h *History) hold(shoot *gardencorev1beta1.Shoot, migration summary.Summary) bool {
	record, step := h.open(shoot.UID), Holding(migration)
	if record == nil || step == "" || slices.Contains(record.Held, step) {
		return false
	}
	record.Held = append(record.Held, step)
	return true
}

func (h *History) begin(shoot *gardencorev1beta1.Shoot, migration summary.Summary) bool {
	if open := h.open(shoot.UID); open != nil {
		// In the last step, the conditions do not tell any more when the migration began.
		if migration.Started == nil || open.Started != nil && open.Started.Equal(*migration.Started) {
			return false
		}
		open.Result = Unknown
	}
	h.add(recordOf(shoot, migration))
	return true
}

func (h *History) end(shoot *gardencorev1beta1.Shoot, migration summary.Summary, result Result) bool {
	record := h.open(shoot.UID)
	if record == nil {
		if h.has(shoot.UID, result, migration.Ended) {
			return false
		}
		h.add(recordOf(shoot, migration))
		record = &h.Records[len(h.Records)-1]
	}
	record.Result, record.Ended = result, migration.Ended
	record.Steps = durations(shoot, migration, record.Started)
	return true
}

func recordOf(shoot *gardencorev1beta1.Shoot, migration summary.Summary) Record {
	return Record{Namespace: shoot.Namespace, Name: shoot.Name, UID: shoot.UID, Source: migration.Source,
		Destination: migration.Destination, Workers: len(shoot.Spec.Provider.Workers), Started: migration.Started,
		RequestedBy: shoot.Annotations[steps.AnnotationRequestedBy]}
}

// open returns the migration of the shoot that is in flight, or nil.
func (h *History) open(uid types.UID) *Record {
	for i := range h.Records {
		if h.Records[i].UID == uid && h.Records[i].Result == "" {
			return &h.Records[i]
		}
	}
	return nil
}

// has reports whether this end of a migration of the shoot is known.
func (h *History) has(uid types.UID, result Result, ended *time.Time) bool {
	for _, record := range h.Records {
		switch {
		case record.UID != uid || record.Result != result:
		case record.Ended == nil || ended == nil:
			return record.Ended == nil && ended == nil
		case record.Ended.Sub(*ended).Abs() < sameEnd:
			return true
		}
	}
	return false
}

func (h *History) add(record Record) {
	h.Kind = kind
	h.Records = append(h.Records, record)
	if excess := len(h.Records) - MaxRecords; excess > 0 {
		h.Records = h.Records[excess:]
	}
}

// durations are how long the steps took that have finished. That of the first one is counted from the beginning.
func durations(shoot *gardencorev1beta1.Shoot, migration summary.Summary, started *time.Time) []Step {
	var out []Step
	for i, step := range migration.Steps {
		if !step.Finished() {
			continue
		}
		elapsed, ok := step.Elapsed()
		if first := v1beta1helper.GetCondition(steps.Conditions(shoot), steps.First().Condition); !ok && i == 0 &&
			first != nil && started != nil {
			elapsed, ok = first.LastTransitionTime.Sub(*started), true
		}
		if ok {
			out = append(out, Step{Condition: step.Condition, Seconds: max(0, elapsed.Round(time.Second).Seconds())})
		}
	}
	return out
}
