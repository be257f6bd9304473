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
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Upstream's components log what they do; the demo shows what matters and returns what fails.
	log.SetLogger(logr.Discard())
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

// flags are what the user can choose.
type flags struct {
	shoot         string
	back          bool
	andBack       bool
	keep          bool
	out           string
	before, after time.Duration
	timeout       time.Duration
}

const (
	flagAndBack = "and-back"
	// folderBack is where in the folder of the report that of the way back is.
	folderBack = "back"
)

func command() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "Migrate a shoot's control plane live and report what its clients noticed",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.Flags().Changed(flagAndBack))
		},
	}
	cmd.Flags().StringVar(&f.shoot, "shoot", "", "name of the shoot, which is created if it does not exist: with workers if it is "+config.ShootWorkers+" (default: the landscape's, see "+config.EnvShoot+")")
	cmd.Flags().BoolVar(&f.back, "back", false, "migrate to the first seed (default: to the seed that does not have the shoot)")
	cmd.Flags().BoolVar(&f.andBack, flagAndBack, false, "migrate there and back, with a report of its own in the folder "+folderBack+" (default: for the shoot "+config.ShootWorkers+" only)")
	cmd.MarkFlagsMutuallyExclusive("back", flagAndBack)
	cmd.Flags().BoolVar(&f.keep, "keep", true, "leave the landscape up afterwards")
	cmd.Flags().StringVar(&f.out, "out", "", "folder of report.html, report.json and details.json (default: _artifacts/demo in the repository)")
	cmd.Flags().DurationVar(&f.before, "before", time.Minute, "how long the load runs before the migration is triggered")
	cmd.Flags().DurationVar(&f.after, "after", time.Minute, "how long the load runs after the migration is complete")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Hour, "how long the migration may take")
	return cmd
}

func (f *flags) run(ctx context.Context, andBackGiven bool) (err error) {
	cfg, err := config.FromEnvironment()
	if err != nil {
		return err
	}
	switch f.shoot {
	case "":
		f.shoot = cfg.Shoot
	case config.ShootLive, config.ShootWorkers:
		cfg.Shoot = f.shoot
	}
	if f.out == "" {
		f.out = filepath.Join(cfg.Repo, "_artifacts", "demo")
	}
	if !f.keep {
		defer func() {
			err = errors.Join(err, landscape.New(cfg, os.Stdout).Down(context.WithoutCancel(ctx)))
		}()
	}

	if err := landscape.New(cfg, os.Stdout).Up(ctx); err != nil {
		return err
	}
	destination := ""
	if f.back {
		destination = cfg.Seeds[0].Name
	}
	if err := f.migrate(ctx, cfg, destination, f.out); err != nil {
		return err
	}
	if !andBackGiven {
		// What machines and extensions keep has to survive in either direction.
		f.andBack = f.shoot == config.ShootWorkers && !f.back
	}
	if !f.andBack {
		return nil
	}
	return f.migrate(ctx, cfg, "", filepath.Join(f.out, folderBack))
}

// migrate migrates the shoot, which is created if there is none, to the seed that it is not on unless one is named, and writes the report.
func (f *flags) migrate(ctx context.Context, cfg *config.Config, destination, out string) error {
	if err := f.createShoot(ctx, cfg); err != nil {
		return err
	}
	options := demo.Options{
		Landscape:   cfg,
		Namespace:   shoot.Namespace,
		Shoot:       f.shoot,
		Destination: destination,
		Before:      f.before,
		After:       f.after,
		Timeout:     f.timeout,
		Out:         os.Stdout,
		Terminal:    term.IsTerminal(int(os.Stdout.Fd())),
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		options.Width = width
	}
	report, err := demo.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := report.Write(out); err != nil {
		return err
	}
	fmt.Printf("\n%s\nReport: %s\n", report, filepath.Join(out, "report.html"))
	return report.Err()
}

// createShoot makes sure that the shoot exists and is at rest. It is created in the first seed.
func (f *flags) createShoot(ctx context.Context, cfg *config.Config) error {
	return (&shoot.Shoot{
		Config:  cfg,
		Name:    f.shoot,
		Seed:    cfg.Seeds[0].Name,
		Workers: f.shoot == config.ShootWorkers,
		Report:  func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	}).Up(ctx)
}
