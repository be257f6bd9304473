// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/cmd/kubectl-livecpm/app"
	"github.com/livecpm/livecpm/pkg/cli/exit"
)

var _ = Describe("report --ticket", func() {
	var (
		out, errs bytes.Buffer
		folder    string
		recorded  = filepath.Join("..", "..", "..", "pkg", "proof", "report", "testdata", "report.json")
		run       = func(args ...string) exit.Code {
			out.Reset()
			errs.Reset()
			return app.Run(context.Background(), app.Streams{Out: &out, Err: &errs}, args)
		}
	)

	BeforeEach(func() {
		folder = GinkgoT().TempDir()
		GinkgoT().Setenv("XDG_CONFIG_HOME", GinkgoT().TempDir())
	})

	in := func(name string) string { return filepath.Join(folder, name) }
	keys := func() {
		GinkgoHelper()
		public, private, err := ed25519.GenerateKey(rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		encoded, err := x509.MarshalPKCS8PrivateKey(private)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(in("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600)).
			To(Succeed())
		encoded, err = x509.MarshalPKIXPublicKey(public)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(in("key.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}), 0o600)).
			To(Succeed())
	}

	DescribeTable("should write a file that verify knows, and its signature", func(format string) {
		keys()
		Expect(run("report", "--recording", recorded, "--ticket", "-o", format, "--file", in("report"), "--sign-key",
			in("key.pem"))).To(Equal(exit.Done), errs.String())
		Expect(errs.String()).To(ContainSubstring("Not known, and said so in the report: "))
		Expect(run("report", "verify", in("report"), "--key", in("key.pub"))).To(Equal(exit.Done), errs.String())
		Expect(out.String()).To(And(ContainSubstring("by the given key"),
			HaveSuffix("The file is as it was written.\n")))
		Expect(run("report", "verify", in("report"))).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("not checked: give the public key with --key"))

		content, err := os.ReadFile(in("report"))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(in("report"), append(content, '\n'), 0o600)).To(Succeed())
		Expect(run("report", "verify", in("report"))).To(Equal(exit.No))
		Expect(out.String()).To(ContainSubstring("NOT VERIFIED"))
		Expect(run("report", "verify", in("report"), "--facts-only")).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("was not compared"))
	},
		Entry(nil, "html"), Entry(nil, "md"), Entry(nil, "pdf"), Entry(nil, "json"), Entry(nil, "yaml"),
	)

	It("should say no to facts that were changed, and to a file without the signature that is asked for", func() {
		keys()
		Expect(run("report", "--recording", recorded, "--ticket", "-o", "md", "--file", in("report"))).
			To(Equal(exit.Done))
		Expect(run("report", "verify", in("report"), "--key", in("key.pub"))).To(Equal(exit.No))
		Expect(errs.String()).To(ContainSubstring("the facts are not signed"))
		content, err := os.ReadFile(in("report"))
		Expect(err).NotTo(HaveOccurred())
		changed := strings.Replace(string(content), `"result":"Succeeded"`, `"result":"Aborted"`, 1)
		Expect(os.WriteFile(in("report"), []byte(changed), 0o600)).To(Succeed())
		Expect(run("report", "verify", in("report"))).To(Equal(exit.No))
		Expect(errs.String()).To(ContainSubstring("the facts were changed"))
	})

	It("should say when the facts were collected in the zone of this machine, and leave them in UTC", func() {
		Expect(run("report", "--recording", recorded, "--ticket", "-o", "md", "--file", in("report"))).
			To(Equal(exit.Done))
		Expect(os.ReadFile(in("report"))).To(And(ContainSubstring(`"made":"`), Not(ContainSubstring("HERE")),
			Not(ContainSubstring("+02:00"))))
		Expect(run("report", "verify", in("report"))).To(Equal(exit.Done), errs.String())
		Expect(out.String()).To(MatchRegexp(`collected +[-0-9]+ [:0-9]+ HERE by kubectl livecpm`))
	})

	It("should report on what the garden knows", func() {
		Expect(run("report", "live", "--ticket", "-o", "md", "--kubeconfig", fakeGarden("succeeded"))).
			To(Equal(exit.Done), errs.String())
		Expect(out.String()).To(And(HavePrefix("# Live migration of garden-demo/live: Succeeded\n"),
			ContainSubstring("| requested by | not known |"), ContainSubstring("```json livecpm-facts\n{")))
	})

	It("should take out of the report what a template asks for, and name the shoot", func() {
		garden := fakeGarden("succeeded")
		Expect(run("report", "live", "--ticket", "-o", "jsonpath={.kind} {.facts.shoot.name} {.facts.result}",
			"--kubeconfig", garden)).To(Equal(exit.Done), errs.String())
		Expect(out.String()).To(Equal("Ticket live Succeeded\n"))
		Expect(run("report", "live", "--ticket", "-o", "name", "--kubeconfig", garden)).To(Equal(exit.Done))
		Expect(out.String()).To(Equal("shoot.core.gardener.cloud/live\n"))
	})

	It("should have what a probe beside the migration has measured, by --probe-result alone", func() {
		garden := fakeGarden("succeeded")
		Expect(run("report", "live", "--ticket", "-o", "md", "--kubeconfig", garden)).To(Equal(exit.Done))
		Expect(out.String()).To(ContainSubstring("give its output with --probe-result"))
		beside := []byte(`{"details":{"phases":{"during":"2020-01-01T00:00:00Z"}}}`)
		Expect(os.WriteFile(in("probe.json"), beside, 0o600)).To(Succeed())
		Expect(run("report", "live", "--ticket", "--probe-result", in("probe.json"), "--kubeconfig", garden)).
			To(Equal(exit.Error))
		Expect(errs.String()).To(ContainSubstring("the probe may have measured another one"), "it was read")
		Expect(run("report", "live", "--ticket", "--probe", in("probe.json"), "--kubeconfig", garden)).
			To(Equal(exit.Error))
		Expect(errs.String()).To(ContainSubstring("unknown flag: --probe"), "plan has a flag of this name")
	})

	It("should not take a key that it cannot verify with for an answer about the file", func() {
		keys()
		Expect(run("report", "--recording", recorded, "--ticket", "-o", "md", "--file", in("report"), "--sign-key",
			in("key.pem"))).To(Equal(exit.Done))
		other, _, err := ed25519.GenerateKey(rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		encoded, err := x509.MarshalPKIXPublicKey(other)
		Expect(err).NotTo(HaveOccurred())
		write := func(name string, content []byte) { Expect(os.WriteFile(in(name), content, 0o600)).To(Succeed()) }
		write("other.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))
		write("text.pub", []byte("no key"))
		write("empty.pub", nil)
		write("damaged.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}))

		for key, message := range map[string]string{"text.pub": "is no PUBLIC KEY", "empty.pub": "is no PUBLIC KEY",
			"key.pem": "is no PUBLIC KEY", "damaged.pub": "failed to read the key", "absent": "failed to read --key"} {
			Expect(run("report", "verify", in("report"), "--key", in(key))).To(Equal(exit.Error), key)
			Expect(errs.String()).To(ContainSubstring(message))
			Expect(out.String()).To(BeEmpty())
		}
		Expect(run("report", "verify", in("report"), "--key", in("other.pub"))).To(Equal(exit.No))
		Expect(errs.String()).To(ContainSubstring("was not made with this key"))
		Expect(run("report", "verify", in("report"), "--key", in("key.pub"))).To(Equal(exit.Done))
	})

	DescribeTable("should refuse", func(code exit.Code, message string, args ...string) {
		Expect(run(append([]string{"report"}, args...)...)).To(Equal(code))
		Expect(errs.String()).To(ContainSubstring(message))
		Expect(out.String()).To(BeEmpty())
	},
		Entry("a PDF of the ordinary report", exit.Error, "only the report for a change ticket can be a PDF", "live",
			"-o", "pdf"),
		Entry("another format", exit.Error, "docx", "live", "--ticket", "-o", "docx"),
		Entry("a key without a ticket", exit.Error, "--sign-key is for --ticket", "live", "--sign-key", "k"),
		Entry("a probe without a ticket", exit.Error, "--probe-result is for --ticket", "live", "--probe-result", "p"),
		Entry("a baseline for a recording", exit.Error, "give either --recording or --baseline", "--recording", "r",
			"--ticket", "--baseline", "b"),
		Entry("no such key", exit.Error, "failed to read --sign-key", "--recording",
			filepath.Join("..", "..", "..", "pkg", "proof", "report", "testdata", "report.json"), "--ticket",
			"--sign-key", "/does/not/exist"),
		Entry("nothing to verify", exit.Error, "accepts 1 arg(s)", "verify"),
		Entry("no such file to verify", exit.Error, "failed to read the report", "verify", "/does/not/exist"),
		Entry("no such key to verify with", exit.Error, "failed to read --key", "verify", "ticket_test.go", "--key",
			"/does/not/exist"),
		Entry("something else", exit.No, "no report for a change ticket", "verify", "ticket_test.go"),
	)
})
