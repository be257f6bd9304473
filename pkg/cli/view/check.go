// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// Status is the result of a check. The words are those of pkg/preflight, which reads and so cannot be imported here.
type Status string

const (
	// Pass means that what was checked is in order.
	Pass Status = "Pass"
	// Warn means that it should be known, and is in the way of nothing.
	Warn Status = "Warn"
	// Fail means that it is not.
	Fail Status = "Fail"
	// Unknown means that it could not be looked at.
	Unknown Status = "Unknown"
)

// Check is the result of one check.
type Check struct {
	// Name is the check.
	Name steps.Check `json:"name"`
	// Status is Pass, Warn, Fail or Unknown.
	Status Status `json:"status"`
	// Evidence says what was seen.
	Evidence string `json:"evidence"`
	// Remedy says what to do if it did not pass.
	Remedy string `json:"remedy,omitempty"`
	// Deferred reports that the check could not be made from here. In a plan, the agents make it before the migration
	// begins, and it does not count against the plan.
	Deferred bool `json:"deferred,omitempty"`
}

// Hinders reports whether the check is in the way of what it was made for.
func (c Check) Hinders() bool { return c.Status != Pass && c.Status != Warn && !c.Deferred }

func checkLines(check Check, o Options) string {
	symbol, c := "✔", green
	switch {
	case check.Status == Pass:
	case check.Deferred:
		symbol, c = "?", yellow
	case check.Status == Warn:
		symbol, c = "!", yellow
	default:
		symbol, c = "✖", red
	}
	const nameColumns, left = 24, 34
	columns := max(o.width()-left, smallest)
	lines := wrap(check.Evidence, columns)
	// What the agents check anyway needs no remedy.
	if check.Status != Pass && check.Remedy != "" && (!check.Deferred || o.Wide) {
		lines = append(lines, wrap("-> "+check.Remedy, columns)...)
	}
	head := o.paint(c, symbol+" "+pad(string(check.Status), 8)) + pad(string(check.Name), nameColumns)
	return head + strings.Join(lines, "\n"+strings.Repeat(" ", left)) + "\n"
}
