// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package mutations

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// Verdict is what came of running the specs of a package.
type Verdict string

const (
	// Caught means that the package was compiled, and specs have failed.
	Caught Verdict = "caught"
	// Survived means that all specs have passed.
	Survived Verdict = "SURVIVED"
	// NotCompiled means that the package could not be compiled, so nothing is known of its specs.
	NotCompiled Verdict = "DOES NOT COMPILE"
	// TimedOut means that the specs did not come to an end. That is no proof: a busy machine looks the same.
	TimedOut Verdict = "TIMED OUT"
	// Crashed means that the program of the specs ended without a report, or failed without a failed spec.
	Crashed Verdict = "CRASHED"
	// NothingRan means that the package has no specs, or that none of them ran.
	NothingRan Verdict = "NO SPECS"
)

// Trial is one run of the specs of one package.
type Trial struct {
	// Package is the folder of the package.
	Package string
	// Verdict is what came of it.
	Verdict Verdict
	// Failed are the texts of the specs that have failed: the first one, for the others do not run then.
	Failed []string
	// Ran is how many specs have run.
	Ran int
	// Took is how long compilation and specs took.
	Took time.Duration
	// Output is what the compiler or the specs have printed.
	Output string
}

// Result is what came of one mutation.
type Result struct {
	// Mutation is the mutation.
	Mutation Mutation
	// Trials are the runs, one for each of its packages.
	Trials []Trial
}

// Caught reports whether the specs of each of its packages have noticed the mutation.
func (r Result) Caught() bool {
	for _, trial := range r.Trials {
		if trial.Verdict != Caught {
			return false
		}
	}
	return len(r.Trials) > 0
}

// judge reads the report of the specs, which have ended by themselves with the given error. A failure outside of specs,
// such as one of the suite's set-up, is not one that a spec has noticed.
func (t *Trial) judge(reportFile string, exit error) error {
	t.Verdict = Crashed
	content, err := os.ReadFile(reportFile)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to read the report of the specs of %s: %w", t.Package, err)
	}
	var reports []types.Report
	if err := json.Unmarshal(content, &reports); err != nil {
		return fmt.Errorf("failed to decode the report of the specs of %s: %w", t.Package, err)
	}
	for _, report := range reports {
		for _, spec := range report.SpecReports {
			ran := spec.State.Is(types.SpecStatePassed | types.SpecStateFailureStates)
			if !ran || !spec.LeafNodeType.Is(types.NodeTypeIt) {
				continue
			}
			t.Ran++
			// Aborted and interrupted specs have not judged anything.
			if spec.State.Is(types.SpecStateFailed | types.SpecStatePanicked | types.SpecStateTimedout) {
				t.Failed = append(t.Failed, strings.Join(strings.Fields(spec.FullText()), " "))
			}
		}
	}
	switch {
	case exit != nil && len(t.Failed) > 0:
		t.Verdict = Caught
	case exit == nil && t.Ran == 0:
		t.Verdict = NothingRan
	case exit == nil:
		t.Verdict = Survived
	}
	return nil
}
