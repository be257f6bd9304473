// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package data_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/livecpm/livecpm/test/bench/data"
)

var _ = Describe("recording", func() {
	It("should read what was written, and know what was not", func() {
		folder := filepath.Join(GinkgoT().TempDir(), "data")
		Expect(Read(folder)).To(Equal(Set{}))
		relay, size := &Relay{RelayedMBPerSecond: 300}, &Size{Runs: []SizeRun{{MiB: 10}}}
		Expect(Write(folder, PartRelay, relay)).To(Succeed())
		Expect(Write(folder, PartSize, size)).To(Succeed())
		Expect(Read(folder)).To(Equal(Set{Relay: relay, Size: size}))
	})

	It("should keep one run for each distance and size, in their order, and where it was measured", func() {
		distance, size := &Distance{}, &Size{}
		for i, key := range []int{180, 25, 180, 100} {
			environment := Environment{Commit: fmt.Sprint(i)}
			distance.Record(DistanceRun{Environment: environment, Migration: Migration{RoundTripMs: key}})
			size.Record(SizeRun{Environment: environment, MiB: key})
		}
		folder := GinkgoT().TempDir()
		Expect(Write(folder, PartDistance, distance)).To(Succeed())
		Expect(Write(folder, PartSize, size)).To(Succeed())
		set, err := Read(folder)
		Expect(err).NotTo(HaveOccurred())
		for i, want := range []struct {
			key    int
			commit string
		}{{25, "1"}, {100, "3"}, {180, "2"}} {
			Expect(set.Distance.Runs).To(HaveLen(3))
			Expect(set.Distance.Runs[i].RoundTripMs).To(Equal(want.key))
			Expect(set.Distance.Runs[i].Environment.Commit).To(Equal(want.commit))
			Expect(set.Size.Runs).To(HaveLen(3))
			Expect(set.Size.Runs[i].MiB).To(Equal(want.key))
			Expect(set.Size.Runs[i].Environment.Commit).To(Equal(want.commit))
		}
	})

	It("should keep the starts of a landscape that were not measured again", func() {
		former := &Landscape{Warm: &Start{Seconds: 400}, Cold: &Start{Seconds: 1500}}
		landscape := &Landscape{Warm: &Start{Seconds: 300}}
		landscape.Keep(former)
		Expect(landscape).To(Equal(&Landscape{Warm: &Start{Seconds: 300}, Cold: &Start{Seconds: 1500}}))
		landscape = &Landscape{}
		landscape.Keep(nil)
		Expect(landscape).To(Equal(&Landscape{}))
		landscape.Keep(former)
		Expect(landscape).To(Equal(former))
	})

	It("should read every part", func() {
		folder := GinkgoT().TempDir()
		for _, part := range Parts() {
			Expect(Write(folder, part, map[string]any{})).To(Succeed())
		}
		set, err := Read(folder)
		Expect(err).NotTo(HaveOccurred())
		Expect([]any{set.Relay, set.Join, set.Agent, set.Landscape, set.Live, set.Production, set.Distance,
			set.Size}).To(HaveEach(Not(BeNil())))
	})

	It("should refuse figures that it does not know", func() {
		folder := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(folder, "relay.json"), []byte(`{"latency": 1}`), 0o600)).To(Succeed())
		_, err := Read(folder)
		Expect(err).To(MatchError(And(ContainSubstring("figures of relay"), ContainSubstring("latency"))))
	})
})

var _ = Describe("Targets", func() {
	migration := func(kind string, ms int, seconds, window float64, failed int64) *Migration {
		return &Migration{
			Kind: kind, RoundTripMs: ms, Outcome: OutcomeCompleted, Seconds: seconds, WritesFailed: failed,
			Etcd:       map[string]Etcd{"main": {SixMemberSeconds: window}, "events": {}},
			WriteGapMs: ByPhase{Quiet: 750, During: 1500}, WriteP99Ms: ByPhase{Quiet: 10, During: 30},
			Processes: map[string]Process{"livecpm-relay": {CPUSeconds: 25}},
		}
	}
	good := func() Set {
		return Set{
			Live:       &Live{Classic: migration(KindClassic, 0, 500, 0, 900), Live: migration(KindLive, 0, 450, 6, 0)},
			Production: &Live{Live: migration(KindLive, 0, 400, 6, 0)},
			Distance: &Distance{Runs: []DistanceRun{{Migration: *migration(KindLive, 180, 900, 12, 0)},
				{Migration: *migration(KindLive, 220, 900, 90, 7)}}},
			Relay: &Relay{
				RoundTrip:      Pair{Direct: Latency{P99: 100}, Relayed: Latency{P99: 1100}},
				NearCPUSeconds: 1.0 / 3, FarCPUSeconds: 0.2, RelayedMBPerSecond: 107.3,
			},
			Agent: &Agent{Runs: []AgentRun{{InFlight: 50, Agents: Process{PeakMiB: 143}},
				{InFlight: 500, Agents: Process{PeakMiB: 900}}}},
			Size: &Size{Runs: []SizeRun{
				{MiB: 1024, DatabaseMiB: 1024, Outcome: OutcomeCompleted, Joins: []Join{{Seconds: 3}, {Seconds: 15}}},
			}},
		}
	}

	It("should not judge what was not measured", func() {
		for _, target := range Targets(Set{}) {
			Expect(target.Measured()).To(BeFalse(), target.Name)
			Expect(target.Met).To(BeFalse(), target.Name)
			Expect(target.Wanted).NotTo(BeEmpty())
		}
	})

	It("should be met at their limits", func() {
		for _, target := range Targets(good()) {
			Expect(target.Met).To(BeTrue(), "%s: %s", target.Name, target.Got)
		}
	})

	DescribeTable("should be missed", func(change func(*Set), missed ...int) {
		set := good()
		change(&set)
		for i, target := range Targets(set) {
			Expect(target.Met).NotTo(Equal(slices.Contains(missed, i)), "%s: %s", target.Name, target.Got)
			Expect(target.Measured()).To(BeTrue())
		}
	},
		Entry("failed requests nearby", func(s *Set) { s.Live.Live.ReadsFailed = 1 }, 0),
		Entry("failed requests far away", func(s *Set) { s.Distance.Runs[0].WritesFailed = 1 }, 0),
		Entry("a migration that was stopped on the way", func(s *Set) {
			m := *migration(KindLive, 100, 900, 20, 0)
			m.Outcome = OutcomeStopped
			s.Distance.Record(DistanceRun{Migration: m})
		}, 0),
		Entry("duration", func(s *Set) { s.Live.Live.Seconds = 451 }, 1),
		Entry("a live migration that was stopped", func(s *Set) {
			stopped := *s.Live.Live
			stopped.Outcome = OutcomeStopped
			s.Live = NewLive(Environment{}, []Migration{*s.Live.Classic, *s.Live.Live, stopped})
		}, 0, 1, 3, 5, 6, 7, 8),
		Entry("production", func(s *Set) { s.Production.Live.Seconds = 401 }, 2),
		Entry("window nearby", func(s *Set) { s.Live.Live.Etcd["events"] = Etcd{SixMemberSeconds: 6.1} }, 3),
		Entry("window far away", func(s *Set) { s.Distance.Runs[0].Etcd["main"] = Etcd{SixMemberSeconds: 12.1} }, 4),
		Entry("gap", func(s *Set) { s.Live.Live.WriteGapMs.Quiet = 749 }, 5),
		Entry("gap without a quiet one", func(s *Set) { s.Live.Live.WriteGapMs.Quiet = 0 }, 5),
		Entry("stall", func(s *Set) { s.Live.Live.WriteGapMs = ByPhase{Quiet: 800, During: 1501} }, 6),
		Entry("stall of etcd-main that Events hide", func(s *Set) {
			s.Live.Live.Others = &Writes{GapMs: ByPhase{Quiet: 800, During: 1501}, P99Ms: ByPhase{Quiet: 1, During: 1}}
		}, 6),
		Entry("p99", func(s *Set) { s.Live.Live.WriteP99Ms.During = 30.1 }, 7),
		Entry("processor of the relays",
			func(s *Set) { s.Live.Live.Processes["livecpm-relay"] = Process{CPUSeconds: 25.1} }, 8),
		Entry("one run of several", func(s *Set) {
			slow := *s.Live.Live
			slow.WriteP99Ms.During = 31
			s.Live = NewLive(Environment{}, []Migration{*s.Live.Classic, *s.Live.Live, slow, *s.Live.Live})
		}, 7),
		Entry("latency of the relay", func(s *Set) { s.Relay.RoundTrip.Relayed.P99 = 1101 }, 9),
		Entry("throughput of the relay", func(s *Set) { s.Relay.FarCPUSeconds = 0.34 }, 10),
		Entry("memory of the agent", func(s *Set) { s.Agent.Runs[0].Agents.PeakMiB = 144 }, 11),
		Entry("join", func(s *Set) { s.Size.Runs[0].Joins[1].Seconds = 15.1 }, 12),
	)
})
