// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

const (
	// rotatingCells is how many cells of the matrix the commit adds to Short. They strike in a migration that is made
	// anyway, and cost it up to a minute together, with what it takes until the steps can continue.
	rotatingCells = 2
	// rotatingLasts is how long their faults may be in force altogether.
	rotatingLasts = 35 * time.Second
)

// Excuse takes cells out of the result that prove nothing and need not, and returns a line for each, which says why it
// proves nothing. A cell need not if its moment did not come or was too short for it, or if the step or a probe ended
// its fault before its time. It has to if its fault could not be injected while its moment lasted, or if nobody has
// seen an effect of it. A required cell has to in any case, unless its fault did strike: that it was seen to, and at
// its moment, is demanded only of migrations whose cells are alone. What the migration has got wrong is never excused.
func (r *Result) Excuse(required []Cell) []string {
	var lines []string
	r.Cells = slices.DeleteFunc(r.Cells, func(c CellResult) bool {
		excused := c.Late || c.Short
		if slices.Contains(required, c.Cell) {
			excused = !c.Struck.IsZero()
		}
		if c.Outcome != Missed || !excused {
			return false
		}
		problems := strings.ReplaceAll(strings.Join(c.Problems, "; "), "\n", "; ")
		lines = append(lines, fmt.Sprintf("%s: %s", c.Cell, problems))
		return true
	})
	return lines
}

// Rotating returns the cells of Short, and two more that the commit chooses: those of one commit are always the same,
// and all that may be chosen have their turn in the course of many commits. It fails if the commit is not a hexadecimal
// number.
func Rotating(commit string) ([]Cell, error) {
	number, ok := new(big.Int).SetString(commit, 16)
	if !ok || number.Sign() < 0 {
		return nil, fmt.Errorf("failed to read the commit %q: give its hash, as git rev-parse HEAD does", commit)
	}
	cells, left := Short(), rotatingLasts
	for range rotatingCells {
		candidates := rotatable(cells, left)
		index := new(big.Int)
		number.DivMod(number, big.NewInt(int64(len(candidates))), index)
		chosen := candidates[index.Int64()]
		f, _ := fault.Get(chosen.Fault)
		left -= f.Course().Lasts
		cells = append(cells, chosen)
		slices.SortStableFunc(cells, Cell.compare)
	}
	return cells, nil
}

// rotatable returns the cells that a migration with the others can have as well: at any moment, with faults that last
// no longer than what is left of their time. Moments may pass unseen, which .ci/run says. Endless loops on the
// processors of a seed are left out: on two processors, they would slow down what .ci/run has an hour for.
func rotatable(cells []Cell, left time.Duration) []Cell {
	fits := map[string]bool{}
	for _, f := range fault.All() {
		fits[f.Name()] = !f.Course().ThroughStep && f.Course().Lasts <= left && !fault.Saturates(f)
	}
	var candidates []Cell
	for _, cell := range AllCells() {
		if fits[cell.Fault] && bearableAmong(cells, cell) {
			candidates = append(candidates, cell)
		}
	}
	return candidates
}

// bearableAmong reports whether the others of the cell's step let it strike.
func bearableAmong(cells []Cell, cell Cell) bool {
	var f fault.Fault
	for _, other := range cells {
		if other.Step != cell.Step {
			continue
		}
		if f == nil {
			f, _ = fault.Get(cell.Fault)
		}
		g, _ := fault.Get(other.Fault)
		if _, ok := bearable(other, g, cell, f); !ok {
			return false
		}
	}
	return true
}
