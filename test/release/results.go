// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	_ "embed" // for the head of the page
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/test/robustness/evidence"
)

// The files of the results, from the root of the repository.
const (
	FileResults = "docs/development/release-results.json"
	FilePage    = "docs/development/release-results.md"
)

// Verdict is what came of a suite.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "passed"
	Failed Verdict = "FAILED"
	// Interrupted means that somebody ended the suite.
	Interrupted Verdict = "interrupted"
)

// Result is what came of one run of a suite.
type Result struct {
	Suite string `json:"suite"`
	// Commit is what was checked out. Changed is true if files differed from it.
	Commit  string `json:"commit"`
	Changed bool   `json:"changed,omitempty"`
	// Begun is when the suite began, Seconds how long it took.
	Begun   time.Time `json:"begun"`
	Seconds float64   `json:"seconds"`
	Verdict Verdict   `json:"verdict"`
	// Why says what failed: the command and its exit code. The log has the rest.
	Why string `json:"why,omitempty"`
}

// Read returns all results that the repository has, the oldest first; none if there are none.
func Read(repository string) ([]Result, error) {
	data, err := os.ReadFile(filepath.Join(repository, FileResults)) // #nosec G304 -- the caller names the folder.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the results of the suites: %w", err)
	}
	var results []Result
	if err := json.Unmarshal(data, &results); err != nil {
		return nil, fmt.Errorf("failed to decode %s: %w", FileResults, err)
	}
	return results, nil
}

// Add appends a result, and writes the page of all. It takes none away.
func Add(repository string, result Result) error {
	results, err := Read(repository)
	if err != nil {
		return err
	}
	return Write(repository, append(results, result))
}

// Write writes the results and their page.
func Write(repository string, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the results of the suites: %w", err)
	}
	for name, content := range map[string]string{FileResults: string(data) + "\n", FilePage: Page(results)} {
		file := filepath.Join(repository, name)
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil { // #nosec G306 -- everybody may read pages.
			return fmt.Errorf("failed to write the results of the suites: %w", err)
		}
	}
	return nil
}

// head is the page without its table.
//
//go:embed head.md
var head string

// Page returns the page of the results: the last one of each suite, and how many there were.
func Page(results []Result) string {
	var out strings.Builder
	out.WriteString(head)
	out.WriteString("\n| suite | tests | last result | commit | begun (UTC) | took | runs, failed | last passed |\n" +
		"|" + strings.Repeat(" --- |", 8) + "\n")
	for _, suite := range Suites() {
		of := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Suite != suite.Name })
		if len(of) == 0 {
			fmt.Fprintf(&out, "| %s | %s | not run | | | | 0 | |\n", suite.Name, suite.Title)
			continue
		}
		last, failed, passed := of[len(of)-1], 0, "never"
		for _, result := range of {
			switch result.Verdict {
			case Passed:
				passed = result.commit()
			case Failed:
				failed++
			}
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %d, %d | %s |\n", suite.Name, suite.Title, last.words(),
			last.commit(), last.Begun.UTC().Format("2006-01-02 15:04"),
			time.Duration(last.Seconds*float64(time.Second)).Round(time.Second), len(of), failed, passed)
	}
	return out.String()
}

// words are the verdict with its reason.
func (r Result) words() string {
	if r.Why == "" {
		return string(r.Verdict)
	}
	return string(r.Verdict) + ": " + r.Why
}

// commit is what people read of the commit.
func (r Result) commit() string {
	commit := evidence.Short(r.Commit)
	if r.Changed {
		commit += ", changed"
	}
	return commit
}
