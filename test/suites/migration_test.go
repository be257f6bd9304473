// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/pkg/proof/recording"
	"github.com/livecpm/livecpm/test/abort"
	"github.com/livecpm/livecpm/test/demo"
	"github.com/livecpm/livecpm/test/driver"
	"github.com/livecpm/livecpm/test/landscape"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/landscape/shoot"
	"github.com/livecpm/livecpm/test/outlook"
	"github.com/livecpm/livecpm/test/robustness"
	"github.com/livecpm/livecpm/test/robustness/evidence"
)

// envKeepLandscape names the environment variable that leaves the landscape up, for a look at what went wrong. The last
// spec is then skipped.
const envKeepLandscape = "LIVECPM_E2E_KEEP"

var _ = Describe("Live migration", Label(labelMigration), Ordered, func() {
	var (
		cfg *config.Config
		// fresh is true if the landscape was brought up by this suite, so that the machine is known as it was before.
		fresh  bool
		before map[string]string
		// saturated is why failed requests prove nothing on this machine, if so.
		saturated string
	)

	BeforeAll(func(ctx SpecContext) {
		cfg = landscapeOf()
		fresh = len(traces(cfg)) == 0
		before = sysctls()

		beginOnlyIfItEnds(cfg.Repo, usuallyUp+usuallyDown)
		bringUp(ctx, cfg)
	}, NodeTimeout(upTimeout))

	// migrate moves the shoot to the other seed and keeps the report.
	migrate := func(ctx context.Context, name string, change func(*demo.Options)) *demo.Report {
		GinkgoHelper()
		options := demo.Options{
			Landscape: cfg,
			Namespace: shoot.Namespace,
			Shoot:     shootName,
			Before:    30 * time.Second,
			After:     30 * time.Second,
			Timeout:   25 * time.Minute,
			Out:       GinkgoWriter,
		}
		change(&options)
		report, err := demo.Run(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Println(report)
		Expect(report.Write(filepath.Join(cfg.Repo, "_artifacts", "e2e", name))).To(Succeed())
		return report
	}

	It("should leave no trace of a migration that is aborted while etcd members join", func(ctx SpecContext) {
		beginOnlyIfItEnds(cfg.Repo, usuallyAbort+usuallyDown)
		moments := abort.Moments()
		i := slices.IndexFunc(moments, func(m abort.Moment) bool { return m.Name == "with members joined" })
		Expect(i).To(BeNumerically(">=", 0))
		result, err := abort.Run(ctx, abort.Options{
			Landscape: cfg, Namespace: shoot.Namespace, Name: shootName, Moment: moments[i], Out: GinkgoWriter,
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Diff).To(BeEmpty(), "what is not as it was before")
	}, NodeTimeout(20*time.Minute))

	It("should move the control plane while clients keep reading and writing", func(ctx SpecContext) {
		beginOnlyIfItEnds(cfg.Repo, usuallyThere+usuallyDown)
		report := migrate(ctx, "there", func(*demo.Options) {})
		expectNoPolicyOfMigrations(ctx, cfg)
		expectNoMemberRestartedTwice(ctx, cfg)
		if saturated = saturatedBy(report); saturated != "" {
			unserved := report.Probe.Unserved()
			expectNothingWrong(report, unserved)
			note(cfg.Repo, "not-run", CurrentSpecReport().FullText()+": whether requests fail was not judged: "+
				saturated+". Seen: "+cmp.Or(strings.Join(unserved, ", "), "nothing"))
			return
		}
		expectNothingLost(report)
		for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
			Expect(report.Etcd[role].Voters).To(Equal([]int{3, 4, 5, 6, 5, 4, 3}), "voters of etcd-"+role)
		}
	}, NodeTimeout(35*time.Minute))

	// The cells of every run, and those that the commit adds.
	back, backErr := cellsOfCommit()
	It("should move it back while agents, a relay, a member of etcd and the connection between the seeds fail",
		func(ctx SpecContext) {
			Expect(backErr).NotTo(HaveOccurred())
			if saturated != "" {
				leaveOut(cfg.Repo, saturated)
			}
			beginOnlyIfItEnds(cfg.Repo, usuallyBack+usuallyDown)
			result, err := robustness.Run(ctx, robustness.Options{
				Landscape: cfg,
				Namespace: shoot.Namespace,
				Shoot:     shootName,
				Cells:     back,
				Artifacts: filepath.Join(cfg.Repo, "_artifacts", "e2e", "back"),
				Out:       GinkgoWriter,
				Cleanup: func(heal func(context.Context) error) {
					DeferCleanup(heal, NodeTimeout(5*time.Minute))
				},
			})
			Expect(err).NotTo(HaveOccurred())
			GinkgoWriter.Println(result.Report)
			for _, cell := range result.Cells {
				GinkgoWriter.Printf("%s: %s, %d requests, %d failed, longest write gap %d ms\n", cell.Cell,
					cell.Outcome,
					cell.Requests, cell.FailedRequests, cell.LongestWriteGapMs)
			}
			for _, line := range result.Excuse(robustness.Short()) {
				note(cfg.Repo, "not-run", line)
			}
			Expect(result.Err()).NotTo(HaveOccurred())
		}, NodeTimeout(robustness.Duration(back)))

	It("should leave nothing behind on the machine", func(ctx SpecContext) {
		if os.Getenv(envKeepLandscape) != "" {
			Skip(envKeepLandscape + " is set")
		}
		Expect(landscape.New(cfg, GinkgoWriter).Down(ctx)).To(Succeed())
		Expect(traces(cfg)).To(BeEmpty())
		if fresh {
			Expect(sysctls()).To(Equal(before))
		}
	}, NodeTimeout(5*time.Minute))

	AfterAll(func(ctx SpecContext) {
		// An ordered suite skips the last spec when one before it fails; the machine is cleaned nevertheless.
		if CurrentSpecReport().Failed() && os.Getenv(envKeepLandscape) == "" {
			Expect(landscape.New(cfg, GinkgoWriter).Down(ctx)).To(Succeed())
		}
	}, NodeTimeout(5*time.Minute))
})

// saturatedBy returns why the machine had no room for the migration beside its load, if so. It is measured before the
// trigger, where the agents do nothing.
func saturatedBy(report *demo.Report) string {
	GinkgoHelper()
	before, measured := report.Details.Machine["before"]
	Expect(measured).To(BeTrue(), "what the load takes by itself")
	if saturated, why := outlook.Saturated(before.CPUCores, runtime.NumCPU()); saturated {
		return why
	}
	return ""
}

// expectNothingWrong checks a report of a machine without room. What was not served in time is no problem there.
// Everything else is, as ever: the migration completes, nothing is lost or read wrongly, and nobody acts where it
// is not their turn.
func expectNothingWrong(report *demo.Report, unserved []string) {
	GinkgoHelper()
	Expect(slices.DeleteFunc(slices.Clone(report.Details.Problems), func(problem string) bool {
		return slices.Contains(unserved, problem)
	})).To(BeEmpty())
	expectSafe(report)
}

// expectNothingLost checks the report. It repeats the counts that must be 0 one by one, so that a change of the
// report's own judgement cannot make the suite blind.
func expectNothingLost(report *demo.Report) {
	GinkgoHelper()
	Expect(report.Details.Problems).To(BeEmpty(), strings.Join(report.Details.WhereFailed(), "; "))
	Expect(report.Probe.WritesFailed).To(BeZero())
	Expect(report.Probe.ReadsFailed).To(BeZero())
	load := report.Probe.Details
	Expect(load.RequestsDue).To(BeNumerically(">", 0))
	Expect(load.MissedTicks*100).To(BeNumerically("<=", load.RequestsDue*recording.MaxUnsentPercent),
		"requests that were due and not sent")
	Expect(load.MaxLag()).To(BeNumerically("<=", recording.MaxWatchLag))
	Expect(report.Probe.LongestGap()).To(BeNumerically("<=", recording.MaxWriteGap))
	expectSafe(report)
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		Expect(report.Etcd[role].Voters).To(ContainElement(6))
	}
}

// expectSafe checks what no machine is too slow for.
func expectSafe(report *demo.Report) {
	GinkgoHelper()
	Expect(report.Details.Migration).NotTo(HaveOccurred())
	Expect(report.Probe.WatchEventsLost).To(BeZero())
	load := report.Probe.Details
	Expect(load.Verified).To(BeTrue())
	Expect(load.AcknowledgedWritesLost).To(BeZero())
	Expect(load.AcknowledgedEventsLost).To(BeZero())
	Expect(load.StaleReads).To(BeZero())
	Expect(load.DNS.Unanswered).To(BeZero())
	Expect(report.Details.ObserverErrors).To(BeEmpty())
	Expect(report.SourceEtcdRestarts).To(BeZero())
	Expect(report.DNSMomentsWithoutRecord).To(BeZero())
	Expect(report.ControllersActiveInBothSeeds).To(BeEmpty())
	Expect(report.Ownership.Samples).NotTo(BeZero())
	Expect(report.Ownership.Violations).To(BeEmpty())
	Expect(report.Steps).To(HaveLen(len(steps.Table())))
	for _, role := range []string{driver.RoleMain, driver.RoleEvents} {
		etcd := report.Etcd[role]
		Expect(etcd.AcknowledgedWritesLost).To(BeZero())
		Expect(etcd.ClusterIDUnchanged).To(BeTrue())
		Expect(etcd.Voters).To(And(HaveEach(BeNumerically("<=", 6)), HaveEach(BeNumerically(">=", 3))))
		Expect(etcd.Voters[len(etcd.Voters)-1]).To(Equal(3))
	}
}

// cellsOfCommit returns the cells of the migration back. Without label nothing is read.
func cellsOfCommit() ([]robustness.Cell, error) {
	if !chosen(labelMigration) {
		return robustness.Short(), nil
	}
	cfg, err := config.FromEnvironment()
	if err != nil {
		return nil, err
	}
	commit, _, err := evidence.Commit(context.Background(), cfg.Repo)
	if err != nil {
		return nil, err
	}
	return robustness.Rotating(commit)
}
