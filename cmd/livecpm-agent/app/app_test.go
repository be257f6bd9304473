// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/cmd/livecpm-agent/app"
)

const (
	head = "apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: AgentConfiguration\n"
	// unreachable names files that are not there.
	unreachable = head +
		"gardenClientConnection: {kubeconfig: /nonexistent}\ngardenlet: {configurationFile: /nonexistent}\nrelay: " +
		"{image: relay}\n"
	// elsewhere names a seed that cannot be reached.
	elsewhere = head + "gardenClientConnection: {kubeconfig: /nonexistent}\nseedClientConnection: {kubeconfig: " +
		"/nonexistent}\ngardenlet: {configurationFile: /nonexistent, source: {}}\nrelay: {image: relay}\n"
)

var _ = Describe("#NewCommand", func() {
	DescribeTable("should end with an error that tells what is wrong with the command line",
		func(command []string, content, message string) {
			args := command
			if content != "" {
				file := filepath.Join(GinkgoT().TempDir(), "config.yaml")
				Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
				args = append(args, "--config="+file)
			}
			cmd := app.NewCommand()
			cmd.SetArgs(args)
			Expect(cmd.Execute()).To(MatchError(ContainSubstring(message)))
		},
		Entry("no configuration", []string{}, "", "the flag --config is required"),
		Entry("another program's configuration", []string{},
			"apiVersion: config.livecpm.gardener.cloud/v1alpha1\nkind: ControllerManagerConfiguration\n",
			"failed to decode the configuration"),
		Entry("no gardenlet", []string{}, unreachable, "failed to read the gardenlet's configuration"),
		Entry("adopt without configuration", []string{"adopt"}, "", "the flag --config is required"),
		Entry("adopt with nothing to take over", []string{"adopt"}, unreachable, "gardenlet.source is not set"),
		Entry("adopt without a seed", []string{"adopt"}, elsewhere, "failed to set up access to the seed"),
		Entry("removable without configuration", []string{"removable"}, "", "the flag --config is required"),
		Entry("removable without a gardenlet", []string{"removable"}, unreachable,
			"failed to read the gardenlet's configuration"),
	)

	It("should take no arguments but its commands", func() {
		for _, args := range [][]string{{"something"}, {"adopt", "something"}, {"removable", "something"}} {
			cmd := app.NewCommand()
			cmd.SetArgs(args)
			Expect(cmd.Execute()).To(HaveOccurred())
		}
	})
})
