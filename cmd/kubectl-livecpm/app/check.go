// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
)

// checkFlags are what the user can choose.
type checkFlags struct {
	seeds   []string
	partial bool
}

func newCheck(o *options) *cobra.Command {
	f := &checkFlags{}
	command := &cobra.Command{
		Use:   "check",
		Short: "Check the installation of livecpm in the garden and in the seeds",
		Long: "Check the installation as a whole: the gate and whether it is in force, the controller manager, " +
			"versions, your permissions,\n" +
			"and in each seed with an agent: gardenlet, agent, image of relays, DNS, ingress gateway, backup and " +
			"monitoring. Each check\n" +
			"that does not pass comes with what to do and the page about it. Nothing is changed; the gate is tried " +
			"as a dry run.\n\n" +
			"Much is known from what the agents publish on their Seeds. The rest needs access to the seeds.\n" +
			"The exit code is 1 if a check fails or could not be made (with --partial, only if a check fails), 2 if " +
			"the garden cannot\nbe read.",
		Example: example(
			"%[1]s check --seed-kubeconfig seed-a=a.yaml --seed-kubeconfig seed-b=b.yaml",
			"%[1]s check --seed seed-a --partial        # what the garden shows about one seed",
			"%[1]s check -o json | jq '.sections[].checks[] | select(.status != \"Pass\")'",
		),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.check(command.Context(), f) },
	}
	command.Flags().StringSliceVar(&f.seeds, "seed", nil, "only these seeds (default: all)")
	command.Flags().BoolVar(&f.partial, "partial", false, "do not count checks that cannot be made")
	complete(command, "seed", o.seedNames)
	command.ValidArgsFunction = cobra.NoFileCompletions
	o.addOutput(command)
	return command
}

func (o *options) check(ctx context.Context, f *checkFlags) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	all, err := s.garden.Seeds(ctx)
	if err != nil {
		return err
	}
	for _, seed := range all {
		if len(f.seeds) == 0 || slices.Contains(f.seeds, seed.Name) {
			s.reach(ctx, seed.Name)
		}
	}
	in, err := inspect.InstallationReader{Garden: s.garden, Seeds: s.seeds, Credentials: s.config.SeedAccess,
		Plugin: pluginVersion(), Clock: o.clock}.Read(ctx, f.seeds...)
	if err != nil {
		return err
	}
	result := inspect.Installation(in)
	if err := o.print(installationDocument(result), func() string { return result.Text(o.view()) }); err != nil {
		return err
	}
	return exit.Answer(result.Failed == 0 && (result.Unknown == 0 || f.partial)).Err()
}

// installationDocument names the checks.
func installationDocument(result view.Installation) document.Document {
	answer := document.Document{Kind: document.Installation, Value: result}
	for _, section := range result.Sections {
		for _, check := range section.Checks {
			answer.Names = append(answer.Names, checkName(check.Check))
		}
	}
	return answer
}

func checkName(check view.Check) string { return "check/" + string(check.Name) }
