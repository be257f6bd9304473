// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/steps"
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
				parsed, _, err := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}).
					Find(strings.Fields(line)[2:])
				Expect(err).NotTo(HaveOccurred(), line)
				Expect(parsed.HasParent()).To(BeTrue(), line)
			}
		}
		Expect(run("start", "--help")).To(Equal(view.ExitDone))
		Expect(out.String()).To(ContainSubstring("kubectl livecpm start SHOOT --to SEED"))
	})

	DescribeTable("should refuse what it does not understand, before it looks at the garden",
		func(message string, args ...string) {
			Expect(run(args...)).To(Equal(view.ExitFailed))
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
		Entry("too little load", "--rate is 3", "probe", "live", "--rate", "3"),
		Entry("no connections", "--connections is 0", "probe", "live", "--connections", "0"),
		Entry("more than all", "--new is 101", "probe", "live", "--new", "101"),
		Entry("no watches", "--watches is 0", "probe", "live", "--watches", "0"),
		Entry("longer than credentials live", "the credentials for the shoot expire", "probe", "live", "--duration",
			"24h"),
		Entry("a line at every moment", "--every is 10ms", "probe", "live", "--every", "10ms"),
		Entry("a DNS server without a port", "give address and port", "probe", "live", "--dns-server", "10.0.0.1"),
		Entry("a DNS server without a port, to verify", "give address and port", "verify", "live", "--dns-server",
			"10.0.0.1"),
		Entry("before and after at once", "none of the others can be", "verify", "live", "--record", "a", "--baseline",
			"b"),
		Entry("no such format of a report", `--output is "pdf"`, "report", "live", "-o", "pdf"),
		Entry("nothing to report on", "give a shoot, or a recording with --from", "report"),
		Entry("two things to report on", "give either a shoot or --from", "report", "live", "--from", "report.json"),
		Entry("no such recording", "failed to read the recorded report", "report", "--from", "/does/not/exist"),
		Entry("no such kubeconfig", "failed to read the kubeconfig of the garden", "list", "--kubeconfig",
			"/does/not/exist"),
	)

	DescribeTable("should complete steps", func(args ...string) {
		Expect(run(append([]string{cobra.ShellCompRequestCmd}, args...)...)).To(Equal(view.ExitDone))
		for _, step := range steps.Table() {
			Expect(out.String()).To(ContainSubstring(step.String() + "\tstep "))
		}
	},
		Entry("start", "start", "live", "--pause-before", ""),
		Entry("pause", "pause", "live", "--before", ""),
	)

	It("should report on a recording without any access", func() {
		from := filepath.Join("..", "..", "..", "pkg", "proof", "report", "testdata", "report.json")
		file := filepath.Join(GinkgoT().TempDir(), "report.html")
		Expect(run("report", "--from", from, "--file", file)).To(Equal(view.ExitDone))
		Expect(out.String()).To(BeEmpty())
		Expect(os.ReadFile(file)).To(ContainSubstring("<!DOCTYPE html>"))
		for format, begin := range map[string]string{"html": "<!DOCTYPE html>",
			"md": "# Live migration of garden-demo/live", "json": "{\n  \"shoot\""} {
			Expect(run("report", "--from", from, "-o", format)).To(Equal(view.ExitDone))
			Expect(out.String()).To(HavePrefix(begin))
		}
	})

	It("should complete formats", func() {
		Expect(run(cobra.ShellCompRequestCmd, "list", "-o", "")).To(Equal(view.ExitDone))
		Expect(out.String()).To(HavePrefix("table\nwide\njson\nyaml\n"))
	})
})
