// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// statusFlags are what the user can choose.
type statusFlags struct {
	goal    string
	timeout time.Duration
	wait    bool
}

func newStatus(o *options) *cobra.Command {
	f := &statusFlags{}
	command := &cobra.Command{
		Use:   "status SHOOT",
		Short: "Wait until a live migration ends, or until a step of it is done",
		Long: "Wait until a live migration ends, and write a line whenever something changes. With --for, wait until " +
			"a step is done, or\nuntil the migration is in a state. With --wait=false, look once.\n\n" +
			"The exit code is 0 if that is reached; 1 if it cannot be reached any more: the migration is aborted, " +
			"or has ended otherwise,\n" +
			"or there is none (with --wait=false: if it is not reached now); 3 if the timeout expires; 4 if an " +
			"operator has to act: a step\nhas exceeded its deadline (the agent keeps trying), a pause is reached, or " +
			"the timeout expires while a step is held.",
		Example: example(
			"%[1]s status live --timeout 1h",
			"%[1]s status live --timeout 0                      # wait as long as it takes",
			"%[1]s status live --for EtcdMigrationComplete      # wait until etcd is in the destination",
			"%[1]s status live --for 6 --wait=false && echo done",
			"%[1]s status live --for Aborted                    # wait until an abort is completed",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return o.status(command.Context(), args[0], f)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.goal, "for", string(summary.Succeeded), "condition or number of the step to wait for, or one "+
		"of the states "+strings.Join(view.GoalStates(), ", "))
	flags.DurationVar(&f.timeout, "timeout", time.Hour, "how long to wait; 0 for no limit")
	flags.BoolVar(&f.wait, "wait", true, "wait; if not, look once")
	complete(command, "for", func(command *cobra.Command) ([]string, error) {
		names, err := stepNames(command)
		return append(names, view.GoalStates()...), err
	})
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

func (o *options) status(ctx context.Context, name string, f *statusFlags) error {
	goal, err := view.ParseGoal(f.goal)
	if err != nil {
		return err
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := o.withTimeout(ctx, f.timeout)
	defer cancel()
	return view.Waiting{Loop: o.loop(s.lookAtGarden(name)), Goal: goal, Once: !f.wait, Show: o.changes()}.Do(ctx)
}

// withTimeout ends the context after the timeout, if there is one, with the cause view.ErrTimeout. The time is that of
// the command's clock, so that what a command does with what it has seen until then depends on no machine's speed in
// specs.
func (o *options) withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	timer := o.clock.NewTimer(timeout)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			end(view.ErrTimeout)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(nil) }
}
