// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command demo brings the landscape up, migrates its shoot to the other seed under load, shows how it proceeds and
// reports what it cost the shoot's clients. Its exit code is 0 only if nothing was lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/outlook"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flags{screen: outlook.NewScreen(os.Stdout)}
	f.during.Store("before anything was started")
	explain := func() {
		f.screen.Clear()
		fmt.Fprintln(os.Stderr, outlook.Resume(f.during.Load().(string)))
	}
	interrupted, wasInterrupted := outlook.Interruptible(explain)
	go func() {
		<-interrupted
		cancel()
	}()
	// Upstream's components log what they do; the demo shows what matters and returns what fails.
	log.SetLogger(logr.Discard())
	err := f.command().ExecuteContext(ctx)
	switch {
	case wasInterrupted():
		explain()
		os.Exit(exitInterrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// exitInterrupted is what shells give for a program that SIGINT has ended.
const exitInterrupted = 130

// flags are what the user can choose.
type flags struct {
	shoot         string
	back          bool
	andBack       bool
	andBackGiven  bool
	keep          bool
	out           string
	before, after time.Duration
	timeout       time.Duration

	screen *outlook.Screen
	// during holds what the demo is doing, for somebody who interrupts it.
	during atomic.Value
}

const (
	flagAndBack = "and-back"
	// folderBack is where in the folder of the report that of the way back is.
	folderBack = "back"
)

func (f *flags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "Migrate a shoot's control plane live and report what its clients noticed",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.andBackGiven = cmd.Flags().Changed(flagAndBack)
			return f.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&f.shoot, "shoot", "",
		"name of the shoot, which is created if it does not exist: with workers if it is "+config.ShootWorkers+" or "+
			config.ShootSingleWorkers+", with one member in each etcd if it is "+config.ShootSingle+" or "+
			config.ShootSingleWorkers+" (default: the landscape's, see "+config.EnvShoot+")")
	cmd.Flags().BoolVar(&f.back, "back", false,
		"migrate to the first seed (default: to the seed that does not have the shoot)")
	cmd.Flags().BoolVar(&f.andBack, flagAndBack, false,
		"migrate there and back, with a report of its own in the folder "+folderBack+" (default: for a shoot "+
			"with workers only)")
	cmd.MarkFlagsMutuallyExclusive("back", flagAndBack)
	cmd.Flags().BoolVar(&f.keep, "keep", true, "leave the landscape up afterwards")
	cmd.Flags().StringVar(&f.out, "out", "",
		"folder of report.html, report.json and details.json (default: _artifacts/demo in the repository)")
	cmd.Flags().DurationVar(&f.before, "before", time.Minute,
		"how long the load runs before the migration is triggered")
	cmd.Flags().DurationVar(&f.after, "after", time.Minute, "how long the load runs after the migration is complete")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Hour, "how long the migration may take")
	return cmd
}

func (f *flags) run(ctx context.Context) (err error) {
	cfg, err := config.FromEnvironment()
	if err != nil {
		return err
	}
	if f.shoot == "" {
		f.shoot = cfg.Shoot
	}
	if slices.Contains(config.Shoots(), f.shoot) {
		cfg.Shoot = f.shoot
	}
	if f.out == "" {
		f.out = filepath.Join(cfg.Repo, "_artifacts", "demo")
	}
	if !f.keep {
		defer func() {
			err = errors.Join(err, landscape.NewWith(cfg, f.screen, nil).Down(context.WithoutCancel(ctx)))
		}()
	}

	there := way{out: f.out}
	if there.tracker, err = newTracker(ctx, cfg); err != nil {
		return err
	}
	f.during.Store("while the landscape came up")
	l := landscape.NewWith(cfg, f.screen, there.tracker)
	l.Moves = true
	if err := l.Up(ctx); err != nil {
		return err
	}
	if f.back {
		there.destination = cfg.Seeds[0].Name
	}
	if err := f.migrate(ctx, cfg, there); err != nil {
		return err
	}
	if !f.andBackGiven {
		// What machines and extensions keep has to survive in either direction.
		f.andBack = config.WithWorkers(f.shoot) && !f.back
	}
	if !f.andBack {
		return nil
	}
	return f.migrate(ctx, cfg, way{out: filepath.Join(f.out, folderBack)})
}

// newTracker returns a tracker of all that the demo does.
func newTracker(ctx context.Context, cfg *config.Config) (*outlook.Tracker, error) {
	var more []string
	if cfg.HasWorkers() {
		more = outlook.WorkerComponents()
	}
	tracker, _, _, err := outlook.Track(ctx, outlook.Began(time.Now()), outlook.Parts(more...),
		outlook.Place{Repo: cfg.Repo, State: cfg.State, Shoot: cfg.Shoot, More: more})
	if err != nil {
		return nil, err
	}
	// It runs.
	tracker.End(outlook.PartDemo)
	return tracker, nil
}

// way is one migration of the demo.
type way struct {
	// destination is the seed to move to; empty for the one that the shoot is not on.
	destination string
	// out is the folder of the report.
	out string
	// tracker, when set, is told how far the migration is.
	tracker *outlook.Tracker
}

// migrate migrates the shoot, which is created if there is none, and writes the report.
func (f *flags) migrate(ctx context.Context, cfg *config.Config, w way) error {
	f.during.Store("while the shoot was waited for")
	if err := f.createShoot(ctx, cfg); err != nil {
		return err
	}
	options := demo.Options{
		Landscape:   cfg,
		Namespace:   shoot.Namespace,
		Shoot:       f.shoot,
		Destination: w.destination,
		Before:      f.before,
		After:       f.after,
		Timeout:     f.timeout,
		Out:         os.Stdout,
		Screen:      f.screen,
		Outlook:     w.tracker,
	}
	f.during.Store("under load; a migration that has begun continues by itself, and the next demo waits for its end")
	report, err := demo.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := report.Write(w.out); err != nil {
		return err
	}
	fmt.Printf("\n%s\nReport: %s\n", report, filepath.Join(w.out, "report.html"))
	return report.Err()
}

// createShoot makes sure that the shoot exists and is at rest. It is created in the first seed.
func (f *flags) createShoot(ctx context.Context, cfg *config.Config) error {
	made := &shoot.Shoot{Config: cfg, Name: f.shoot, Seed: cfg.Seeds[0].Name, Report: f.screen.Line}
	if f.shoot == cfg.Shoot {
		made.Workers, made.Single = cfg.HasWorkers(), cfg.HasOneMember()
	}
	return made.Up(ctx)
}
