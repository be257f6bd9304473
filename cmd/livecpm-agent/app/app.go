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
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/features"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	componentbaseconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/agent"
	"github.com/livecpm/livecpm/pkg/agent/gardenletconfig"
	"github.com/livecpm/livecpm/pkg/agent/setup"
	configv1alpha1 "github.com/livecpm/livecpm/pkg/apis/config/v1alpha1"
)

// Name is the name of the program.
const Name = "livecpm-agent"

// NewCommand returns the command that runs the agent.
func NewCommand() *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   Name,
		Short: "Carries out a seed's part in live migrations of shoot control planes",
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
	cmd.PersistentFlags().StringVar(&opts.configFile, "config", "",
		"Path of the configuration (kind AgentConfiguration).")
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
	o.gardenlet, err = gardenletconfig.Load(o.config.Gardenlet.ConfigurationFile)
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

func run(
	ctx context.Context, log logr.Logger, config *configv1alpha1.AgentConfiguration,
	gardenlet *gardenletconfigv1alpha1.GardenletConfiguration,
) error {
	log.Info("Took over the feature gates of the gardenlet", "seed", gardenlet.SeedConfig.Name, "featureGates",
		fmt.Sprint(features.DefaultFeatureGate))

	// A file that cannot be read is a mistake that no patience ends.
	if _, err := restConfig(&config.GardenClientConnection, "garden"); err != nil {
		return err
	}
	seed, err := restConfig(&config.SeedClientConnection, "seed")
	if err != nil {
		return err
	}
	seedSide, err := setup.NewSeedSide(log, config, seed, agent.HostPod)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return seedSide.Start(ctx) })
	group.Go(func() error {
		return runMigrations(ctx, seedSide, setup.Options{Log: log, Config: config, GardenletConfig: gardenlet})
	})
	return group.Wait()
}

// runMigrations runs what needs the garden, from when it answers on. The seed side serves probes and metrics of the
// process.
func runMigrations(ctx context.Context, seedSide *setup.SeedSide, options setup.Options) error {
	environment := seedSide.Connect(ctx, options.Log, clock.RealClock{}, func() (*setup.Environment, error) {
		return seedSide.NewEnvironment(ctx, options)
	})
	if environment == nil {
		return nil
	}
	if err := setup.AddControllers(environment); err != nil {
		return err
	}

	options.Log.Info("Starting the manager")
	return environment.Manager.Start(ctx)
}

func restConfig(
	connection *componentbaseconfigv1alpha1.ClientConnectionConfiguration, cluster string,
) (*rest.Config, error) {
	config, err := kubernetes.RESTConfigFromClientConnectionConfiguration(connection, nil, kubernetes.AuthTokenFile)
	if err != nil {
		return nil, fmt.Errorf("failed to read the kubeconfig for the %s: %w", cluster, err)
	}
	return config, nil
}
