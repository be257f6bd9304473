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
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
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
func Run(ctx context.Context, streams Streams, args []string) exit.Code {
	return newOptions(streams).run(ctx, args)
}

func (o *options) run(ctx context.Context, args []string) exit.Code {
	command := newCommand(o)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(o.Err, "error: %v\n", err)
	}
	return exit.Of(err)
}

// options are what all commands share.
type options struct {
	Streams
	garden   *access.GardenFlags
	clock    clock.WithTicker
	interval time.Duration

	color   colors
	noColor bool
	seeds   []string
	access  string
	runtime string

	// What follows is set by prepare: the format, what writes it if it is for programs, and whether changes are kept.
	output  string
	printer *document.Printer
	dryRun  steer.DryRun
}

func newOptions(streams Streams) *options {
	return &options{Streams: streams, garden: access.NewGardenFlags(), clock: clock.RealClock{}}
}

// The groups of the commands in the help, in their order.
var groups = []*cobra.Group{
	{ID: groupMove, Title: "Move a control plane:"},
	{ID: groupLook, Title: "See what happens:"},
	{ID: groupSteer, Title: "Steer a migration in flight:"},
	{ID: groupSeeds, Title: "Whole seeds, upgrades and removals:"},
	{ID: groupInstallation, Title: "The installation, and help:"},
}

const (
	groupMove         = "move"
	groupLook         = "look"
	groupSteer        = "steer"
	groupSeeds        = "seeds"
	groupInstallation = "installation"
)

// NewCommand returns the command with all commands below it.
func NewCommand(streams Streams) *cobra.Command { return newCommand(newOptions(streams)) }

func newCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-livecpm",
		Short: "Plan, start, watch, steer and verify live migrations of control planes",
		Long: "Plan, start, watch, steer and verify live migrations of the control planes of Gardener shoots.\n\n" +
			"The kubeconfig is that of the garden, or gardenctl's, whatever is targeted. What is in the seeds (etcd " +
			"members, kube-apiserver\n" +
			"pods, DNS records, agents) is shown if there is access to them: seeds that are shoots give it by " +
			"themselves (--seed-access),\n" +
			"others need --seed-kubeconfig or LIVECPM_SEED_KUBECONFIGS. Otherwise it is not known.\n\n" +
			"All commands end with one of these exit codes:\n\n" + exit.Help(),
		Example: example(
			"%[1]s plan live                          # which seeds are suitable, and what is in the way",
			"%[1]s start live --to seed-b --watch",
			"%[1]s status live --timeout 1h           # wait until it ends",
			"%[1]s status live --for 6 --wait=false   # is step 6 done?",
		),
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: Name},
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error { return o.prepare(command) },
	}
	command.SetOut(o.Out)
	command.SetErr(o.Err)
	o.garden.AddTo(command)
	flags := command.PersistentFlags()
	flags.StringArrayVar(&o.seeds, "seed-kubeconfig", nil,
		"kubeconfig of a seed, as in seed-a=/path; may be given for several seeds")
	o.addSeedAccess(command)
	o.addColor(command)

	command.AddGroup(groups...)
	group := func(id string, commands ...*cobra.Command) {
		for _, each := range commands {
			each.GroupID = id
		}
		command.AddCommand(commands...)
	}
	group(groupMove, newPlan(o), newStart(o), newProbe(o), newVerify(o))
	group(groupLook, newGet(o), newList(o), newStatus(o), newEvents(o), newLogs(o), newHistory(o), newReport(o),
		newDashboard(o))
	group(groupSteer, newPause(o), newResume(o), newRetry(o), newAbort(o), newConfirmVersions(o))
	group(groupSeeds, newDrain(o), newInFlight(o))
	group(groupInstallation, newCheck(o), newVersion(o), newExplain(o), newDump(o))
	command.SetHelpCommandGroupID(groupInstallation)
	command.SetCompletionCommandGroupID(groupInstallation)
	o.addKubectlCompletion(command)
	complete(command, "namespace", o.namespaces)
	return command
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

// zone is that in which points in time are written: the local one.
var zone = time.Local

func (o *options) view() view.Options {
	width, _, _ := o.terminal()
	return view.Options{Width: width, Color: o.colored(), Wide: o.output == document.Wide, Zone: zone}
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
