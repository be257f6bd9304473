// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

const (
	beforeUpgrade = "upgrade"
	beforeRemoval = "removal"
)

var befores = []string{beforeUpgrade, beforeRemoval}

func newInFlight(o *options) *cobra.Command {
	var seed, before string
	command := &cobra.Command{
		Use:   "in-flight",
		Short: "Report whether livecpm or Gardener may be upgraded or removed now",
		Long: "Show which live migrations are in flight in the whole garden, or from and to one seed, and whether " +
			"livecpm or the\n" +
			"gardenlets may be upgraded or removed now. Migrations survive an upgrade, but they hold while versions " +
			"differ, and without\n" +
			"agents they stand still.\n\n" +
			"The exit code is the answer for programs: 0 if it may be done now, 1 if something is in the way, 2 if " +
			"that could not be\n" +
			"found out. Treat everything but 0 as a no.",
		Example: example(
			"%[1]s in-flight                                    # exit code 0: upgrade and remove what you like",
			"%[1]s in-flight --before upgrade --seed seed-a     # before the gardenlet of seed-a is upgraded",
			"%[1]s in-flight -o json",
		),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains(befores, before) {
				return fmt.Errorf("--before is %q; it can be %s", before, strings.Join(befores, " or "))
			}
			in, err := o.inFlight(command, seed)
			if err != nil {
				return err
			}
			answer := document.Document{Kind: document.InFlight, Value: in, Names: namesOf(in.Migrations,
				func(moving summary.Moving) string { return shootName(moving.Name) })}
			if err := o.print(answer, func() string { return view.InFlight(in, o.view()) }); err != nil {
				return err
			}
			may := before == beforeUpgrade && in.MayUpgrade || before == beforeRemoval && in.MayRemove
			return exit.Answer(may).Err()
		},
	}
	command.Flags().StringVar(&seed, "seed", "", "only what this seed takes part in")
	command.Flags().StringVar(&before, "before", beforeRemoval,
		"what the exit code is about: "+strings.Join(befores, " or ")+"; a removal asks for no less than an upgrade")
	complete(command, "seed", o.seedNames)
	complete(command, "before", func(*cobra.Command) ([]string, error) { return befores, nil })
	command.ValidArgsFunction = cobra.NoFileCompletions
	o.addOutput(command)
	return command
}

// inFlight reads all Shoots and Seeds. A seed that does not exist is an error: a name with a typing error would
// otherwise answer that nothing is in flight.
func (o *options) inFlight(command *cobra.Command, seed string) (summary.InFlight, error) {
	g, err := o.garden.Connect(command.Context())
	if err != nil {
		return summary.InFlight{}, err
	}
	shoots, err := g.AllShoots(command.Context())
	if err != nil {
		return summary.InFlight{}, err
	}
	seeds, err := g.Seeds(command.Context())
	if err != nil {
		return summary.InFlight{}, err
	}
	in := summary.InFlightOf(shoots, seeds, seed, o.clock.Now())
	if seed != "" && len(in.Migrations) == 0 && len(in.LeftBehind) == 0 &&
		!slices.ContainsFunc(seeds, func(known gardencorev1beta1.Seed) bool { return known.Name == seed }) {
		return summary.InFlight{}, fmt.Errorf("there is no Seed %s", seed)
	}
	return in, nil
}
