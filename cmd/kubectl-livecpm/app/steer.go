// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/cli/steer"
)

// steering is what a command that steers one shoot works with.
type steering struct {
	steer.Steerer
	shoot *gardencorev1beta1.Shoot
}

// steering completes a command that steers one shoot and reports what it did.
func (o *options) steering(command *cobra.Command, run func(*cobra.Command, *steering) (steer.Result, error)) *cobra.Command {
	var dryRun bool
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(command *cobra.Command, args []string) error {
		g, steerer, err := o.connect(dryRun)
		if err != nil {
			return err
		}
		shoot, err := g.Shoot(command.Context(), args[0])
		if err != nil {
			return err
		}
		result, err := run(command, &steering{Steerer: steerer, shoot: shoot})
		if err != nil {
			return err
		}
		o.report(result, dryRun)
		return nil
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "let the API server judge the change, and keep nothing")
	completeArgument(command, o.shoots)
	return command
}

func newDrain(o *options) *cobra.Command {
	var cancel, dryRun bool
	command := &cobra.Command{
		Use:   "drain SEED",
		Short: "Ask to move all shoots off a seed, or take that back",
		Long: "Ask to move all shoots off a seed: the annotation " + steer.AnnotationDrain + " is set on the Seed, and\n" +
			"livecpm-controller-manager does the rest. The condition " + string(steer.ConditionDrained) + " of the Seed tells how far that is.",
		Example: example(
			"%[1]s drain seed-a",
			"%[1]s drain seed-a --cancel",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			g, steerer, err := o.connect(dryRun)
			if err != nil {
				return err
			}
			seed := &gardencorev1beta1.Seed{}
			if err := g.Client.Get(command.Context(), client.ObjectKey{Name: args[0]}, seed); err != nil {
				return fmt.Errorf("failed to get Seed %s: %w", args[0], err)
			}
			act := steerer.Drain
			if cancel {
				act = steerer.CancelDrain
			}
			result, err := act(command.Context(), seed)
			if err != nil {
				return err
			}
			o.report(result, dryRun)
			return nil
		},
	}
	command.Flags().BoolVar(&cancel, "cancel", false, "take the request back")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "let the API server judge the change, and keep nothing")
	completeArgument(command, o.seedNames)
	return command
}
