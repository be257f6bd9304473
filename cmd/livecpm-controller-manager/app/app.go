// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package app is the command line of livecpm-controller-manager.
package app

import (
	"errors"

	"github.com/gardener/gardener/cmd/utils/initrun"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version/verflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/garden"
	"github.com/livecpm/livecpm/pkg/garden/removalguard"
)

// Name is the name of the program.
const Name = "livecpm-controller-manager"

// NewCommand returns the command that runs the controllers.
func NewCommand() *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Runs the controllers of livecpm in the garden: gate, drains, removal guard, former backups",
		Args:  cobra.NoArgs,
		// main prints the error; the usage would bury it.
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := initrun.InitRun(cmd, opts, Name)
			if err != nil {
				return err
			}
			mgr, err := garden.NewManager(log, opts.config)
			if err != nil {
				return err
			}
			log.Info("Starting the manager", "restoreGate", *opts.config.Controllers.GateWatchdog.Restore)
			return mgr.Start(cmd.Context())
		},
	}
	verflag.AddFlags(cmd.Flags())
	cmd.PersistentFlags().StringVar(&opts.configFile, "config", "",
		"Path of the configuration (kind ControllerManagerConfiguration).")
	cmd.AddCommand(newRemovableCommand(opts))
	return cmd
}

// newRemovableCommand returns the command that reports whether livecpm may be removed from the garden.
func newRemovableCommand(opts *options) *cobra.Command {
	return removalguard.NewCommand(
		"Fails if a live migration is in flight anywhere in the garden", func() (client.Reader, string, error) {
			if err := opts.Complete(); err != nil {
				return nil, "", err
			}
			garden, err := garden.NewGardenReader(opts.config)
			return garden, "", err
		})
}

// options are what the command line asks for.
type options struct {
	configFile string
	config     *configv1alpha1.ControllerManagerConfiguration
}

// Complete implements initrun.Options.
func (o *options) Complete() error {
	if o.configFile == "" {
		return errors.New("the flag --config is required")
	}
	var err error
	o.config, err = configv1alpha1.LoadControllerManager(o.configFile)
	return err
}

// Validate implements initrun.Options. Complete has read the configuration only if it is valid.
func (o *options) Validate() error { return nil }

// LogConfig implements initrun.Options.
func (o *options) LogConfig() (logLevel, logFormat string) {
	return o.config.LogLevel, o.config.LogFormat
}
