// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"os"
	"path/filepath"
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
	usuallyBack      = 18 * time.Minute
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
	file := filepath.Join(repo, "_artifacts", "e2e", "not-run")
	Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
	record, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	Expect(err).NotTo(HaveOccurred())
	_, err = record.WriteString(CurrentSpecReport().FullText() + ": " + why + "\n")
	Expect(err).NotTo(HaveOccurred())
	Expect(record.Close()).To(Succeed())
	Skip("not run: " + why)
}
