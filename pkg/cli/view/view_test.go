// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/pkg/cli/inspect"
	"github.com/livecpm/livecpm/pkg/cli/view"
	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/migration/summary"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// With UPDATE_GOLDEN=1 the golden files are written again; look at what has changed before you commit them.
func expectGolden(name, actual string) {
	GinkgoHelper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		Expect(os.WriteFile(path, []byte(actual), 0o644)).To(Succeed())
	}
	expected, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(actual).To(Equal(string(expected)), path)
}

func load[T any](folder, name string) T {
	GinkgoHelper()
	var out T
	data, err := os.ReadFile(filepath.Join("testdata", folder, name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(data, &out)).To(Succeed())
	return out
}

func names(folder string) []string {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil {
		panic(err)
	}
	var out []string
	for _, file := range files {
		out = append(out, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return out
}

var _ = Describe("InFlight", func() {
	in := summary.InFlight{
		Migrations: []summary.Moving{
			{Namespace: "garden-demo", Name: "live", Source: "seed-a", Destination: "seed-b",
				State: summary.Processing, Step: "EtcdMigrationComplete", Reason: "WaitingForDNS"},
			{Namespace: "garden-shop", Name: "shop", Source: "seed-c", Destination: "seed-b",
				State: summary.Requested},
		},
		Drains:     []string{"seed-c"},
		LeftBehind: []summary.Left{{Namespace: "garden-demo", Name: "old", Seed: "seed-d"}},
	}

	It("should draw what is in the way, and the verdicts", func() {
		expectGolden("in-flight", view.InFlight(in, view.Options{}))
	})

	It("should tell an upgrade from a removal, and name the seed that was asked about", func() {
		expectGolden("in-flight-left-behind", view.InFlight(summary.InFlight{Seed: "seed-d", MayUpgrade: true,
			LeftBehind: in.LeftBehind}, view.Options{}))
		expectGolden("in-flight-none", view.InFlight(summary.InFlight{MayUpgrade: true, MayRemove: true},
			view.Options{}))
	})
})

var _ = Describe("Tree", func() {
	for _, name := range names("worlds") {
		It("should draw "+name, func() {
			expectGolden("tree-"+name, view.Tree(load[summary.ControlPlane]("worlds", name), view.Options{}))
		})
	}

	It("should draw for narrow terminals, and leave nothing out with Wide", func() {
		w := load[summary.ControlPlane]("worlds", "joining")
		expectGolden("tree-joining-narrow", view.Tree(w, view.Options{Width: 60}))
		expectGolden("tree-joining-wide", view.Tree(w, view.Options{Wide: true}))
		expectGolden("tree-joining-color", view.Tree(w, view.Options{Color: true}))
	})

	DescribeTable("should never be wider than the terminal, since lines that wrap spoil the next screen",
		func(width int) {
			for _, name := range names("worlds") {
				for line := range strings.Lines(
					view.Tree(load[summary.ControlPlane]("worlds", name), view.Options{Width: width})) {
					Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", width), line)
				}
			}
		},
		Entry("40", 40),
		Entry("60", 60),
		Entry("80", 80),
		Entry("120", 120),
		Entry("200", 200),
	)
})

var _ = Describe("List", func() {
	var (
		summaries []summary.Summary
		now       = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	)

	BeforeEach(func() {
		summaries = nil
		for _, name := range names("worlds") {
			w := load[summary.ControlPlane]("worlds", name)
			w.Shoot.Name = name
			summaries = append(summaries, summary.Summarize(w.Shoot, now))
		}
	})

	It("should draw what is in flight first", func() {
		expectGolden("list", view.List(summaries, now, view.Options{}))
		expectGolden("list-wide", view.List(summaries, now, view.Options{Wide: true}))
	})

	It("should draw a migration in one line", func() {
		var lines strings.Builder
		for _, summary := range summaries {
			lines.WriteString(view.Line(summary, view.Options{}) + "\n")
		}
		expectGolden("lines", lines.String())
	})
})

var _ = Describe("Plan", func() {
	for _, name := range names("plans") {
		It("should draw "+name, func() {
			destination := "seed-b"
			if name == "candidates" || name == "none-fit" {
				destination = ""
			}
			p, err := inspect.Plan(load[inspect.PlanInput]("plans", name), destination)
			Expect(err).NotTo(HaveOccurred())
			expectGolden("plan-"+name, p.Text(view.Options{}))
		})
	}

	It("should end with the way by other seeds if nothing but the distance is in the way", func() {
		p, err := inspect.Plan(load[inspect.PlanInput]("plans", "by-way"), "seed-b")
		Expect(err).NotTo(HaveOccurred())
		_, end, found := strings.Cut(p.Text(view.Options{}), "BY WAY OF")
		Expect(found).To(BeTrue())
		expectGolden("by-way", "BY WAY OF"+end)
	})
})

var _ = Describe("Drain", func() {
	for _, name := range names("drains") {
		It("should draw "+name, func() {
			expectGolden("drain-"+name, view.Drain(load[summary.Drain]("drains", name), view.Options{}))
		})
	}

	It("should leave nothing out with Wide", func() {
		d := load[summary.Drain]("drains", "draining")
		expectGolden("drain-draining-wide", view.Drain(d, view.Options{Wide: true}))
		expectGolden("drain-draining-color", view.Drain(d, view.Options{Color: true}))
		expectGolden("drain-draining-narrow", view.Drain(d, view.Options{Width: 60}))
	})

	It("should have worlds of the kind that is published", func() {
		for _, name := range names("drains") {
			if table := load[summary.Drain]("drains", name).Table; table != nil {
				encoded, err := table.Encode()
				Expect(err).NotTo(HaveOccurred())
				Expect(drain.DecodeTable(encoded)).To(Equal(*table), name)
			}
		}
	})
})

var _ = Describe("Stall budget", func() {
	stalled := func(probe summary.Probe) string {
		w := load[summary.ControlPlane]("worlds", "joining")
		probe.Started = w.Now
		w.Probe = &probe
		return view.Probe(w, view.Options{})
	}

	DescribeTable("should tell what is left of the time without writes", func(probe summary.Probe, text string) {
		Expect(stalled(probe)).To(ContainSubstring(text))
	},
		Entry("while none waits", summary.Probe{LongestWriteGapMs: 1240, BaselineLongestWriteGapMs: 380,
			SinceLastWriteMs: 40}, "stall budget: 3.8s of 5s left, the longest stall took 1.2s"),
		Entry("of a stall before the migration", summary.Probe{LongestWriteGapMs: 300,
			BaselineLongestWriteGapMs: 2000}, "stall budget: 3.0s of 5s left, the longest stall took 2.0s"),
		Entry("while all wait", summary.Probe{LongestWriteGapMs: 3100, SinceLastWriteMs: 1400},
			"stall budget: 3.6s of 5s left, no write acknowledged for 1.4s"),
		Entry("when it is exceeded", summary.Probe{LongestWriteGapMs: 6200, SinceLastWriteMs: 40},
			"stall budget: exceeded, no write was acknowledged for 6.2s of 5s"),
	)

	It("should not tell what a probe of an earlier release does not", func() {
		Expect(stalled(summary.Probe{Writes: 7})).NotTo(ContainSubstring("stall budget"))
	})
})

var _ = Describe("Tree with members that were asked", func() {
	It("should show role, lag and size of each, and a probe that runs", func() {
		w := load[summary.ControlPlane]("worlds", "joining")
		w.Seeds[0].Etcds[0].Members = []summary.Member{
			{Name: "seed-a-etcd-main-0", Role: summary.RoleLeader, Status: "Ready", Lag: new(uint64(0)),
				DBSize: new(int64(25 << 20))},
			{Name: "seed-a-etcd-main-1", Role: summary.RoleVoter, Status: "Ready", Lag: new(uint64(2)),
				DBSize: new(int64(25 << 20))},
			{Name: "seed-a-etcd-main-2", Role: summary.RoleVoter, Status: "Unknown"},
		}
		w.Seeds[1].Etcds[0].Members = []summary.Member{{Name: "seed-b-etcd-main-0", Role: summary.RoleLearner,
			Status: "Ready", Lag: new(uint64(1200)), DBSize: new(int64(900 << 10))}}
		w.Probe = &summary.Probe{Started: metav1.NewTime(w.Now.Add(-90 * time.Second)),
			Namespace: "livecpm-probe-1a2b3c4d", Writes: 1440, WritesFailed: 1, Reads: 3600, WatchEvents: 14400,
			ConnectionErrors: 2, LongestWriteGapMs: 1240, BaselineLongestWriteGapMs: 380, SinceLastWriteMs: 40}
		expectGolden("tree-asked", view.Tree(w, view.Options{}))
		for _, width := range []int{40, 80, 120} {
			for line := range strings.Lines(view.Tree(w, view.Options{Width: width})) {
				Expect(utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", width), line)
			}
		}
	})
})

var _ = Describe("Tree with members that could not be asked", func() {
	It("should say whose report it shows", func() {
		w := load[summary.ControlPlane]("worlds", "joining")
		w.Seeds[0].Etcds[0].Unasked = "not permitted"
		Expect(view.Tree(w, view.Options{})).
			To(ContainSubstring("as reported by etcd-druid; the members could not be asked: not permitted"))
	})
})

var _ = Describe("Probe", func() {
	result := func() *probe.Result {
		return &probe.Result{
			Writes: 960, Reads: 2400, WatchEvents: 9600, RawConnectionErrors: 2, LongestWriteGapMs: 420,
			BaselineLongestWriteGapMs: 180,
			WriteP99Ms:                probe.ByPhase{Before: 61.2, During: 310.7},
			Details: &probe.Details{Verified: true, RequestsPerSecond: 56.1, RequestsDue: 3360,
				WriteP50Ms: probe.ByPhase{Before: 18.3, During: 26.4}},
		}
	}

	It("should not show figures of a migration that there was not", func() {
		r := result()
		r.LongestWriteGapMs, r.WriteP99Ms.During, r.Details.WriteP50Ms.During = 0, 0, 0
		Expect(view.ProbeResult(r, view.Options{})).
			To(And(MatchRegexp(`longest gap \(ms\) +180 +- *\n`), MatchRegexp(`p99 \(ms\) +61\.2 +- +-\n`)))
	})

	It("should draw a run in which all went well",
		func() { expectGolden("probe-fine", view.ProbeResult(result(), view.Options{})) })

	It("should draw a run in which not all went well, with some of what happened", func() {
		r := result()
		r.WritesFailed, r.WritesRetryable, r.Details.Verified = 2, 1, false
		for i := range 7 {
			r.Details.Incidents = append(r.Details.Incidents, probe.Incident{
				Time: time.Date(2026, 11, 20, 9, 0, i, 0, time.UTC), Kind: "write",
				Error: "failed to update kept-9: rpc error: code = Unknown desc = raft proposal dropped",
			})
		}
		expectGolden("probe-failed", view.ProbeResult(r, view.Options{}))
	})
})

var _ = Describe("Verification", func() {
	result := view.Verification{Namespace: "garden-demo", Shoot: "live", Source: "seed-a", Destination: "seed-b",
		Checks: []view.Check{
			{Name: inspect.CheckCompleted, Status: view.Pass,
				Evidence: "all 8 conditions are True, and no annotation asks for a migration"},
			{Name: inspect.CheckEtcdHash, Status: view.Pass,
				Evidence: "etcd-main: 5f3a90c1 on 3 members at revision 81240; etcd-events: 01e2d3c4 on 3 members at " +
					"revision 4711"},
		}}

	It("should draw what is proved",
		func() { expectGolden("verify-proved", result.Text(view.Options{})) })

	It("should draw what failed, and what could not be looked at", func() {
		r := result
		r.Source, r.Unknown = "", 1
		r.Checks = append(slices.Clone(r.Checks), view.Check{Name: inspect.CheckSourceEmpty, Status: view.Unknown,
			Deferred: true, Evidence: "seed seed-a: give --seed-kubeconfig seed-a=PATH"})
		expectGolden("verify-not-proved", r.Text(view.Options{}))
		r.Failed = 1
		r.Checks = append(r.Checks,
			view.Check{Name: inspect.CheckDNS, Status: view.Fail,
				Evidence: "api.live.example resolves to 10.0.0.1, the destination publishes 10.0.0.2",
				Remedy:   "wait for the record's time to live"})
		expectGolden("verify-failed", r.Text(view.Options{}))
	})
})

var _ = Describe("all golden files", func() {
	It("should hold no secret", func() {
		files, err := filepath.Glob(filepath.Join("testdata", "*", "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(len(files)).To(BeNumerically(">", 30))
		for _, file := range files {
			data, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(data)).
				NotTo(MatchRegexp(`(?i)-----BEGIN |\beyJ[A-Za-z0-9_-]{10,}|-data:|bearer |password|\btoken\b`), file)
		}
	})
})

var _ = Describe("Duration", func() {
	DescribeTable("should be what people read", func(d time.Duration, expected string) {
		Expect(view.Duration(d)).To(Equal(expected))
	},
		Entry("nothing", time.Duration(0), "0s"),
		Entry("seconds", 1400*time.Millisecond, "1s"),
		Entry("a minute", 59700*time.Millisecond, "1m"),
		Entry("minutes", 252*time.Second, "4m12s"),
		Entry("hours", 2*time.Hour+61*time.Second, "2h1m"),
		Entry("days", 72*time.Hour, "3d"),
	)
})
