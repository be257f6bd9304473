// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package removalguard

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCommand returns the command "removable", which fails while livecpm is needed. It is what the hook of a chart runs.
// open returns access to the garden, and the name of the seed whose migrations count, which is empty for all of them.
func NewCommand(short string, open func() (garden client.Reader, seedName string, err error)) *cobra.Command {
	return &cobra.Command{
		Use:           "removable",
		Short:         short,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			garden, seedName, err := open()
			if err != nil {
				return err
			}
			if err := Check(cmd.Context(), garden, seedName); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "No live migration%s is in flight.\n", where(seedName))
			return err
		},
	}
}

// where limits a sentence on migrations to those of the seed, if there is one.
func where(seedName string) string {
	if seedName == "" {
		return ""
	}
	return " from or to seed " + seedName
}
