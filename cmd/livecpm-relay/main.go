// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command livecpm-relay carries the TLS connections of a shoot's etcd between two seeds during a live control plane
// migration. See package relay.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "livecpm-relay:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var configFile, logLevel, logFormat string
	cmd := &cobra.Command{
		Use:           "livecpm-relay",
		Short:         "Carries etcd's TLS connections between two seeds, untouched",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if !slices.Contains(logger.AllLogLevels, logLevel) {
				return fmt.Errorf("--log-level must be one of %s", strings.Join(logger.AllLogLevels, ", "))
			}
			if !slices.Contains(logger.AllLogFormats, logFormat) {
				return fmt.Errorf("--log-format must be one of %s", strings.Join(logger.AllLogFormats, ", "))
			}
			log, err := logger.NewZapLogger(logLevel, logFormat)
			if err != nil {
				return fmt.Errorf("failed to create logger: %w", err)
			}
			cfg, err := config.Load(configFile)
			if err != nil {
				return err
			}
			r, err := relay.New(cfg, log.WithName("relay"), clock.RealClock{})
			if err != nil {
				return err
			}
			return r.Start(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "configuration file (required)")
	cmd.Flags().StringVar(&logLevel, "log-level", logger.InfoLevel, "one of "+strings.Join(logger.AllLogLevels, ", "))
	cmd.Flags().StringVar(&logFormat, "log-format", logger.FormatJSON,
		"one of "+strings.Join(logger.AllLogFormats, ", "))
	verflag.AddFlags(cmd.Flags())
	_ = cmd.MarkFlagRequired("config")
	return cmd
}
