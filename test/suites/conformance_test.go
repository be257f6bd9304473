// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/conformance"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
)

// conformanceGrace is what a spec that is interrupted gets to end the programs, and to take away what they have left.
const conformanceGrace = 3 * time.Minute

var _ = Describe("Conformance of Kubernetes", Label(labelConformance), Ordered, func() {
	var cfg *config.Config

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		bringUp(ctx, cfg)
	}, NodeTimeout(upTimeout))

	It("should hold in each run of each spec, from before the first step until after the last", func(ctx SpecContext) {
		artifacts := filepath.Join(cfg.Repo, "_artifacts", "conformance")
		Expect(os.RemoveAll(artifacts)).To(Succeed())
		joinClients(cfg)

		verdict, err := conformance.Run(ctx, conformance.Options{Landscape: cfg, Namespace: shoot.Namespace,
			Shoot: shootName, Private: GinkgoT().TempDir(), Artifacts: artifacts, Out: GinkgoWriter})
		if verdict != nil {
			// Also printed where only failures are.
			fmt.Println("\n" + verdict.Markdown())
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(verdict.Err()).NotTo(HaveOccurred())
	}, NodeTimeout(3*time.Hour), GracePeriod(conformanceGrace))
})
