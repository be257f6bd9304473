// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/cmd/livecpm-controller-manager/app"
)

var _ = Describe("#NewCommand", func() {
	DescribeTable("should end with an error that tells what is wrong with the command line",
		func(content, message string) {
			var args []string
			if content != "" {
				file := filepath.Join(GinkgoT().TempDir(), "config.yaml")
				Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
				args = append(args, "--config="+file)
			}
			cmd := app.NewCommand()
			cmd.SetArgs(args)
			Expect(cmd.Execute()).To(MatchError(ContainSubstring(message)))
		},
		Entry("no configuration", "", "the flag --config is required"),
		Entry("another program's configuration",
			"apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: AgentConfiguration\n",
			"failed to decode the configuration"),
		Entry("an invalid configuration",
			"apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: "+
				"ControllerManagerConfiguration\nlogLevel: loud\n", "logLevel: Unsupported value"),
		Entry("no way to the garden",
			"apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: "+
				"ControllerManagerConfiguration\ngardenClientConnection: {kubeconfig: /nonexistent}\n",
			"failed to set up access to the garden"),
	)

	It("should take no arguments", func() {
		cmd := app.NewCommand()
		cmd.SetArgs([]string{"something"})
		Expect(cmd.Execute()).To(HaveOccurred())
	})
})
