// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

func newGet(o *options) *cobra.Command {
	var follow bool
	f := &listFlags{}
	command := &cobra.Command{
		Use:   "get [SHOOT]",
		Short: "Show the live migration of a shoot, or list all",
		Long: "Show the live migration of a shoot: the steps with their owners and how long they have taken, and " +
			"what is in the seeds if\n" +
			"there is access to them: by --seed-access to seeds that are shoots, by --seed-kubeconfig to all. With " +
			"-w, show it on a\nscreen until it ends, with keys that steer it; if the output is not a terminal, write " +
			"one line per change, and for programs\none document per change. Without a shoot, do as list does.\n\n" +
			"With -w, the exit code is 0 if the migration is completed, and 1 if it is aborted or if there is none. " +
			"An interrupt ends it\nwith 0.",
		Example: example(
			"%[1]s get live -n garden-demo",
			"%[1]s get live -w --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s get live -o jsonpath={.state}",
			"%[1]s get live -w -o json | jq -r .step",
			"%[1]s get -A",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && follow:
				return o.watchList(command.Context(), scope(f.all))
			case len(args) == 0:
				return o.list(command.Context(), f)
			case f.all:
				return errors.New("give a shoot, or all with -A")
			case follow:
				return o.watch(command.Context(), args[0])
			}
			s, err := o.open(command.Context())
			if err != nil {
				return err
			}
			defer s.close()
			w, err := s.lookAtAll(args[0])(command.Context())
			if err != nil {
				return err
			}
			return o.print(migrationDocument(w), func() string { return view.Tree(w, o.view()) })
		},
	}
	command.Flags().BoolVarP(&follow, "watch", "w", false, "show the migration until it ends")
	f.addTo(command)
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

func migrationDocument(w summary.ControlPlane) document.Document {
	return document.Document{Kind: document.Migration, Names: []string{shootName(w.Shoot.Name)},
		Value: picture{Summary: view.Summary(w), Seeds: w.Seeds, Probe: w.Probe}}
}

// watch shows a migration until it ends. The exit code says how.
func (o *options) watch(ctx context.Context, name string) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if o.environment().screens() && !o.machine() {
		return o.watchOnScreen(ctx, s, name)
	}
	show := o.changes()
	var (
		last    summary.Summary
		showErr error
	)
	err = o.loop(s.lookAtAll(name)).Run(ctx, func(w summary.ControlPlane) bool {
		last = summary.Summarize(w.Shoot, w.Now.Time)
		showErr = show(w)
		return showErr != nil || last.State.Final()
	})
	switch {
	case errors.Is(err, context.Canceled):
		// An interrupt is how one stops to watch.
		return nil
	case err != nil || showErr != nil:
		return errors.Join(err, showErr)
	}
	return exit.With(exit.OfMigration(last), nil)
}

// changes returns what writes a line whenever what the Shoot says about its migration has changed, or a document.
func (o *options) changes() func(summary.ControlPlane) error {
	if !o.machine() {
		lines := view.Changes(o.Out, o.view())
		return func(w summary.ControlPlane) error {
			lines(w)
			return nil
		}
	}
	previous := ""
	return func(w summary.ControlPlane) error {
		line := view.Line(summary.Summarize(w.Shoot, w.Now.Time), view.Options{Wide: true})
		if line == previous {
			return nil
		}
		previous = line
		return o.printer.Stream(o.Out, migrationDocument(w))
	}
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
