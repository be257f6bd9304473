// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package app puts the agent together.
package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/gardener/gardener/cmd/utils/initrun"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	"github.com/gardener/gardener/pkg/features"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"

	"github.com/livecpm/livecpm/pkg/agent"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
	"github.com/livecpm/livecpm/pkg/destination"
	"github.com/livecpm/livecpm/pkg/gate"
	"github.com/livecpm/livecpm/pkg/migration"
	"github.com/livecpm/livecpm/pkg/preflight"
	"github.com/livecpm/livecpm/pkg/source"
	"github.com/livecpm/livecpm/pkg/steps"
)

// Name is the name of the program.
const Name = "livecpm-agent"

// NewCommand returns the command that runs the agent.
func NewCommand() *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Does a seed's part in live migrations of shoot control planes",
		Args:  cobra.NoArgs,
		// main prints the error; the usage would bury it.
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := initrun.InitRun(cmd, opts, Name)
			if err != nil {
				return err
			}
			return run(cmd.Context(), log, opts.config, opts.gardenlet)
		},
	}
	verflag.AddFlags(cmd.Flags())
	cmd.PersistentFlags().StringVar(&opts.configFile, "config", "", "Path of the configuration (kind AgentConfiguration).")
	cmd.AddCommand(newAdoptCommand(opts), newRemovableCommand(opts))
	return cmd
}

// options are what the command line asks for.
type options struct {
	configFile string
	config     *configv1alpha1.AgentConfiguration
	gardenlet  *gardenletconfigv1alpha1.GardenletConfiguration
}

// Complete implements initrun.Options.
func (o *options) Complete() error {
	if err := o.load(); err != nil {
		return err
	}
	var err error
	o.gardenlet, err = agent.LoadGardenletConfiguration(o.config.Gardenlet.ConfigurationFile)
	return err
}

// load reads the agent's own configuration.
func (o *options) load() (err error) {
	if o.configFile == "" {
		return errors.New("the flag --config is required")
	}
	o.config, err = configv1alpha1.Load(o.configFile)
	return err
}

// Validate implements initrun.Options. Complete has read both configurations only if they are valid.
func (o *options) Validate() error { return nil }

// LogConfig implements initrun.Options.
func (o *options) LogConfig() (logLevel, logFormat string) {
	return o.config.LogLevel, o.config.LogFormat
}

func run(ctx context.Context, log logr.Logger, config *configv1alpha1.AgentConfiguration, gardenlet *gardenletconfigv1alpha1.GardenletConfiguration) error {
	log.Info("Took over the feature gates of the gardenlet", "seed", gardenlet.SeedConfig.Name, "featureGates", fmt.Sprint(features.DefaultFeatureGate))

	environment, err := agent.NewEnvironment(ctx, log, config, gardenlet)
	if err != nil {
		return err
	}
	if err := AddControllers(environment, config, gardenlet); err != nil {
		return err
	}

	log.Info("Starting the manager")
	return environment.Manager.Start(ctx)
}

// AddControllers adds the agent's controllers, with the actions of both roles, to the manager of the environment.
func AddControllers(environment *agent.Environment, config *configv1alpha1.AgentConfiguration, gardenlet *gardenletconfigv1alpha1.GardenletConfiguration) error {
	deps := environment.Deps

	reconciler := &agent.Reconciler{
		GardenClient:    deps.GardenClient,
		GardenAPIReader: deps.GardenAPIReader,
		Recorder:        deps.Recorder,
		SeedName:        deps.SeedName(),
		Config:          config.Controllers.LiveMigration,
		Actions: map[steps.Role]migration.Actions{
			steps.Source:      source.NewActions(deps),
			steps.Destination: destination.NewActions(deps),
		},
		Gate: gate.New(deps.GardenClient, deps.GardenAPIReader),
		Preflight: preflight.New(preflight.Options{
			Reader:    deps.GardenAPIReader,
			OwnSeed:   deps.SeedName(),
			Gardenlet: gardenlet,
			// As the agent deploys Gardener's components, it has to be built with the version of the gardenlet beside it.
			Version:  version.Get().GitVersion,
			Etcds:    deps.EtcdViews,
			Workers:  deps.PermitsWorkers,
			Machines: deps.MachinesView,
			Clock:    deps.Clock,
		}),
	}
	if err := reconciler.AddToManager(environment.Manager, environment.GardenCluster); err != nil {
		return fmt.Errorf("failed to add the controller for live migrations: %w", err)
	}
	return nil
}
