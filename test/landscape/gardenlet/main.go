// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command gardenlet is the landscape's gardenlet: upstream's own reconcilers, unmodified, put together the way
// upstream's command puts them together. One is left out: the Seed's main reconciler would roll out monitoring, logging
// and Istio, whose images exist in no form a machine without a registry could run. Package seedsetup installs the part
// of its work that shoots need, and the reconciler in seed.go keeps what the left-out one reports and writes to the
// garden.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener/cmd/utils"
	"github.com/gardener/gardener/cmd/utils/initrun"
	gardenletvalidation "github.com/gardener/gardener/pkg/api/config/gardenlet/v1alpha1/validation"
	gardenletconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/gardenlet/v1alpha1"
	gardencore "github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/features"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
	"github.com/gardener/gardener/pkg/utils/flow"
)

// name is what the process calls itself in logs and flags; it is upstream's.
const name = "gardenlet"

func main() {
	utils.DeduplicateWarnings()
	gardenletfeatures.RegisterFeatureGates()
	flow.RegisterMetrics(metrics.Registry)

	if err := newCommand().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run the landscape's gardenlet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := initrun.InitRun(cmd, opts, name)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			return (&gardenlet{log: log, config: opts.config, cancel: cancel}).run(ctx)
		},
	}
	cmd.Flags().StringVar(&opts.file, "config", "", "file with the GardenletConfiguration")
	return cmd
}

// options reads the gardenlet's own component configuration, with upstream's defaults and validation.
type options struct {
	file   string
	config *gardenletconfigv1alpha1.GardenletConfiguration
}

var _ initrun.Options = &options{}

// Complete reads the file and switches the feature gates before anything looks at them.
func (o *options) Complete() error {
	scheme := runtime.NewScheme()
	utilruntime.Must(gardenletconfigv1alpha1.AddToScheme(scheme))
	utilruntime.Must(gardencore.AddToScheme(scheme))
	utilruntime.Must(gardencorev1beta1.AddToScheme(scheme))

	data, err := os.ReadFile(o.file)
	if err != nil {
		return fmt.Errorf("failed to read gardenlet configuration: %w", err)
	}
	o.config = &gardenletconfigv1alpha1.GardenletConfiguration{}
	if err := runtime.DecodeInto(serializer.NewCodecFactory(scheme).UniversalDecoder(), data, o.config); err != nil {
		return fmt.Errorf("failed to decode gardenlet configuration %q: %w", o.file, err)
	}
	return features.DefaultFeatureGate.SetFromMap(o.config.FeatureGates)
}

// Validate refuses what upstream's gardenlet refuses.
func (o *options) Validate() error {
	if errs := gardenletvalidation.ValidateGardenletConfiguration(o.config, nil); len(errs) > 0 {
		return errs.ToAggregate()
	}
	if o.config.SeedConfig == nil || o.config.SeedConfig.Name == "" {
		return fmt.Errorf("gardenlet configuration %q names no seed", o.file)
	}
	return nil
}

// LogConfig returns level and format.
func (o *options) LogConfig() (string, string) { return o.config.LogLevel, o.config.LogFormat }
