// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Names of the files of the matrix.
const (
	FileMatrixJSON     = "matrix.json"
	FileMatrixMarkdown = "matrix.md"
)

// Matrix is the newest result of every cell that was ever run.
type Matrix struct {
	Cells []CellResult `json:"cells"`
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

// Merge puts results in the place of earlier ones of the same cells.
func (m *Matrix) Merge(results ...CellResult) {
	for _, result := range results {
		i := slices.IndexFunc(m.Cells, func(c CellResult) bool { return c.Cell == result.Cell })
		if i < 0 {
			m.Cells = append(m.Cells, result)
			continue
		}
		m.Cells[i] = result
	}
	slices.SortStableFunc(m.Cells, func(a, b CellResult) int { return a.compare(b.Cell) })
}

// Write writes both forms of the matrix to the folder.
func (m *Matrix) Write(folder string) error { return m.write(folder, FileMatrixMarkdown) }

func (m *Matrix) write(folder, markdown string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make folder for the fault matrix: %w", err)
	}
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

// Recorded is the folder of the matrix that the repository keeps, below its root. Its table is the folder's README.md.
const Recorded = "docs/development/fault-matrix"

// FileRecordedMarkdown is the name of the recorded table.
const FileRecordedMarkdown = "README.md"

// Known returns the newest result of every cell, be it recorded in the repository or made since.
func Known(repo, artifacts string) (*Matrix, error) {
	m, err := ReadMatrix(filepath.Join(repo, Recorded))
	if err != nil {
		return nil, err
	}
	made, err := ReadMatrix(artifacts)
	if err != nil {
		return nil, err
	}
	for _, result := range made.Cells {
		i := slices.IndexFunc(m.Cells, func(c CellResult) bool { return c.Cell == result.Cell })
		if i < 0 || !result.Made.Before(m.Cells[i].Made) {
			m.Merge(result)
		}
	}
	return m, nil
}

// Record takes the results that were made since over into the repository.
func Record(repo, artifacts string) error {
	m, err := Known(repo, artifacts)
	if err != nil {
		return err
	}
	return m.write(filepath.Join(repo, Recorded), FileRecordedMarkdown)
}

// UpdateMatrix merges the results into the matrix of the folder.
func UpdateMatrix(folder string, results []CellResult) error {
	m, err := ReadMatrix(folder)
	if err != nil {
		return err
	}
	m.Merge(results...)
	return m.Write(folder)
}

// Markdown returns the matrix as a table of faults and steps, and a list of the cells that have not passed.
func (m *Matrix) Markdown() string {
	var b strings.Builder
	b.WriteString("# Fault matrix\n\n")
	passed := 0
	for _, cell := range m.Cells {
		if cell.Outcome == Passed {
			passed++
		}
	}
	fmt.Fprintf(&b, "%d of %d cells were run, %d of them passed.\n\n", len(m.Cells), len(AllCells()), passed)
	b.WriteString("A cell has a line for the start of the step (`b`) and one for its midst (`i`): result, failed " +
		"requests, longest time without an acknowledged write of any client, " +
		"acknowledged writes lost, linearizability. `+` marks those that struck together with another fault and " +
		"share its figures (matrix.json names it). `–` was not run; an empty cell has nothing for the fault " +
		"to hit.\n\n")

	b.WriteString("| fault |")
	for i := range steps.Table() {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(steps.Table())) + "\n")
	for _, f := range fault.All() {
		fmt.Fprintf(&b, "| %s |", f.Name())
		for _, step := range steps.Table() {
			fmt.Fprintf(&b, " %s |", m.entry(f, step))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, step := range steps.Table() {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}

	if passed < len(m.Cells) {
		b.WriteString("\n## Not passed\n\n")
	}
	for _, cell := range m.Cells {
		if cell.Outcome != Passed {
			fmt.Fprintf(&b, "- %s: %s. `%s`\n", cell.Cell, cell.Outcome, cell.Repro)
			for _, problem := range cell.Problems {
				fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(problem, "\n", " "))
			}
		}
	}
	return b.String()
}

// entry is what the table says of a fault in a step.
func (m *Matrix) entry(f fault.Fault, step steps.Step) string {
	var lines []string
	for _, moment := range fault.Moments() {
		if !f.Applies(step, moment) {
			continue
		}
		line := string(moment[0]) + " –"
		cell := Cell{Fault: f.Name(), Step: step.Condition, Moment: moment}
		if i := slices.IndexFunc(m.Cells, func(c CellResult) bool { return c.Cell == cell }); i >= 0 {
			c := m.Cells[i]
			line = fmt.Sprintf("%c **%s**", moment[0], c.Outcome)
			if !c.Struck.IsZero() {
				if len(c.With) > 0 {
					line += " +"
				}
				line += fmt.Sprintf(" %d failed, %.1f s, %d lost, %s", c.FailedRequests,
					float64(c.LongestWriteGapMs)/1000, c.LostWrites, c.Linearizable)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "<br>")
}
