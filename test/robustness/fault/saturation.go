// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/machine"
)

const (
	familySaturated = "saturated"

	// loopsPerProcessor is how many endless loops there are for each processor of the machine.
	loopsPerProcessor = 10
	// saturableProcessors is how many the machine must have. On a smaller one, the loops take from the other seed, the
	// garden and the clients what these need: with two, of which a migration uses 1.95, 347 writes and 667 reads failed
	// within 81 s, which says nothing about the migration.
	saturableProcessors = 4
	// saturationShows is how much processor time the loops have taken when they certainly are in everybody's way.
	saturationShows = 100 * time.Millisecond
)

// Burden is other work on the nodes of a seed that takes processors from its control planes.
type Burden interface {
	// Begin starts so many endless loops. They end with this process.
	Begin(loops int) error
	// Running returns how many of them there are, and what processor time they have taken together.
	Running() (loops int, taken time.Duration, err error)
	// End ends them, whoever has started them.
	End() error
}

// saturation has ten endless loops for each processor in a seed. They have as much right to the processors of the seed
// as a third of it, or more: the weight of one processor beside two of all pods and one of the cluster's own control
// plane (test/landscape/machine). What the others do not use they take as well, and so they keep the processors from
// the garden, the clients and the other seed as far as the weights of those permit.
type saturation struct {
	fault

	role steps.Role
}

func saturations() []Fault {
	faults := []Fault{}
	for _, course := range []struct {
		name string
		Course
	}{{"30s", Course{Lasts: 30 * time.Second}}, {"step", Course{Lasts: maxLatency, ThroughStep: true}}} {
		for _, role := range sides {
			faults = append(faults, &saturation{fault{name: familySaturated + "-" + course.name + "-" + string(role),
				family: familySaturated, span: whole, course: course.Course}, role})
		}
	}
	return faults
}

// Saturates reports whether a fault takes the processors of a seed.
func Saturates(f Fault) bool { return f.Family() == familySaturated }

// Inject implements Fault.
func (f *saturation) Inject(ctx context.Context, targets *Targets) error {
	if targets.Processors < saturableProcessors {
		return fmt.Errorf("endless loops in one seed take from everything else on a machine with %d processors: use "+
			"one with %d", targets.Processors, saturableProcessors)
	}
	loops := loopsPerProcessor * targets.Processors
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		targets.Log("starting %d endless loops in %s", loops, seed.Name)
		burden := targets.Burden(seed)
		if err := burden.Begin(loops); err != nil {
			return err
		}
		var taken time.Duration
		if err := eventually(ctx, "the loops take processors", func(context.Context) (bool, error) {
			running, now, err := burden.Running()
			taken = now
			return running == loops && now >= saturationShows, err
		}); err != nil {
			return err
		}
		targets.Prove("%d endless loops in %s have taken %s of its processors", loops, seed.Name,
			taken.Round(time.Millisecond))
		return nil
	})
}

// InForce implements Fleeting: nobody has ended a loop.
func (f *saturation) InForce(_ context.Context, targets *Targets) (inForce bool, err error) {
	err = targets.on([]steps.Role{f.role}, func(seed Seed) error {
		running, _, err := targets.Burden(seed).Running()
		inForce = running == loopsPerProcessor*targets.Processors
		return err
	})
	return inForce, err
}

// Witness implements Witnessed: what the loops have taken in all.
func (f *saturation) Witness(_ context.Context, targets *Targets) error {
	return targets.on([]steps.Role{f.role}, func(seed Seed) error {
		_, taken, err := targets.Burden(seed).Running()
		if err == nil {
			targets.Prove("they have taken %s in all", taken.Round(time.Second))
		}
		return err
	})
}

// Heal implements Fault. A seed may have changed its role since.
func (f *saturation) Heal(_ context.Context, targets *Targets) error {
	var errs []error
	for _, seed := range targets.Seeds {
		errs = append(errs, targets.Burden(seed).End())
	}
	return errors.Join(errs...)
}

// burdenOf returns what can be put on the seeds of a landscape.
func burdenOf(landscape *config.Config) func(seed Seed) Burden {
	return func(seed Seed) Burden { return &burden{landscape: landscape, seed: seed.Name} }
}

// burden are loops in the cgroup of a seed.
type burden struct {
	landscape *config.Config
	seed      string
}

func (b *burden) on(do func(cgroups machine.Cgroups, group string) error) error {
	seed, err := b.landscape.Seed(b.seed)
	if err != nil {
		return err
	}
	cgroups, err := machine.DetectCgroups()
	if err != nil {
		return err
	}
	if err := do(cgroups, seed.Netns); err != nil {
		return fmt.Errorf("endless loops in %s: %w", b.seed, err)
	}
	return nil
}

// Begin implements Burden.
func (b *burden) Begin(loops int) error {
	return b.on(func(cgroups machine.Cgroups, group string) error { return cgroups.BeginLoops(group, loops) })
}

// Running implements Burden.
func (b *burden) Running() (loops int, taken time.Duration, err error) {
	err = b.on(func(cgroups machine.Cgroups, group string) error {
		running, usage, err := cgroups.Loops(group)
		loops, taken = running, usage.CPU
		return err
	})
	return loops, taken, err
}

// End implements Burden.
func (b *burden) End() error {
	return b.on(func(cgroups machine.Cgroups, group string) error { return cgroups.EndLoops(group) })
}
