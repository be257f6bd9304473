// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/recovery"
)

func TestRecoverySuite(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Test Recovery Landscape Suite")
}

// envEnabled names the variable that make test-recovery sets. Without it nothing is done: a pattern of packages that
// happens to hold this one must not bring up a landscape, let alone change one that is in use.
const envEnabled = "LIVECPM_RECOVERY"

// Each spec is a migration to the seed on which the shoot is not.
var _ = Describe("The page of the recovery", Ordered, func() {
	var cfg *config.Config

	BeforeAll(func(ctx SpecContext) {
		if os.Getenv(envEnabled) == "" {
			Skip("use make test-recovery, which sets " + envEnabled)
		}
		Expect(os.Geteuid()).To(BeZero(), "the landscape needs root")
		var err error
		cfg, err = config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		Expect(landscape.New(cfg, GinkgoWriter).Up(ctx)).To(Succeed())
	}, NodeTimeout(40*time.Minute))

	for _, scenario := range recovery.Scenarios() {
		It("should bring back "+scenario.Name, func(ctx SpecContext) {
			Expect(recovery.Run(ctx, recovery.Options{
				Landscape: cfg, Namespace: shoot.Namespace, Name: "live", Scenario: scenario, Out: GinkgoWriter,
			})).To(Succeed())
		}, NodeTimeout(90*time.Minute))
	}
})
