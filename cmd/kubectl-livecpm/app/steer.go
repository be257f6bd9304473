// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/steer"
)

// usageDryRun is the usage of --dry-run.
const usageDryRun = "let the API server judge the change, and keep nothing"

// steering is what a command that steers one shoot works with.
type steering struct {
	steer.Steerer
	shoot *gardencorev1beta1.Shoot
}

// steering completes a command that steers one shoot and reports what it did.
func (o *options) steering(
	command *cobra.Command, run func(*cobra.Command, *steering) (steer.Result, error),
) *cobra.Command {
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(command *cobra.Command, args []string) error {
		g, err := o.garden.Connect()
		if err != nil {
			return err
		}
		shoot, err := g.Shoot(command.Context(), args[0])
		if err != nil {
			return err
		}
		result, err := run(command, &steering{Steerer: o.steerer(g), shoot: shoot})
		if err != nil {
			return err
		}
		o.report(result)
		return nil
	}
	o.addDryRun(command, usageDryRun)
	completeArgument(command, o.shoots)
	return command
}
