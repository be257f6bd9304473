// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package app holds the commands of kubectl-livecpm. They read flags and call the packages below pkg/cli.
package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/utils/clock"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/steer"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

// Name is how users call it.
const Name = "kubectl livecpm"

// Streams are where the commands write.
type Streams struct {
	// Out is for what was asked for, Err for everything else.
	Out, Err io.Writer
}

// Run runs the command that the arguments name and returns its exit code.
func Run(ctx context.Context, streams Streams, args []string) int {
	command := NewCommand(streams)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(streams.Err, "error: %v\n", err)
	}
	return view.ExitCode(err)
}

// options are what all commands share.
type options struct {
	Streams
	garden   *access.GardenFlags
	clock    clock.WithTicker
	interval time.Duration

	noColor bool
	dryRun  bool
	seeds   []string
	output  string
}

// NewCommand returns the command with all commands below it.
func NewCommand(streams Streams) *cobra.Command {
	o := &options{Streams: streams, garden: access.NewGardenFlags(), clock: clock.RealClock{}}

	command := &cobra.Command{
		Use:   "kubectl-livecpm",
		Short: "Plan, start, watch, steer and verify live migrations of control planes",
		Long: "Plan, start, watch, steer and verify live migrations of the control planes of Gardener shoots.\n\n" +
			"The kubeconfig is that of the garden. What is in the seeds (etcd members, kube-apiserver pods, DNS " +
			"records, agents) is\n" +
			"shown if --seed-kubeconfig gives access to them; otherwise it is not known.",
		Example: example(
			"%[1]s plan live                          # which seeds are suitable, and what is in the way",
			"%[1]s start live --to seed-b --watch",
			"%[1]s status live --timeout 1h           # wait until it ends",
		),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: Name},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.SetOut(streams.Out)
	command.SetErr(streams.Err)
	o.garden.AddTo(command)
	flags := command.PersistentFlags()
	flags.BoolVar(&o.noColor, "no-color", false,
		"do not use colors; neither are they used if the output is not a terminal or if NO_COLOR is set")
	flags.StringArrayVar(&o.seeds, "seed-kubeconfig", nil,
		"kubeconfig of a seed, as in seed-a=/path; may be given for several seeds")

	command.AddCommand(
		newPlan(o), newStart(o),
		newGet(o), newStatus(o), newList(o),
		newPause(o), newResume(o), newRetry(o), newAbort(o),
		newDrain(o),
		newProbe(o), newVerify(o), newReport(o),
	)
	complete(command, "namespace", o.namespaces)
	return command
}

// steerer returns what writes to the garden.
func (o *options) steerer(g *access.Garden) steer.Steerer {
	return steer.Steerer{Client: g.Client, Clock: o.clock, DryRun: o.dryRun}
}

// addDryRun adds the flag that lets nothing be kept.
func (o *options) addDryRun(command *cobra.Command, usage string) {
	command.Flags().BoolVar(&o.dryRun, "dry-run", false, usage)
}

// terminal returns the width and height of the terminal that the output goes to, or false.
func (o *options) terminal() (width, height int, ok bool) {
	file, isFile := o.Out.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return width, height, err == nil && width > 0
}

func (o *options) view() view.Options {
	width, _, ok := o.terminal()
	return view.Options{Width: width, Color: ok && !o.noColor && os.Getenv("NO_COLOR") == "",
		Wide: o.output == outputWide}
}

// report writes what a command has done.
func (o *options) report(result steer.Result) {
	if o.dryRun {
		fmt.Fprintln(o.Out, "Dry run: nothing was kept.")
	}
	fmt.Fprintf(o.Out, "Before: %s\n", result.Before)
	for _, done := range result.Done {
		fmt.Fprintf(o.Out, "Done:   %s\n", done)
	}
	if result.After != "" {
		fmt.Fprintf(o.Out, "After:  %s\n", result.After)
	}
	for _, not := range result.Not {
		fmt.Fprintf(o.Out, "Not:    %s\n", not)
	}
	for _, next := range result.Next {
		fmt.Fprintf(o.Out, "Next:   %s\n", next)
	}
}

// example indents lines, in which %[1]s stands for the name of the plugin.
func example(lines ...string) string {
	out := ""
	for i, line := range lines {
		if i > 0 {
			out += "\n"
		}
		out += "  " + fmt.Sprintf(line, Name)
	}
	return out
}
