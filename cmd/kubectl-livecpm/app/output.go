// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/steer"
)

const (
	flagOutput = "output"
	flagDryRun = "dry-run"

	// annotationPeople are the formats for people that a command has, at its flag for the format.
	annotationPeople = "livecpm/formats-for-people"
	// annotationNow is how a flag is spelled now, at its old spelling.
	annotationNow = "livecpm/now"
)

// addOutput adds the flag for the format of the output.
func (o *options) addOutput(command *cobra.Command) {
	o.addFormats(command, document.Table, document.Wide)
}

// addFormats adds the flag for the format of a command that has its own formats for people. The first one is what
// counts without the flag; if it is empty, the command decides.
func (o *options) addFormats(command *cobra.Command, people ...string) {
	formats := append(slices.DeleteFunc(slices.Clone(people), func(format string) bool { return format == "" }),
		document.Programs()...)
	flags := command.Flags()
	flags.StringP(flagOutput, "o", people[0], "format of the output: "+strings.Join(formats, ", ")+"TEMPLATE")
	flags.Lookup(flagOutput).Annotations = map[string][]string{annotationPeople: people}
	complete(command, flagOutput, func(*cobra.Command) ([]string, error) { return formats, nil })
}

// addDryRun adds the flag that lets nothing be kept.
func (o *options) addDryRun(command *cobra.Command) {
	flags := command.Flags()
	flags.String(flagDryRun, string(steer.DryRunNone), "print each change with its object, and keep nothing: "+
		"`none, client or server`; client sends nothing, server lets the API server judge the changes")
	flags.Lookup(flagDryRun).NoOptDefVal = string(steer.DryRunServer)
	complete(command, flagDryRun, func(*cobra.Command) ([]string, error) { return dryRuns, nil })
}

var dryRuns = []string{string(steer.DryRunNone), string(steer.DryRunClient), string(steer.DryRunServer)}

// oldDryRuns are values from when the flag was a switch.
var oldDryRuns = map[string]steer.DryRun{"true": steer.DryRunServer, "false": steer.DryRunNone}

// old makes the flag an old spelling: it works, is not shown, and leads to a hint how it is spelled now.
func old(command *cobra.Command, flag, now string) {
	found := command.Flags().Lookup(flag)
	found.Hidden = true
	found.Annotations = map[string][]string{annotationNow: {now}}
}

// prepare is asked before any command runs: it gives the hints about old spellings, and judges what all commands have
// in common.
func (o *options) prepare(command *cobra.Command) error {
	flags := command.Flags()
	flags.Visit(func(flag *pflag.Flag) {
		if now := flag.Annotations[annotationNow]; len(now) > 0 {
			o.hint("--"+flag.Name, now[0])
		}
	})
	if flag := flags.Lookup(flagOutput); flag != nil {
		o.output = flag.Value.String()
		people := flag.Annotations[annotationPeople]
		var err error
		if o.printer, err = document.NewPrinter(o.output, people...); err != nil {
			return err
		}
	}
	o.dryRun = steer.DryRunNone
	if flag := flags.Lookup(flagDryRun); flag != nil {
		value := flag.Value.String()
		if now, spelledOld := oldDryRuns[value]; spelledOld {
			o.hint("--dry-run="+value, "--dry-run="+string(now))
			value = string(now)
		}
		if !slices.Contains(dryRuns, value) {
			return fmt.Errorf("--dry-run is %q; it can be %s", value, strings.Join(dryRuns, ", "))
		}
		o.dryRun = steer.DryRun(value)
	}
	return nil
}

// hint says how something is spelled now.
func (o *options) hint(before, now string) {
	_, _ = fmt.Fprintf(o.Err, "hint: %s is now %s; the old spelling goes away with the next minor release\n", before,
		now)
}

// dry reports whether nothing is to be kept.
func (o *options) dry() bool { return cmp.Or(o.dryRun, steer.DryRunNone) != steer.DryRunNone }

// machine reports whether the output is for programs.
func (o *options) machine() bool { return o.printer != nil }

// print writes the document in a format for programs, or what draw returns.
func (o *options) print(answer document.Document, draw func() string) error {
	if o.printer != nil {
		return o.printer.Print(o.Out, answer)
	}
	_, err := io.WriteString(o.Out, o.glyphs(draw()))
	return err
}

// shootName and seedName are what kubectl prints with -o name.
func shootName(name string) string { return resourceName("shoot", name) }
func seedName(name string) string  { return resourceName("seed", name) }

func resourceName(resource, name string) string {
	return resource + "." + gardencorev1beta1.SchemeGroupVersion.Group + "/" + name
}

// namesOf returns the names of all elements.
func namesOf[T any](all []T, name func(T) string) []string {
	out := make([]string, 0, len(all))
	for _, each := range all {
		out = append(out, name(each))
	}
	return out
}
