// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package migrations is the part of the benchmarks that moves the shoot of the landscape: live against classic, over
// distances, and with data of different sizes.
package migrations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/bench/data"
	"github.com/livecpm/livecpm/test/bench/machine"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
)

// Options say what is moved.
type Options struct {
	// Landscape is where the garden and the seeds are. It must be up.
	Landscape *config.Config
	// Namespace and Shoot name the shoot.
	Namespace, Shoot string
	// Before and After are how long the load runs around a migration, where nothing says how long before (Run.Quiet).
	Before, After time.Duration
	// Timeout bounds a migration, and each of the waits around it.
	Timeout time.Duration
	// Artifacts is the folder for the report of each migration.
	Artifacts string
	// Out takes the progress.
	Out io.Writer
}

// Bench moves the shoot to and fro.
type Bench struct {
	Options
	shoot *driver.Shoot
}

const (
	// sampleInterval is how often livecpm's processes are looked at.
	sampleInterval = 2 * time.Second
	// healTimeout bounds what has to be done in any case.
	healTimeout = 5 * time.Minute
)

// programs are those of livecpm in the seeds.
var programs = []string{"livecpm-agent", "livecpm-relay"}

// Connect returns the bench with access to the garden.
func Connect(options Options) (*Bench, error) {
	shoot, err := driver.Open(driver.Target{Landscape: options.Landscape, Namespace: options.Namespace,
		Name: options.Shoot, Timeout: options.Timeout, Out: options.Out})
	if err != nil {
		return nil, err
	}
	return &Bench{Options: options, shoot: shoot}, nil
}

// Order returns the kinds of migrations in the order in which they are made, so many of each. They take turns, and each
// pair begins with the other kind than the one before: so both kinds meet both directions and the same machine.
func Order(rounds int) []string {
	var out []string
	for round := range rounds {
		first, second := data.KindClassic, data.KindLive
		if round%2 == 1 {
			first, second = second, first
		}
		out = append(out, first, second)
	}
	return out
}

// Quiet returns how long the load runs before a migration of the kind: as long as the last one of that kind took, of
// those made now or else of those on record. The longest gap and the slowest percent of a few minutes are larger than
// those of one minute with nothing going on, so figures of different lengths cannot be compared. Without any, it is the
// other duration; it is never shorter than that.
func Quiet(kind string, made []data.Migration, recorded *data.Live, otherwise time.Duration) time.Duration {
	for _, runs := range [][]data.Migration{data.NewLive(data.Environment{}, made).Of(kind), recorded.Of(kind)} {
		completed := slices.DeleteFunc(slices.Clone(runs), func(m data.Migration) bool {
			return m.Outcome != data.OutcomeCompleted
		})
		if len(completed) > 0 {
			last := completed[len(completed)-1]
			return max(otherwise, time.Duration(last.Seconds*float64(time.Second)).Round(time.Second))
		}
	}
	return otherwise
}

// Run says how the shoot is moved once.
type Run struct {
	// Kind is one of the kinds of migrations.
	Kind string
	// Quiet is how long the load runs before.
	Quiet time.Duration
	// Report is the name of the folder for the report.
	Report string

	roundTrip time.Duration
}

// Move moves the shoot to the other seed, without a distance.
func (b *Bench) Move(ctx context.Context, run Run) (*data.Migration, error) {
	m, report, err := b.run(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("failed to measure the %s migration: %w", run.Kind, err)
	}
	return m, b.conclude(ctx, m, report)
}

// Distance moves the shoot live with the round trip between the seeds. A migration that does not come to its end
// continues without the distance, so that the next one can begin.
func (b *Bench) Distance(ctx context.Context, roundTrip time.Duration) (_ *data.Migration, err error) {
	link, err := b.link(ctx)
	if err != nil {
		return nil, err
	}
	// An earlier run that was killed may have left its distance.
	if err := link.reset(ctx); err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
		defer cancel()
		err = errors.Join(err, link.reset(ctx))
	}()
	if err := link.stretch(ctx, roundTrip); err != nil {
		return nil, err
	}
	m, report, err := b.run(ctx, Run{Kind: data.KindLive, Quiet: b.Before, roundTrip: roundTrip,
		Report: fmt.Sprintf("%s-%dms", data.KindLive, roundTrip.Milliseconds())})
	if err != nil {
		return nil, err
	}
	if err := link.reset(ctx); err != nil {
		return nil, err
	}
	return m, b.conclude(ctx, m, report)
}

// run migrates and measures, and keeps the report.
func (b *Bench) run(ctx context.Context, run Run) (*data.Migration, *demo.Report, error) {
	b.shoot.Say("bench: %s migration, %s between the seeds, after %s without one", run.Kind, run.roundTrip, run.Quiet)
	meter, stop := b.meter(ctx)
	report, err := demo.Run(ctx, demo.Options{
		Landscape: b.Landscape, Namespace: b.Namespace, Shoot: b.Options.Shoot,
		Before: run.Quiet, After: b.After, Timeout: b.Timeout,
		Classic: run.Kind == data.KindClassic,
		Out:     b.Out,
	})
	stop()
	if err != nil {
		return nil, nil, err
	}
	if err := report.Write(filepath.Join(b.Artifacts, run.Report)); err != nil {
		return nil, nil, err
	}
	m := figures(report, run.Kind, run.roundTrip, meter.Report())
	b.shoot.Say("bench: %s migration %s in %.0f s, %d requests failed", run.Kind, m.Outcome, m.Seconds, m.Failed())
	return &m, report, nil
}

// meter follows livecpm's processes until stop is called.
func (b *Bench) meter(ctx context.Context) (meter *machine.Meter, stop func()) {
	meter = machine.NewMeter(machine.Proc, b.Landscape.Prefix+"-", programs...)
	meter.Sample()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(sampleInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				meter.Sample()
			}
		}
	})
	return meter, func() {
		cancel()
		group.Wait()
		meter.Sample()
	}
}

// conclude brings the shoot to rest, so that the next migration can begin: one that was stopped comes to its end now,
// one that was not begun is withdrawn.
func (b *Bench) conclude(ctx context.Context, m *data.Migration, report *demo.Report) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*b.Timeout+healTimeout)
	defer cancel()
	shoot, err := b.shoot.Get(ctx)
	if err != nil {
		return err
	}
	_, _, between := steps.Seeds(shoot)
	if m.Outcome != data.OutcomeCompleted && (!between || m.Kind == data.KindLive && !steps.InFlight(shoot)) {
		m.Outcome = data.OutcomeRefused
		if held := holding(shoot); held != "" {
			m.Reason = held
		}
		if between {
			if err := b.shoot.Bind(ctx, report.Source); err != nil {
				return err
			}
		}
		if err := b.shoot.Annotate(ctx, steps.AnnotationIntent, ""); err != nil {
			return err
		}
		return b.reconcile(ctx, report.Source)
	}
	if m.Kind == data.KindClassic {
		return b.reconcile(ctx, report.Destination)
	}
	return b.shoot.UntilReconciled(ctx, report.Destination)
}

// reconcile asks the gardenlet for a reconciliation: the last operation of a shoot that has moved classically is
// another one.
func (b *Bench) reconcile(ctx context.Context, seed string) error {
	if err := b.shoot.Until(ctx, "the shoot to be in "+seed, func(shoot *gardencorev1beta1.Shoot) bool {
		return shoot.Status.SeedName != nil && *shoot.Status.SeedName == seed
	}); err != nil {
		return err
	}
	if err := b.shoot.Annotate(ctx, v1beta1constants.GardenerOperation,
		v1beta1constants.GardenerOperationReconcile); err != nil {
		return err
	}
	return b.shoot.UntilReconciled(ctx, seed)
}

// holding returns what the step says that a migration waits before.
func holding(shoot *gardencorev1beta1.Shoot) string {
	step, ok := steps.Current(steps.Conditions(shoot))
	if !ok {
		return ""
	}
	return driver.Describe(shoot, step.Condition)
}
