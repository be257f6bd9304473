// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/evidence"
)

// Names of the files of the matrix.
const (
	FileMatrixJSON     = "matrix.json"
	FileMatrixMarkdown = "matrix.md"
)

// Matrix is the newest result of every cell that was ever run, with all attempts before it.
type Matrix struct {
	// Assessed is when the results were compared with the code, and with which; nil if they never were.
	Assessed *Assessment  `json:"assessed,omitempty"`
	Cells    []CellResult `json:"cells"`
	// Builds are what results were made with, by the keys that these name.
	Builds map[string]*evidence.Build `json:"builds,omitempty"`
}

// Assessment is a comparison of results with the code of the repository.
type Assessment struct {
	Time time.Time `json:"time"`
	// Commit is what was checked out. Files may have differed from it.
	Commit string `json:"commit"`
}

// ReadMatrix reads the matrix of a folder. It is empty if there is none.
func ReadMatrix(folder string) (*Matrix, error) {
	m := &Matrix{}
	data, err := os.ReadFile(filepath.Join(folder, FileMatrixJSON)) // #nosec G304 -- the caller names the folder.
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the fault matrix: %w", err)
	}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("failed to decode the fault matrix, remove %s to begin again: %w",
			filepath.Join(folder, FileMatrixJSON), err)
	}
	return m, nil
}

// Merge adds attempts. The newest one of a cell is its result; all others are kept with it, those that have failed as
// well. An attempt that is there already is not added again.
func (m *Matrix) Merge(results ...CellResult) error {
	for _, result := range results {
		i := slices.IndexFunc(m.Cells, func(c CellResult) bool { return c.Cell == result.Cell })
		if i < 0 {
			m.Cells, i = append(m.Cells, CellResult{}), len(m.Cells)
		}
		merged, err := newest(append(m.Cells[i].attempts(), result.attempts()...))
		if err != nil {
			return err
		}
		m.Cells[i] = merged
	}
	slices.SortStableFunc(m.Cells, func(a, b CellResult) int { return a.compare(b.Cell) })
	return nil
}

// MergeMatrix adds all attempts of another matrix, and what they were made with.
func (m *Matrix) MergeMatrix(other *Matrix) error {
	for key, build := range other.Builds {
		m.know(key, build)
	}
	return m.Merge(other.Cells...)
}

// know keeps what results were made with.
func (m *Matrix) know(key string, build *evidence.Build) {
	if m.Builds == nil {
		m.Builds = map[string]*evidence.Build{}
	}
	m.Builds[key] = build
}

// attempts returns the result and all before it, each without the others; none of a cell without any.
func (c CellResult) attempts() []CellResult {
	if c.Cell == (Cell{}) {
		return nil
	}
	attempts := slices.Clone(c.Earlier)
	c.Earlier = nil
	return append(attempts, c)
}

// newest returns the newest of the attempts, with the others before it. Of equally old ones it is the last one.
func newest(attempts []CellResult) (CellResult, error) {
	var (
		distinct []CellResult
		known    = map[string]bool{}
	)
	slices.SortStableFunc(attempts, func(a, b CellResult) int { return a.when().Compare(b.when()) })
	for _, attempt := range attempts {
		assessed := attempt.Stale
		attempt.Stale = ""
		encoded, err := json.Marshal(attempt)
		if err != nil {
			return CellResult{}, fmt.Errorf("failed to encode an attempt of %s: %w", attempt.Cell, err)
		}
		attempt.Stale = assessed
		if !known[string(encoded)] {
			known[string(encoded)] = true
			distinct = append(distinct, attempt)
		}
	}
	last := len(distinct) - 1
	result := distinct[last]
	result.Earlier = distinct[:last:last]
	return result, nil
}

// when is when the attempt was made.
func (c CellResult) when() time.Time {
	if c.Made.IsZero() {
		return c.Struck
	}
	return c.Made
}

// Assess finds out which results tell nothing of the present code any more.
func (m *Matrix) Assess(sources *evidence.Sources, assessment Assessment) error {
	for i := range m.Cells {
		cell := &m.Cells[i]
		why, err := m.stale(sources, *cell)
		if err != nil {
			return err
		}
		cell.Stale = why
		for j := range cell.Earlier {
			cell.Earlier[j].Stale = ""
		}
	}
	m.Assessed = &assessment
	return nil
}

// stale returns why the result tells nothing of the sources any more.
func (m *Matrix) stale(sources *evidence.Sources, cell CellResult) (string, error) {
	step, known := steps.Get(cell.Step)
	if !known {
		return fmt.Sprintf("there is no step %s any more", cell.Step), nil
	}
	return sources.Stale(m.Builds[cell.Build], step)
}

// Write writes both forms of the matrix to the folder.
func (m *Matrix) Write(folder string) error { return m.write(folder, FileMatrixMarkdown) }

func (m *Matrix) write(folder, markdown string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make folder for the fault matrix: %w", err)
	}
	m.forget()
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the fault matrix: %w", err)
	}
	for name, content := range map[string]string{FileMatrixJSON: string(data) + "\n", markdown: m.Markdown()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("failed to write the fault matrix: %w", err)
		}
	}
	return nil
}

// forget drops what no attempt was made with.
func (m *Matrix) forget() {
	used := map[string]bool{}
	for _, cell := range m.Cells {
		for _, attempt := range cell.attempts() {
			used[attempt.Build] = true
		}
	}
	maps.DeleteFunc(m.Builds, func(key string, _ *evidence.Build) bool { return !used[key] })
}

// Recorded is the folder of the matrix that the repository keeps, below its root. Its table is the folder's README.md.
const Recorded = "docs/development/fault-matrix"

// FileRecordedMarkdown is the name of the recorded table.
const FileRecordedMarkdown = "README.md"

// Known returns all attempts of every cell, be they recorded in the repository or made since.
func Known(repo, artifacts string) (*Matrix, error) {
	m, err := ReadMatrix(filepath.Join(repo, Recorded))
	if err != nil {
		return nil, err
	}
	made, err := ReadMatrix(artifacts)
	if err != nil {
		return nil, err
	}
	return m, m.MergeMatrix(made)
}

// Record takes the results that were made since over into the repository, once they are compared with its code.
func Record(repo, artifacts string, sources *evidence.Sources, assessment Assessment) error {
	m, err := Known(repo, artifacts)
	if err != nil {
		return err
	}
	if err := m.Assess(sources, assessment); err != nil {
		return err
	}
	return m.write(filepath.Join(repo, Recorded), FileRecordedMarkdown)
}

// errRecord says what to do about a page that does not say what is so.
var errRecord = errors.New("run make fault-matrix, and commit what it writes")

// Check returns an error if the page of the repository is not that of its data, or shows a result as fresh that the
// code has made stale.
func Check(repo string, sources *evidence.Sources) error {
	folder := filepath.Join(repo, Recorded)
	m, err := ReadMatrix(folder)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(folder, FileRecordedMarkdown)) // #nosec G304 -- the caller names the folder.
	if err != nil {
		return fmt.Errorf("failed to read the page of the fault matrix: %w", err)
	}
	if !bytes.Equal(page, []byte(m.Markdown())) {
		return fmt.Errorf("%s is not what %s says: %w", filepath.Join(Recorded, FileRecordedMarkdown), FileMatrixJSON,
			errRecord)
	}
	for _, cell := range m.Cells {
		why, err := m.stale(sources, cell)
		if err != nil {
			return err
		}
		if why != "" && cell.Stale == "" {
			return fmt.Errorf("the fault matrix shows %s as fresh, but %s: %w", cell.Cell, why, errRecord)
		}
	}
	return nil
}

// UpdateMatrix adds the attempts of a migration to the matrix of the folder, and what they were made with.
func UpdateMatrix(folder string, build *evidence.Build, results []CellResult) error {
	m, err := ReadMatrix(folder)
	if err != nil {
		return err
	}
	if build != nil {
		key, err := build.Key()
		if err != nil {
			return err
		}
		m.know(key, build)
		results = slices.Clone(results)
		for i := range results {
			results[i].Build, results[i].Commit = key, build.Commit
		}
	}
	if err := m.Merge(results...); err != nil {
		return err
	}
	return m.Write(folder)
}
