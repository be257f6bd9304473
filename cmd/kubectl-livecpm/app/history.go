// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/history"
)

func newHistory(o *options) *cobra.Command {
	var (
		all  bool
		seed string
	)
	command := &cobra.Command{
		Use:   "history [SHOOT]",
		Short: "Show past live migrations with their results and how long they took",
		Long: "Show past live migrations, the newest first: from where to where, how they ended and how long they " +
			"took, with -o wide each\n" +
			"step. livecpm-controller-manager keeps the last " + fmt.Sprint(history.MaxRecords) +
			" of the garden in the ConfigMap garden/" + history.ConfigMapName + ".\n\n" +
			"The exit code is 1 if there is none, 2 if that could not be found out.",
		Example: example(
			"%[1]s history live",
			"%[1]s history -A --seed seed-a -o wide",
			"%[1]s history -A -o json | jq '.items[] | select(.result == \"Aborted\")'",
		),
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			g, err := o.garden.Connect(command.Context())
			if err != nil {
				return err
			}
			past, err := g.History(command.Context())
			if err != nil {
				return err
			}
			records := slices.DeleteFunc(past.Records, func(record history.Record) bool {
				return !all && record.Namespace != g.Namespace || len(args) > 0 && record.Name != args[0] ||
					seed != "" && record.Source != seed && record.Destination != seed
			})
			slices.Reverse(records)
			if records == nil {
				records = []history.Record{}
			}
			if len(records) == 0 {
				_, _ = fmt.Fprintln(o.Err, "No live migration is recorded.")
			}
			if len(records) > 0 || o.machine() {
				answer := document.Document{Kind: document.PastMigrationList, Value: records, Names: namesOf(records,
					func(record history.Record) string { return shootName(record.Name) })}
				if err := o.print(answer, func() string { return view.History(records, o.view()) }); err != nil {
					return err
				}
			}
			return exit.Answer(len(records) > 0).Err()
		},
	}
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "show those of all namespaces")
	command.Flags().StringVar(&seed, "seed", "", "only those from or to this seed")
	complete(command, "seed", o.seedNames)
	completeArgument(command, o.shoots)
	o.addOutput(command)
	return command
}
