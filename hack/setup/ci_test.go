// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package setup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe(".ci/run", func() {
	var folder string

	// run runs it with a make of our own, as if so many seconds had passed already.
	run := func(makeScript string, passed int, env ...string) (output string, code int) {
		GinkgoHelper()
		Expect(os.WriteFile(filepath.Join(folder, "bin", "make"),
			[]byte("#!/usr/bin/env bash\nshift\n"+makeScript+"\n"), 0o755)).To(Succeed())
		cmd := exec.Command("bash", filepath.Join(folder, ".ci", "run"))
		cmd.Env = append([]string{"PATH=" + filepath.Join(folder, "bin") + ":" + os.Getenv("PATH"),
			"SECONDS=" + strconv.Itoa(passed)}, env...)
		text, _ := cmd.CombinedOutput()
		return string(text), cmd.ProcessState.ExitCode()
	}

	BeforeEach(func() {
		folder = GinkgoT().TempDir()
		content, err := os.ReadFile(filepath.Join(repository, ".ci", "run"))
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{".ci", "bin"} {
			Expect(os.Mkdir(filepath.Join(folder, name), 0o755)).To(Succeed())
		}
		Expect(os.WriteFile(filepath.Join(folder, ".ci", "run"), content, 0o755)).To(Succeed())
	})

	It("should make everything, and print what the runners print", func() {
		output, code := run(`echo "ok from $1"`, 0)
		Expect(code).To(BeZero(), output)
		Expect(output).To(MatchRegexp(
			`(?s)make check\nok from check.*ok from test-unit.*ok from test-integration.*ok from test-e2e`))
		Expect(output).To(ContainSubstring("0 parts failed, 0 not run"))
	})

	It("should run the other parts and fail when one has failed", func() {
		output, code := run(`echo "ran $1"; [ "$1" != check ]`, 0)
		Expect(code).To(Equal(1))
		Expect(output).To(And(ContainSubstring("make check: FAILED with 1"), ContainSubstring("ran test-e2e"),
			ContainSubstring("\nfailed: make check\n")))
	})

	It("should leave out what would not end in time, name it, and give the suites what is left", func() {
		output, code := run(`echo "ran $1 until $(( LIVECPM_UNTIL - $(date +%s) )) at $LIVECPM_SLOWNESS"`,
			90*60-180-700)
		Expect(code).To(BeZero(), output)
		Expect(output).To(And(ContainSubstring("not run: make check\n"), ContainSubstring("not run: make test-unit\n"),
			ContainSubstring("ran test-integration")))
		// The last suite leaves out its own specs.
		Expect(output).To(MatchRegexp(`ran test-e2e until (700|69\d) at 100`))
		Expect(output).To(ContainSubstring("0 parts failed, 2 not run"))
	})

	It("should begin nothing when no time is left", func() {
		output, code := run(`echo "ran $1"`, 90*60-180)
		Expect(code).To(BeZero())
		Expect(output).NotTo(ContainSubstring("ran "))
		Expect(strings.Count(output, "\nnot run: make ")).To(Equal(4))
	})

	It("should end what does not end in time, and count it as failed", func() {
		output, code := run(
			`trap 'echo cleaned up; exit 1' INT; case "$1" in test-e2e) while :; do sleep 0.1; done ;; esac`,
			90*60-180-2)
		Expect(code).To(Equal(1))
		Expect(output).To(And(ContainSubstring("cleaned up"),
			ContainSubstring("make test-e2e: FAILED: it did not end in time"),
			ContainSubstring("\nfailed: make test-e2e\n")))
	})

	It("should expect of the other parts to be as slow as those before", func() {
		output, _ := run(`case "$1" in check) sleep 2 ;; esac; echo "ran $1 at $LIVECPM_SLOWNESS"`, 0,
			"CI_PARTS=check:1 test-unit:1 test-e2e:1")
		Expect(output).To(MatchRegexp(`ran check at 100\n(?s).*ran test-unit at (200|300)\n`))
	})

	It("should name the specs that the last suite has left out", func() {
		output, code := run(
			`case "$1" in test-e2e) mkdir -p _artifacts/e2e; echo "move it back: it takes up to 18m, and 5m are left" >>_artifacts/e2e/not-run ;; esac`,
			0)
		Expect(code).To(BeZero())
		Expect(output).To(And(ContainSubstring("not run: make test-e2e: move it back: it takes up to 18m"),
			ContainSubstring("1 not run")))
	})

	It("should say why a spec of the last suite has failed", func() {
		output, code := run(
			`[ "$1" != test-e2e ] || { mkdir -p _artifacts/e2e; echo "move it: no" >>_artifacts/e2e/failed; exit 2; }`,
			0)
		Expect(code).To(Equal(1))
		Expect(output).To(MatchRegexp(
			`failed: make test-e2e\nfailed: make test-e2e: move it: no\nCI: \d+ s, 1 parts failed`))
	})
})
