// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func newDrain(o *options) *cobra.Command {
	var cancel, status bool
	command := &cobra.Command{
		Use:   "drain SEED",
		Short: "Move all shoots off a seed, cancel that, or show its progress",
		Long: "Move all shoots off a seed: the annotation " + drain.AnnotationDrain +
			" is set on the Seed, and\n" +
			"livecpm-controller-manager does the rest. With --status nothing is changed: the condition " +
			string(drain.ConditionDrained) + " of the Seed is shown,\n" +
			"and every shoot with the reason why it waits or stays.",
		Example: example(
			"%[1]s drain seed-a",
			"%[1]s drain seed-a --status",
			"%[1]s drain seed-a --cancel",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.checkOutput(); err != nil {
				return err
			}
			if !status && command.Flags().Changed("output") {
				return errors.New("-o is the format of --status")
			}
			g, err := o.garden.Connect()
			if err != nil {
				return err
			}
			if status {
				return o.drainStatus(command, g, args[0])
			}
			seed, err := g.Seed(command.Context(), args[0])
			if err != nil {
				return err
			}
			act := o.steerer(g).Drain
			if cancel {
				act = o.steerer(g).CancelDrain
			}
			result, err := act(command.Context(), seed)
			if err != nil {
				return err
			}
			o.report(result)
			return nil
		},
	}
	command.Flags().BoolVar(&cancel, "cancel", false, "withdraw the request")
	command.Flags().BoolVar(&status, "status", false, "change nothing, and show the progress")
	o.addDryRun(command, usageDryRun)
	command.MarkFlagsMutuallyExclusive("cancel", "status")
	command.MarkFlagsMutuallyExclusive("dry-run", "status")
	completeArgument(command, o.seedNames)
	o.addOutput(command)
	return command
}

// drainStatus shows the progress of the seed's drain. A user who may not read the table sees the condition.
func (o *options) drainStatus(command *cobra.Command, g *access.Garden, name string) error {
	seed, err := g.Seed(command.Context(), name)
	if err != nil {
		return err
	}
	table, err := g.DrainTable(command.Context(), name)
	d := summary.DrainOf(seed, table, err)
	return o.print(d, func() string { return view.Drain(d, o.view()) })
}
