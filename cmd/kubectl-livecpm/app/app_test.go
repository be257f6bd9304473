// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/steps"
)

var _ = Describe("Commands", func() {
	var (
		out, errs bytes.Buffer
		run       = func(args ...string) int {
			out.Reset()
			errs.Reset()
			return app.Run(context.Background(), app.Streams{Out: &out, Err: &errs}, args)
		}
	)

	It("should all have a help text with examples that call the plugin", func() {
		commands := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}).Commands()
		Expect(len(commands)).To(BeNumerically(">=", 10))
		for _, command := range commands {
			Expect(command.Short).NotTo(BeEmpty(), command.Name())
			Expect(command.Long).NotTo(BeEmpty(), command.Name())
			Expect(command.Example).NotTo(BeEmpty(), command.Name())
			for line := range strings.Lines(command.Example) {
				Expect(line).To(HavePrefix("  kubectl livecpm "), command.Name())
				parsed, _, err := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}).Find(strings.Fields(line)[2:])
				Expect(err).NotTo(HaveOccurred(), line)
				Expect(parsed.HasParent()).To(BeTrue(), line)
			}
		}
		Expect(run("start", "--help")).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("kubectl livecpm start SHOOT --to SEED"))
	})

	DescribeTable("should refuse what it does not understand, before it looks at the garden", func(message string, args ...string) {
		Expect(run(args...)).To(Equal(exit.Failed))
		Expect(errs.String()).To(ContainSubstring(message))
		Expect(out.String()).To(BeEmpty())
	},
		Entry("no shoot", "accepts 1 arg(s)", "plan"),
		Entry("no seed", "--to", "start", "live"),
		Entry("no such step", `no step "Elsewhere"`, "start", "live", "--to", "seed-b", "--pause-before", "Elsewhere"),
		Entry("no such format", `--output is "xml"`, "list", "-o", "xml"),
		Entry("no such command", "unknown command", "move"),
		Entry("programs do not watch", "-w is for people", "get", "live", "-w", "-o", "json"),
		Entry("a format without anything to show", "-o is the format of --status", "drain", "seed-a", "-o", "json"),
		Entry("two things at once", "[cancel status]", "drain", "seed-a", "--status", "--cancel"),
		Entry("no such kubeconfig", "failed to read the kubeconfig of the garden", "list", "--kubeconfig", "/does/not/exist"),
	)

	DescribeTable("should complete steps", func(args ...string) {
		Expect(run(append([]string{cobra.ShellCompRequestCmd}, args...)...)).To(Equal(exit.Done))
		for _, step := range steps.Table() {
			Expect(out.String()).To(ContainSubstring(step.String() + "\tstep "))
		}
	},
		Entry("start", "start", "live", "--pause-before", ""),
		Entry("pause", "pause", "live", "--before", ""),
	)

	It("should complete formats", func() {
		Expect(run(cobra.ShellCompRequestCmd, "list", "-o", "")).To(Equal(exit.Done))
		Expect(out.String()).To(HavePrefix("table\nwide\njson\nyaml\n"))
	})
})
