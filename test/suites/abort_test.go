// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/abort"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

const (
	// envMoments names the variable with parts of the names of moments, with commas, envAbortFault the one with the
	// name of a fault that strikes right before the abort is asked for.
	envMoments, envAbortFault = "MOMENTS", "FAULT"

	// abortGrace is what a spec that is interrupted gets to heal the fault.
	abortGrace = 5 * time.Minute
)

// One spec is one migration that is aborted. What is not as it was before fails a spec and keeps none of the others; a
// migration that has not come to rest keeps them all.
var _ = Describe("Aborts", Label(labelAbort), Ordered, ContinueOnFailure, func() {
	if !chosen(labelAbort) {
		return
	}
	moments, trouble, err := abort.Choose(os.Getenv(envMoments), os.Getenv(envAbortFault))
	if err != nil {
		It("should know the moments that it is asked for", func() { Expect(err).NotTo(HaveOccurred()) })
		return
	}

	var (
		cfg *config.Config
		// rest is true as long as the shoot is at rest between two specs.
		rest  bool
		table = "| abort asked for | fault | the condition said | seconds | not as before |\n" +
			"| --- | --- | --- | --- | --- |\n"
	)

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		bringUp(ctx, cfg)
		rest = true
	}, NodeTimeout(upTimeout))

	for _, moment := range moments {
		It("should leave everything as it was "+moment.Name, func(ctx SpecContext) {
			if !rest {
				Skip("the migration before it did not end, so the shoot is not at rest")
			}
			rest = false
			result, err := abort.Run(ctx, abort.Options{Landscape: cfg, Namespace: shoot.Namespace, Name: shootName,
				Moment: moment, Fault: trouble, Out: GinkgoWriter})
			Expect(err).NotTo(HaveOccurred())
			rest = true
			diff := "nothing"
			if len(result.Diff) > 0 {
				diff = strings.Join(result.Diff, "<br>")
			}
			table += fmt.Sprintf("| %s | %s | %s | %.0f | %s |\n", result.Moment, result.Fault, result.At,
				result.Seconds, diff)
			Expect(result.Diff).To(BeEmpty(), "what is not as it was before")
		}, GracePeriod(abortGrace))
	}

	AfterAll(func() {
		if !rest {
			return
		}
		// Also printed where only failures are.
		fmt.Println("\n" + table)
		folder := filepath.Join(cfg.Repo, "_artifacts", "abort")
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(folder, "aborts.md"), []byte(table), 0o644)).To(Succeed())
	})
})
