// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/livecpm/livecpm/test/robustness/fault"
)

const (
	// rotatingCells is how many cells of the matrix the commit adds to Short. They strike in a migration that is made
	// anyway, and cost it up to half a minute each, with what it takes until the step can continue.
	rotatingCells = 2
	// rotatingLasts is how long such a fault may be in force.
	rotatingLasts = 5 * time.Second
)

// Rotating returns the cells of Short, and two more that the commit chooses: those of one commit are always the same,
// and all that may be chosen have their turn in the course of many commits. It fails if the commit is not a hexadecimal
// number.
func Rotating(commit string) ([]Cell, error) {
	number, ok := new(big.Int).SetString(commit, 16)
	if !ok || number.Sign() < 0 {
		return nil, fmt.Errorf("failed to read the commit %q: give its hash, as git rev-parse HEAD does", commit)
	}
	cells := Short()
	for range rotatingCells {
		candidates := rotatable(cells)
		index := new(big.Int)
		number.DivMod(number, big.NewInt(int64(len(candidates))), index)
		cells = append(cells, candidates[index.Int64()])
		slices.SortStableFunc(cells, Cell.compare)
	}
	return cells, nil
}

// rotatable returns the cells that a migration with the others can have as well: short faults in the midst of steps
// that have none there. Moments at a reason may pass unseen, and what is missed would fail the run.
func rotatable(cells []Cell) []Cell {
	var candidates []Cell
	for _, cell := range AllCells() {
		if cell.Moment != fault.Inside {
			continue
		}
		f, _ := fault.Get(cell.Fault)
		if !f.Course().ThroughStep && f.Course().Lasts <= rotatingLasts && bearableAmong(cells, cell) {
			candidates = append(candidates, cell)
		}
	}
	return candidates
}

// bearableAmong reports whether nothing strikes at the moment of the cell, and the others of its step let it strike.
func bearableAmong(cells []Cell, cell Cell) bool {
	f, _ := fault.Get(cell.Fault)
	for _, other := range cells {
		if other.Step != cell.Step {
			continue
		}
		g, _ := fault.Get(other.Fault)
		if _, ok := bearable(other, g, cell, f); !ok || other.Moment == cell.Moment {
			return false
		}
	}
	return true
}
