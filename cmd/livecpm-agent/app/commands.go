// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/logger"
	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
	"github.com/livecpm/livecpm/pkg/garden/removalguard"
)

// newAdoptCommand returns the command that writes what the agent shares with the gardenlet. It is a command of its own
// because Gardener's image vector is read when a process begins.
func newAdoptCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:           "adopt",
		Short:         "Writes the files that the agent takes over from the gardenlet of its seed",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.load(); err != nil {
				return err
			}
			if opts.config.Gardenlet.Source == nil {
				return errors.New("gardenlet.source is not set in the configuration: there is nothing to take over")
			}
			log, err := logger.NewZapLogger(opts.LogConfig())
			if err != nil {
				return fmt.Errorf("failed to set up the log: %w", err)
			}
			logf.SetLogger(log)
			restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(&opts.config.SeedClientConnection,
				nil, kubernetes.AuthTokenFile)
			if err != nil {
				return fmt.Errorf("failed to set up access to the seed: %w", err)
			}
			seed, err := client.New(restConfig, client.Options{Scheme: kubernetes.SeedScheme})
			if err != nil {
				return fmt.Errorf("failed to set up access to the seed: %w", err)
			}
			return gardenletconfig.NewKeeper(log, seed, opts.config, clock.RealClock{}).Adopt(cmd.Context())
		},
	}
}

// newRemovableCommand returns the command that reports whether the agent may be removed from its seed.
func newRemovableCommand(opts *options) *cobra.Command {
	return removalguard.NewCommand(
		"Fails if a live migration from or to the agent's seed is in flight", func() (client.Reader, string, error) {
			if err := opts.Complete(); err != nil {
				return nil, "", err
			}
			restConfig, err := kubernetes.RESTConfigFromClientConnectionConfiguration(
				&opts.config.GardenClientConnection,
				nil, kubernetes.AuthTokenFile)
			if err != nil {
				return nil, "", fmt.Errorf("failed to set up access to the garden: %w", err)
			}
			garden, err := client.New(restConfig, client.Options{Scheme: kubernetes.GardenScheme})
			if err != nil {
				return nil, "", fmt.Errorf("failed to set up access to the garden: %w", err)
			}
			return garden, opts.gardenlet.SeedConfig.Name, nil
		})
}
