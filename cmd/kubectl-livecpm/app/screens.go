// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/screen"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// screenOptions are how screens look.
func (o *options) screenOptions() screen.Options {
	return screen.Options{Color: o.colored(), ASCII: o.environment().ascii(), Zone: zone, Interval: o.interval,
		Clock: o.clock}
}

// watchOnScreen shows the migration until it ends or somebody leaves it, and leaves what was seen last on the terminal.
// The exit code says how the migration has ended; who leaves before the end has seen enough.
func (o *options) watchOnScreen(ctx context.Context, s *surroundings, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &shownShoot{surroundings: s, name: name, mu: &sync.Mutex{}}
	model := screen.NewMigration(ctx, s.garden.Namespace+"/"+name, one, shownSteering{one}).With(o.screenOptions())
	if err := (screen.Terminal{In: os.Stdin, Out: o.Out}).Run(ctx, model, o.screenOptions()); err != nil {
		return interrupted(err)
	}
	world := model.World()
	if world == nil {
		return interrupted(model.Err())
	}
	if _, err := io.WriteString(o.Out, o.glyphs(view.Tree(*world, o.view()))); err != nil {
		return err
	}
	last := view.Summary(*world)
	if err := model.Err(); err != nil || !last.State.Final() {
		return interrupted(err)
	}
	return exit.With(exit.OfMigration(last), nil)
}

// shownShoot is what the screen of one migration shows.
type shownShoot struct {
	*surroundings
	name string
	// mu keeps two looks apart: a screen looks and reads events at once, and both may request access to a seed.
	mu *sync.Mutex
}

// Look implements screen.Source.
func (v *shownShoot) Look(ctx context.Context) (summary.ControlPlane, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lookAtAll(v.name)(ctx)
}

// Events implements screen.Source.
func (v *shownShoot) Events(ctx context.Context) ([]view.Event, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	shoot, err := v.garden.Shoot(ctx, v.name)
	if err != nil {
		return nil, err
	}
	migration := summary.Summarize(shoot, v.clock.Now())
	v.reach(ctx, migration.Source, migration.Destination)
	t := inspect.Timeline{Garden: v.garden, Seeds: v.seeds, Shoot: shoot, Since: v.since(migration, 0)}
	return t.Events(ctx, v.seedsOf(migration)...)
}

// shownSteering does what the keys of the screen ask for.
type shownSteering struct{ of *shownShoot }

// Pause implements screen.Steering.
func (k shownSteering) Pause(ctx context.Context) (screen.Answer, error) {
	return k.do(ctx, func(s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Pause(ctx, shoot, nil)
	})
}

// Resume implements screen.Steering.
func (k shownSteering) Resume(ctx context.Context) (screen.Answer, error) {
	return k.do(ctx, func(s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Resume(ctx, shoot)
	})
}

// Retry implements screen.Steering.
func (k shownSteering) Retry(ctx context.Context) (screen.Answer, error) {
	return k.do(ctx, func(s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Retry(ctx, shoot)
	})
}

// Abort implements screen.Steering.
func (k shownSteering) Abort(ctx context.Context) (screen.Answer, error) {
	return k.do(ctx, func(s steer.Steerer, shoot *gardencorev1beta1.Shoot) (steer.Result, error) {
		return s.Abort(ctx, shoot)
	})
}

// do reads the shoot again before it is changed.
func (k shownSteering) do(
	ctx context.Context, change func(steer.Steerer, *gardencorev1beta1.Shoot) (steer.Result, error),
) (screen.Answer, error) {
	shoot, err := k.of.garden.Shoot(ctx, k.of.name)
	if err != nil {
		return screen.Answer{}, err
	}
	result, err := change(k.of.steerer(k.of.garden), shoot)
	return screen.Answer{Done: result.Done, Not: result.Not}, err
}

// scope is of which namespaces the migrations are shown.
type scope bool

const allNamespaces scope = true

// watchList shows all migrations of the scope until somebody leaves: as a screen, or as a line for each change.
func (o *options) watchList(ctx context.Context, of scope) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	shown := &shownFleet{surroundings: s, namespace: s.garden.Namespace, mu: &sync.Mutex{},
		all: &inspect.Forecast{Garden: s.garden, Clock: o.clock}}
	title := "Live migrations in namespace " + shown.namespace
	if of == allNamespaces {
		shown.namespace, title = metav1.NamespaceAll, "Live migrations in all namespaces"
	}
	if o.machine() || !o.environment().screens() {
		return shown.lines(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	model := screen.NewFleet(ctx, title, shown, o.screenOptions())
	if err := (screen.Terminal{In: os.Stdin, Out: o.Out}).Run(ctx, model, o.screenOptions()); err != nil {
		return interrupted(err)
	}
	return interrupted(model.Err())
}

// shownFleet is what the screen of all migrations shows.
type shownFleet struct {
	*surroundings
	namespace string
	mu        *sync.Mutex
	// all tells how long they take, without asking name servers about each.
	all *inspect.Forecast
}

// Look implements screen.FleetSource. Seeds that may not be read have no drain.
func (f *shownFleet) Look(ctx context.Context) (screen.Migrations, error) {
	var out screen.Migrations
	shoots, err := f.garden.Migrated(ctx, f.namespace)
	if err != nil {
		return out, err
	}
	out.Summaries = summariesOf(ctx, f.all, shoots)
	seeds, err := f.garden.Seeds(ctx)
	if err != nil {
		out.Note = "Drains are not known: " + err.Error()
	}
	for i := range seeds {
		if drain.Requested(&seeds[i]) {
			table, err := f.garden.DrainTable(ctx, seeds[i].Name)
			out.Drains = append(out.Drains, summary.DrainOf(&seeds[i], table, err))
		}
	}
	return out, nil
}

// Open implements screen.FleetSource.
func (f *shownFleet) Open(namespace, name string) (screen.Source, screen.Steering, error) {
	garden, of := *f.garden, *f.surroundings
	garden.Namespace, of.garden = namespace, &garden
	one := &shownShoot{surroundings: &of, name: name, mu: f.mu}
	return one, shownSteering{one}, nil
}

// lines writes a line for each change of a migration or a drain, or a document with the migration that has changed,
// until the context ends. Documents are about migrations only: `drain wait` writes those of a drain.
func (f *shownFleet) lines(ctx context.Context) error {
	var (
		seen     screen.Migrations
		writeErr error
	)
	write := func(line string) {
		_, err := io.WriteString(f.Out, f.glyphs(line))
		writeErr = errors.Join(writeErr, err)
	}
	changes := view.FleetChanges(func(s summary.Summary, line string) {
		if f.machine() {
			answer := document.Document{Kind: document.Migration, Value: s, Names: []string{shootName(s.Name)}}
			writeErr = errors.Join(writeErr, f.printer.Stream(f.Out, answer))
			return
		}
		write(line)
	}, f.view())
	drains := f.drainLines(write)
	loop := f.loop(func(ctx context.Context) (summary.ControlPlane, error) {
		var err error
		seen, err = f.Look(ctx)
		return summary.ControlPlane{Now: metav1.NewTime(f.clock.Now())}, err
	})
	err := loop.Run(ctx, func(w summary.ControlPlane) bool {
		changes(seen.Summaries, w.Now.Time)
		drains(seen, w.Now.Time)
		return writeErr != nil
	})
	return errors.Join(interrupted(err), writeErr)
}

// drainLines returns a function that writes a line for each change of a drain. Where seeds may not be read, it says
// that instead, once: what is not known has not ended.
func (f *shownFleet) drainLines(write func(line string)) func(screen.Migrations, time.Time) {
	changes, note := view.DrainChanges(write, f.view()), ""
	return func(seen screen.Migrations, now time.Time) {
		switch {
		case f.machine():
		case seen.Note == "":
			changes(seen.Drains, now)
		case seen.Note != note:
			_, _ = io.WriteString(f.Err, seen.Note+"\n")
		}
		note = seen.Note
	}
}

// summariesOf returns what the shoots say about their migrations, and how long these are expected to take.
func summariesOf(
	ctx context.Context, forecast *inspect.Forecast, shoots []gardencorev1beta1.Shoot,
) []summary.Summary {
	out := []summary.Summary{}
	for i := range shoots {
		s := summary.Summarize(&shoots[i], forecast.Clock.Now())
		s.Expect(forecast.Of(ctx, &shoots[i], nil))
		out = append(out, s)
	}
	return out
}
