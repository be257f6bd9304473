// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/summary"
)

// listFlags are what the user can choose.
type listFlags struct {
	all bool
}

// addTo adds the flags to a command that lists.
func (f *listFlags) addTo(command *cobra.Command) {
	command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "list those of all namespaces")
}

func newList(o *options) *cobra.Command {
	f := &listFlags{}
	var follow bool
	command := &cobra.Command{
		Use:   "list",
		Short: "List live migrations, including those that have ended",
		Long: "List the shoots that ask for a live migration, and those whose conditions show one that has ended. A " +
			"shoot shows only its\n" +
			"last migration. With -w, show them and the drains of seeds on a screen until you leave it; if the " +
			"output is not a\nterminal, write one line per change. Documents for programs are about migrations; " +
			"`drain wait -o json` follows a drain.",
		Example: example(
			"%[1]s list -n garden-demo",
			"%[1]s list -A -o wide",
			"%[1]s list -A -w                         # enter opens a migration",
			"%[1]s list -A -o json | jq -r '.items[] | select(.state == \"Held\") | .name'",
		),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if follow {
				return o.watchList(command.Context(), scope(f.all))
			}
			return o.list(command.Context(), f)
		},
	}
	f.addTo(command)
	command.Flags().BoolVarP(&follow, "watch", "w", false, "show them until you leave the screen")
	command.ValidArgsFunction = cobra.NoFileCompletions
	o.addOutput(command)
	return command
}

// list lists the migrations of the namespace, or of all.
func (o *options) list(ctx context.Context, f *listFlags) error {
	g, err := o.garden.Connect(ctx)
	if err != nil {
		return err
	}
	namespace, where := g.Namespace, "namespace "+g.Namespace
	if f.all {
		namespace, where = metav1.NamespaceAll, "any namespace"
	}
	shoots, err := g.Migrated(ctx, namespace)
	if err != nil {
		return err
	}
	now := o.clock.Now()
	summaries := summariesOf(ctx, &inspect.Forecast{Garden: g, Clock: o.clock}, shoots)
	if len(summaries) == 0 && !o.machine() {
		_, err := fmt.Fprintf(o.Err, "No live migrations in %s.\n", where)
		return err
	}
	answer := document.Document{Kind: document.MigrationList, Value: summaries,
		Names: namesOf(summaries, func(s summary.Summary) string { return shootName(s.Name) })}
	return o.print(answer, func() string { return view.List(summaries, now, o.view()) })
}
