// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/conditions"
)

// ConditionDrained is the type of the condition on a Seed that tells how far its drain is. It is True when no shoot is
// left.
const ConditionDrained gardencorev1beta1.ConditionType = "Drained"

// Reasons of the condition.
const (
	// ConditionReasonDraining appears while shoots are on their way or wait for their turn.
	ConditionReasonDraining = "Draining"
	// ConditionReasonEmpty appears when no shoot is left.
	ConditionReasonEmpty = "Empty"
	// ConditionReasonBlocked appears when nothing is left but shoots that stay.
	ConditionReasonBlocked = "ShootsBlocked"
	// ConditionReasonCircuitOpen appears when too many migrations have failed.
	ConditionReasonCircuitOpen = "CircuitOpen"
	// ConditionReasonCancelling appears when the drain was cancelled, while the running migrations finish.
	ConditionReasonCancelling = "Cancelling"
	// ConditionReasonStopped appears when the drain was cancelled while shoots rest in seeds between two migrations.
	// The operator starts it again, or lets them stay there.
	ConditionReasonStopped = "StoppedBetweenSeeds"
)

// named is how many reasons the condition's message tells.
const named = 5

// Condition returns status, reason and message of the condition.
func (p SeedPlan) Condition() (gardencorev1beta1.ConditionStatus, string, string) {
	counts := p.Counts()
	text := fmt.Sprintf("%s: %d done, %d running, %d waiting, %d blocked", conditions.Count(counts.Total, "shoot"),
		counts.Done, counts.Running, counts.Waiting, counts.Blocked)
	if reasons := p.blockedReasons(); reasons != "" {
		text += " (" + reasons + ")"
	}
	stopped := p.stoppedBetween()
	switch {
	case !p.Draining && counts.Running == 0 && stopped != "":
		return gardencorev1beta1.ConditionFalse, ConditionReasonStopped, stopped + text
	case !p.Draining:
		return gardencorev1beta1.ConditionProgressing, ConditionReasonCancelling,
			"The drain is cancelled; running migrations finish. " + text
	case p.Empty():
		return gardencorev1beta1.ConditionTrue, ConditionReasonEmpty, "No shoot is left in the seed. " + text
	case p.CircuitOpen:
		return gardencorev1beta1.ConditionFalse, ConditionReasonCircuitOpen,
			fmt.Sprintf("%s, so no more are started: fix the cause, then remove the annotation %s and set it again. %s",
				p.CircuitCause, AnnotationDrain, text)
	case counts.Running == 0 && counts.Waiting == 0:
		return gardencorev1beta1.ConditionFalse, ConditionReasonBlocked,
			"The remaining shoots stay until nothing blocks them any more. " + text
	}
	return gardencorev1beta1.ConditionProgressing, ConditionReasonDraining, text
}

// blockedReasons tells how many shoots are blocked for which reason, the most frequent first.
func (p SeedPlan) blockedReasons() string {
	counts := map[Reason]int{}
	for _, entry := range p.Entries {
		if entry.State == Blocked {
			counts[entry.Reason]++
		}
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b Reason) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var out []string
	for i, reason := range reasons {
		if i == named {
			out = append(out, "and others")
			break
		}
		out = append(out, fmt.Sprintf("%s: %d", reason, counts[reason]))
	}
	return strings.Join(out, ", ")
}

// The table of all shoots of a drain is published in a ConfigMap, for whoever may read ConfigMaps in the garden
// namespace.
const (
	// TableVersion is the version of the table's schema. Fields may be added to a version, not changed or removed.
	TableVersion = "drain.livecpm.gardener.cloud/v1alpha1"
	// TableKind is its kind.
	TableKind = "DrainTable"
	// TableKey is the key in the ConfigMap's data.
	TableKey = "table.json"
	// TableLabel is the label that the ConfigMaps have, with the name of the seed as its value where that is short
	// enough.
	TableLabel = "migration.gardener.cloud/drained-seed"

	// maxTableText bounds what one shoot says, and maxTableSize the table: the API server takes no object above 1.5 MB.
	maxTableText = 500
	maxTableSize = 900 << 10
)

// TableName returns the name of the ConfigMap for the seed.
func TableName(seed string) string { return "livecpm-drain-" + seed }

// Table is the table of all shoots in a drain.
type Table struct {
	// APIVersion and Kind are TableVersion and TableKind.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Seed is the seed that is drained.
	Seed string `json:"seed"`
	// Cancelled reports that the drain was cancelled.
	Cancelled bool `json:"cancelled,omitempty"`
	// CircuitOpen reports that nothing is started any more, because too many migrations have failed.
	CircuitOpen bool `json:"circuitOpen,omitempty"`
	// StartedAt is when the drain began, ResumedAt when it was last resumed.
	StartedAt string `json:"startedAt,omitempty"`
	ResumedAt string `json:"resumedAt,omitempty"`
	// Counts are how many shoots are in each state.
	Counts Counts `json:"counts"`
	// Shoots are the shoots in the order in which they leave.
	Shoots []TableRow `json:"shoots"`
}

// TableRow is one shoot in a Table.
type TableRow struct {
	// Namespace and Name are those of the Shoot, Purpose is its purpose.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Purpose   string `json:"purpose,omitempty"`
	// State and Reason are one of the words of this package; a prerequisite of a live migration has its own reason.
	State  State  `json:"state"`
	Reason Reason `json:"reason"`
	// Message tells more.
	Message string `json:"message,omitempty"`
	// Destination is the seed that it moves to, or would move to, and Way how.
	Destination string `json:"destination,omitempty"`
	Way         Way    `json:"way,omitempty"`
	// FinalDestination is where it goes from the destination by further migrations; empty if it stays there.
	FinalDestination string `json:"finalDestination,omitempty"`
	// IntermediateSeed is the seed in which it is between two migrations; empty if it is not.
	IntermediateSeed string `json:"intermediateSeed,omitempty"`
	// Until is until when it waits; empty if it does not, or nobody knows.
	Until string `json:"until,omitempty"`
	// Attempts is how often the drain has started its move, StartedAt, EndedAt and Result are of the last one.
	Attempts  int    `json:"attempts,omitempty"`
	StartedAt string `json:"startedAt,omitempty"`
	EndedAt   string `json:"endedAt,omitempty"`
	Result    Result `json:"result,omitempty"`
}

// Table returns the plan as a table.
func (p SeedPlan) Table() Table {
	table := Table{
		APIVersion: TableVersion, Kind: TableKind,
		Seed: p.Name, Cancelled: !p.Draining, CircuitOpen: p.CircuitOpen,
		StartedAt: p.stamp(), Counts: p.Counts(),
		Shoots: make([]TableRow, 0, len(p.Entries)),
	}
	if !p.ResumedAt.IsZero() {
		table.ResumedAt = FormatTime(p.ResumedAt)
	}
	for _, entry := range p.Entries {
		row := TableRow{
			Namespace: entry.Namespace, Name: entry.Name, Purpose: string(entry.Purpose),
			State: entry.State, Reason: entry.Reason, Message: conditions.Cut(entry.Text, maxTableText),
			Destination: entry.To, Way: entry.By, IntermediateSeed: entry.Resting,
		}
		if entry.Onward != entry.To {
			row.FinalDestination = entry.Onward
		}
		if !entry.Until.IsZero() {
			row.Until = FormatTime(entry.Until)
		}
		if entry.StartedBy == p.Name && !entry.StartedAt.Before(p.StartedAt) {
			row.Attempts, row.Result = entry.Attempts, entry.Result
			row.StartedAt = FormatTime(entry.StartedAt)
			if !entry.EndedAt.IsZero() {
				row.EndedAt = FormatTime(entry.EndedAt)
			}
		}
		table.Shoots = append(table.Shoots, row)
	}
	return table
}

func (p SeedPlan) stamp() string {
	if p.Seed.StartedAt.IsZero() {
		return ""
	}
	return FormatTime(p.Seed.StartedAt)
}

// Encode returns the table as it is published. A table that is too large for an object loses its messages.
func (t Table) Encode() (string, error) {
	for {
		content, err := json.Marshal(t)
		if err != nil {
			return "", fmt.Errorf("failed to encode the table of the drain of seed %s: %w", t.Seed, err)
		}
		if len(content) <= maxTableSize || len(t.Shoots) == 0 || t.Shoots[0].Message == "" {
			return string(content), nil
		}
		t.Shoots = slices.Clone(t.Shoots)
		for i := range t.Shoots {
			t.Shoots[i].Message = ""
		}
	}
}

// DecodeTable reads a published table.
func DecodeTable(content string) (Table, error) {
	var table Table
	if err := json.Unmarshal([]byte(content), &table); err != nil {
		return Table{}, fmt.Errorf("failed to read the table of a drain: %w", err)
	}
	if table.APIVersion != TableVersion || table.Kind != TableKind {
		return Table{}, fmt.Errorf("failed to read the table of a drain: it is a %s of %s, not a %s of %s", table.Kind,
			table.APIVersion, TableKind, TableVersion)
	}
	return table, nil
}
