// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"

	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/dualrun"
)

// maxViolations bounds what is reported: a violation that lasts is found again with every look.
const maxViolations = 50

// OwnershipReport is what looking at both seeds again and again has shown.
type OwnershipReport = recording.Ownership

// NewOwnershipReport returns the report of what a reader of both seeds has found.
func NewOwnershipReport(result dualrun.Result) *OwnershipReport {
	report := &OwnershipReport{Samples: result.Samples, Phases: map[string]int{}, Violations: []string{}}
	for phase, looks := range result.Phases {
		report.Phases[phase.String()] = looks
	}
	for i, violation := range result.Violations {
		if i == maxViolations {
			report.Violations = append(report.Violations, fmt.Sprintf("and %d more", len(result.Violations)-i))
			break
		}
		report.Violations = append(report.Violations, violation.String())
	}
	return report
}

func (r *run) ownershipReader() *dualrun.Reader {
	return &dualrun.Reader{
		Garden: r.target.Garden.Client, Source: r.source.Client, Destination: r.destination.Client,
		DestinationSeed: r.destination.Name, Shoot: r.target.Key,
	}
}
