// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package app is the gardenlet's command with the agent in its process.
//
// Gardener's command is used as it is: only what it runs is wrapped. The agent has a manager of its own beside the
// gardenlet's, because the gardenlet's is made within that command and cannot be reached. So the agent has its own
// lease (which it shares with agents in pods of their own), its own caches and clients; configuration, feature gates,
// image vectors, log and metrics are those of the process.
package app

import (
	"context"
	"errors"
	"fmt"

	gardenletapp "github.com/gardener/gardener/cmd/gardenlet/app"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
)

// Name is the name of the program.
const Name = gardenletapp.Name

// NewCommand returns Gardener's command that runs the gardenlet, with the agent beside it.
func NewCommand() *cobra.Command {
	return With(gardenletapp.NewCommand(), runAgent)
}

// With returns the command with a companion. They begin together, and the end of either is the end of both: the
// Deployment starts them again. Neither can continue alone, because the process is one replica of both.
func With(cmd *cobra.Command, companion func(ctx context.Context, configFile string) error) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// The companion shall not begin where only the version is asked for.
		verflag.PrintAndExitIfRequested()
		configFile, err := cmd.Flags().GetString("config")
		if err != nil {
			return fmt.Errorf("failed to find the flag for the gardenlet's configuration: %w", err)
		}

		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		cmd.SetContext(ctx)
		ended := make(chan error, 1)
		go func() {
			defer cancel()
			ended <- companion(ctx, configFile)
		}()
		err = run(cmd, args)
		cancel()
		return errors.Join(err, <-ended)
	}
	return cmd
}
