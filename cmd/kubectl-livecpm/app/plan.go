// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

func newPlan(o *options) *cobra.Command {
	f := &planFlags{}
	command := &cobra.Command{
		Use:   "plan SHOOT",
		Short: "Check whether a shoot is ready for a live migration, and show what would happen",
		Long: "Check whether a shoot is ready for a live migration. The plan shows every prerequisite with what was " +
			"seen, the steps with\n" +
			"how long they may take, and the next command. Without --to it compares the seeds. It writes nothing.\n\n" +
			"A check that cannot be made from here is Unknown; the agents make it before the migration begins.\n" +
			"The exit code is 1 if the shoot is not ready to migrate.",
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
			p, err := o.plan(command.Context(), args[0], f)
			if err != nil {
				return err
			}
			if err := o.print(p, func() string { return p.Text(o.view()) }); err != nil {
				return err
			}
			if !p.CanGo {
				return &view.ExitError{Code: view.ExitFailed}
			}
			return nil
		},
	}
	o.addPlanFlags(command, f)
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

// planFlags are what a plan is made for.
type planFlags struct {
	// to is the seed to move to.
	to string
	// permitsWorkers is what the user says of the agents.
	permitsWorkers bool
}

func (o *options) addPlanFlags(command *cobra.Command, f *planFlags) {
	command.Flags().StringVar(&f.to, "to", "", "seed to move to")
	command.Flags().BoolVar(&f.permitsWorkers, "permit-workers", false,
		"the agents of both seeds permit shoots with workers (controllers.liveMigration.workers), "+
			"which is not the default")
	complete(command, "to", o.seedNames)
}

func (o *options) plan(ctx context.Context, name string, f *planFlags) (view.Plan, error) {
	s, err := o.open()
	if err != nil {
		return view.Plan{}, err
	}
	defer s.close()
	shoot, err := s.garden.Shoot(ctx, name)
	if err != nil {
		return view.Plan{}, err
	}
	in, err := inspect.PlanReader{Garden: s.garden, Seeds: s.seeds, Members: s.members, Clock: o.clock}.
		Read(ctx, shoot, f.to)
	if err != nil {
		return view.Plan{}, err
	}
	in.PermitsWorkers = f.permitsWorkers
	return inspect.Plan(in, f.to)
}

var errNoSeed = errors.New("give the seed to move to with --to; `kubectl livecpm plan SHOOT` compares the seeds")
