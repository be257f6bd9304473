// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// SpecRun is one run of a spec, or of a node of the suite that has failed, such as its BeforeSuite.
type SpecRun struct {
	// Spec is the full name of the spec, or the kind of the node in square brackets.
	Spec string
	// Begin and End are when it ran.
	Begin, End time.Time
	// Passed is true only if it passed, and at the first attempt.
	Passed bool
	// FailedAt is when it failed, Message why, and where in the sources of Kubernetes. Both are empty if it passed.
	FailedAt time.Time
	Message  string
}

// Round is one run of all specs, in an order of its own.
type Round struct {
	// Number counts the rounds from 1, Seed gives the order.
	Number int
	Seed   int64
	// Begin and End are when the processes of the round began and ended.
	Begin, End time.Time
	// Runs are the runs of specs. Those of which nobody asked for a run are not among them.
	Runs []SpecRun
	// Problems are what went wrong besides specs: no report, a suite that was interrupted.
	Problems []string
}

// readReport reads what Ginkgo's --json-report has written, and takes out of the file what nobody asked to run, which
// is nearly all of it. problems are those of the suite as a whole.
func readReport(file string) (runs []SpecRun, problems []string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to read the report: %w", err)
	}
	var reports []types.Report
	if err := json.Unmarshal(content, &reports); err != nil {
		return nil, nil, fmt.Errorf("failed to read the report %s: %w", file, err)
	}
	if len(reports) != 1 {
		return nil, nil, fmt.Errorf("the report %s is of %d suites, not of one", file, len(reports))
	}
	report := &reports[0]
	kept := types.SpecReports{}
	for _, spec := range report.SpecReports {
		if left(spec) {
			continue
		}
		kept = append(kept, spec)
		if spec.LeafNodeType == types.NodeTypeIt || !spec.State.Is(types.SpecStatePassed) {
			runs = append(runs, runOf(spec))
		}
	}
	report.SpecReports = kept
	if content, err = json.MarshalIndent(reports, "", "  "); err != nil {
		return nil, nil, fmt.Errorf("failed to encode the report %s: %w", file, err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return nil, nil, fmt.Errorf("failed to write the report: %w", err)
	}
	return runs, report.SpecialSuiteFailureReasons, nil
}

// left reports whether nobody asked for the spec. One that skips itself says why.
func left(spec types.SpecReport) bool {
	return spec.State.Is(types.SpecStateSkipped) && spec.Failure.Message == ""
}

func runOf(spec types.SpecReport) SpecRun {
	run := SpecRun{
		Spec:   spec.FullText(),
		Begin:  spec.StartTime,
		End:    spec.EndTime,
		Passed: spec.State.Is(types.SpecStatePassed) && spec.NumAttempts <= 1,
	}
	if spec.LeafNodeType != types.NodeTypeIt {
		run.Spec = "[" + spec.LeafNodeType.String() + "]"
	}
	if run.Passed {
		return run
	}
	run.FailedAt = spec.Failure.TimelineLocation.Time
	if run.FailedAt.IsZero() {
		run.FailedAt = spec.EndTime
	}
	run.Message = fmt.Sprintf("%s: %s", spec.State, strings.TrimSpace(spec.Failure.Message))
	if spec.NumAttempts > 1 {
		run.Message = fmt.Sprintf("%d attempts; %s", spec.NumAttempts, run.Message)
	}
	if at := spec.Failure.Location; at.FileName != "" {
		run.Message += " (" + at.String() + ")"
	}
	return run
}
