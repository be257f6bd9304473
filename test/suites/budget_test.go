// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/outlook"
)

// What specs take at most on a usual machine with two processors, for a run that has to end in time (.ci/run). Without
// such a limit they all run.
const (
	usuallyUp        = 11 * time.Minute
	usuallyDown      = time.Minute
	usuallyAbort     = 5 * time.Minute
	usuallyThere     = 13 * time.Minute
	usuallyBack      = 22 * time.Minute
	usuallyBenchmark = 4 * time.Minute
)

// beginOnlyIfItEnds leaves a spec out that would not end in time, and writes that down for .ci/run, which names it as
// not run.
func beginOnlyIfItEnds(repo string, usually time.Duration) {
	GinkgoHelper()
	budget, err := outlook.BudgetFromEnvironment()
	Expect(err).NotTo(HaveOccurred())
	fits, why := budget.Fits(time.Now(), usually)
	if fits {
		return
	}
	leaveOut(repo, why)
}

// leaveOut does not run the spec, for the reason.
func leaveOut(repo, why string) {
	GinkgoHelper()
	note(repo, "not-run", CurrentSpecReport().FullText()+": "+why)
	Skip("not run: " + why)
}

// whyAtMost is as much of a failure's message as is kept for the last lines of .ci/run.
const whyAtMost = 600

// What failed is written down with its reason for .ci/run, whose last lines are all that some see of it.
var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() {
		return
	}
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	Expect(err).NotTo(HaveOccurred())
	why := strings.Join(strings.Fields(report.FailureMessage()), " ")
	if len(why) > whyAtMost {
		why = strings.ToValidUTF8(why[:whyAtMost], "") + "…"
	}
	note(repo, "failed", report.FullText()+": "+why)
})

// note appends a line to a file that .ci/run reads when the suite has ended.
func note(repo, name, line string) {
	GinkgoHelper()
	file := filepath.Join(repo, "_artifacts", "e2e", name)
	Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
	record, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	Expect(err).NotTo(HaveOccurred())
	_, err = record.WriteString(strings.ReplaceAll(line, "\n", "; ") + "\n")
	Expect(err).NotTo(HaveOccurred())
	Expect(record.Close()).To(Succeed())
}
