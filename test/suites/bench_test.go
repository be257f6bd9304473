// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/bench/agentbench"
	"github.com/livecpm/livecpm/test/bench/joinbench"
	"github.com/livecpm/livecpm/test/bench/relaybench"
	"github.com/livecpm/livecpm/test/landscape/config"
	"github.com/livecpm/livecpm/test/program"
)

// What the benchmarks count is guarded here, in small. What they time depends on the machine and is not. The counts of
// a live migration are those of the suite beside this one.
var _ = Describe("Benchmarks in small", Label(labelBench), func() {
	var repo, bin string

	say := func(format string, args ...any) { GinkgoWriter.Printf(format+"\n", args...) }

	BeforeEach(func() {
		cfg, err := config.FromEnvironment()
		Expect(err).NotTo(HaveOccurred())
		repo, bin = cfg.Repo, GinkgoT().TempDir()
	})

	It("should not ask the garden for more, however many migrations there are", func(ctx SpecContext) {
		beginOnlyIfItEnds(repo, usuallyBenchmark)
		Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "make test-e2e sets it")
		Expect(program.Build(ctx, repo, bin, "./test/bench/cmd/simagent", "./cmd/livecpm-controller-manager")).
			To(Succeed())
		result, err := agentbench.Run(ctx, agentbench.Options{
			Agent: filepath.Join(bin, "simagent"), ControllerManager: filepath.Join(bin, "livecpm-controller-manager"),
			InFlight: []int{1, 20}, Pace: 200 * time.Millisecond, Timeout: 5 * time.Minute,
			Logs: filepath.Join(repo, "_artifacts", "e2e", "agentbench"), Say: say,
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Runs).To(HaveLen(2))

		number := float64(len(steps.Table()))
		for _, run := range result.Runs {
			say("%d at once: %v", run.InFlight, run.Requests)
			// A step begins, reports, asks the peer, continues waiting and is done; a write that somebody else was
			// faster than is repeated.
			Expect(run.Requests["PATCH shoots/status"]).
				To(And(BeNumerically(">=", 2*number), BeNumerically("<=", 6*number)))
			Expect(run.Requests["POST events"]).To(BeNumerically("<=", 4*number))
			Expect(run.Requests["PATCH shoots"]).To(BeEquivalentTo(1), "the request for the reconciliation afterwards")
			// A look reads the Shoot and asks for the proof. Without a proof, a look belongs to a shoot that is not on
			// its way, or a write needed the Shoot as it is now.
			Expect(run.Requests["GET shoots"]).To(BeNumerically("<=", run.Requests["PROOF shoots/status"]+3*number))
		}
	}, NodeTimeout(12*time.Minute))

	It("should get every connection and every message through two relays", func(ctx SpecContext) {
		beginOnlyIfItEnds(repo, usuallyBenchmark)
		Expect(program.Build(ctx, repo, bin, "./test/bench/cmd/simrelay")).To(Succeed())
		result, err := relaybench.Run(ctx, relaybench.Options{
			Command: []string{filepath.Join(bin, "simrelay")},
			Rounds:  2, Connects: 10, RoundTrips: 200, Transfer: 200 * time.Millisecond, Connections: 50, Say: say,
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RelayedMBPerSecond).To(BeNumerically(">", 0))
		Expect(result.RoundTrip.Relayed.P99).To(BeNumerically(">", 0))
	}, NodeTimeout(5*time.Minute))

	It("should let a member join by its snapshot, directly and through two relays", func(ctx SpecContext) {
		beginOnlyIfItEnds(repo, usuallyBenchmark)
		assets := os.Getenv("KUBEBUILDER_ASSETS")
		Expect(assets).NotTo(BeEmpty(), "make test-e2e sets it")
		Expect(program.Build(ctx, repo, bin, "./test/bench/cmd/simrelay")).To(Succeed())
		folder := filepath.Join(bin, "etcds")
		result, err := joinbench.Run(ctx, joinbench.Options{
			Etcd: filepath.Join(assets, "etcd"), Relay: []string{filepath.Join(bin, "simrelay")}, Folder: folder,
			MiB: 16, Rounds: 1, Timeout: 2 * time.Minute, Say: say,
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(folder).NotTo(BeADirectory())
		Expect(result.DatabaseMiB).To(BeNumerically(">=", 16))
		Expect(result.Direct.Total.Runs).To(Equal(1))
		Expect(result.Relayed.Total.Runs).To(Equal(1))
	}, NodeTimeout(5*time.Minute))
})
