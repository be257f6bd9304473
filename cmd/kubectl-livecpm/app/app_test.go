// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/document"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

// longFlag is a flag on a command line.
var longFlag = regexp.MustCompile(` --([a-z-]+)`)

var _ = Describe("Commands", func() {
	var (
		out, errs bytes.Buffer
		run       = func(args ...string) exit.Code {
			out.Reset()
			errs.Reset()
			return app.Run(context.Background(), app.Streams{Out: &out, Err: &errs}, args)
		}
	)

	It("should all have a help text with examples that call the plugin", func() {
		root := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard})
		for _, name := range commandNames() {
			command, _, err := root.Find(strings.Fields(name))
			Expect(err).NotTo(HaveOccurred())
			if command.Parent() == root {
				Expect(root.ContainsGroup(command.GroupID)).To(BeTrue(), command.Name())
			}
			Expect(command.Short).NotTo(BeEmpty(), command.Name())
			Expect(command.Long).NotTo(BeEmpty(), command.Name())
			Expect(command.Example).NotTo(BeEmpty(), command.Name())
			for line := range strings.Lines(command.Example) {
				Expect(line).To(HavePrefix("  kubectl livecpm "), command.Name())
				parsed, _, err := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard}).
					Find(strings.Fields(line)[2:])
				Expect(err).NotTo(HaveOccurred(), line)
				Expect(parsed.HasParent()).To(BeTrue(), line)
				call, _, _ := strings.Cut(line, " # ")
				for _, flag := range longFlag.FindAllStringSubmatch(call, -1) {
					Expect(parsed.Flag(flag[1])).To(And(Not(BeNil()), HaveField("Hidden", false)), line)
				}
			}
		}
		Expect(run("start", "--help")).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("kubectl livecpm start SHOOT --to SEED"))
	})

	It("should name both ways into seeds where their help names one", func() {
		root := app.NewCommand(app.Streams{Out: io.Discard, Err: io.Discard})
		for _, name := range append(commandNames(), "") {
			command, _, err := root.Find(strings.Fields(name))
			Expect(err).NotTo(HaveOccurred())
			if strings.Contains(command.Long, "--seed-kubeconfig") {
				Expect(command.Long).To(ContainSubstring("--seed-access"), name)
			}
		}
	})

	DescribeTable("should refuse what it does not understand, before it looks at the garden",
		func(message string, args ...string) {
			Expect(run(args...)).To(Equal(exit.Error))
			Expect(errs.String()).To(ContainSubstring(message))
			Expect(out.String()).To(BeEmpty())
		},
		Entry("no shoot", "accepts 1 arg(s)", "plan"),
		Entry("no seed", "--to", "start", "live"),
		Entry("no such step", `no step "Elsewhere"`, "start", "live", "--to", "seed-b", "--pause-before", "Elsewhere"),
		Entry("no such format", `--output is "xml"`, "list", "-o", "xml"),
		Entry("no such format of what is in flight", `--output is "xml"`, "in-flight", "-o", "xml"),
		Entry("before something else", `--before is "lunch"; it can be upgrade or removal`, "in-flight", "--before",
			"lunch"),
		Entry("one shoot, where it is about all", "unknown command", "in-flight", "live"),
		Entry("no such command", "unknown command", "move"),
		Entry("no such template", "no JSONPath", "get", "live", "-o", "jsonpath={.state"),
		Entry("one and all", "give a shoot, or all with -A", "get", "live", "-A"),
		Entry("no such goal", "the states are: Succeeded, Aborted, Paused", "status", "live", "--for", "Elsewhere"),
		Entry("no such dry run", `--dry-run is "try"; it can be none, client, server`, "abort", "live",
			"--dry-run=try"),
		Entry("no seed to drain", "accepts 1 arg(s)", "drain"),
		Entry("no file to record to", "give the file to write with --file", "verify", "record", "live"),
		Entry("no such strategy", `--strategy is "Random"`, "drain", "plan", "seed-a", "--strategy", "Random"),
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
		Entry("no such format of a report", `--output is "docx"`, "report", "live", "-o", "docx"),
		Entry("nothing to report on", "give a shoot, or a recording with --recording", "report"),
		Entry("two things to report on", "give either a shoot or --recording", "report", "live", "--recording",
			"report.json"),
		Entry("no such recording", "failed to read the recorded report", "report", "--recording", "/does/not/exist"),
		Entry("no such kubeconfig", "failed to read the kubeconfig of the garden", "list", "--kubeconfig",
			"/does/not/exist"),
	)

	DescribeTable("should complete steps", func(args ...string) {
		Expect(run(append([]string{cobra.ShellCompRequestCmd}, args...)...)).To(Equal(exit.Done))
		for _, step := range steps.Table() {
			Expect(out.String()).To(ContainSubstring(step.String() + "\tstep "))
		}
	},
		Entry("start", "start", "live", "--pause-before", ""),
		Entry("pause", "pause", "live", "--pause-before", ""),
		Entry("status", "status", "live", "--for", ""),
	)

	It("should report on a recording without any access", func() {
		from := filepath.Join("..", "..", "..", "pkg", "proof", "report", "testdata", "report.json")
		file := filepath.Join(GinkgoT().TempDir(), "report.html")
		Expect(run("report", "--recording", from, "--file", file)).To(Equal(exit.Done))
		Expect(out.String()).To(BeEmpty())
		Expect(os.ReadFile(file)).To(ContainSubstring("<!DOCTYPE html>"))
		for format, begin := range map[string]string{"html": "<!DOCTYPE html>",
			"md":   "# Live migration of garden-demo/live",
			"json": "{\n  \"apiVersion\": \"" + document.APIVersion + "\",\n  \"kind\": \"Report\",\n  \"shoot\"",
		} {
			Expect(run("report", "--recording", from, "-o", format)).To(Equal(exit.Done))
			Expect(out.String()).To(HavePrefix(begin))
		}
	})

	It("should take the format of a report from the name of its file", func() {
		from := filepath.Join("..", "..", "..", "pkg", "proof", "report", "testdata", "report.json")
		folder := GinkgoT().TempDir()
		for name, begin := range map[string]string{"a.html": "<!DOCTYPE html>", "a": "<!DOCTYPE html>",
			"a.md": "# Live migration of garden-demo/live", "a.json": "{\n", "a.yaml": "apiVersion: "} {
			file := filepath.Join(folder, name)
			Expect(run("report", "--recording", from, "--file", file)).To(Equal(exit.Done))
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(content)).To(HavePrefix(begin), name)
		}
	})

	It("should print the script for completion that is shipped", func() {
		Expect(run("completion", "kubectl")).To(Equal(exit.Done))
		Expect(out.String()).To(And(HavePrefix("#!/usr/bin/env sh\n"), Equal(app.KubectlCompletion)))
	})

	It("should complete formats", func() {
		Expect(run(cobra.ShellCompRequestCmd, "list", "-o", "")).To(Equal(exit.Done))
		Expect(out.String()).To(HavePrefix("table\nwide\njson\nyaml\nname\njsonpath=\n"))
	})
})
