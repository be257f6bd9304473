// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/robustness/evidence"
	"github.com/livecpm/livecpm/test/robustness/fault"
	"github.com/livecpm/livecpm/test/robustness/history"
)

// Options say what to migrate and which faults strike on the way.
type Options struct {
	// Landscape is where the garden and the seeds are. It must be up.
	Landscape *config.Config
	// Namespace and Shoot name the shoot. It moves to the seed that it is not on.
	Namespace, Shoot string
	// Cells are what happens, in the order of the steps. Those of a moment of a step strike together.
	Cells []Cell
	// Alone gives each cell a window of its own, in which nothing else strikes and which has so much load on both sides
	// of the fault: the migration is held before a step until that is so, and each cell is judged by the bounds of its
	// fault. Nil lets cells share a step, and their figures and verdict.
	Alone *Alone
	// Artifacts is the folder of the suite. What is kept of a failure and the matrix go there.
	Artifacts string
	// ForceShrink asks for the force-shrink with the migration. What comes of its cells does not belong in the matrix
	// of migrations without it: give them other Artifacts.
	ForceShrink bool
	// Out takes the progress.
	Out io.Writer
	// Cleanup, when set, is given what must be done in any case, be it after a panic.
	Cleanup func(func(context.Context) error)
	// Requirements say what the history must hold; the default is that of the history package.
	Requirements *history.Requirements
}

const (
	// around is how long the load runs before the trigger and after completion.
	around = 30 * time.Second
	// migrationTimeout bounds a migration, besides the time that its faults take.
	migrationTimeout = 30 * time.Minute
	// observeInterval is how often the director looks at the shoot: it bounds how late a fault strikes.
	observeInterval = 100 * time.Millisecond
	observeTimeout  = 2 * time.Second
	gardenTimeout   = 5 * time.Second
	// completeTimeout bounds a reconciliation by the gardenlet that continues after the migration.
	completeTimeout = 3 * time.Minute
	// retryInterval is how often it is looked again whether something is over.
	retryInterval = 2 * time.Second
	// healTimeout bounds the healing at the end of a migration.
	healTimeout = 3 * time.Minute
	// stopTimeout bounds the end of the load and its verification.
	stopTimeout = 5 * time.Minute
)

// Duration is the longest time that a migration with the cells may take, everything around it included.
func Duration(cells []Cell) time.Duration {
	return timeout(cells) + 2*around + 2*healTimeout + completeTimeout + 3*stopTimeout
}

// DurationAlone is the same for cells that have windows of their own.
func DurationAlone(cells []Cell) time.Duration { return Duration(cells) + windows(cells) }

// windows is what the windows of cells may add to a migration, and the last one to its end.
func windows(cells []Cell) time.Duration { return time.Duration(len(cells)+1) * windowsTimeout }

// timeout is what a migration may take from its trigger to its completion.
func timeout(cells []Cell) time.Duration {
	sum := migrationTimeout
	for _, cell := range cells {
		if f, ok := fault.Get(cell.Fault); ok && !f.Course().ThroughStep {
			sum += f.Course().Lasts
		}
	}
	return sum
}

// run is one migration with faults.
type run struct {
	Options

	build       *evidence.Build
	target      *driver.Shoot
	shoot       *gardencorev1beta1.Shoot
	destination string
	targets     *fault.Targets
	director    *director
	load        *history.Load
	stores      []*history.ConfigMaps
}

// Run migrates the shoot while the faults of the cells strike, judges what clients were told, and adds the results to
// the matrix. The error tells only what kept the result from being made; Result.Err reports whether it is good.
func Run(ctx context.Context, options Options) (*Result, error) {
	r := &run{Options: options}
	if r.Cleanup == nil {
		r.Cleanup = func(func(context.Context) error) {}
	}
	var err error
	if r.director, err = newDirector(r.Cells, fault.Get); err != nil {
		return nil, err
	}
	if r.Alone != nil {
		if err := r.Alone.Check(r.Cells); err != nil {
			return nil, err
		}
		r.director.alone = r.Alone
	}
	if r.build, err = evidence.Take(ctx, evidence.Place{Repository: r.Landscape.Repo, Binaries: r.Landscape.Bin(),
		Images: r.Landscape.Images()}); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.Cleanup(r.finish)
	if err := r.startLoad(ctx); err != nil {
		return nil, err
	}

	report, migrateErr := r.migrate(ctx)

	// From here on nothing depends on the context: what has happened must be judged and healed.
	ctx = context.WithoutCancel(ctx)
	finishErr := r.finish(ctx)
	r.fillWindows(ctx)
	recorded, stopErr := r.stopLoad(ctx)
	end := time.Now()
	if migrateErr != nil {
		err := errors.Join(migrateErr, finishErr, stopErr)
		// An attempt without a report is one that has failed, too.
		return nil, errors.Join(err, UpdateMatrix(r.Artifacts, r.build, unreported(r.director.strikes, end, err)))
	}

	requirements := history.DefaultRequirements()
	if r.Requirements != nil {
		requirements = *r.Requirements
	}
	result := &Result{Alone: r.Alone, Report: report, History: recorded, Verdict: history.Check(recorded, requirements)}
	result.judge(r.director.strikes, end, r.complete(ctx), finishErr, stopErr)
	return result, errors.Join(r.keep(result), UpdateMatrix(r.Artifacts, r.build, result.Cells))
}

func (r *run) logf(format string, args ...any) {
	fmt.Fprintf(r.Out, "%s  fault suite: %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// prepare connects to everything, finds out from where to where the shoot moves, and heals what an earlier run that was
// killed may have left.
func (r *run) prepare(ctx context.Context) error {
	// The client of the garden asks the garden's API at once, which an earlier run may have left stopped.
	r.targets = fault.NewTargets(r.Landscape, r.logf)
	if err := r.targets.ClearGarden(ctx); err != nil {
		return err
	}
	var err error
	if r.target, err = driver.Open(driver.Target{Landscape: r.Landscape, Namespace: r.Namespace, Name: r.Shoot,
		Timeout: completeTimeout, RequestTimeout: gardenTimeout, Out: r.Out}); err != nil {
		return err
	}
	if r.shoot, err = r.target.Get(ctx); err != nil {
		return err
	}
	if err := r.targets.Enter(r.Landscape, r.target.Garden.Client, r.shoot); err != nil {
		return err
	}
	r.destination = r.targets.Seeds[steps.Destination].Name
	if err := r.targets.Clear(ctx); err != nil {
		return err
	}

	r.director.targets, r.director.log = r.targets, r.logf
	r.director.pause = r.pauseBefore
	r.director.lastAcknowledged = func() time.Time { return r.load.LastAcknowledged() }
	r.director.requests = func() int { return r.load.Requests() }
	r.director.look = r.look
	return r.pauseBefore(ctx, "")
}

// pauseBefore makes the migration hold before the step, and lets it continue if it holds before another one.
func (r *run) pauseBefore(ctx context.Context, condition gardencorev1beta1.ConditionType) error {
	return r.target.Annotate(ctx, steps.AnnotationPauseBefore, string(condition))
}

// startLoad lets clients work on the shoot through its public name.
func (r *run) startLoad(ctx context.Context) error {
	access, err := driver.ShootAccess(ctx, r.target.Garden.Client, r.shoot.DeepCopy())
	if err != nil {
		return err
	}
	namespace := "livecpm-robustness-" + rand.String(5)
	options := history.Options{Seed: uint64(time.Now().UnixNano())} // #nosec G115 -- any number will do.
	for i := range history.DefaultClients + history.DefaultStreams {
		store, err := history.NewConfigMaps(access, driver.DNSServer(r.Landscape), namespace)
		if err != nil {
			return err
		}
		r.stores = append(r.stores, store)
		if i < history.DefaultClients {
			options.Clients = append(options.Clients, store)
		} else {
			options.Watchers = append(options.Watchers, store)
		}
	}
	if err := r.stores[0].EnsureNamespace(ctx); err != nil {
		return err
	}
	r.load, err = history.Start(ctx, options)
	return err
}

func (r *run) stopLoad(ctx context.Context) (*history.History, error) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	recorded, err := r.load.Stop(ctx)
	// What is left of the namespace harms nobody: each run has its own.
	if cleanupErr := r.stores[0].DeleteNamespace(ctx); cleanupErr != nil {
		r.logf("%v", cleanupErr)
	}
	return recorded, err
}

// migrate runs the demo's migration with the director beside it.
func (r *run) migrate(ctx context.Context) (*demo.Report, error) {
	observeCtx, stop := context.WithCancel(ctx)
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		r.observe(observeCtx)
	}()
	defer func() { stop(); <-observed }()
	return demo.Run(ctx, demo.Options{
		Landscape:   r.Landscape,
		Namespace:   r.Namespace,
		Shoot:       r.Shoot,
		Destination: r.destination,
		Before:      around,
		After:       around,
		Timeout:     r.timeout(),
		Out:         r.Out,
		BeforeTrigger: func(ctx context.Context, _ client.Client, _ *gardencorev1beta1.Shoot) error {
			if r.ForceShrink {
				if err := r.target.Annotate(ctx, steps.AnnotationForceShrink, "true"); err != nil {
					return err
				}
			}
			return r.director.begin(ctx)
		},
	})
}

// timeout is what the migration may take.
func (r *run) timeout() time.Duration {
	if r.Alone == nil {
		return timeout(r.Cells)
	}
	return timeout(r.Cells) + windows(r.Cells)
}

// look returns the shoot as it is now.
func (r *run) look(ctx context.Context) (*gardencorev1beta1.Shoot, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return r.target.Get(ctx)
}

// fillWindows lets the load continue until the last window has enough of it. Its cell says so if it has not.
func (r *run) fillWindows(ctx context.Context) {
	if err := wait.PollUntilContextTimeout(ctx, windowInterval, windowsTimeout, true,
		func(context.Context) (bool, error) { return r.director.filled(), nil }); err != nil {
		r.logf("the last window is not full: %v", err)
	}
}

func (r *run) observe(ctx context.Context) {
	ticker := time.NewTicker(observeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.director.heal(ctx)
		if shoot, err := r.look(ctx); err == nil {
			r.director.observe(ctx, shoot)
		}
	}
}

// finish ends all faults. It tries again for a while: what it needs may just be recovering.
func (r *run) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	var last error
	if err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		if last = r.director.finish(ctx); last != nil {
			r.logf("%v", last)
		}
		return last == nil, nil
	}); err != nil {
		return last
	}
	return nil
}

// complete reports whether the destination's gardenlet has the shoot. It may just be reconciling it once more.
func (r *run) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	var last error
	if err := r.target.Follow(ctx, retryInterval, func(sight driver.Sight) bool {
		if last = sight.Err; last == nil {
			last = completed(sight.Shoot, r.destination)
		}
		return last == nil
	}); err != nil {
		return last
	}
	return nil
}

// completed returns an error that says where the migration stands, unless it is complete.
func completed(shoot *gardencorev1beta1.Shoot, destination string) error {
	conditions := steps.Conditions(shoot)
	if step, unfinished := steps.Current(conditions); unfinished {
		condition := conditionOf(conditions, step)
		return fmt.Errorf("the migration is not complete: %s is %s (%s: %s)", step, condition.Status, condition.Reason,
			condition.Message)
	}
	if seed := ptr.Deref(shoot.Status.SeedName, ""); seed != destination {
		return fmt.Errorf("the migration is not complete: the shoot is on seed %q, not on %q", seed, destination)
	}
	if operation := shoot.Status.LastOperation; operation == nil ||
		operation.State != gardencorev1beta1.LastOperationStateSucceeded {
		return fmt.Errorf("the gardenlet of seed %s has not reconciled the shoot: its last operation is %v",
			destination, operation)
	}
	return nil
}

// FolderHistories is the folder of the histories of all migrations, below that of the suite: one folder each, named
// after the end of the migration. The digests in the matrix are those of parts of them.
const FolderHistories = "histories"

// keep writes the history, and picture and report of cells that have not passed.
func (r *run) keep(result *Result) error {
	var errs []error
	if len(result.Cells) > 0 {
		name := result.Cells[0].Made.Format("20060102-150405")
		errs = append(errs,
			history.Write(filepath.Join(r.Artifacts, FolderHistories, name), result.History, result.Verdict))
	}
	for _, cell := range result.Cells {
		if cell.Outcome == Passed {
			continue
		}
		folder := filepath.Join(r.Artifacts, cell.Folder())
		r.logf("%s has not passed, see %s", cell.Cell, folder)
		errs = append(errs, history.Keep(folder, result.History, result.Verdict), result.Report.Write(folder))
	}
	return errors.Join(errs...)
}
