// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command livecpm-relay carries the TLS connections of a shoot's etcd between two seeds during a live control plane
// migration, see package relay. Its command front passes on the requests of etcd's clients, see package front. Its
// command answer stands in for an etcd member when the way between two seeds is probed, see package answer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gardener/gardener/pkg/logger"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/etcd/front"
	frontconfig "github.com/livecpm/livecpm/pkg/etcd/front/config"
	"github.com/livecpm/livecpm/pkg/tunnel/relay"
	"github.com/livecpm/livecpm/pkg/tunnel/relay/answer"
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

// options are the flags of each command.
type options struct{ configFile, logLevel, logFormat string }

func (o *options) addTo(cmd *cobra.Command) {
	o.addLogTo(cmd)
	cmd.Flags().StringVar(&o.configFile, "config", "", "configuration file (required)")
	_ = cmd.MarkFlagRequired("config")
}

func (o *options) addLogTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.logLevel, "log-level", logger.InfoLevel, "one of "+strings.Join(logger.AllLogLevels, ", "))
	cmd.Flags().StringVar(&o.logFormat, "log-format", logger.FormatJSON,
		"one of "+strings.Join(logger.AllLogFormats, ", "))
	verflag.AddFlags(cmd.Flags())
}

func (o *options) logger() (logr.Logger, error) {
	if !slices.Contains(logger.AllLogLevels, o.logLevel) {
		return logr.Logger{}, fmt.Errorf("--log-level must be one of %s", strings.Join(logger.AllLogLevels, ", "))
	}
	if !slices.Contains(logger.AllLogFormats, o.logFormat) {
		return logr.Logger{}, fmt.Errorf("--log-format must be one of %s", strings.Join(logger.AllLogFormats, ", "))
	}
	log, err := logger.NewZapLogger(o.logLevel, o.logFormat)
	if err != nil {
		return logr.Logger{}, fmt.Errorf("failed to create logger: %w", err)
	}
	return log, nil
}

func newCommand() *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:           "livecpm-relay",
		Short:         "Carries etcd's TLS connections between two seeds, untouched",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			log, err := opts.logger()
			if err != nil {
				return err
			}
			cfg, err := config.Load(opts.configFile)
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
	opts.addTo(cmd)
	cmd.AddCommand(newFrontCommand(), newAnswerCommand())
	return cmd
}

// newFrontCommand returns the command of a front. It is in this program because both run in the shoot's namespace, and
// one image serves for both.
func newFrontCommand() *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "front",
		Short: "Passes on the requests of etcd's clients to the members in the same seed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			log, err := opts.logger()
			if err != nil {
				return err
			}
			cfg, err := frontconfig.Load(opts.configFile)
			if err != nil {
				return err
			}
			f, err := front.New(cfg, log.WithName("front"), clock.RealClock{})
			if err != nil {
				return err
			}
			return f.Start(cmd.Context())
		},
	}
	opts.addTo(cmd)
	return cmd
}

// newAnswerCommand returns the command of what is asked when the way between two seeds is probed. It is in this program
// because it stands behind a relay, and a seed has their image if it has any.
func newAnswerCommand() *cobra.Command {
	var (
		opts     options
		answerer answer.Options
		folder   string
	)
	cmd := &cobra.Command{
		Use:   "answer",
		Short: "Answers a probe of the way between two seeds",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			log, err := opts.logger()
			if err != nil {
				return err
			}
			answerer.CAFile, answerer.CertFile, answerer.KeyFile = filepath.Join(folder, "ca.crt"),
				filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
			a, err := answer.New(answerer, log.WithName("answer"), clock.RealClock{})
			if err != nil {
				return err
			}
			return a.Start(cmd.Context())
		},
	}
	opts.addLogTo(cmd)
	cmd.Flags().StringVar(&folder, "tls", "", "folder with ca.crt, tls.crt and tls.key (required)")
	cmd.Flags().Int32Var(&answerer.Port, "port", 2379, "port to answer on")
	cmd.Flags().Int32Var(&answerer.HealthPort, "health-port", 8081, "port for /healthz and /readyz")
	_ = cmd.MarkFlagRequired("tls")
	return cmd
}
