// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/release"
)

func newVersion(o *options) *cobra.Command {
	var client bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of plugin, agents, chart and Gardener, and whether they differ",
		Long: "Show the versions of the plugin, of the chart in the garden, of gardener-apiserver, and of agent and " +
			"gardenlet in every\nseed, with the differences between them. The agents publish theirs on the Seeds.\n\n" +
			"The exit code is 1 if a difference holds migrations, 2 if that could not be found out.",
		Example: example(
			"%[1]s version",
			"%[1]s version --client           # the plugin alone; no garden is asked",
			"%[1]s version -o wide            # with the images of the relays",
		),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			versions := view.Versions{Plugin: pluginVersion()}
			if !client {
				g, err := o.garden.Connect(command.Context())
				if err != nil {
					return err
				}
				if versions, err = inspect.ReadVersions(command.Context(), g, versions.Plugin); err != nil {
					return err
				}
			}
			answer := document.Document{Kind: document.Versions, Value: versions, Names: namesOf(versions.Seeds,
				func(seed view.SeedVersions) string { return seedName(seed.Name) })}
			if err := o.print(answer, func() string { return versions.Text(o.view()) }); err != nil {
				return err
			}
			return exit.Answer(!versions.Holds()).Err()
		},
	}
	command.Flags().BoolVar(&client, "client", false, "show the version of the plugin alone")
	command.ValidArgsFunction = cobra.NoFileCompletions
	o.addOutput(command)
	return command
}

func pluginVersion() view.Program {
	return view.Program{Release: release.Version(), Gardener: version.Get().GitVersion,
		Protocols: steps.OwnProtocols().String()}
}
