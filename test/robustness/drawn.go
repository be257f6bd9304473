// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/robustness/fault"
)

// Names of the variables of make test-robustness.
const (
	// EnvSeed takes the number from which everything is drawn. Without it, one is made up and printed.
	EnvSeed = "SEED"
	// EnvHours takes how long migrations are begun.
	EnvHours = "HOURS"
	// EnvCells takes the cells of a single migration, as Cells writes them.
	EnvCells = "CELLS"
)

// Drawn migrations are more than a plan of the matrix: not all steps have a fault, and some have two at the same
// moment.
const (
	// stepsOfFour is how many steps of four have a fault.
	stepsOfFour = 3
	// pairsOfThree is how many faults of three have a second one beside them, if the moment permits one.
	pairsOfThree = 1
)

// Draw returns the cells of a migration that has a number, from 0: always the same for the same seed and number. Kinds
// of faults are drawn first, so that those with many members are no more frequent than others, and then a moment and a
// member.
func Draw(seed uint64, number int) []Cell {
	random := rand.New(rand.NewPCG(seed, uint64(number))) // #nosec G115 G404 -- chance that can be repeated.
	var drawn []Cell
	for len(drawn) == 0 {
		for _, step := range steps.Table() {
			if random.IntN(4) < stepsOfFour {
				drawn = append(drawn, drawStep(random, step, drawn)...)
			}
		}
	}
	return drawn
}

// drawStep returns the cell of a step, and perhaps one that strikes with it.
func drawStep(random *rand.Rand, step steps.Step, before []Cell) []Cell {
	candidates := slices.DeleteFunc(AllCells(), func(c Cell) bool {
		return c.Step != step.Condition || !fits(before, c)
	})
	if len(candidates) == 0 {
		return nil
	}
	first := drawCell(random, candidates)
	if random.IntN(3) >= pairsOfThree {
		return []Cell{first}
	}
	partners := slices.DeleteFunc(candidates, func(c Cell) bool {
		return c.Moment != first.Moment || !bearableAmong([]Cell{first}, c) || !short(append(before, first), c)
	})
	if len(partners) == 0 {
		return []Cell{first}
	}
	pair := []Cell{first, drawCell(random, partners)}
	slices.SortStableFunc(pair, Cell.compare)
	return pair
}

// drawCell draws a kind of fault, and then one of its cells.
func drawCell(random *rand.Rand, candidates []Cell) Cell {
	var (
		families []string
		of       = map[string][]Cell{}
	)
	for _, c := range candidates {
		f, _ := fault.Get(c.Fault)
		family := f.Family()
		if of[family] == nil {
			families = append(families, family)
		}
		of[family] = append(of[family], c)
	}
	cells := of[families[random.IntN(len(families))]]
	return cells[random.IntN(len(cells))]
}

// Cells writes the cells of a migration for EnvCells: fault, number of the step and moment of each.
func Cells(cells []Cell) string {
	var texts []string
	for _, c := range cells {
		texts = append(texts, fmt.Sprintf("%s@%d@%s", c.Fault, steps.Index(c.Step)+1, c.Moment))
	}
	return strings.Join(texts, ",")
}

// ReproTogether returns the command that makes a migration with these cells and no others.
func ReproTogether(cells []Cell) string {
	return fmt.Sprintf("make test-robustness %s=%s", EnvCells, Cells(cells))
}

// ParseCells reads what Cells has written, in any order. Each cell must be one of the matrix.
func ParseCells(text string) ([]Cell, error) {
	var cells []Cell
	all := AllCells()
	for entry := range strings.SplitSeq(text, ",") {
		parts := strings.Split(strings.TrimSpace(entry), "@")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: %q is no cell; write fault@step@moment, such as cut-5s@2@inside", EnvCells,
				entry)
		}
		cell := Cell{Fault: parts[0], Step: gardencorev1beta1.ConditionType(parts[1]), Moment: fault.Moment(parts[2])}
		for _, step := range steps.Table() {
			if parts[1] == strconv.Itoa(steps.Index(step.Condition)+1) {
				cell.Step = step.Condition
			}
		}
		if !slices.Contains(all, cell) {
			return nil, fmt.Errorf("%s: %s is no cell of the matrix; %s lists them", EnvCells, cell, Recorded)
		}
		cells = append(cells, cell)
	}
	slices.SortStableFunc(cells, Cell.compare)
	if err := DefaultAlone.Check(cells); err != nil {
		return nil, fmt.Errorf("%s: %w", EnvCells, err)
	}
	return cells, nil
}

// Search says which migrations make test-robustness makes.
type Search struct {
	// Seed is where everything is drawn from.
	Seed uint64
	// Lasts is how long migrations are begun. The last one may end later.
	Lasts time.Duration
	// Cells are those of the only migration, if any are asked for.
	Cells []Cell
}

// String names what the migrations come from.
func (s Search) String() string {
	if len(s.Cells) > 0 {
		return EnvCells
	}
	return fmt.Sprintf("%s=%d", EnvSeed, s.Seed)
}

// defaultHours is how long it draws if nobody says.
const defaultHours = 1

// SearchOf reads what the variables ask for. otherwise is the seed if there is none.
func SearchOf(getenv func(string) string, otherwise uint64) (Search, error) {
	search := Search{Seed: otherwise, Lasts: defaultHours * time.Hour}
	var err error
	if text := strings.TrimSpace(getenv(EnvCells)); text != "" {
		search.Cells, err = ParseCells(text)
		return search, err
	}
	if text := strings.TrimSpace(getenv(EnvSeed)); text != "" {
		if search.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return search, fmt.Errorf("%s: %q is not a number from 0", EnvSeed, text)
		}
	}
	if text := strings.TrimSpace(getenv(EnvHours)); text != "" {
		hours, err := strconv.ParseFloat(text, 64)
		if err != nil || !(hours > 0) || hours > maxHours {
			return search, fmt.Errorf("%s: %q is not a number of hours; give one above 0, up to %d", EnvHours, text,
				maxHours)
		}
		search.Lasts = time.Duration(hours * float64(time.Hour))
	}
	return search, nil
}

// maxHours is how long a search may be: a week.
const maxHours = 168

// Try makes a migration with the cells and reports whether it has failed.
type Try func(cells []Cell) (failed bool, err error)

// Minimise takes cells out of a migration that has failed, for as long as what is left still fails, and returns those
// that are left. It tries each of them by itself first, then the migration without each of them. It ends early, with
// what it has by then, when it must not begin another migration (more) or a migration cannot be judged.
//
// Migrations depend on chance. Cells that have failed together and pass when they are repeated stay: all that is known
// of them is that they may fail together.
func Minimise(cells []Cell, try Try, more func() bool) ([]Cell, error) {
	if len(cells) < 2 {
		return cells, nil
	}
	for _, cell := range cells {
		if !more() {
			return cells, nil
		}
		failed, err := try([]Cell{cell})
		if err != nil {
			return cells, err
		}
		if failed {
			return []Cell{cell}, nil
		}
	}
	for i := 0; i < len(cells) && len(cells) > 2; {
		if !more() {
			return cells, nil
		}
		without := slices.Delete(slices.Clone(cells), i, i+1)
		failed, err := try(without)
		if err != nil {
			return cells, err
		}
		if failed {
			cells = without
		} else {
			i++
		}
	}
	return cells, nil
}

// DrawnTimeout is the longest time that a drawn migration may take, with everything around it.
const DrawnTimeout = 3 * time.Hour

// Found is a migration that has failed.
type Found struct {
	// Number is that of the migration, from 0.
	Number int
	// Cells are those that it had, Left those without which it has not failed.
	Cells, Left []Cell
}

// Error says how to repeat it.
func (f *Found) Error() string {
	text := fmt.Sprintf("migration %d has failed; repeat with: %s", f.Number, ReproTogether(f.Cells))
	if len(f.Left) < len(f.Cells) {
		text += fmt.Sprintf("; fewer cells fail as well: %s", ReproTogether(f.Left))
	}
	return text
}

// Run makes migrations until one fails or the time is over, and returns the one that has failed with fewer cells, if
// it fails with them as well. It returns how many it has made that have not. Each says on the way what it is about.
func (s Search) Run(clock clock.PassiveClock, say func(format string, args ...any), try Try) (made int, err error) {
	end := clock.Now().Add(s.Lasts)
	more := func() bool { return clock.Now().Before(end) }
	for ; made == 0 || more(); made++ {
		cells := s.Cells
		if len(cells) == 0 {
			cells = Draw(s.Seed, made)
		}
		say("migration %d of %s: %s", made, s, ReproTogether(cells))
		failed, err := try(cells)
		if err != nil {
			return made, fmt.Errorf("%w: %w", &Found{Number: made, Cells: cells, Left: cells}, err)
		}
		if failed {
			found := &Found{Number: made, Cells: cells, Left: cells}
			if len(s.Cells) > 0 {
				return made, found
			}
			found.Left, err = Minimise(cells, func(cells []Cell) (bool, error) {
				say("fewer cells: %s", ReproTogether(cells))
				return try(cells)
			}, more)
			if err != nil {
				return made, fmt.Errorf("%w; then a migration with fewer cells could not be judged: %w", found, err)
			}
			return made, found
		}
		if len(s.Cells) > 0 {
			return 1, nil
		}
	}
	return made, nil
}
