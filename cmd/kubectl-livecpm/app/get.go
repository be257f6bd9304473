// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/garden"
	"github.com/livecpm/livecpm/pkg/cli/members"
	"github.com/livecpm/livecpm/pkg/cli/probing"
	"github.com/livecpm/livecpm/pkg/cli/seed"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/cli/watch"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func newGet(o *options) *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "get SHOOT",
		Short: "Show the live migration of a shoot",
		Long: "Show the live migration of a shoot: the steps with their owners and how long they have taken, and " +
			"what is in the seeds if\n" +
			"--seed-kubeconfig gives access to them. With -w it is shown until it ends; if the output is no " +
			"terminal, one line per change.",
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
			read, done, err := o.reader(args[0], true)
			if err != nil {
				return err
			}
			defer done()
			w, err := read(command.Context())
			if err != nil {
				return err
			}
			return o.print(picture{Summary: summary.Summarize(w.Shoot, w.Now.Time), Seeds: w.Seeds, Probe: w.Probe},
				func() string { return view.Tree(w, o.view()) })
		},
	}
	command.Flags().BoolVarP(&follow, "watch", "w", false, "show it until it ends")
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}

// picture is what get tells programs.
type picture struct {
	summary.Summary
	// Seeds are what is in the seeds.
	Seeds []summary.Seed `json:"controlPlane,omitempty"`
	// Probe is the request probe that runs on this machine.
	Probe *summary.Probe `json:"probe,omitempty"`
}

// watch shows a migration until it ends.
func (o *options) watch(ctx context.Context, name string) error {
	read, done, err := o.reader(name, true)
	if err != nil {
		return err
	}
	defer done()
	loop := o.loop(read)
	changes := watch.Changes(o.Out, o.view())
	if _, _, ok := o.terminal(); !ok {
		return interrupted(loop.Run(ctx, func(w summary.ControlPlane) bool { return changes(w).State.Final() }))
	}
	screen := watch.Screen{Out: o.Out, Height: func() int {
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

func (o *options) loop(read func(context.Context) (summary.ControlPlane, error)) watch.Loop {
	interval := o.interval
	if interval == 0 {
		interval = watch.DefaultInterval
	}
	return watch.Loop{Read: read, Interval: interval, Clock: o.clock, Errors: o.Err}
}

// reader returns a function that looks at the shoot, and at its seeds if asked for, and one to call in the end.
func (o *options) reader(
	name string, withSeeds bool,
) (read func(context.Context) (summary.ControlPlane, error), done func(), err error) {
	g, _, err := o.connect(false)
	if err != nil {
		return nil, nil, err
	}
	seeds, looker, err := o.openSeeds()
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (summary.ControlPlane, error) {
		shoot, err := g.Shoot(ctx, name)
		if err != nil {
			return summary.ControlPlane{}, err
		}
		w := summary.ControlPlane{Now: metav1.NewTime(o.clock.Now()), Shoot: shoot}
		if withSeeds {
			o.lookAround(ctx, g, seeds, looker, &w)
		}
		return w, nil
	}, looker.Close, nil
}

// lookAround adds what is not in the garden.
func (o *options) lookAround(
	ctx context.Context, g *garden.Garden, seeds seed.Seeds, looker *members.Looker, w *summary.ControlPlane,
) {
	summary := summary.Summarize(w.Shoot, w.Now.Time)
	w.Seeds = seeds.Look(ctx, w.Shoot, summary.Source, summary.Destination)
	members.Fill(w.Seeds,
		looker.Look(ctx, v1beta1helper.ControlPlaneNamespaceForShoot(w.Shoot), summary.Source, summary.Destination))
	if store, err := probing.DefaultStore(); err == nil {
		w.Probe = store.Read(probing.Key(g.Host, w.Shoot), w.Now.Time)
	}
}

func newStatus(o *options) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "status SHOOT",
		Short: "Wait for the end of a live migration",
		Long: "Wait for the end of a live migration and write a line whenever something changes.\n\n" +
			"The exit code is 0 if it is completed; 1 if it is aborted, a step takes longer than its deadline (it is " +
			"still tried), or there\n" +
			"is none; 2 if the time is over.",
		Example: example(
			"%[1]s status live --timeout 1h",
			"%[1]s status live --timeout 0   # wait for as long as it takes",
		),
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			read, done, err := o.reader(args[0], false)
			if err != nil {
				return err
			}
			defer done()
			ctx := command.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, watch.ErrTimeout)
				defer cancel()
			}
			return watch.Status(ctx, o.loop(read), o.Out, o.view())
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
		Short: "List live migrations, also those that are over",
		Long: "List the shoots that ask for a live migration, and those whose conditions tell of one that is over. A " +
			"shoot tells of its\n" +
			"last one only.",
		Example: example(
			"%[1]s list -n garden-demo",
			"%[1]s list -A -o wide",
		),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.checkOutput(); err != nil {
				return err
			}
			g, _, err := o.connect(false)
			if err != nil {
				return err
			}
			shoots, err := g.Migrated(command.Context(), all)
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
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	command.ValidArgsFunction = cobra.NoFileCompletions
	o.addOutput(command)
	return command
}
