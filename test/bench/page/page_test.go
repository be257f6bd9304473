// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/livecpm/livecpm/test/bench/data"
	. "github.com/livecpm/livecpm/test/bench/page"
)

var _ = Describe("Generate", func() {
	environment := data.Environment{
		Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Commit: "abc1234", Processor: "A <fast> one",
		Kernel: "6.18", Cores: 2, MemoryGiB: 24,
		Versions: map[string]string{"Gardener": "v1.150.0"},
	}
	migration := func(kind string, ms int) data.Migration {
		return data.Migration{
			Kind: kind, RoundTripMs: ms, Outcome: data.OutcomeCompleted, Seconds: 480, Writes: 1000, WritesFailed: 17,
			Reads:      2000,
			WriteGapMs: data.ByPhase{Quiet: 100, During: 250}, WriteP99Ms: data.ByPhase{Quiet: 10, During: 30},
			UnavailableSeconds: 44,
			Etcd: map[string]data.Etcd{
				"main": {SixMemberSeconds: 8.5, Joins: []data.Join{{Member: "b0", Seconds: 6.25}}},
			},
			Steps:     []data.Step{{Name: "First", Owner: "source", Seconds: 12}},
			Processes: map[string]data.Process{"livecpm-agent": {CPUSeconds: 3, PeakMiB: 77}},
		}
	}
	full := func() data.Set {
		classic, live := migration(data.KindClassic, 0), migration(data.KindLive, 0)
		stopped := migration(data.KindLive, 220)
		stopped.Outcome, stopped.Reason = data.OutcomeStopped, "it took | too long"
		return data.Set{
			Live:       &data.Live{Environment: environment, Classic: &classic, Live: &live},
			Production: &data.Live{Environment: environment, Live: &live},
			Distance: &data.Distance{Runs: []data.DistanceRun{
				{Environment: environment, Migration: stopped},
				{Environment: environment, Migration: migration(data.KindLive, 100)},
			}},
			Size: &data.Size{Runs: []data.SizeRun{
				{Environment: environment, MiB: 10, DatabaseMiB: 12, Outcome: data.OutcomeCompleted,
					Joins: []data.Join{{Seconds: 5}}},
				{Environment: environment, MiB: 256, DatabaseMiB: 300, Outcome: data.OutcomeCompleted,
					Joins: []data.Join{{Seconds: 15}}},
			}},
			Join: &data.Joins{Runs: []data.JoinRun{
				{Environment: environment, MiB: 256, DatabaseMiB: 512, ReadMBPerSecond: 900,
					Relayed: data.JoinParts{Total: data.Spread{Median: 4, Low: 3, High: 5, Runs: 3}}},
				{Environment: environment, MiB: 1024, DatabaseMiB: 1024,
					Relayed: data.JoinParts{Total: data.Spread{Median: 7, Low: 7, High: 7, Runs: 1}}},
			}},
			Relay: &data.Relay{
				Environment: environment, Connections: 400, NearCPUSeconds: 0.25, FarCPUSeconds: 0.2,
				RelayedMBPerSecond: 400,
				RoundTrip: data.Pair{Direct: data.Latency{P50: 50, P99: 90},
					Relayed: data.Latency{P50: 150, P99: 390}},
				GoBenchmarks: []data.GoBenchmark{
					{Name: "Relay/connect/direct", Unit: "ns/op",
						Spread: data.Spread{Median: 1234567, Low: 1, High: 2, Runs: 6}},
				},
			},
			Agent: &data.Agent{Environment: environment, Runs: []data.AgentRun{
				{InFlight: 1, Agents: data.Process{CPUSeconds: 1, PeakMiB: 80},
					Requests: map[string]float64{"GET shoots": 10}},
				{InFlight: 50, Agents: data.Process{CPUSeconds: 50, PeakMiB: 90},
					Requests: map[string]float64{"GET shoots": 20, "PATCH shoots/status": 30}},
			}},
			Landscape: &data.Landscape{Environment: environment,
				Warm: &data.Start{Environment: environment, Seconds: 360}, Machine: data.Usage{CPUCores: 0.7},
				Clusters: map[string]data.Usage{"garden": {CPUCores: 0.1}}},
		}
	}
	parts := map[string]func(*data.Set){
		"live":       func(s *data.Set) { s.Live = nil },
		"production": func(s *data.Set) { s.Production = nil },
		"distance":   func(s *data.Set) { s.Distance = nil },
		"size":       func(s *data.Set) { s.Size = nil },
		"relay":      func(s *data.Set) { s.Relay = nil },
		"join":       func(s *data.Set) { s.Join = nil },
		"agent":      func(s *data.Set) { s.Agent = nil },
		"landscape":  func(s *data.Set) { s.Landscape = nil },
	}

	It("should say of every part that it is not measured", func() {
		files := Generate(data.Set{})
		Expect(files).To(HaveLen(1))
		for part := range parts {
			Expect(files[File]).To(ContainSubstring("`make bench BENCH=" + part + "`"))
		}
		Expect(strings.Count(files[File], "| not measured |")).To(Equal(len(data.Targets(data.Set{}))))
	})

	It("should show what writes took in each step, where that was measured", func() {
		set := full()
		set.Live.Live.Steps[0].WriteP99Ms, set.Live.Live.Steps[0].WriteMaxMs = 34.5, 678
		page := Generate(set)[File]
		Expect(page).To(ContainSubstring("| seconds | p99 of writes (ms) | slowest write (ms) |"))
		Expect(page).To(ContainSubstring("| 1 | First | source | 12 | 34.5 | 678 |"))
	})

	It("should show what was measured", func() {
		page := Generate(full())[File]
		Expect(page).NotTo(ContainSubstring("Not measured yet"))
		for _, text := range []string{
			"| failed writes | 17 of 1000 | 17 of 1000 | 17 of 1000 |", "| 1 | First | source | 12 |",
			"| 0 ms | completed |", "| 100 ms | completed |", `| 220 ms | stopped: it took \| too long |`,
			"250, quiet 100: 2.5 times",
			"| livecpm-agent: processor (s), memory of the largest (MiB) | 3, 77 | 3, 77 | 3, 77 |",
			"| 256 MiB | 300 |", "| round trip of 1 KiB | 50 | 150 | 100 | 90 | 390 | 300 |",
			"| Relay/connect/direct | ns/op | 1234567 |",
			"| 4 (3 to 5) |", "| 256 MiB | 512 | 900 |", "has 1 s for any size and 6 s for each GiB",
			"By that, 8 GiB take 49 s.",
			"| PATCH shoots/status | 0 | 30 |", "| built before | 360 | 2026-11-21 at commit abc1234 ",
			"| to be built | not measured |", "commit abc1234", "Gardener v1.150.0", "**missed**",
		} {
			Expect(page).To(ContainSubstring(text))
		}
		Expect(strings.Index(page, "| 0 ms |")).To(BeNumerically("<", strings.Index(page, "| 100 ms |")))
	})

	It("should show medians, ranges and sums of several runs, and Events apart", func() {
		set := full()
		var runs []data.Migration
		for i, kind := range []string{data.KindClassic, data.KindLive, data.KindLive, data.KindLive} {
			m := migration(kind, 0)
			m.Seconds, m.WriteP99Ms = float64(400+10*i), data.ByPhase{}
			m.QuietSeconds, m.RequestsDue, m.RequestsUnsent = 330, 5000, int64(i)
			m.Events = &data.Writes{Sent: 100, Lost: int64(i)}
			m.Others = &data.Writes{Sent: 900, Failed: 1, P99Ms: data.ByPhase{Quiet: 10, During: float64(10 * i)}}
			runs = append(runs, m)
		}
		runs[3].Outcome, runs[3].Reason = data.OutcomeStopped, "late"
		set.Live, set.Production = data.NewLive(environment, runs), nil
		page := Generate(set)[File]
		for _, text := range []string{
			"| outcome | completed | completed; stopped: late |", "| duration (s) | 400 | 420 (410 to 430) |",
			"| without a migration before (s) | 330 | 330 (330 to 330) |",
			"| requests that were due and not sent | 0 of 5000 | 6 of 15000 |",
			"| failed writes without Events | 1 of 900 | 3 of 2700 |", "| acknowledged Events lost | 0 | 6 |",
			"| p99 of writes without Events (ms) | 0, quiet 10: 0.0 times | " +
				"20 (10 to 30), quiet 10 (10 to 10): 2.0 (1.0 to 3.0) times |",
		} {
			Expect(page).To(ContainSubstring(text))
		}
		Expect(page).NotTo(ContainSubstring("| p99 of writes (ms) |"))
	})

	It("should show the waits of production beside the others", func() {
		Expect(Generate(full())[File]).
			To(ContainSubstring("|  | classic | live | live, with the waits of production |"))
	})

	It("should say which runs of a part were measured where", func() {
		set := full()
		Expect(Generate(set)[File]).NotTo(ContainSubstring("(100 ms"))
		set.Distance.Runs[0].Environment.Commit = "def5678"
		set.Size.Record(data.SizeRun{Environment: set.Distance.Runs[0].Environment, MiB: 1024})
		page := Generate(set)[File]
		Expect(page).To(MatchRegexp(`commit def5678 .* \(220 ms\)\.\n\n.* commit abc1234 .* \(100 ms\)\.\n`))
		Expect(page).To(MatchRegexp(`commit abc1234 .* \(10 MiB, 256 MiB\)\.\n\n.* commit def5678 .* \(1024 MiB\)\.\n`))
	})

	It("should leave parts out one by one", func() {
		for part, drop := range parts {
			set := full()
			drop(&set)
			Expect(strings.Count(Generate(set)[File], "Not measured yet")).To(Equal(1), part)
		}
	})

	It("should draw well-formed pictures, which the page shows, and no others", func() {
		files := Generate(full())
		var shown []string
		for _, match := range regexp.MustCompile(`!\[[^]]+\]\(([^)]+)\)`).FindAllStringSubmatch(files[File], -1) {
			shown = append(shown, match[1])
		}
		Expect(shown).To(HaveLen(len(files) - 1))
		for _, name := range shown {
			Expect(files).To(HaveKey(name))
			decoder := xml.NewDecoder(strings.NewReader(files[name]))
			for {
				_, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				Expect(err).NotTo(HaveOccurred(), name)
			}
			Expect(files[name]).NotTo(ContainSubstring("NaN"), name)
			Expect(files[name]).NotTo(ContainSubstring("Inf"), name)
		}
	})

	It("should draw the curves of what was completed only", func() {
		picture := Generate(full())["benchmarks/distance-writes.svg"]
		Expect(strings.Count(picture, "<circle")).To(Equal(4), "two curves at 0 and 100 ms")
		Expect(picture).To(ContainSubstring(">100<"))
		Expect(picture).NotTo(ContainSubstring(">220<"))
	})
})

var _ = Describe("Write", func() {
	It("should write the page and its pictures, and remove those of before", func() {
		docs := GinkgoT().TempDir()
		old := filepath.Join(docs, Folder, "old.svg")
		Expect(os.MkdirAll(filepath.Dir(old), 0o755)).To(Succeed())
		Expect(os.WriteFile(old, nil, 0o600)).To(Succeed())
		set := data.Set{Relay: &data.Relay{}}
		Expect(Write(docs, set)).To(Succeed())
		Expect(old).NotTo(BeAnExistingFile())
		for name, content := range Generate(set) {
			Expect(os.ReadFile(filepath.Join(docs, name))).To(BeEquivalentTo(content))
		}
	})
})

var _ = Describe("docs/benchmarks.md", func() {
	It("should be made of the recorded figures (make bench-page)", func() {
		docs := filepath.Join("..", "..", "..", "docs")
		set, err := data.Read(filepath.Join(docs, Data))
		Expect(err).NotTo(HaveOccurred())
		for name, content := range Generate(set) {
			Expect(os.ReadFile(filepath.Join(docs, name))).To(BeEquivalentTo(content), name)
		}
	})
})
