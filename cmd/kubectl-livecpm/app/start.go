// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// startFlags are what the user can choose.
type startFlags struct {
	planFlags
	before string
	watch  bool
}

func newStart(o *options) *cobra.Command {
	f := &startFlags{}
	command := &cobra.Command{
		Use:   "start SHOOT --to SEED",
		Short: "Start the live migration of a shoot",
		Long: "Start the live migration of a shoot: set annotations of the Shoot, and then spec.seedName through " +
			"shoots/binding. The annotations:\n" + startAnnotations() + "\n" +
			"The agents in the seeds do the rest. If the plan says that the shoot is not ready to migrate, nothing " +
			"is started.\nAn aborted migration to the same seed begins again.\n\n" +
			"The exit code is 0 if it was started, and 1 if that was refused. With --watch it is 0 if the migration " +
			"is completed, and 1\nif it is aborted. An interrupt ends the watch with 0, and not the migration.",
		Example: example(
			"%[1]s start live --to seed-b -n garden-demo",
			"%[1]s start live --to seed-b --dry-run=server",
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
			if f.watch && !o.dry() {
				return o.watch(command.Context(), args[0])
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.before, flagPauseBefore, "", usagePauseBefore)
	flags.BoolVarP(&f.watch, "watch", "w", false, "show the migration until it ends")
	o.addDryRun(command)
	o.addOutput(command)
	o.addPlanFlags(command, &f.planFlags)
	complete(command, flagPauseBefore, stepNames)
	completeArgument(command, o.shoots)
	return command
}

// startAnnotations lists for the help what start writes.
func startAnnotations() string {
	return view.Table(nil, [][]string{
		{"  " + steps.AnnotationIntent, "asks for the migration"},
		{"  " + steps.AnnotationRequestedBy, "who asks for it, for reports"},
		{"  " + steps.AnnotationPauseBefore, "with --pause-before"},
		{"  " + steps.AnnotationAbort, "removed, if an aborted migration has left it"},
	})
}

// start starts the migration if the plan says that the shoot is ready.
func (o *options) start(ctx context.Context, name string, f *startFlags) error {
	start := steer.Start{Destination: f.to}
	if f.before != "" {
		step, err := summary.FindStep(f.before)
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
		if err := o.print(planDocument(p), func() string { return p.Text(o.view()) }); err != nil {
			return err
		}
		return exit.Refused("the migration of Shoot %s/%s was not started", p.Namespace, p.Shoot)
	}

	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	shoot, err := g.Shoot(ctx, name)
	if err != nil {
		return err
	}
	start.By = o.user(ctx, g)
	result, err := o.steerer(g).Start(ctx, shoot, start)
	if err != nil {
		return err
	}
	return o.report(result)
}

const (
	// flagPauseBefore is the flag for the step to hold before.
	flagPauseBefore  = "pause-before"
	usagePauseBefore = "condition or number of the step to hold before"
)

func newPause(o *options) *cobra.Command {
	var before string
	command := o.steering(&cobra.Command{
		Use:   "pause SHOOT",
		Short: "Hold a live migration before a step",
		Long: "Hold a live migration before a step: the first that has not begun, unless --pause-before names " +
			"another. A step that has\n" +
			"begun cannot be held. `kubectl livecpm explain pause` says how long a migration may be held before " +
			"which step.",
		Example: example(
			"%[1]s pause live",
			"%[1]s pause live --pause-before EtcdMigrationComplete   # a last look before the point of no return",
			"%[1]s pause live --pause-before 6",
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
	command.Flags().StringVar(&before, flagPauseBefore, "", usagePauseBefore+" (default: the first that has not begun)")
	command.Flags().StringVar(&before, "before", "", usagePauseBefore)
	old(command, "before", "--"+flagPauseBefore)
	command.MarkFlagsMutuallyExclusive("before", flagPauseBefore)
	complete(command, flagPauseBefore, stepNames)
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
	var lost string
	command := o.steering(&cobra.Command{
		Use:   "retry SHOOT",
		Short: "Retry the current step at once",
		Long: "Retry the current step at once, with its whole deadline. The agents retry a step by themselves; use " +
			"this when you have\n" +
			"fixed something and do not want to wait.\n\n" +
			"If the source's seed is lost for good once its etcd members leave, nobody there can finish its part. " +
			"--abandon-source\nlets the destination finish it alone; its value is the name of that seed, which you " +
			"type to confirm it. What stays there is\nnamed.",
		Example: example(
			"%[1]s retry live",
			"%[1]s retry live --abandon-source seed-a     # seed-a is lost",
		),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		if command.Flags().Changed(flagAbandonSource) {
			return s.AbandonSource(command.Context(), s.shoot, lost)
		}
		return s.Retry(command.Context(), s.shoot)
	})
	command.Flags().StringVar(&lost, flagAbandonSource, "",
		"name of the source's seed, to confirm that it is lost and that the destination finishes the migration alone")
	return command
}

// flagAbandonSource is the flag that says that the source is lost.
const flagAbandonSource = "abandon-source"

func newAbort(o *options) *cobra.Command {
	var (
		stay    bool
		abandon string
	)
	command := o.steering(&cobra.Command{
		Use:   "abort SHOOT",
		Short: "Abort a live migration while that is still possible",
		Long: fmt.Sprintf("Abort a live migration: both seeds return to their state before it. That is possible "+
			"until\n%s begins; ", pointOfNoReturn()) +
			"later it is refused, with what to do instead. When the abort is\ncompleted, --stay closes it, and " +
			"the shoot stays in its seed.\n\n" +
			"If the destination's seed or its agent is lost for good, nobody there can withdraw. " +
			"--abandon-destination lets the\nsource end the migration alone; its value is the name of that seed, " +
			"which you type to confirm it. What stays there is named.",
		Example: example(
			"%[1]s abort live",
			"%[1]s status live --for Aborted     # wait until it is",
			"%[1]s abort live --stay             # set spec.seedName back and remove the annotations",
			"%[1]s abort live --abandon-destination seed-b     # seed-b is lost",
		),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		switch {
		case command.Flags().Changed(flagAbandon):
			return s.Abandon(command.Context(), s.shoot, abandon)
		case stay:
			return s.Stay(command.Context(), s.shoot)
		}
		return s.Abort(command.Context(), s.shoot)
	})
	command.Flags().BoolVar(&stay, "stay", false,
		"set spec.seedName back and remove the annotations after the abort is completed")
	command.Flags().StringVar(&abandon, flagAbandon, "",
		"name of the destination's seed, to confirm that it is lost and that the source ends the migration alone")
	command.MarkFlagsMutuallyExclusive("stay", flagAbandon)
	return command
}

// flagAbandon is the flag that says that the destination is lost.
const flagAbandon = "abandon-destination"

// pointOfNoReturn returns the step with which the way back is lost.
func pointOfNoReturn() steps.Step {
	for _, step := range steps.Table() {
		if step.PointOfNoReturn {
			return step
		}
	}
	return steps.Last()
}
