// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/machine"
)

// Each spec has one of these labels.
const (
	labelMigration   = "migration"
	labelBench       = "bench"
	labelAbort       = "abort"
	labelCLI         = "cli"
	labelFaults      = "faults"
	labelDrawn       = "drawn"
	labelRecovery    = "recovery"
	labelDrain       = "drain"
	labelMix         = "mix"
	labelNodes       = "nodes"
	labelPolicies    = "policies"
	labelConformance = "conformance"
	labelPlanted     = "planted"
)

// limits bound what is run: the sum of those of which a label is chosen.
var limits = []struct {
	labels []string
	limit  time.Duration
}{
	// What make test-e2e runs if it is not told what.
	{[]string{labelMigration, labelBench}, time.Hour},
	{[]string{labelAbort}, 24 * time.Hour},
	{[]string{labelCLI}, 150 * time.Minute},
	{[]string{labelFaults}, 168 * time.Hour},
	{[]string{labelDrawn}, 172 * time.Hour},
	{[]string{labelRecovery}, 8 * time.Hour},
	{[]string{labelDrain}, 6 * time.Hour},
	{[]string{labelMix}, 8 * time.Hour},
	{[]string{labelNodes}, 5 * time.Hour},
	{[]string{labelPolicies}, time.Hour},
	{[]string{labelConformance}, 4 * time.Hour},
	{[]string{labelPlanted}, 5 * time.Hour},
}

const (
	// envLabels names the variable that make test-e2e sets to the filter of labels. Without it nothing is done: a
	// pattern of packages that happens to hold this one must not bring up a landscape, let alone change one that is in
	// use.
	envLabels = "LIVECPM_LABELS"

	// shootName is the landscape's own shoot.
	shootName = "live"

	// upTimeout bounds how long it may take to bring the landscape up.
	upTimeout = 40 * time.Minute
)

func TestSuites(t *testing.T) {
	filter := os.Getenv(envLabels)
	if filter == "" {
		t.Skip("use make test-e2e, which sets " + envLabels)
	}
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	suite.LabelFilter = filter
	// A label that is misspelt chooses nothing, and nothing must not pass.
	suite.FailOnEmpty = true
	suite.Timeout = 0
	for _, group := range limits {
		if slices.ContainsFunc(group.labels, chosen) {
			suite.Timeout += group.limit
		}
	}
	RunSpecs(t, "Test Landscape Suite", suite, reporter)
}

// chosen reports whether specs with the label are asked for. A filter that cannot be read chooses all, and Ginkgo
// refuses it.
func chosen(label string) bool {
	chooses, err := types.ParseLabelFilter(os.Getenv(envLabels))
	return err != nil || chooses([]string{label})
}

// landscapeOf reads the configuration of the landscape, which needs root.
func landscapeOf() *config.Config {
	GinkgoHelper()
	Expect(os.Geteuid()).To(BeZero(), "the landscape needs root")
	cfg, err := config.FromEnvironment()
	Expect(err).NotTo(HaveOccurred())
	return cfg
}

// joinClients gives this process the weight of clients on the machine until the spec ends: they would be on other
// machines.
func joinClients(cfg *config.Config) {
	GinkgoHelper()
	cgroups, err := machine.DetectCgroups()
	Expect(err).NotTo(HaveOccurred())
	leave, err := cgroups.JoinOwn(cfg.ClientsCgroup(), machine.WeightClients)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(leave()).To(Succeed()) })
}

// bringUp brings the landscape up, its shoot included, unless it is up.
func bringUp(ctx context.Context, cfg *config.Config) {
	GinkgoHelper()
	By("bringing the landscape up, its shoot included")
	l := landscape.New(cfg, GinkgoWriter)
	l.Moves = true
	Expect(l.Up(ctx)).To(Succeed())
}
