// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/access"
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/steer"
)

// steering is what a command that steers one shoot works with.
type steering struct {
	steer.Steerer
	shoot *gardencorev1beta1.Shoot
}

// steering completes a command that steers one shoot and reports what it did.
func (o *options) steering(
	command *cobra.Command, run func(*cobra.Command, *steering) (steer.Result, error),
) *cobra.Command {
	command.Args = cobra.ExactArgs(1)
	command.RunE = func(command *cobra.Command, args []string) error {
		g, err := o.garden.Connect(command.Context())
		if err != nil {
			return err
		}
		shoot, err := g.Shoot(command.Context(), args[0])
		if err != nil {
			return err
		}
		result, err := run(command, &steering{Steerer: o.steerer(g), shoot: shoot})
		if err != nil {
			return err
		}
		return o.report(result)
	}
	o.addDryRun(command)
	o.addOutput(command)
	completeArgument(command, o.shoots)
	return command
}

// steerer returns what writes to the garden.
func (o *options) steerer(g *access.Garden) steer.Steerer {
	return steer.Steerer{Client: g.Client, Clock: o.clock, DryRun: o.dryRun}
}

// report writes what a command has done.
func (o *options) report(result steer.Result) error {
	return o.print(document.Document{Kind: document.Change, Value: result,
		Names: []string{result.Object.ResourceName()}}, func() string { return changeText(result, o.output) })
}

// changeText draws what a command has done. A dry run names the object of each change and shows the requests.
func changeText(result steer.Result, format string) string {
	var out strings.Builder
	line := func(head, text string) { fmt.Fprintf(&out, "%-8s%s\n", head+":", text) }
	label, object := "Done", ""
	switch result.DryRun {
	case steer.DryRunClient:
		out.WriteString("Dry run (client): nothing was sent.\n")
	case steer.DryRunServer:
		out.WriteString("Dry run (server): the API server has accepted this, and kept nothing of it.\n")
	}
	if result.DryRun != "" {
		label, object = "Change", result.Object.String()+": "
	}
	line("Before", result.Before)
	for _, done := range result.Done {
		line(label, object+done)
	}
	if result.DryRun != "" || format == document.Wide {
		for _, write := range result.Writes {
			target := write.Object.String()
			if write.Subresource != "" {
				target += ", " + write.Subresource
			}
			line("Patch", target+": "+string(write.Patch))
		}
	}
	if result.After != "" {
		line("After", result.After)
	}
	for _, not := range result.Not {
		line("Not", not)
	}
	for _, next := range result.Next {
		line("Next", next)
	}
	return out.String()
}
