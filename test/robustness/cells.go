// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package robustness migrates a shoot of the landscape while faults strike at chosen moments, and judges what that cost
// the shoot's clients. A fault at a moment of a step is a cell; the results of all cells make up the fault matrix.
package robustness

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Names of the variables that choose cells. Each takes a list with commas; an empty one stands for all.
const (
	// EnvFault takes names and families of faults.
	EnvFault = "FAULT"
	// EnvStep takes condition types, or numbers of steps from 1.
	EnvStep = "STEP"
	// EnvMoment takes moments.
	EnvMoment = "MOMENT"
	// EnvMigrations bounds how many migrations are made of the cells; an empty one stands for as many as they need.
	EnvMigrations = "MIGRATIONS"
	// EnvForceShrink asks for the force-shrink in all migrations, if it is true.
	EnvForceShrink = "FORCE_SHRINK"
)

// Cell is a fault at a moment of a step.
type Cell struct {
	Fault  string                          `json:"fault"`
	Step   gardencorev1beta1.ConditionType `json:"step"`
	Moment fault.Moment                    `json:"moment"`
}

// String returns the cell in words.
func (c Cell) String() string {
	switch c.Moment {
	case fault.Boundary:
		return fmt.Sprintf("%s at the start of %s", c.Fault, c.Step)
	case fault.Inside:
		return fmt.Sprintf("%s inside %s", c.Fault, c.Step)
	}
	return fmt.Sprintf("%s at %s of %s", c.Fault, c.Moment, c.Step)
}

// Repro returns the command that runs just this cell.
func (c Cell) Repro() string {
	if slices.ContainsFunc(fault.OfNodes(), func(f fault.Fault) bool { return f.Name() == c.Fault }) {
		return "make test-e2e LABELS=nodes"
	}
	command := fmt.Sprintf("make test-e2e LABELS=faults %s=%s %s=%s %s=%s", EnvFault, c.Fault, EnvStep, c.Step,
		EnvMoment, c.Moment)
	if step, known := steps.Get(c.Step); known && !slices.Contains(fault.MomentsOf(step, fault.Variant{}), c.Moment) {
		command += " " + EnvForceShrink + "=true"
	}
	return command
}

// Folder is where what is kept of the cell goes, below the folder of the suite.
func (c Cell) Folder() string {
	return filepath.Join(c.Fault+"-"+string(c.Step), string(c.Moment))
}

// compare orders cells by step and moment, and by fault as the matrix does.
func (c Cell) compare(other Cell) int {
	return cmp.Or(
		cmp.Compare(steps.Index(c.Step), steps.Index(other.Step)),
		cmp.Compare(c.rank(), other.rank()),
		cmp.Compare(faultIndex(c.Fault), faultIndex(other.Fault)),
	)
}

// rank orders the moments of the cell's step.
func (c Cell) rank() int {
	step, _ := steps.Get(c.Step)
	return fault.Rank(step, c.Moment)
}

func faultIndex(name string) int { return slices.Index(faultOrder(), name) }

// faultOrder are the names of all faults.
var faultOrder = sync.OnceValue(fault.Names)

// AllCells returns every cell of a migration of the landscape's shoot in which the fault has something to hit.
func AllCells() []Cell { return CellsOf(fault.Variant{}) }

// knownCells are those of each variant that somebody has asked for: they are many, and always the same.
var knownCells sync.Map

// CellsOf returns every cell of a migration of the variant in which the fault has something to hit.
func CellsOf(variant fault.Variant) []Cell {
	made, known := knownCells.Load(variant)
	if !known {
		made, _ = knownCells.LoadOrStore(variant, cellsOf(variant))
	}
	return slices.Clone(made.([]Cell))
}

func cellsOf(variant fault.Variant) []Cell {
	var cells []Cell
	for _, f := range fault.All() {
		for _, step := range steps.Table() {
			for _, moment := range fault.MomentsOf(step, variant) {
				if f.Applies(step, moment) {
					cells = append(cells, Cell{Fault: f.Name(), Step: step.Condition, Moment: moment})
				}
			}
		}
	}
	slices.SortStableFunc(cells, Cell.compare)
	return cells
}

// Select returns the cells that the variables ask for.
func Select(getenv func(string) string) ([]Cell, error) {
	wantFault, err := chooser(getenv(EnvFault), fault.Names(), func(want, name string) bool {
		f, _ := fault.Get(name)
		return want == name || want == f.Family()
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvFault, err)
	}
	wantStep, err := chooser(getenv(EnvStep), stepNames(), func(want, name string) bool {
		return want == name || want == strconv.Itoa(steps.Index(gardencorev1beta1.ConditionType(name))+1)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvStep, err)
	}
	forced, err := ForceShrink(getenv)
	if err != nil {
		return nil, err
	}
	all := CellsOf(fault.Variant{ForceShrink: forced})
	wantMoment, err := chooser(getenv(EnvMoment), momentNames(all),
		func(want, name string) bool { return want == name })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvMoment, err)
	}

	cells := slices.DeleteFunc(all, func(c Cell) bool {
		return !wantFault(c.Fault) || !wantStep(string(c.Step)) || !wantMoment(string(c.Moment))
	})
	if len(cells) == 0 {
		return nil, fmt.Errorf("no cell is left: with %s=%s %s=%s %s=%s there is nothing for the fault to hit",
			EnvFault, getenv(EnvFault), EnvStep, getenv(EnvStep), EnvMoment, getenv(EnvMoment))
	}
	return cells, nil
}

// chooser returns which of the names a list asks for. Every entry of the list must match one of them.
func chooser(list string, names []string, matches func(want, name string) bool) (func(string) bool, error) {
	chosen := map[string]bool{}
	for want := range strings.SplitSeq(list, ",") {
		if want = strings.TrimSpace(want); want == "" {
			continue
		}
		known := false
		for _, name := range names {
			if matches(want, name) {
				chosen[name], known = true, true
			}
		}
		if !known {
			return nil, fmt.Errorf("%q is unknown; there are %s", want, strings.Join(names, ", "))
		}
	}
	return func(name string) bool { return len(chosen) == 0 || chosen[name] }, nil
}

func stepNames() []string {
	var names []string
	for _, step := range steps.Table() {
		names = append(names, step.String())
	}
	return names
}

// momentNames returns the moments of the cells, each once.
func momentNames(cells []Cell) []string {
	var names []string
	for _, cell := range cells {
		if !slices.Contains(names, string(cell.Moment)) {
			names = append(names, string(cell.Moment))
		}
	}
	return names
}

// longPerMigration is how many long faults a migration has at most.
const longPerMigration = 3

// Plan distributes cells over few migrations. Each cell is alone in its window: the migration can be held only before a
// step, so that a step has one cell at most.
func Plan(cells []Cell) [][]Cell {
	return newPlanner().plan(cells, 0)
}

// Sample makes so many migrations, or fewer if there are not enough cells, of those cells that have not passed in the
// matrix yet, or whose result is stale. All faults strike about equally often, those that have passed counted in, and
// so do all moments.
func Sample(cells []Cell, matrix *Matrix, limit int) [][]Cell {
	p, passed := newPlanner(), map[Cell]bool{}
	for _, result := range matrix.Cells {
		if result.Outcome == Passed && result.Stale == "" {
			passed[result.Cell] = true
			p.count(result.Cell)
		}
	}
	return p.plan(slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return passed[c] }), limit)
}

// planner remembers how often what has struck.
type planner struct {
	faults  map[string]int
	moments map[fault.Moment]int
}

func newPlanner() *planner {
	return &planner{faults: map[string]int{}, moments: map[fault.Moment]int{}}
}

func (p *planner) count(cell Cell) {
	p.faults[cell.Fault]++
	p.moments[cell.Moment]++
}

// plan makes migrations of the cells, so many at most, or as many as they need.
func (p *planner) plan(left []Cell, limit int) [][]Cell {
	var migrations [][]Cell
	left = slices.Clone(left)
	for len(left) > 0 && (limit == 0 || len(migrations) < limit) {
		var migration []Cell
		for _, step := range steps.Table() {
			var candidates []Cell
			for _, cell := range left {
				if cell.Step == step.Condition && fits(migration, cell) {
					candidates = append(candidates, cell)
				}
			}
			if len(candidates) == 0 {
				continue
			}
			cell := slices.MinFunc(candidates, func(a, b Cell) int {
				return cmp.Or(cmp.Compare(p.faults[a.Fault], p.faults[b.Fault]),
					cmp.Compare(p.moments[a.Moment], p.moments[b.Moment]), a.compare(b))
			})
			p.count(cell)
			left = slices.DeleteFunc(left, func(c Cell) bool { return c == cell })
			migration = append(migration, cell)
		}
		migrations = append(migrations, migration)
	}
	return migrations
}

// longFaults tells of each fault by its name whether few of it are enough for a migration.
var longFaults = sync.OnceValue(func() map[string]bool {
	long := map[string]bool{}
	for _, f := range append(fault.All(), fault.OfNodes()...) {
		long[f.Name()] = fault.Long(f)
	}
	return long
})

// fits reports whether a migration with such cells can have the other one too.
func fits(migration []Cell, cell Cell) bool {
	return !slices.ContainsFunc(migration, func(other Cell) bool { return other.Step == cell.Step }) &&
		short(migration, cell)
}

// short reports whether a migration with such cells does not get too long by the other one, in whichever step that is.
func short(migration []Cell, cell Cell) bool {
	isLong, known := longFaults()[cell.Fault]
	if !known {
		return len(migration) == 0
	}
	long := 0
	for _, other := range migration {
		otherLong, known := longFaults()[other.Fault]
		if !known {
			return false
		}
		if otherLong {
			long++
		}
	}
	return !isLong || long < longPerMigration
}

// bearable reports whether two cells of a step can be in one migration, and why not.
func bearable(a Cell, f fault.Fault, b Cell, g fault.Fault) (string, bool) {
	if a.rank() > b.rank() {
		a, f, b, g = b, g, a, f
	}
	return fault.Bearable(f, g, a.Moment, b.Moment)
}

// Limit returns how many migrations the variable asks for at most. 0 stands for as many as the cells need.
func Limit(getenv func(string) string) (int, error) {
	value := strings.TrimSpace(getenv(EnvMigrations))
	if value == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 {
		return 0, fmt.Errorf("%s: %q is not a number of migrations; give one from 1, or leave it empty for all cells",
			EnvMigrations, value)
	}
	return limit, nil
}

// ForceShrink reports whether the variable asks for the force-shrink.
func ForceShrink(getenv func(string) string) (bool, error) {
	value := strings.TrimSpace(getenv(EnvForceShrink))
	if value == "" {
		return false, nil
	}
	wanted, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s: %q is neither true nor false", EnvForceShrink, value)
	}
	return wanted, nil
}

// Short returns the cells of a single migration with faults of several kinds: the leaders of both agents are killed in
// every step, and on the way a relay, a member of etcd and the connection between the seeds fail.
func Short() []Cell {
	var cells []Cell
	for _, step := range steps.Table() {
		cells = append(cells, Cell{Fault: "agent-kill-both", Step: step.Condition, Moment: fault.Boundary})
	}
	cells = append(cells,
		Cell{Fault: "cut-5s", Step: gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined,
			Moment: fault.Inside},
		Cell{Fault: "etcd-kill-destination", Step: gardencorev1beta1.ShootLiveMigrationDestinationKubeAPIServerReady,
			Moment: fault.Inside},
		Cell{Fault: "relay-kill-source", Step: gardencorev1beta1.ShootLiveMigrationEtcdMigrationComplete,
			Moment: fault.Inside},
	)
	slices.SortStableFunc(cells, Cell.compare)
	return cells
}
