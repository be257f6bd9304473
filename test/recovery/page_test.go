// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/recovery"
)

var _ = Describe("Page", func() {
	const content = "# Title\n\n```sh\none\n```\n\ntext\n\n## A. First\n```\nnot for a shell\n# no " +
		"heading\n```\n```sh\ntwo \\\n  # comment\n```\n```sh\nthree\n```\n### B. Second\n"

	It("should find the commands of each section", func() {
		page := recovery.ParsePage("docs/page.md", content)
		Expect(page.Blocks).To(Equal([]recovery.Block{
			{Section: "Title", Line: 4, Script: "one\n"},
			{Section: "A. First", Line: 15, Script: "two \\\n  # comment\n"},
			{Section: "A. First", Line: 19, Script: "three\n"},
		}))
		block, err := page.Block("A.", 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(block.Script).To(Equal("three\n"))
	})

	It("should say what is missing", func() {
		page := recovery.ParsePage("docs/page.md", content)
		_, err := page.Block("B.", 0)
		Expect(err).
			To(MatchError(ContainSubstring(`docs/page.md has 0 blocks of commands in the section "B.", number 1`)))
		_, err = page.Blocks[0].Replace("two", "2")
		Expect(err).To(MatchError(ContainSubstring(`do not hold "two"`)))
	})

	It("should hold the commands that the recovery takes, in a form that bash understands", func() {
		pages, err := recovery.ReadPages("../..")
		Expect(err).NotTo(HaveOccurred())
		checked := 0
		for _, page := range pages {
			for _, block := range page.Blocks {
				cmd := exec.Command("bash", "-n")
				cmd.Stdin = strings.NewReader(block.Script)
				output, err := cmd.CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), "%s, line %d: %s", page.Name, block.Line, output)
				checked++
			}
		}
		Expect(checked).To(BeNumerically(">", 15))
	})
})

var _ = DescribeTable("The configuration of one member alone", func(prefix, member string) {
	pages, err := recovery.ReadPages("../..")
	Expect(err).NotTo(HaveOccurred())
	block, err := pages["docs/operations/recovery.md"].Block("B. From", 1)
	Expect(err).NotTo(HaveOccurred())
	_, script, found := strings.Cut(block.Script, "# A cluster of one member.\n")
	Expect(found).To(BeTrue())
	script, _, found = strings.Cut(script, "diff <(")
	Expect(found).To(BeTrue())

	// kubectl and jq only hand over what is there; awk is the real one.
	cmd := exec.Command("bash", "-ec", `
kubectl() { case "$*" in *memberNamePrefix*) printf %s "$HAS" ;; *"-o json"*) cat input ;; *) echo config ;; esac; }
jq() { cat "${@: -1}"; }
`+script+"\ncat $E-alone.yaml")
	cmd.Dir = GinkgoT().TempDir()
	cmd.Env = append(os.Environ(), "HAS="+prefix, "E=etcd-main", "SIDE=side", "NS=ns")
	if prefix != "" {
		prefix += "-"
	}
	urls := func(names ...string) (out string) {
		for _, name := range names {
			out += "  " + name + ":\n  - https://" + name + "\n"
		}
		return out
	}
	config := func(cluster string, names ...string) string {
		return "advertise-client-urls:\n" + urls(names...) + "data-dir: /var/etcd/data\n" +
			"initial-advertise-peer-urls:\n" + urls(names...) + "initial-cluster: " + cluster + "\nname: etcd-config\n"
	}
	Expect(os.WriteFile(filepath.Join(cmd.Dir, "input"), []byte(config(
		"seed-b-etcd-main-0=https://b0,"+prefix+"etcd-main-0=https://a0,"+prefix+"etcd-main-1=https://a1",
		prefix+"etcd-main-0", prefix+"etcd-main-1")), 0o600)).To(Succeed())
	output, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	Expect(string(output)).To(Equal(config(member+"=https://a0", member)))
},
	Entry("should be that of the first one", "seed-a", "seed-a-etcd-main-0"),
	Entry("should be that of the first one also if the Etcd is older than the prefix", "", "etcd-main-0"),
)

var _ = Describe("Shell", func() {
	var (
		shell *recovery.Shell
		out   strings.Builder
	)

	BeforeEach(func() {
		out.Reset()
		var err error
		shell, err = recovery.NewShell([]string{"/nowhere"}, &out)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(shell.Close()).To(Succeed()) })
	})

	run := func(ctx context.Context, script string) string {
		GinkgoHelper()
		output, err := shell.Run(ctx, recovery.Block{Section: "here", Script: script})
		Expect(err).NotTo(HaveOccurred())
		return output
	}

	It("should keep variables and functions, and return what is printed", func(ctx SpecContext) {
		Expect(run(ctx, "A='x y'\nsay() { echo \"$A $1\"; }\n")).To(BeEmpty())
		Expect(run(ctx, "say z\necho bad >&2\nprintf unterminated\n")).To(Equal("x y z\nbad\nunterminated\n"))
		Expect(run(ctx, "echo $PATH\n")).To(HavePrefix("/nowhere:"))
		Expect(out.String()).To(ContainSubstring("    x y z\n"))
	})

	It("should survive commands that fail or read", func(ctx SpecContext) {
		Expect(run(ctx, "false\ncat\necho $?\n")).To(Equal("0\n"))
		Expect(run(ctx, "cat <<X\nhere\nX\n")).To(Equal("here\n"))
	})

	It("should give up on commands that hang, and tell when the shell has gone", func(ctx SpecContext) {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := shell.Run(short, recovery.Block{Section: "here", Line: 7, Script: "sleep 60\n"})
		Expect(err).To(MatchError(ContainSubstring(`the commands of section "here" (line 7) did not end`)))

		other, err := recovery.NewShell(nil, &out)
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(other.Close()).To(Succeed()) }()
		_, err = other.Run(ctx, recovery.Block{Section: "here", Script: "exit 3\n"})
		Expect(err).To(MatchError(ContainSubstring("the shell ended")))
	})
})
