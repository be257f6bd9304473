// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/plan"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

func newPlan(o *options) *cobra.Command {
	var (
		to             string
		permitsWorkers bool
	)
	command := &cobra.Command{
		Use:   "plan SHOOT",
		Short: "Tell whether a shoot can be migrated live, and what would happen",
		Long: "Tell whether a shoot can be migrated live: every prerequisite with what was seen, the steps with how " +
			"long they may take,\n" +
			"and the next command. Without --to the seeds are compared. Nothing is written.\n\n" +
			"A check that cannot be made from here is Unknown; the agents make it before the migration begins.\n" +
			"The exit code is 1 if the migration cannot go.",
		Example: example(
			"%[1]s plan live -n garden-demo",
			"%[1]s plan live --to seed-b",
			"%[1]s plan live --to seed-b --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml   # with "+
				"etcd and agents",
			"%[1]s plan live -o json | jq .canGo",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.checkOutput(); err != nil {
				return err
			}
			p, err := o.plan(command, args[0], to, permitsWorkers)
			if err != nil {
				return err
			}
			if err := o.print(p, func() string { return view.Plan(p, o.view()) }); err != nil {
				return err
			}
			if !p.CanGo {
				return &view.ExitError{Code: view.ExitFailed}
			}
			return nil
		},
	}
	command.Flags().StringVar(&to, "to", "", "seed to move to")
	command.Flags().BoolVar(&permitsWorkers, flagPermitWorkers, false, usagePermitWorkers)
	complete(command, "to", o.seedNames)
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

const (
	flagPermitWorkers  = "permit-workers"
	usagePermitWorkers = "the agents of both seeds permit shoots with workers (controllers.liveMigration.workers), " +
		"which is not the default"
)

func (o *options) plan(command *cobra.Command, name, to string, permitsWorkers bool) (plan.Plan, error) {
	g, _, err := o.connect(false)
	if err != nil {
		return plan.Plan{}, err
	}
	seeds, looker, err := o.openSeeds()
	if err != nil {
		return plan.Plan{}, err
	}
	defer looker.Close()
	shoot, err := g.Shoot(command.Context(), name)
	if err != nil {
		return plan.Plan{}, err
	}
	in, err := plan.Reader{Garden: g, Seeds: seeds, Members: looker, Clock: o.clock}.Read(command.Context(), shoot, to)
	if err != nil {
		return plan.Plan{}, err
	}
	in.PermitsWorkers = permitsWorkers
	return plan.Evaluate(in, to)
}

var errNoSeed = errors.New("give the seed to move to with --to; `kubectl livecpm plan SHOOT` compares the seeds")
