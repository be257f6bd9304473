// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/pkg/cli/steer"
)

func newConfirmVersions(o *options) *cobra.Command {
	var versions []string
	command := o.steering(&cobra.Command{
		Use:   "confirm-versions SHOOT --versions VERSION,VERSION",
		Short: "Let a live migration continue although patch releases differ",
		Long: "Let a live migration beyond the point of no return continue although gardenlets or agents differ in " +
			"the patch release.\n" +
			"Name every version that the message of the condition names. `kubectl livecpm explain VersionSkew` says " +
			"when to do that.",
		Example: example("%[1]s confirm-versions live --versions v1.150.0,v1.150.1"),
	}, func(command *cobra.Command, s *steering) (steer.Result, error) {
		return s.ConfirmVersions(command.Context(), s.shoot, versions)
	})
	command.Flags().StringSliceVar(&versions, "versions", nil, "the versions, separated by commas")
	return command
}
