// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package relaybench_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/data"
	. "github.com/livecpm/livecpm/test/bench/relaybench"
)

var _ = Describe("Run", func() {
	It("should measure both ways", func(ctx SpecContext) {
		Expect(os.Setenv(envServe, "1")).To(Succeed())
		DeferCleanup(os.Unsetenv, envServe)
		var said []string
		result, err := Run(ctx, Options{
			Command: []string{os.Args[0], "-test.run=TestRelaybench", "--"},
			Rounds:  2, Connects: 2, RoundTrips: 10, Transfer: 50 * time.Millisecond, Connections: 5,
			Say: func(format string, _ ...any) { said = append(said, format) },
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(HaveLen(4))
		for _, pair := range []struct {
			pair  data.Pair
			count int
		}{{result.Connect, 4}, {result.RoundTrip, 20}} {
			for _, latency := range []data.Latency{pair.pair.Direct, pair.pair.Relayed} {
				Expect(latency.Count).To(Equal(pair.count))
				Expect(latency.P50).To(BeNumerically(">", 0))
				Expect(latency.P99).To(BeNumerically(">=", latency.P50))
			}
		}
		Expect(result.DirectMBPerSecond).To(BeNumerically(">", 0))
		Expect(result.RelayedMBPerSecond).To(BeNumerically(">", 0))
		Expect(result.Connections).To(Equal(5))
	})

	It("should say which relay did not start", func(ctx SpecContext) {
		_, err := Run(ctx, Options{Command: []string{filepath.Join(GinkgoT().TempDir(), "nothing")},
			Say: func(string, ...any) {}})
		Expect(err).To(MatchError(ContainSubstring("failed to start the far relay")))
	})
})

var _ = Describe("ParseGoBenchmarks", func() {
	It("should sum up the runs of each benchmark and unit", func() {
		Expect(ParseGoBenchmarks(`goos: linux
BenchmarkRelay/connect/direct-2         	     100	   3000 ns/op
BenchmarkRelay/throughput-1MiB/direct-2 	      10	   200 ns/op	 1000.50 MB/s
BenchmarkRelay/connect/direct-2         	     100	   1000 ns/op
BenchmarkRelay/connect/direct-2         	     100	   2000 ns/op
BenchmarkRelay/throughput-1MiB/direct-2 	      10	   100 ns/op	 2000.50 MB/s
PASS
`)).To(Equal([]data.GoBenchmark{
			{Name: "Relay/connect/direct", Unit: "ns/op",
				Spread: data.Spread{Median: 2000, Low: 1000, High: 3000, Runs: 3}},
			{Name: "Relay/throughput-1MiB/direct", Unit: "ns/op",
				Spread: data.Spread{Median: 150, Low: 100, High: 200, Runs: 2}},
			{Name: "Relay/throughput-1MiB/direct", Unit: "MB/s",
				Spread: data.Spread{Median: 1500.5, Low: 1000.5, High: 2000.5, Runs: 2}},
		}))
	})

	It("should find nothing where nothing is", func() {
		Expect(ParseGoBenchmarks("ok  \tgithub.com/livecpm/livecpm/pkg/relay\t1s\n")).To(BeEmpty())
		Expect(ParseGoBenchmarks("BenchmarkRelay/connect/direct-2 FAILED to connect\n")).To(BeEmpty())
	})
})
