// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
	"github.com/livecpm/livecpm/pkg/cli/explain"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/pages"
	"github.com/livecpm/livecpm/pkg/migration/steps"
)

var _ = Describe("Commands that answer a question", func() {
	const (
		yes         = exit.Done
		notFoundOut = exit.Error
	)
	var (
		out, errs bytes.Buffer
		run       = func(args ...string) exit.Code {
			out.Reset()
			errs.Reset()
			return app.Run(context.Background(), app.Streams{Out: &out, Err: &errs}, args)
		}
		nowhere string
	)

	BeforeEach(func() {
		GinkgoT().Setenv("XDG_CONFIG_HOME", GinkgoT().TempDir())
		// Nobody listens on this port.
		nowhere = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
		Expect(os.WriteFile(nowhere, []byte(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: c, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: c, namespace: garden-demo}}]
`), 0o600)).To(Succeed())
	})

	Describe("explain", func() {
		It("should show the page, with commands as they are, without a garden", func() {
			Expect(run("explain", "bastionexists")).To(Equal(yes))
			Expect(out.String()).To(And(HavePrefix("BastionExists\n"),
				ContainSubstring("\n    kubectl --kubeconfig=$GARDEN "),
				ContainSubstring("DO\n"), HaveSuffix("\nThis page: "+pages.OfReason("BastionExists")+"\n")))
			Expect(out.String()).NotTo(Or(ContainSubstring("```"), ContainSubstring("](")))
		})

		It("should say of a guard when it is checked, and show the page of its reason", func() {
			Expect(run("explain", "EtcdHealth")).To(Equal(yes))
			Expect(out.String()).To(And(HavePrefix("EtcdHealth\n"), ContainSubstring("with the reason EtcdNotHealthy"),
				ContainSubstring("\nEtcdNotHealthy\n")))
		})

		It("should lead on to other pages by their words, and to what is not among them by URL", func() {
			Expect(run("explain", "6")).To(Equal(yes))
			Expect(out.String()).To(And(HavePrefix(steps.Table()[5].String()+"\n"),
				MatchRegexp(`(?m)^\[\d+\] kubectl livecpm explain SourceSilent$`),
				MatchRegexp(`(?m)^\[\d+\] https://github.com/.*/docs/concepts/joint-etcd.md`)))
		})

		It("should explain a word of which there is no page", func() {
			Expect(run("explain", "WaitingForDNS")).To(Equal(yes))
			Expect(out.String()).To(And(HavePrefix("WaitingForDNS\n"), ContainSubstring("EtcdMigrationComplete.md\n")))
			Expect(run("explain", "LivecpmStepOverdue", "-o", "json")).To(Equal(yes))
			var entry explain.Entry
			Expect(json.Unmarshal(out.Bytes(), &entry)).To(Succeed())
			Expect(entry).To(And(HaveField("Kind", explain.KindAlert), HaveField("Short",
				ContainSubstring("past its deadline"))))
		})

		It("should list all words, and complete them", func() {
			Expect(run("explain")).To(Equal(yes))
			for _, title := range []string{"STEP\n", "REASON\n", "GUARD\n", "ALERT\n", "TOPIC\n"} {
				Expect(out.String()).To(ContainSubstring(title))
			}
			Expect(run(cobra.ShellCompRequestCmd, "explain", "")).To(Equal(yes))
			Expect(out.String()).To(And(ContainSubstring("BastionExists\treason\n"),
				ContainSubstring("recovery\ttopic\n")))
		})

		It("should not know every word", func() {
			Expect(run("explain", "Bastion")).To(Equal(notFoundOut))
			Expect(errs.String()).To(ContainSubstring("is it BastionExists or Bastions?"))
			Expect(out.String()).To(BeEmpty())
		})
	})

	It("should show the version of the plugin without a garden", func() {
		Expect(run("version", "--client")).To(Equal(yes))
		Expect(out.String()).To(MatchRegexp(`(?s)^WHERE .*\nplugin   \S+ .*\n$`))
		Expect(run("version", "--client", "-o", "json")).To(Equal(yes))
		var versions view.Versions
		Expect(json.Unmarshal(out.Bytes(), &versions)).To(Succeed())
		Expect(versions.Plugin.Release).NotTo(BeEmpty())
		Expect(versions.Plugin.Protocols).To(Equal(steps.OwnProtocols().String()))
		Expect(versions).To(And(HaveField("Seeds", BeEmpty()), HaveField("Garden", BeZero())))
	})

	DescribeTable("should tell that nothing could be found out from the answer no", func(args ...string) {
		Expect(run(append(args, "--kubeconfig", nowhere)...)).To(Equal(notFoundOut))
		Expect(errs.String()).To(And(HavePrefix("error: "), ContainSubstring("127.0.0.1:1")))
		Expect(out.String()).To(BeEmpty())
	},
		Entry("version", "version"),
		Entry("check", "check"),
		Entry("events", "events", "live"),
		Entry("logs", "logs", "live"),
		Entry("dump", "dump", "live"),
	)

	DescribeTable("should refuse what is not understood, before it looks at the garden",
		func(message string, args ...string) {
			Expect(run(args...)).To(Equal(notFoundOut))
			Expect(errs.String()).To(ContainSubstring(message))
			Expect(out.String()).To(BeEmpty())
		},
		Entry("a format", `--output is "xml"`, "check", "-o", "xml"),
		Entry("a format of versions", `--output is "xml"`, "version", "-o", "xml"),
		Entry("credentials", `--seed-access is "root"; it can be none, viewer, admin`, "check", "--seed-access",
			"root"),
	)

	It("should refuse an environment and a configuration that nobody understands", func() {
		GinkgoT().Setenv("LIVECPM_SEED_KUBECONFIGS", "seed-a")
		Expect(run("check", "--kubeconfig", nowhere)).To(Equal(notFoundOut))
		Expect(errs.String()).To(ContainSubstring(`LIVECPM_SEED_KUBECONFIGS has "seed-a"`))
		GinkgoT().Setenv("LIVECPM_SEED_KUBECONFIGS", "")
		GinkgoT().Setenv("LIVECPM_CONFIG", "/does/not/exist")
		Expect(run("check", "--kubeconfig", nowhere)).To(Equal(notFoundOut))
		Expect(errs.String()).To(ContainSubstring("failed to read the configuration file"))
	})

	It("should complete kinds of credentials", func() {
		Expect(run(cobra.ShellCompRequestCmd, "check", "--seed-access", "")).To(Equal(yes))
		Expect(out.String()).To(HavePrefix("none\nviewer\nadmin\n"))
	})
})
