// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
)

// KubectlCompletion is the script that kubectl asks for the completion of the plugin. It is in the archives of a
// release as well.
//
//go:embed kubectl_complete-livecpm
var KubectlCompletion string

// addKubectlCompletion adds what prints the script to the commands for completion.
func (o *options) addKubectlCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		if command.Name() != "completion" {
			continue
		}
		command.AddCommand(&cobra.Command{
			Use:   "kubectl",
			Short: "Print the script that kubectl asks for completion",
			Long: "Print the script that kubectl asks for the completion of this plugin. It has to be an executable " +
				"kubectl_complete-livecpm\nin the PATH; then whatever completes kubectl completes the plugin.",
			Example: example("%[1]s completion kubectl >/usr/local/bin/kubectl_complete-livecpm",
				"%[1]s completion bash        # for those who call kubectl-livecpm itself"),
			Args:              cobra.NoArgs,
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE: func(*cobra.Command, []string) error {
				_, err := io.WriteString(o.Out, KubectlCompletion)
				return err
			},
		})
	}
}
