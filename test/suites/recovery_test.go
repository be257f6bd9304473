// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/recovery"
)

// Each spec is a migration to the seed on which the shoot is not, or one that ends where it has begun.
var _ = Describe("The page of the recovery", Label(labelRecovery), Ordered, func() {
	var cfg *config.Config

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		bringUp(ctx, cfg)
	}, NodeTimeout(upTimeout))

	for _, scenario := range recovery.Scenarios() {
		It("should bring back "+scenario.Name, func(ctx SpecContext) {
			if scenario.NeedsNodes() && !cfg.Seeds[0].Apart() {
				Skip("the seeds have one node each, which cannot be spared: set " + config.EnvNodes + " to 3")
			}
			Expect(recovery.Run(ctx, recovery.Options{
				Landscape: cfg, Namespace: shoot.Namespace, Name: shootName, Scenario: scenario, Out: GinkgoWriter,
			})).To(Succeed())
		}, NodeTimeout(90*time.Minute))
	}
})
