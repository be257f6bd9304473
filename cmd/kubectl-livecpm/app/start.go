// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// startFlags are what the user can choose.
type startFlags struct {
	planFlags
	pauseBefore string
	watch       bool
}

func newStart(o *options) *cobra.Command {
	f := &startFlags{}
	command := &cobra.Command{
		Use:   "start SHOOT --to SEED",
		Short: "Start the live migration of a shoot",
		Long: "Start the live migration of a shoot: set the intent annotation, and then spec.seedName through " +
			"shoots/binding.\n" +
			"Nothing else is written; the agents in the seeds do the rest. If the plan says that the shoot is not " +
			"ready to migrate,\n" +
			"nothing is started. An aborted migration to the same seed begins again.",
		Example: example(
			"%[1]s start live --to seed-b -n garden-demo",
			"%[1]s start live --to seed-b --dry-run",
			"%[1]s start live --to seed-b --pause-before EtcdMigrationComplete --watch",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if f.to == "" {
				return errNoSeed
			}
			if err := o.start(command.Context(), args[0], f); err != nil {
				return err
			}
			if f.watch && !o.dryRun {
				return o.watch(command.Context(), args[0])
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.pauseBefore, "pause-before", "", "condition or number of the step to hold before")
	flags.BoolVarP(&f.watch, "watch", "w", false, "show the migration until it ends")
	o.addDryRun(command, "let the API server judge what can be judged, and keep nothing")
	o.addPlanFlags(command, &f.planFlags)
	complete(command, "pause-before", stepNames)
	completeArgument(command, o.shoots)
	return command
}

// start starts the migration if the plan says that the shoot is ready.
func (o *options) start(ctx context.Context, name string, f *startFlags) error {
	start := steer.Start{Destination: f.to}
	if f.pauseBefore != "" {
		step, err := summary.FindStep(f.pauseBefore)
		if err != nil {
			return err
		}
		start.PauseBefore = &step
	}

	p, err := o.plan(ctx, name, &f.planFlags)
	if err != nil {
		return err
	}
	if !p.CanGo {
		_, _ = io.WriteString(o.Out, p.Text(o.view()))
		//nolint:staticcheck // It begins with a kind.
		return &view.ExitError{Code: view.ExitFailed, Err: fmt.Errorf("Shoot %s/%s was not started", p.Namespace,
			p.Shoot)}
	}

	g, err := o.garden.Connect()
	if err != nil {
		return err
	}
	shoot, err := g.Shoot(ctx, name)
	if err != nil {
		return err
	}
	result, err := o.steerer(g).Start(ctx, shoot, start)
	if err != nil {
		return err
	}
	o.report(result)
	return nil
}

func newPause(o *options) *cobra.Command {
	var before string
	command := o.steering(&cobra.Command{
		Use:   "pause SHOOT",
		Short: "Hold a live migration before a step",
		Long: "Hold a live migration before a step: the first that has not begun, unless --before names another. A " +
			"step that has begun\n" +
			"cannot be held. docs/operations/pause.md says how long a migration may be held before which step.",
		Example: example(
			"%[1]s pause live",
			"%[1]s pause live --before EtcdMigrationComplete   # a last look before the point of no return",
			"%[1]s pause live --before 6",
		),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		if before == "" {
			return s.Pause(command.Context(), s.shoot, nil)
		}
		step, err := summary.FindStep(before)
		if err != nil {
			return steer.Result{}, err
		}
		return s.Pause(command.Context(), s.shoot, &step)
	})
	command.Flags().StringVar(&before, "before", "", "condition or number of the step to hold before")
	complete(command, "before", stepNames)
	return command
}

func newResume(o *options) *cobra.Command {
	return o.steering(&cobra.Command{
		Use:     "resume SHOOT",
		Short:   "Resume a paused live migration",
		Long:    "Resume a paused live migration: remove the annotation that asks for the pause.",
		Example: example("%[1]s resume live"),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		return s.Resume(command.Context(), s.shoot)
	})
}

func newRetry(o *options) *cobra.Command {
	return o.steering(&cobra.Command{
		Use:   "retry SHOOT",
		Short: "Retry the current step at once",
		Long: "Retry the current step at once, with its whole deadline. The agents retry a step by themselves; use " +
			"this when you have\n" +
			"fixed something and do not want to wait.",
		Example: example("%[1]s retry live"),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		return s.Retry(command.Context(), s.shoot)
	})
}

func newAbort(o *options) *cobra.Command {
	var stay bool
	command := o.steering(&cobra.Command{
		Use:   "abort SHOOT",
		Short: "Abort a live migration while that is still possible",
		Long: fmt.Sprintf("Abort a live migration: both seeds return to their state before it. That is possible "+
			"until\n%s is True; ", steps.AbortOf(steps.Destination)) +
			"later it is refused, with what to do instead. When the abort is\ncompleted, --stay closes it, and " +
			"the shoot stays in its seed.",
		Example: example(
			"%[1]s abort live",
			"%[1]s status live           # wait until it is Aborted",
			"%[1]s abort live --stay     # set spec.seedName back and remove the annotations",
		),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		if stay {
			return s.Stay(command.Context(), s.shoot)
		}
		return s.Abort(command.Context(), s.shoot)
	})
	command.Flags().BoolVar(&stay, "stay", false,
		"set spec.seedName back and remove the annotations after the abort is completed")
	return command
}
