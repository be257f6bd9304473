// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func newGet(o *options) *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "get SHOOT",
		Short: "Show the live migration of a shoot",
		Long: "Show the live migration of a shoot: the steps with their owners and how long they have taken, and " +
			"what is in the seeds if\n" +
			"--seed-kubeconfig gives access to them. With -w, show it until it ends; if the output is not a " +
			"terminal, write\none line per change.",
		Example: example(
			"%[1]s get live -n garden-demo",
			"%[1]s get live -w --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s get live -o yaml",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := o.checkOutput(); err != nil {
				return err
			}
			if follow {
				if o.machine() {
					return errors.New("-w is for people; use status to wait, and get -o json for programs")
				}
				return o.watch(command.Context(), args[0])
			}
			s, err := o.open()
			if err != nil {
				return err
			}
			defer s.close()
			w, err := s.lookAtAll(args[0])(command.Context())
			if err != nil {
				return err
			}
			return o.print(picture{Summary: summary.Summarize(w.Shoot, w.Now.Time), Seeds: w.Seeds, Probe: w.Probe},
				func() string { return view.Tree(w, o.view()) })
		},
	}
	command.Flags().BoolVarP(&follow, "watch", "w", false, "show the migration until it ends")
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

// picture is what get shows to programs.
type picture struct {
	summary.Summary
	// Seeds are what is in the seeds.
	Seeds []summary.Seed `json:"controlPlane,omitempty"`
	// Probe is the request probe that runs on this machine.
	Probe *summary.Probe `json:"probe,omitempty"`
}

// watch shows a migration until it ends.
func (o *options) watch(ctx context.Context, name string) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	defer s.close()
	loop := o.loop(s.lookAtAll(name))
	changes := view.Changes(o.Out, o.view())
	if _, _, ok := o.terminal(); !ok {
		return interrupted(loop.Run(ctx, func(w summary.ControlPlane) bool { return changes(w).State.Final() }))
	}
	screen := view.Screen{Out: o.Out, Height: func() int {
		_, height, _ := o.terminal()
		return height
	}}
	return interrupted(loop.Run(ctx, func(w summary.ControlPlane) bool {
		// The size of the terminal may have changed.
		screen.Draw(view.Tree(w, o.view()))
		return summary.Summarize(w.Shoot, w.Now.Time).State.Final()
	}))
}

// interrupted makes nothing of an interrupt: it is how one stops to watch.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (o *options) loop(look look) view.Loop {
	interval := o.interval
	if interval == 0 {
		interval = view.DefaultInterval
	}
	return view.Loop{Read: look, Interval: interval, Clock: o.clock, Errors: o.Err}
}

func newStatus(o *options) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "status SHOOT",
		Short: "Wait until a live migration ends",
		Long: "Wait until a live migration ends, and write a line whenever something changes.\n\n" +
			"The exit code is 0 if it is completed; 1 if it is aborted, if a step has exceeded its deadline (the " +
			"agent keeps trying),\n" +
			"or if there is no migration; 2 if the timeout expires.",
		Example: example(
			"%[1]s status live --timeout 1h",
			"%[1]s status live --timeout 0   # wait as long as it takes",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			s, err := o.open()
			if err != nil {
				return err
			}
			defer s.close()
			ctx := command.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, view.ErrTimeout)
				defer cancel()
			}
			return view.Wait(ctx, o.loop(s.lookAtShoot(args[0])), o.Out, o.view())
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait; 0 for no limit")
	completeArgument(command, o.shoots)
	return command
}

func newList(o *options) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List live migrations, including those that have ended",
		Long: "List the shoots that ask for a live migration, and those whose conditions show one that has ended. A " +
			"shoot shows only its\n" +
			"last migration.",
		Example: example(
			"%[1]s list -n garden-demo",
			"%[1]s list -A -o wide",
		),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.checkOutput(); err != nil {
				return err
			}
			g, err := o.garden.Connect()
			if err != nil {
				return err
			}
			namespace := g.Namespace
			if all {
				namespace = metav1.NamespaceAll
			}
			shoots, err := g.Migrated(command.Context(), namespace)
			if err != nil {
				return err
			}
			now := o.clock.Now()
			summaries := []summary.Summary{}
			for i := range shoots {
				summaries = append(summaries, summary.Summarize(&shoots[i], now))
			}
			if len(summaries) == 0 && !o.machine() {
				where := "namespace " + g.Namespace
				if all {
					where = "any namespace"
				}
				_, err := io.WriteString(o.Err, fmt.Sprintf("No live migrations in %s.\n", where))
				return err
			}
			return o.print(summaries, func() string { return view.List(summaries, now, o.view()) })
		},
	}
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	command.ValidArgsFunction = cobra.NoFileCompletions
	o.addOutput(command)
	return command
}
