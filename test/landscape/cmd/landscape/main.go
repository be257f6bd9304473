// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command landscape brings a garden and two seeds up on this machine, shows them, and removes them again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
)

func main() {
	// Upstream's components log what they do; the landscape reports what matters and returns what fails.
	log.SetLogger(logr.Discard())
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "landscape:", err)
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr,
				"  What is built and what runs stays. Run make landscape-up to resume, or make landscape-down to "+
					"remove it.")
		}
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "landscape",
		Short:         "A garden and two seeds on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), loadCommand(),
		&cobra.Command{
			Use:   "status",
			Short: "Show what runs and where its logs are; exit code 1 if something is dead",
			Args:  cobra.NoArgs,
			RunE: run(func(cmd *cobra.Command, l *landscape.Landscape, _ []string) error {
				return l.Status(cmd.Context(), cmd.OutOrStdout())
			}),
		},
		&cobra.Command{
			Use: "permissions",
			Short: "Show which permissions of agents and controller manager were not used, by the audit logs (" +
				config.EnvAudit + "=on)",
			Args: cobra.NoArgs,
			RunE: run(func(cmd *cobra.Command, l *landscape.Landscape, _ []string) error {
				return l.Permissions(cmd.Context(), cmd.OutOrStdout())
			}),
		},
		&cobra.Command{
			Use:   "down",
			Short: "Remove every process, mount, network namespace and cgroup of the landscape",
			Args:  cobra.NoArgs,
			RunE: run(func(cmd *cobra.Command, l *landscape.Landscape, _ []string) error {
				return l.Down(cmd.Context())
			}),
		},
	)
	return root
}

// run gives a command the landscape that the environment asks for.
func run(
	f func(cmd *cobra.Command, l *landscape.Landscape, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := config.FromEnvironment()
		if err != nil {
			return err
		}
		return f(cmd, landscape.New(cfg, cmd.OutOrStdout()), args)
	}
}

func upCommand() *cobra.Command {
	var only []string
	up := &cobra.Command{
		Use:   "up",
		Short: "Bring the landscape up; what runs already is left alone",
		Args:  cobra.NoArgs,
		RunE: run(func(cmd *cobra.Command, l *landscape.Landscape, _ []string) error {
			return l.Up(cmd.Context(), only...)
		}),
	}
	up.Flags().StringSliceVar(&only, "only", nil, "run only these phases: "+strings.Join(landscape.Phases(), ", "))
	return up
}

func loadCommand() *cobra.Command {
	var seeds []string
	load := &cobra.Command{
		Use:   "load-image TARBALL...",
		Short: "Import images into seeds, for development",
		Args:  cobra.MinimumNArgs(1),
		RunE: run(func(cmd *cobra.Command, l *landscape.Landscape, args []string) error {
			for _, seed := range seeds {
				if err := l.LoadImages(cmd.Context(), seed, args...); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	load.Flags().StringSliceVar(&seeds, "seed", []string{"seed-a", "seed-b"}, "seeds to import into")
	return load
}
